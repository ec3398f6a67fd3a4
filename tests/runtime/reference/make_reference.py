#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the results of Hugging Face transformers for tiny models: weights, tokens, logits and the gradients of the
first step. The executor is compared with them in tests/runtime/reference_test.cpp.

usage: make_reference.py [FOLDER]        writes FOLDER/FAMILY/… (default: the folder of this script);
                                        installs torch and transformers into .cache/reference

Each family has:
- config.json
- model.safetensors, the parameters
- logits.safetensors, [samples, tokens, vocabulary]
- gradients.safetensors, by the names of the parameters, of the mean cross-entropy over all tokens
- tokens.bin, 16 bits each: sample n has tokens n·S … n·S + S
"""
import json
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
VENV = HERE.parents[2] / ".cache" / "reference" / "venv"
SAMPLES, TOKENS = 2, 12
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 20, "vocab_size": 60,
         "max_position_embeddings": 32, "attention_dropout": 0.0}
FAMILIES = {
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 16, "vocab_size": 60, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "attn_pdrop": 0.0},
    "llama": {**SMALL, "tie_word_embeddings": False, "rms_norm_eps": 1e-5},
    "qwen2": {**SMALL, "tie_word_embeddings": True, "rms_norm_eps": 1e-6},
    "mixtral": {**SMALL, "num_local_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 1, "tie_word_embeddings": False, "sliding_window": None},
}


def install():
    """Runs this script with the interpreter of the environment, and creates the environment if it is missing."""
    python = VENV / "bin" / "python"
    if pathlib.Path(sys.prefix) == VENV:
        return
    if not python.exists() or subprocess.run([python, "-c", "import torch, transformers"], capture_output=True, check=False).returncode != 0:
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "numpy", "torch", "transformers"], check=True)
    sys.exit(subprocess.run([python, *sys.argv], check=False).returncode)


def make(family, settings, folder):
    import torch
    from safetensors.torch import save_file
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(20 + len(family))
    config = AutoConfig.for_model(family, **settings)
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():  # away from ones and zeros, so that nothing is right by chance
        for name, value in model.named_parameters():
            value.normal_(1.0 if "norm" in name or "ln_" in name else 0.0, 0.15)
            if name.endswith("ln_1.bias") or name.endswith("ln_2.bias") or name.endswith("ln_f.bias"):
                value.normal_(0.0, 0.15)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": family, **settings}, indent=1) + "\n")

    stream = torch.randint(0, settings["vocab_size"], (SAMPLES * TOKENS + 1,))
    (folder / "tokens.bin").write_bytes(stream.to(torch.int16).numpy().tobytes())
    inputs, labels = stream[:-1].view(SAMPLES, TOKENS), stream[1:].view(SAMPLES, TOKENS)
    logits = model.train()(input_ids=inputs).logits
    torch.nn.functional.cross_entropy(logits.reshape(-1, logits.size(-1)), labels.reshape(-1)).backward()
    save_file({"logits": logits.detach().contiguous()}, folder / "logits.safetensors")
    with torch.no_grad():  # saved like parameters, so that they get the same names
        for value in model.parameters():
            value.copy_(value.grad)
    model.save_pretrained(folder / "gradients")
    (folder / "gradients" / "model.safetensors").rename(folder / "gradients.safetensors")
    shutil.rmtree(folder / "gradients")


def main():
    install()
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for family, settings in FAMILIES.items():
        make(family, settings, target / family)
        print(family, sum(file.stat().st_size for file in (target / family).iterdir()), "bytes")


if __name__ == "__main__":
    main()

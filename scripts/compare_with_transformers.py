#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the parameter count of every supported model type with that of Hugging Face transformers, on
the meta device.

usage: compare_with_transformers.py ESPALIER [TYPE ... | --published]

Needs transformers (the tests were written with 5.23) and torch.

A type's configuration is the default of its class; CHANGES holds what some classes need to be built at all. Exit code
1 if a count differs. Types that the installed transformers lacks are named and skipped; without transformers
everything is skipped.
"""
import json
import logging
import pathlib
import subprocess
import sys
import tempfile

CHANGES = {
    "nemotron": {"num_key_value_heads": 8},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128, "num_experts": 8, "moe_topk": 2},
    "dots1": {"n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1},
    "glm4_moe": {"head_dim": 128, "use_qk_norm": True, "attention_bias": True},
    "ministral": {"head_dim": 128},
    "minimax": {"head_dim": 128},
    "deepseek_v2": {"num_experts_per_tok": 6, "first_k_dense_replace": 1},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 8},
    "bamba": {"attn_layer_indices": [9, 18, 27]},
    "idefics3": {"vision_config": {"image_size": 256}},  # 7 · 7 patches do not merge
    "smolvlm": {"vision_config": {"image_size": 256}},
    "qwen2_vl": {"vision_config": {"hidden_size": 8192}},
    "qwen2_5_vl": {"vision_config": {"hidden_size": 1280, "out_hidden_size": 8192}},
    "qwen3_vl": {"vision_config": {"out_hidden_size": 4096}},
    "qwen3_vl_moe": {"vision_config": {"out_hidden_size": 2048}},
    "qwen3_5": {"vision_config": {"out_hidden_size": 4096}},
    "qwen3_5_moe": {"vision_config": {"out_hidden_size": 2048}},
    # As Scout has them; 768 does not merge to 5,632.
    "llama4": {"vision_config": {"hidden_size": 1408, "vision_output_dim": 4096}},
    "dbrx": {"attn_config": {"rope_theta": 10000.0}},
    "gemma4": {"vision_config": {}, "audio_config": {}, "text_config": {"num_kv_shared_layers": 12, "use_double_wide_mlp": True}},
    "granitemoehybrid": {"layer_types": ["mamba", "mamba", "mamba", "attention"] * 8},
}
TOWERS = {"gemma3", "gemma3n", "gemma4", "idefics3", "internvl", "llama4", "llava", "llava_next", "llava_onevision", "mistral3", "paligemma", "qwen2_5_vl",
          "qwen2_vl", "qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe", "smolvlm"}
MASKED = {"albert", "bert", "roberta", "xlm-roberta", "camembert", "ernie", "distilbert", "modernbert", "deberta-v2"}
PAIRS = ("t5", "mt5", "umt5", "bart", "mbart", "m2m_100", "marian", "pegasus", "t5gemma")
CLASSES = {**dict.fromkeys(MASKED, "AutoModelForMaskedLM"), **dict.fromkeys(PAIRS, "AutoModelForSeq2SeqLM"),
           "whisper": "AutoModelForSpeechSeq2Seq",
           **dict.fromkeys(("vit", "swin", "swinv2", "dinov2"), "AutoModelForImageClassification"),
           **dict.fromkeys(TOWERS, "AutoModelForImageTextToText"), "electra": "AutoModelForPreTraining",
           **dict.fromkeys(("qwen2_audio", "voxtral"), "AutoModelForMultimodalLM"),
           "qwen2_5_omni_thinker": "Qwen2_5OmniThinkerForConditionalGeneration",
           **dict.fromkeys(("clip", "siglip"), "AutoModel")}


def known_types(espalier):
    said = subprocess.run([espalier, "inspect", "model", "/dev/stdin"], input='{"model_type": "?"}', capture_output=True, text=True)
    text = said.stdout + said.stderr
    return text.split("known model_type values:", 1)[1].split("\n")[0].replace(" ", "").split(",")


def count(transformers, torch, config, name):
    with torch.device("meta"):
        kind = getattr(transformers, name)
        model = kind.from_config(config) if name.startswith("Auto") else kind._from_config(config)
    model.tie_weights()
    return sum(p.numel() for p in {id(p): p for p in model.parameters() if p.requires_grad}.values())


def published(torch, transformers):
    """Compares the counts of the models in tests/models/published.json again."""
    rows = json.loads((pathlib.Path(__file__).parents[1] / "tests/models/published.json").read_text())["models"]
    different = same = 0
    for row in rows:
        kind = row["config"].get("model_type")  # files of diffusers have none
        if kind not in transformers.CONFIG_MAPPING:
            print(f"{row['name']}: not of transformers, skipped")
            continue
        config = transformers.CONFIG_MAPPING[kind](**{key: value for key, value in row["config"].items() if key != "model_type"})
        theirs = count(transformers, torch, config, CLASSES.get(kind, "AutoModelForCausalLM"))
        if theirs != row["parameters"]:
            different += 1
            print(f"{row['name']}: transformers {theirs}, here {row['parameters']}")
        else:
            same += 1
    print(f"{same} published models equal, {different} different")
    return 1 if different else 0


def main():
    try:
        import torch
        import transformers
    except ImportError as missing:
        print(f"skipped: {missing}")
        return 0
    logging.disable(logging.CRITICAL)
    espalier, wanted = sys.argv[1], sys.argv[2:]
    if wanted == ["--published"]:
        return published(torch, transformers)
    different, same, skipped = [], 0, []
    for kind in wanted or known_types(espalier):
        if kind not in transformers.CONFIG_MAPPING:
            skipped.append(kind)
            continue
        try:
            config = transformers.CONFIG_MAPPING[kind](**CHANGES.get(kind, {}))
            theirs = count(transformers, torch, config, CLASSES.get(kind, "AutoModelForCausalLM"))
        except Exception as refused:  # its own class cannot build its own defaults
            skipped.append(f"{kind} ({type(refused).__name__})")
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "config.json"
            path.write_text(json.dumps({**json.loads(config.to_json_string(use_diff=False)), "model_type": kind}))
            said = subprocess.run([espalier, "inspect", "model", str(path), "--json"], capture_output=True, text=True)
        found = json.loads(said.stdout) if said.returncode == 0 else {}
        # No class has the prediction modules.
        ours = found["parameters"] - found["mtp_parameters"] if found else said.stderr.strip()
        if ours == theirs:
            same += 1
        else:
            different.append(f"{kind}: transformers {theirs}, here {ours}")
    print("\n".join(different))
    print(f"{same} types equal, {len(different)} different; skipped: {', '.join(skipped) or 'none'}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

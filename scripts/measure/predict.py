#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predict the cases of cases.py with the public commands of espalier, or compare such predictions with the
measurements of parts.py.

    python3 scripts/measure/predict.py --espalier build/espalier [--series DATE] > predictions.csv
    python3 scripts/measure/predict.py --compare data/own/parts_h100.jsonl data/own/predictions_h100_2026-11.csv

A row names its quantity, the job and the options of `espalier estimate`; times of operators are those of `espalier
simulate --detail` for the same plan. A case that no command predicts has a row with the reason and no number. The
series is the latest of cases.py unless one is named.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import records  # noqa: E402
from cases import BLOCKS, PARTS, SERIES  # noqa: E402

COLUMNS = ["case", "quantity", "predicted", "job", "options", "reason"]


class Refused(Exception):
    pass


def llama(layers: int, hidden: int, heads: int, key_heads: int, intermediate: int, vocabulary: int) -> dict:
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": hidden, "intermediate_size": intermediate, "num_attention_heads": heads,
            "num_key_value_heads": key_heads, "num_hidden_layers": layers, "vocab_size": vocabulary, "tie_word_embeddings": False, "rms_norm_eps": 1e-5, "max_position_embeddings": 131072}


def bert(heads: int, head: int, sequence: int) -> dict:
    return {"architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": heads * head, "intermediate_size": 4 * heads * head, "num_attention_heads": heads,
            "num_hidden_layers": 1, "vocab_size": 1024, "max_position_embeddings": sequence, "type_vocab_size": 2, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def latent(heads: int, head: int, value_head: int) -> dict:
    return {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 8192, "moe_intermediate_size": 1024,
            "num_attention_heads": heads, "num_key_value_heads": heads, "num_hidden_layers": 1, "first_k_dense_replace": 1, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2,
            "n_group": 1, "topk_group": 1, "moe_layer_freq": 1, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": value_head, "qk_rope_head_dim": head - value_head,
            "v_head_dim": value_head, "vocab_size": 1024, "tie_word_embeddings": False, "rms_norm_eps": 1e-6, "max_position_embeddings": 131072, "num_nextn_predict_layers": 0}


def mixture(case: dict) -> dict:
    common = llama(1, case["hidden"], case["hidden"] // 128, case["hidden"] // 128, case["intermediate"], 1024)
    if case["experts"] == 8:
        return {**common, "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": case["experts"], "num_experts_per_tok": case["chosen"]}
    return {**common, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "head_dim": 128, "num_experts": case["experts"], "num_experts_per_tok": case["chosen"],
            "moe_intermediate_size": case["intermediate"], "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True}


class Espalier:
    def __init__(self, program: str) -> None:
        self.program = program
        self.known: dict[str, tuple[dict, list]] = {}

    def run(self, *arguments: str, text: str | None = None) -> str:
        done = subprocess.run([self.program, *arguments], input=text, capture_output=True, text=True)
        if done.returncode:
            raise Refused((done.stderr or done.stdout).strip().splitlines()[0][:300])
        return done.stdout

    def predicted(self, job: dict, options: list[str]) -> tuple[dict, list]:
        """Returns the prediction of `estimate` and the events of the detailed timeline."""
        key = json.dumps([job, options])
        if key not in self.known:
            with tempfile.TemporaryDirectory() as folder:
                answer = json.loads(self.run("estimate", "-", *options, "-o", folder, "--json", text=json.dumps(job)))
                self.run("simulate", f"{folder}/plan.json", "--detail", "--trace", f"{folder}/trace.json", "-q")
                events = json.loads(pathlib.Path(folder, "trace.json").read_text(encoding="utf-8"))["traceEvents"]
            self.known[key] = (answer["prediction"], [event for event in events if event["ph"] == "X"])
        return self.known[key]


def job_of(model: dict, sequence: int, samples: int, engine: str, **training) -> tuple[dict, list[str]]:
    job = {"model": model, "cluster": {"nodes": 1, "devices_per_node": 1, "device": "h100-sxm-80gb"},
           "training": {"sequence_length": sequence, "global_batch": samples, "precision": "bf16", **training}, "engine": engine}
    return job, ["--micro-batch", str(samples), "--zero", "0", "--overlap", "none", "--recompute", "none"]


def of_operators(events: list, wanted) -> tuple[float, float]:
    """Returns seconds forward and backward of the operators for which `wanted` is true."""
    forward = sum(event["dur"] for event in events if wanted(event["name"]) and event["args"].get("part") == "forward")
    total = sum(event["dur"] for event in events if wanted(event["name"]) and event.get("cat") == "step")
    return forward / 1e6, (total - forward) / 1e6


def of_passes(events: list) -> tuple[float, float]:
    return tuple(sum(event["dur"] for event in events if event["name"].startswith(f"{letter} c")) / 1e6 for letter in "FB")


def of_launch(tool: Espalier, case: dict):
    raise Refused("the time of a launch is an input of every prediction: of the catalogue, for the device's usual host")


def of_block(tool: Espalier, case: dict):
    if case["style"] == "megatron-tp":
        raise Refused("the group has one rank, for which espalier has no collectives")
    if case.get("ranks", 1) > 1:
        raise Refused("nothing is sent in the measurement; a predicted step of 8 ranks has its collectives")
    engine = "megatron-lm-2023" if case["style"] == "megatron" else "torchtitan-compile" if case["compiled"] else "fsdp2"
    passes = []
    most = 24 if case["hidden"] < 4096 else 12  # 24 blocks of 4,096 do not fit
    for layers in (most, 8):
        job, options = job_of(llama(layers, case["hidden"], case["hidden"] // 64, case["hidden"] // 64, case["hidden"] * 11 // 4 // 16 * 16, 1024), case["tokens"], 1, engine)
        options[-1] = case.get("recompute", "none")
        passes.append(of_passes(tool.predicted(job, options)[1]))
    for quantity, more, fewer in zip(("forward_block_s", "backward_block_s"), *passes):
        yield quantity, (more - fewer) / (most - 8), job, options


def of_attention(tool: Espalier, case: dict):
    engine = {"cudnn": "fsdp2", "flash": "deepspeed", "flash-padded": "deepspeed"}.get(case["library"])
    if engine is None:
        raise Refused(f"no engine for H100 runs attention of library {case['library']}")
    heads, key_heads, head, value_head = case["heads"], case["key_heads"], case["head"], case["value_head"]
    if value_head != head:
        if case["library"] == "flash":
            raise Refused("expected to be refused by the library; flash-padded is predicted")
        model = latent(heads, head, value_head)
    else:
        model = llama(1, heads * head, heads, key_heads, 1024, 1024) if case["causal"] else bert(heads, head, case["sequence"])
    job, options = job_of(model, case["sequence"], case["batch"], engine)
    times = of_operators(tool.predicted(job, options)[1], lambda name: name == "attn.core")
    for quantity, value in zip(("forward_s", "backward_s"), times):
        yield quantity, value, job, options


def of_packed(tool: Espalier, case: dict):
    if case["library"] != "varlen":
        raise Refused(f"no engine for H100 runs attention of library {case['library']}")
    counts = {length: case["documents"].count(length) for length in sorted(set(case["documents"]))}
    lengths = {"histogram": [[length, count] for length, count in counts.items()], "packing": "packed"}
    job, options = job_of(llama(1, case["heads"] * case["head"], case["heads"], case["key_heads"], 1024, 1024), sum(case["documents"]), 1, "deepspeed", lengths=lengths)
    times = of_operators(tool.predicted(job, options)[1], lambda name: name == "attn.core")
    for quantity, value in zip(("forward_s", "backward_s"), times):
        yield quantity, value, job, options


def of_zero(tool: Espalier, case: dict):
    ranks, stage, shape = case["ranks"], case["stage"], shape_of(case["shape"])
    engine = "deepspeed" + ("+fp32-gradients" if case["accumulation"] == "fp32" else "") + (f"+reduce-bucket={shape['hidden'] ** 2}" if case["buckets"] == "auto" else "")
    job, options = job_of(llama(*shape.values()), case["sequence"], ranks * case["micro_batches"], engine)
    job["cluster"]["devices_per_node"] = ranks
    # A single rank shards nothing: the space has no ZeRO there.
    options = ["--micro-batch", "1", "--zero", str(stage if ranks > 1 else 0), "--overlap", "grad,param" if ranks > 1 and stage == 3 else "none", "--recompute", "none"]
    prediction, events = tool.predicted(job, options)
    yield "peak_reserved", prediction["peak_memory_bytes"], job, options
    if ranks == 1:
        yield "step_s", prediction["iteration_s"], job, options
        update = sum(event["dur"] for event in events if event["name"] == "optimizer") / 1e6
        yield "update_s", update - prediction.get("step_host_s", 0), job, options


def of_experts(tool: Espalier, case: dict):
    engine = {"looped": "deepspeed", "grouped": "fsdp2", "transformers-looped": "deepspeed", "transformers-grouped": "deepspeed+grouped-experts"}[case["how"]]
    job, options = job_of(mixture(case), 2048, case["tokens"] // 2048, engine)
    events = tool.predicted(job, options)[1]  # looped: refused by rule DS-EXPERT-LOOP
    parts = ("mlp.router", "mlp.dispatch", "mlp.expert", "mlp.combine")
    for quantity, value in zip(("forward_s", "backward_s"), of_operators(events, lambda name: name.startswith(parts))):
        yield quantity, value, job, options


def shape_of(name: str) -> dict:
    """Returns the dimensions of a shape of steps.py."""
    return next(case["dimensions"] for case in records.cases() if case["shape"] == name)


def of_step(tool: Espalier, case: dict):
    run = next(one for one in records.cases() if one["case"] == case["case"])
    how = case["case"].removeprefix(f"{run['shape']}-{run['sequence'] // 1024}k-{run['samples']}-")
    linears = {"qv": ["q_proj", "v_proj"], "all": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]}
    training = {"adapter": {"kind": "lora", "rank": 16, "alpha": 32, "targets": linears[how.split("-")[1]]}} if "lora" in how else {}
    engine = "fsdp2+chunked-loss" if "chunked" in how else "fsdp2" if "lora" in how else "fsdp2+bf16-states"
    if run["compiled"]:
        engine = "torchtitan-compile+bf16-states"
    job, options = job_of(llama(*run["dimensions"].values()), run["sequence"], run["samples"], engine, **training)
    options[-1] = "full" if how.endswith("-full") else "none"
    prediction = tool.predicted(job, options)[0]
    yield "step_s", prediction["iteration_s"], job, options
    yield "peak_reserved", prediction["peak_memory_bytes"], job, options


def of_loss(tool: Espalier, case: dict):
    engine = {"plain": "fsdp2", "compiled": "torchtitan-compile", "chunked": "fsdp2+chunked-loss"}.get(case["how"])
    if engine is None:
        raise Refused("no option of an engine stands for this form of the loss")
    model = llama(1, case["hidden"], 32, 8, 14336, case["vocabulary"])
    job, options = job_of(model, case["tokens"], 1, engine)
    prediction, events = tool.predicted(job, options)
    # The forms of the loss differ in which pass does the work.
    yield "both_s", sum(of_operators(events, lambda name: name in ("head.logits", "head.loss"))), job, options
    if case["how"] == "chunked":
        plain, _ = tool.predicted(*job_of(model, case["tokens"], 1, "fsdp2"))
        yield "peak_below_plain", plain["peak_memory_bytes"] - prediction["peak_memory_bytes"], job, options


def of_optimizer(tool: Espalier, case: dict):
    if case["how"] in ("newton-schulz", "muon"):
        training = {"optimizer": "muon"}  # refused: only the states of adam and sgd are modelled
    else:
        training = {"optimizer": case["how"].split("-")[0].replace("adamw", "adam")}
    model = llama(case["layers"], case["hidden"], case["hidden"] // 128, case["hidden"] // 128, case["intermediate"], 128)
    job, options = job_of(model, 512, 1, "fsdp2" if case["precision"] == "fp32" else "fsdp2+bf16-states", **training)
    prediction, events = tool.predicted(job, options)
    update = sum(event["dur"] for event in events if event["name"] == "optimizer") / 1e6
    yield "time_s", update - prediction.get("step_host_s", 0), job, options


PREDICT = {"launch": of_launch, "block": of_block, "attention": of_attention, "packed": of_packed, "zero": of_zero, "experts": of_experts, "step": of_step, "loss": of_loss, "optimizer": of_optimizer}
MEASURED = {  # rows of parts.py that differ from their quantity
    "forward_block_s": lambda row, rows: row["forward_s"] / BLOCKS,
    "backward_block_s": lambda row, rows: row["backward_s"] / BLOCKS,
    "both_s": lambda row, rows: row["forward_s"] + row["backward_s"],
    "peak_below_plain": lambda row, rows: rows["loss-plain"]["peak_reserved"] - row["peak_reserved"],
}


def predict(program: str, series: str) -> None:
    tool = Espalier(program)
    repository = pathlib.Path(__file__).resolve().parent
    calibration = json.loads(tool.run("estimate", "-", "--json", text=json.dumps(job_of(llama(1, 256, 4, 4, 704, 1024), 256, 1, "fsdp2")[0])))["made_by"]["calibration"]
    commit = subprocess.run(["git", "-C", str(repository), "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True).stdout.strip()
    print(f"# source: scripts/measure/predict.py with {tool.run('version').strip()}, commit {commit}, calibration {calibration}, before the measurement: one NVIDIA H100 80GB HBM3, the device's usual host (DGX)")
    print("# seconds and bytes. job: of `espalier estimate - OPTIONS`; operators by `espalier simulate plan.json --detail`; block: the difference between 24 (4,096 wide: 12) and 8 blocks over their number, its "
          "job has 8; optimizer: without the host between steps")
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for case in SERIES[series]:
        try:
            for quantity, value, job, options in PREDICT[case["part"]](tool, case):
                writer.writerow({"case": case["case"], "quantity": quantity, "predicted": f"{value:.6g}" if quantity.endswith("_s") else int(value),
                                 "job": json.dumps(job, separators=(",", ":")), "options": " ".join(options)})
        except Refused as reason:
            writer.writerow({"case": case["case"], "reason": f"not predicted: {reason}"})


def compare(measured: str, predicted: str) -> None:
    rows = {row["case"]: row for row in map(json.loads, pathlib.Path(measured).read_text(encoding="utf-8").splitlines())}
    with open(predicted, encoding="utf-8") as file:
        predictions = list(csv.DictReader(line for line in file if not line.startswith("#")))
    ratios: dict[str, list[float]] = {}
    print("| case | quantity | predicted | measured | predicted / measured |\n| --- | --- | ---: | ---: | ---: |")
    for prediction in predictions:
        row, quantity = rows.get(prediction["case"]), prediction["quantity"]
        if row is None or not quantity:
            continue
        try:
            value = MEASURED[quantity](row, rows) if quantity in MEASURED else row[quantity]
        except KeyError:
            print(f"| {prediction['case']} | {quantity} | | {row.get('error', 'not measured')[:80]} | |")
            continue
        expected, scale, unit = float(prediction["predicted"]), *((1e3, "ms") if quantity.endswith("_s") else (2**-30, "GiB"))
        ratio = expected / value if value else float("nan")
        part = next(case["part"] for case in PARTS if case["case"] == prediction["case"])
        ratios.setdefault(f"{part} {quantity}", []).append(ratio)
        print(f"| {prediction['case']} | {quantity} | {expected * scale:.4g} {unit} | {value * scale:.4g} {unit} | {ratio:.2f} |")
    print()
    for name, values in ratios.items():
        print(f"{name}: {len(values)} compared, predicted / measured {min(values):.2f} to {max(values):.2f}, median {statistics.median(values):.2f}")
    for case, row in rows.items():
        if not any(prediction["case"] == case and prediction["quantity"] for prediction in predictions):
            numbers = ", ".join(f"{key} {row[key] * 1e3:.4g} ms" for key in ("forward_s", "backward_s", "host_block_s", "time_s", "step_s", "update_s") if key in row)
            numbers += ", ".join(f"{key} {value:.2f}" for key, value in row.items() if key.endswith("_us"))
            print(f"not predicted: {case}: {numbers or row.get('error', '')[:100]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--espalier", default="build/espalier", help="the program")
    parser.add_argument("--compare", nargs=2, metavar=("PARTS.jsonl", "PREDICTIONS.csv"))
    parser.add_argument("--series", choices=SERIES, default=list(SERIES)[-1], help="date of the series to predict (default: the latest)")
    arguments = parser.parse_args()
    if arguments.compare:
        compare(*arguments.compare)
    else:
        predict(arguments.espalier, arguments.series)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turn the output of steps.py into run records (data/runs), which `espalier validate` predicts; without a file: the
cases with no measurement.

    python3 scripts/measure/records.py [steps.jsonl] > records.jsonl
"""

from __future__ import annotations

import ast
import json
import pathlib
import sys

RECOMPUTE = {"none": "none", "full": "full", "mm": "selective (per-op SAC)"}
# Names as in torch; values are `type` and `mem_gb` of a record.
GPUS = {"NVIDIA H100 80GB HBM3": ("H100", 80), "NVIDIA H200": ("H200", 141)}


def cases() -> list[dict]:
    """Returns the cases of steps.py, read without PyTorch."""
    tree = ast.parse((pathlib.Path(__file__).parent / "steps.py").read_text(encoding="utf-8"))
    tables = {node.targets[0].id: node.value for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)}
    names = ("layers", "hidden", "heads", "key_heads", "intermediate", "vocabulary")
    shapes = {key.value: dict(zip(names, map(ast.literal_eval, call.args))) for key, call in zip(tables["SHAPES"].keys, tables["SHAPES"].values)}
    result = []
    for key, call in zip(tables["CASES"].keys, tables["CASES"].values):
        case = {"recompute": "none", "compiled": False, "ranks": 1}
        case |= dict(zip(("shape", "sequence", "samples"), map(ast.literal_eval, call.args)))
        case |= {word.arg: ast.literal_eval(word.value) for word in call.keywords}
        result.append({"case": key.value, **case, "dimensions": shapes[case["shape"]], "device": "NVIDIA H100 80GB HBM3"})
    return result


def record(row: dict) -> dict:
    """Returns one run record. Peak memory is the memory that PyTorch's allocator reserved."""
    if row["device"] not in GPUS:
        sys.exit(f"records.py: case {row['case']}: found device {row['device']!r}; expected one of {sorted(GPUS)}; hint: add it to GPUS of this script")
    kind, memory_gb = GPUS[row["device"]]
    shape = row["dimensions"]
    ranks, compiled = row["ranks"], row["compiled"]
    head = shape["hidden"] // shape["heads"]
    block = 2 * shape["hidden"] ** 2 + 2 * shape["hidden"] * shape["key_heads"] * head + 3 * shape["hidden"] * shape["intermediate"] + 2 * shape["hidden"]
    parameters = shape["layers"] * block + 2 * shape["vocabulary"] * shape["hidden"] + shape["hidden"]
    measured = {}
    if "step_s" in row:
        measured = {"iteration_s": round(row["step_s"], 6), "tokens_per_s_per_gpu": round(row["samples"] * row["sequence"] / row["step_s"], 1)}
    if "peak_reserved" in row:
        measured["peak_mem_gb"] = round(row["peak_reserved"] / 2**30, 3)
    return {
        "id": f"own-steps-{row['case']}",
        "source": "Espalier's own steps",
        "source_ref": {"path": "scripts/measure/steps.py"},
        "table": f"one {row['device']}" + (f", one rank of {ranks}, nothing sent" if ranks > 1 else ""),
        "provenance": "measured",
        "model": {"name": f"llama-like-{row['shape']}", "layers": shape["layers"], "hidden": shape["hidden"], "ffn": shape["intermediate"], "heads": shape["heads"],
                  "kv_heads": shape["key_heads"], "vocab": shape["vocabulary"], "params": parameters},
        "seq": row["sequence"],
        "gpu": {"type": kind, "mem_gb": memory_gb, "count": ranks, "per_node": min(ranks, 8)},
        "interconnect": {"intra": "NVLink/NVSwitch"} | ({"inter": "InfiniBand"} if ranks > 8 else {}),
        "tp": 1, "pp": 1, "dp": ranks, "cp": 1, "ep": 1, "vpp": 1, "sp": False, "zero_stage": 3, "fsdp": True,
        "recompute": RECOMPUTE[row["recompute"]], "microbatch": row["samples"], "global_batch": row["samples"] * ranks,
        "precision": "bf16", "framework": "torchtitan (FSDP2)", "status": "ok", "measured": measured,
        "config_source": "scripts/measure/steps.py, scripts/measure/decoder.py", "notes": row["case"], "extra": {"mem_unit": "GiB"},
        "techniques": ["compile"] if compiled else [],
    }


def main() -> int:
    rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")] if len(sys.argv) > 1 else cases()
    for row in rows:
        if "out_of_memory" not in row and row.get("sharded", True):
            print(json.dumps(record(row), separators=(",", ":")))
    return 0


if __name__ == "__main__":
    sys.exit(main())

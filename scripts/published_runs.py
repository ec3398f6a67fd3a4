#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds data/published_runs.tsv from data/runs/*.jsonl: published measurements, a line a run, for
`espalier compare --log`.

usage: published_runs.py [--check]      writes the table, or reports whether it is up to date

Runs that differ only in details (equal source, model, GPU, number of GPUs, sequence length, precision) are reduced to
the one with most tokens per second. Parameters are those of a token, so only the active ones of a mixture of experts.
If a source states no number, they are counted from its sizes. The MLP has two matrices where it is four times as wide
as the hidden size, and three otherwise.
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "published_runs.tsv"
# Runs of a project's own tests: their models are made small, and nobody publishes their throughput.
CHECKS = {"megatron_lm_golden_values"}
HEAD = ["model", "active_parameters", "experts", "gpu", "gpus", "sequence", "precision", "tokens_per_s_per_gpu", "source", "record"]


def active_parameters(model):
    layers, hidden, ffn = (model.get(k) for k in ("layers", "hidden", "ffn"))
    if not layers or not hidden:
        return None if model.get("experts") else model.get("params")
    heads = model.get("heads") or 1
    pairs = (model.get("kv_heads") or heads) / heads
    ffn = ffn or 4 * hidden
    matrices = 2 if abs(ffn / hidden - 4) < 0.01 and not model.get("experts") else 3
    block = hidden * hidden * (2 + 2 * pairs) + matrices * hidden * ffn * max(1, model.get("topk") or 1)
    counted = layers * block + 2 * (model.get("vocab") or 0) * hidden
    given = model.get("params")
    return given if given and not model.get("experts") else counted


def row_of(record, file):
    model, gpu, measured = record.get("model") or {}, record.get("gpu") or {}, record.get("measured") or {}
    parameters, rate = active_parameters(model), measured.get("tokens_per_s_per_gpu")
    sequence = record.get("seq")
    if not rate and measured.get("iteration_s") and record.get("global_batch") and gpu.get("count") and sequence:
        rate = record["global_batch"] * sequence / measured["iteration_s"] / gpu["count"]
    techniques = record.get("techniques") or []
    whole = record.get("status") == "ok" and parameters and rate and gpu.get("type") and sequence and "lora" not in techniques and not record.get("peft")
    if not whole:
        return None
    clean = lambda text: " ".join(str(text).split())
    return [clean(model.get("name") or "unnamed"), f"{parameters:.3g}", str(model.get("experts") or 0), clean(gpu["type"]), str(gpu.get("count") or 0), str(sequence),
            clean(record.get("precision") or ""), f"{rate:.4g}", clean(record.get("source") or file.stem), clean(record.get("id") or "")]


def table():
    best = {}
    for file in sorted((ROOT / "data" / "runs").glob("*.jsonl")):
        if file.stem in CHECKS:
            continue
        for line in file.read_text().splitlines():
            row = row_of(json.loads(line), file)
            if row is None:
                continue
            key = (row[8], row[0], *row[2:7])
            if key not in best or float(row[7]) > float(best[key][7]):
                best[key] = row
    return "".join("\t".join(row) + "\n" for row in [HEAD, *(best[k] for k in sorted(best))])


def main():
    text = table()
    if "--check" in sys.argv:
        if not TABLE.exists() or TABLE.read_text() != text:
            print("data/published_runs.tsv is not what scripts/published_runs.py writes")
            return 1
        return 0
    TABLE.write_text(text)
    print(f"{text.count(chr(10)) - 1} runs in {TABLE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

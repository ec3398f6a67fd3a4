#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests published records: those in data/runs are as scripts/import_runs.py copies them. A record that states a fact
in its text is predicted like one that has it in a field.

usage: published_records.py ESPALIER_BINARY REPOSITORY
"""
import json
import pathlib
import subprocess
import sys
import tempfile

binary, root = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, str(root / "scripts"))
import import_runs  # noqa: E402

failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)


def validated(records):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "runs.jsonl"
        path.write_text(import_runs.text_of(records))
        done = subprocess.run([binary, "validate", str(path), "--json", "--threads", "2"], capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"validate: exit {done.returncode}, {done.stderr[:200]}")
    return json.loads(done.stdout)


def predicted(record, **fields):
    results = validated([{**record, **fields}])["results"]
    expect(len(results) == 1, f"{record['id']}: not predicted with {fields}")
    return results[0]["predicted_s"] if results else None


expect(import_runs.check(import_runs.RUNS) == 0, "data/runs is not as scripts/import_runs.py writes it")
expect(json.loads(import_runs.text_of([{"a": None, "b": {"c": None}, "d": [None], "e": 0}])) == {"d": [None], "e": 0}, "nulls")

# File and record of data/runs, its facts as fields.
CASES = [
    ("torchtitan_h100_500w_8b", lambda r: "torch.compile" in r["notes"], {"techniques": ["compile"]}),
    ("jax_toolbox", lambda r: "LoRA" in r["table"], {"extra": {"lora": {"rank": 8, "targets": ["linear_qkv"]}, "fsdp_size": 16, "dp_replicas": 1}}),
    ("megatron_bridge_early", lambda r: r.get("extra", {}).get("recipe", {}).get("moe_flex_dispatcher_backend") == "hybridep", {"techniques": ["cuda-graphs", "flex-dispatcher", "fused-experts", "overlap-experts"]}),
]
for name, wanted, fields in CASES:
    record = next(r for r in import_runs.records_of(import_runs.RUNS / f"{name}.jsonl") if wanted(r))
    published = predicted(record)
    expect(published == predicted(record, notes=None, **fields), f"{name}: predicted otherwise with {fields}")
    expect(published != predicted(record, techniques=[]), f"{name}: predicted as without techniques")

# A row that is skipped for its status is not read any further.
suspect = validated([{"id": "a", "status": "suspect", "tp": "two"}])
expect(suspect["skipped"] == {"status suspect": 1} and not suspect.get("unreadable"), f"status: {suspect['skipped']}")

for failure in failures:
    print(f"FAIL {failure}", file=sys.stderr)
sys.exit(1 if failures else 0)

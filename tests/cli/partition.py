#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests plans with operator partitions from outside: planned, checked, simulated, explained, rejected when damaged.

usage: partition.py BINARY SOURCE_DIR
"""
import json
import pathlib
import subprocess
import sys
import tempfile

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
EXAMPLE = SOURCE / "examples/opt-175b-6-blocks-on-32xv100.yaml"
failures = []


def call(*words):
    return subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=300, check=False)


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def main(folder):
    answers = {}
    for threads in (1, 2):
        ran = call("plan", EXAMPLE, "--threads", threads, "-o", folder / f"threads{threads}", "--json")
        expect(ran.returncode == 0, f"plan: {ran.stderr}")
        answers[threads] = (folder / f"threads{threads}" / "result.json").read_bytes()
    expect(answers[1] == answers[2], "threads change the answer")
    result = json.loads(answers[1])
    best = {phase["name"]: phase["best_s"] for phase in result["search"]["phases"] if "best_s" in phase}
    expect(min(best[name] for name in ("uniform", "layer-wise") if name in best) > result["prediction"]["iteration_s"], "partitions gain nothing")
    plan_file = folder / "threads1" / "plan.json"
    plan = json.loads(plan_file.read_text())
    cut = next(x["strategy"]["partition"] for x in plan["pipelines"][0]["stages"][0]["layers"] if x["strategy"]["partition"])
    expect(isinstance(cut, dict) and "attn.qkv" in cut, f"partition in plan.json: {cut}")
    expect([o["name"] for o in result["operators"]][:len(cut)] == list(cut), "operators of the report")
    expect(call("check", plan_file).returncode == 0, "check")
    block = folder / "block.json"
    ran = call("simulate", plan_file, "--block", block, "-v")
    expect(ran.returncode == 0 and "Operators of a block over" in ran.stdout, f"simulate: {ran.stderr}")
    spans = json.loads(block.read_text())["traceEvents"]
    expect(any(s["name"].startswith("mlp.up forward") for s in spans), "steps in the block's timeline")
    detail = folder / "detail.json"
    ran = call("simulate", plan_file, "--trace", detail, "--detail")
    expect(ran.returncode == 0, f"simulate --detail: {ran.stderr}")
    moved = [e["args"] for e in json.loads(detail.read_text())["traceEvents"] if "collective" in e.get("args", {})]
    expect(any(m["group"] == "operators" and m["collective"] == "ring_shift" and m["bytes"] > 0 for m in moved), "rings in the detail")
    expect("Operators of a block" in call("explain", folder / "threads1" / "result.json").stdout, "explain")
    for wrong in ("H,H,H,H", "K", "P3"):
        bent = json.loads(plan_file.read_text())
        for stage in bent["pipelines"][0]["stages"]:
            for layers in stage["layers"]:
                if layers["strategy"]["partition"]:
                    layers["strategy"]["partition"]["attn.qkv"] = wrong
        other = folder / "bent.json"
        other.write_text(json.dumps(bent))
        expect(call("check", other).returncode != 0, f"check of attn.qkv {wrong}")
        expect(call("simulate", other).returncode == 3, f"simulate of attn.qkv {wrong}")


with tempfile.TemporaryDirectory() as temporary:
    main(pathlib.Path(temporary))
print("partition: ok" if not failures else f"partition: {len(failures)} failed")
sys.exit(1 if failures else 0)

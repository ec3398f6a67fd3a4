#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the first screen of an answer on six jobs: it has at most 24 lines of 80 columns, and holds plan, engine, step
with interval, throughput, memory, time in four lines that sum to 100 %, certificate, alternatives and the next command.
-v prints the whole answer with the same step. An estimate that does not fit is marked.

usage: screen.py BINARY SOURCE_DIR
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
MOST_LINES, COLUMNS = 24, 80
LABELS = ("step", "throughput", "memory", "time", "certificate", "next")
LAYERWISE = """model: %s/models/gpt2/config.json
cluster: {nodes: 1, devices_per_node: 4, device: rtx-4090, memory_limit: 6GiB}
training: {sequence_length: 1024, global_batch: 32}
search: {space: layerwise, fix: {pp: 2}, allow: {schedule: [1f1b]}}
"""
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def printed(*words, code=0):
    environment = {**os.environ, "COLUMNS": str(COLUMNS)}
    ran = subprocess.run([BINARY, *map(str, words), "--quiet"], capture_output=True, text=True, env=environment, timeout=500, check=False)
    expect(ran.returncode == code, f"{words[0]} {words[1]}: exit {ran.returncode} {ran.stderr[-300:]}")
    return ran.stdout


def step_of(text, label):
    return re.search(rf"^  {label} +(\S+ \S+)", text, re.M).group(1)


def check(name, *words, searched=True, code=0):
    text = printed(*words, code=code)
    lines = text.splitlines()
    expect(len(lines) <= MOST_LINES, f"{name}: {len(lines)} lines")
    expect(all(len(line) <= COLUMNS for line in lines), f"{name}: {max(map(len, lines))} columns")
    for label in LABELS:
        expect(re.search(rf"^  {label} ", text, re.M), f"{name}: no {label}")
    expect(re.search(r"\d % interval", text) and " MFU " in text and "GiB of" in text, f"{name}: {lines[4:8]}")
    at = next(i for i, line in enumerate(lines) if line.startswith("  time "))
    shares = [float(m.group(1)) for m in (re.search(r"([\d.]+) %", line) for line in lines[at:at + 4]) if m]
    expect(len(shares) == 4 and abs(sum(shares) - 100) < 0.3, f"{name}: shares {shares}")
    if searched:
        label = text[:re.search(r"^\S+ on \d", text, re.M).start()]  # the job's line follows the plan's
        expect(re.search(r" ·\s+(runs\s+on |no engine )?[\w-]+", label), f"{name}: no engine behind the plan: {label}")
        expect(re.search(r"^  alternatives ", text, re.M), f"{name}: no alternatives")
    whole = printed(*words, "-v", code=code)
    expect(step_of(whole, "step") == step_of(text, "step"), f"{name}: -v has another step")
    expect(len(whole.splitlines()) > len(lines), f"{name}: -v prints no more")
    return text


def main():
    examples = SOURCE / "examples"
    with tempfile.TemporaryDirectory() as folder:
        layerwise = pathlib.Path(folder) / "layerwise.yaml"
        layerwise.write_text(LAYERWISE % SOURCE)
        check("8B", "plan", examples / "llama3-8b-on-8xh100.yaml")
        check("70B", "plan", examples / "llama3-70b-on-64xh100.yaml")
        check("mixture of experts", "plan", examples / "mixtral-8x7b-on-32xa100.yaml")
        check("mixed devices", "plan", examples / "clusters/scenarios/06-near-t4.yaml")
        check("layer-wise", "plan", layerwise)
        full = check("does not fit", "estimate", examples / "llama3-8b-on-8xh100.yaml", searched=False, code=4)
    expect("DOES NOT FIT" in full, "a plan that does not fit is marked")
    print(f"screen: {len(failures)} failures" if failures else "screen: ok")
    return 1 if failures else 0


sys.exit(main())

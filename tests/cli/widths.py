#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the output of inspect, validate, calibrate, a sweep and Galvatron's import at 80 and at 60 columns. No line
is longer, --wide lifts the limit, and no figure is lost. scripts/run_examples.py checks the output of plan, simulate,
check, explain and compare for every example.

usage: widths.py BINARY SOURCE_DIR
"""
import os
import pathlib
import re
import subprocess
import sys

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
EXAMPLES = SOURCE / "examples"
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def lines_of(*words, columns=None, code=0):
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    if columns:
        environment["COLUMNS"] = str(columns)
    ran = subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, env=environment, timeout=500)
    expect(ran.returncode == code, f"{words[0]} {words[1]}: exit {ran.returncode} {ran.stderr[-300:]}")
    return ran.stdout.splitlines()


def is_path(line):
    return len(line.split()) <= 2 and "/" in line.split()[-1]


def expect_width(lines, width, what):
    long = [line for line in lines if len(line) > width and not is_path(line)]
    expect(lines and not long, f"{what}: {len(long)} lines beyond {width} columns: {long[:2]}")


def figures(lines):
    """Returns every number. Layout moves numbers and may repeat a first column, but breaks none."""
    return set(re.findall(r"\d[\d.,]*", " ".join(lines)))


def check(*words):
    """Checks two widths, and that the wide form has the same figures."""
    wide = figures(lines_of(*words, "--wide"))
    for columns in (None, 60):
        lines = lines_of(*words, columns=columns)
        expect_width(lines, columns or 80, " ".join(map(str, words)))
        expect(figures(lines) == wide, f"{' '.join(map(str, words))}: other figures at {columns or 80} columns than with --wide")


def main():
    for cluster in sorted((EXAMPLES / "clusters").glob("*.yaml")):
        check("inspect", "cluster", cluster)
    for config in ("gpt2", "mixtral-8x7b", "swin-base", "llama-3-8b"):
        check("inspect", "model", SOURCE / "models" / config / "config.json")
    runs = SOURCE / "data/runs/ibm_fms_fsdp.jsonl"
    check("validate", runs, "-v")
    check("inspect", "run", runs)
    check("calibrate", "--base", "h100-sxm", "--runs", EXAMPLES / "calibrate/runs.jsonl", "--nccl", EXAMPLES / "calibrate/all_reduce_perf-1node.txt")
    check("plan", EXAMPLES / "gpt2-on-4xrtx4090.yaml", "--sweep", "training.global_batch=64,128", "--set", "training.tokens=1e9")
    wide = lines_of("validate", runs, "--wide")
    expect(max(map(len, wide)) > 80, "--wide is no wider than a terminal")
    expect(wide == lines_of("validate", runs, columns=400), "a wide terminal shows the wide form")
    print("widths:", "ok" if not failures else f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests published recipes (examples/recipes): each is planned as its authors ran it, has an interval, fits, and
`check` accepts it.

usage: recipes.py ESPALIER_BINARY REPOSITORY
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import yaml

binary, root = sys.argv[1], pathlib.Path(sys.argv[2])
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)


def run(*words):
    return subprocess.run([binary, *map(str, words)], capture_output=True, text=True, check=False)


recipes = sorted((root / "examples" / "recipes").glob("*.yaml"))
expect(len(recipes) >= 4, "recipes are missing")
for job in recipes:
    fixed = yaml.safe_load(job.read_text())["search"]["fix"]
    with tempfile.TemporaryDirectory() as folder:
        planned = run("plan", job, "-o", folder, "--json", "--quiet")
        if planned.returncode != 0:
            failures.append(f"{job.name}: exit {planned.returncode}: {planned.stderr[-500:]}")
            continue
        result = json.loads(planned.stdout)
        prediction, pipeline = result["prediction"], result["plan"]["pipelines"][0]
        expect(prediction["fits"], f"{job.name}: {prediction['peak_memory_bytes'] / 2**30:.1f} GiB do not fit")
        expect(len(pipeline["stages"]) == fixed["pp"], f"{job.name}: {len(pipeline['stages'])} stages")
        expect(result["plan"]["engine"] == result["engine"] or "+" in result["plan"]["engine"], f"{job.name}: engine {result['engine']}")
        confidence = prediction["confidence"]
        expect(0 < confidence["iteration_s_low"] < prediction["iteration_s"] < confidence["iteration_s_high"], f"{job.name}: {confidence}")
        checked = run("check", pathlib.Path(folder) / "plan.json")
        expect(checked.returncode == 0, f"{job.name}: check: {checked.stdout[-500:]}{checked.stderr[-500:]}")

for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)

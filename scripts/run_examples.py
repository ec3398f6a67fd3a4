#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every job of examples/ through plan, check and simulate, as a user would, and checks what each answer promises:
certified, fits, the breakdown sums to the iteration to the nanosecond, `other` below 1 %, check accepts the plan, simulate
gives the same nanosecond.

usage: run_examples.py BINARY [--devices N] [EXAMPLE…]     --devices: only jobs of at most N devices
"""
import decimal
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = ["compute", "exposed_communication", "bubble", "optimizer", "other"]


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr[-2000:] or "\n".join(line for line in done.stdout.splitlines() if "FAILED" in line)
        raise AssertionError(f"exit {done.returncode}: {' '.join(map(str, command))}\n{said}")
    return done.stdout


def answer(text):
    return json.loads(text, parse_float=decimal.Decimal)


def devices_of(job):
    """From the name: …-on-<N>x<device>…; jobs without it are small."""
    for word in job.stem.split("-"):
        number = word.split("x")[0]
        if "x" in word and number.isdigit():
            return int(number)
    return 0


def check_example(binary, job):
    with tempfile.TemporaryDirectory() as folder:
        result = answer(run(binary, "plan", job, "--json", "-o", folder))
        prediction, search = result["prediction"], result["search"]
        whole = decimal.Decimal(prediction["iteration_s"])
        parts = {name: decimal.Decimal(prediction["breakdown_s"][name]) for name in PARTS}
        assert result["schema"] == "espalier.result/1"
        larger = search.get("space", "uniform") != "uniform"  # such a search names the gap that is left
        assert search["optimal"] is True or (larger and search["reason"] == "gap"), f"not certified: {search['reason']}"
        assert prediction["fits"] is True
        assert prediction["peak_memory_bytes"] <= prediction["memory_limit_bytes"]
        assert sum(parts.values()) == whole, f"parts {sum(parts.values())} s, iteration {whole} s"
        assert parts["other"] < whole / 100, f"other is {parts['other'] / whole:.2%}"
        plan = pathlib.Path(folder) / "plan.json"
        run(binary, "check", plan)
        again = answer(run(binary, "simulate", plan, "--json"))
        assert decimal.Decimal(again["prediction"]["iteration_s"]) == whole, "simulate gives another time"
        seconds = result.get("timing", {}).get("total_s", "?")
        return f"{whole} s, {search['space_size']} configurations, planned in {seconds} s"


def main():
    arguments = sys.argv[1:]
    limit = None
    if "--devices" in arguments:
        at = arguments.index("--devices")
        limit = int(arguments[at + 1])
        del arguments[at:at + 2]
    binary, names = arguments[0], arguments[1:]
    jobs = [pathlib.Path(n) for n in names] or sorted((ROOT / "examples").glob("*.yaml"))
    failed = 0
    for job in jobs:
        if limit is not None and devices_of(job) > limit:
            continue
        try:
            print(f"{job.name}: {check_example(binary, job)}", flush=True)
        except (AssertionError, KeyError, ValueError) as error:
            failed += 1
            print(f"{job.name}: FAILED: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

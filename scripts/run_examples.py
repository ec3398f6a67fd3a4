#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every job of examples/ through plan, check and simulate, as a user would, and checks the promises of each
answer. It is certified and fits. The breakdown sums to the step to the nanosecond, with `other` below 1 %. Check
accepts the plan, and simulate gives the same nanosecond. Documents follow their schemas, and no line of text is
longer than 80 columns (nor than COLUMNS).

usage: run_examples.py BINARY [--devices N] [EXAMPLE…]     --devices: only jobs of at most N devices
"""
import decimal
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import schema_check

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = ["compute", "exposed_communication", "bubble", "optimizer", "other"]


def run(*command, columns=80):
    environment = dict(os.environ, COLUMNS=str(columns))
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        said = done.stderr[-2000:] or "\n".join(line for line in done.stdout.splitlines() if "FAILED" in line)
        raise AssertionError(f"exit {done.returncode}: {' '.join(map(str, command))}\n{said}")
    return done.stdout


def answer(text):
    return json.loads(text, parse_float=decimal.Decimal)


def devices_of(job):
    """Parses the name: …-on-<N>x<device>…; jobs without it are small."""
    for word in job.stem.split("-"):
        number = word.split("x")[0]
        if "x" in word and number.isdigit():
            return int(number)
    return 0


def fits_width(text, width, what):
    """Returns the lines of `text`; none may be too long, except a path."""
    lines = text.splitlines()
    long = [line for line in lines if len(line) > width and not ("/" in line and len(line.split()) <= 2)]
    assert lines and not long, f"{what}: {len(long)} lines beyond {width} columns: {long[:2]}"
    return lines


def figures(lines):
    """Returns every number, sorted. Layout moves numbers and never breaks one."""
    return set(re.findall(r"\d[\d.,]*", " ".join(lines)))


def check_texts(binary, plan):
    explained = {columns: run(binary, "explain", plan, columns=columns) for columns in (60, 80)}
    narrow = [fits_width(text, columns, f"explain at {columns} columns") for columns, text in explained.items()]
    wide = run(binary, "explain", plan, "--wide").splitlines()
    assert figures(narrow[0]) == figures(narrow[1]) == figures(wide), "explain has other figures at other widths"
    fits_width(run(binary, "simulate", plan), 80, "simulate")
    fits_width(run(binary, "compare", *[plan] * 5), 80, "compare five plans")
    fits_width(run(binary, "check", plan), 80, "check")


def follows_schema(name, text):
    found = schema_check.offences(schema_check.schema(name), json.loads(text))
    assert not found, f"against {name}.schema.json: {found[:3]}"


def check_example(binary, job):
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        fits_width(run(binary, "plan", job, "-o", folder), 80, "plan")
        seconds = round(time.monotonic() - started, 1)
        written = {name: (pathlib.Path(folder) / f"{name}.json").read_text(encoding="utf-8") for name in ("plan", "result")}
        for name, text in written.items():
            follows_schema(name, text)
        result = answer(written["result"])
        prediction, search = result["prediction"], result["search"]
        whole = decimal.Decimal(prediction["iteration_s"])
        parts = {name: decimal.Decimal(prediction["breakdown_s"][name]) for name in PARTS}
        assert result["schema"] == "espalier.result/2"
        # Such a search names the remaining gap.
        larger = search.get("space", "uniform") != "uniform" or any(phase["name"] in ("each group", "device groups") for phase in search["phases"])
        assert search["optimal"] is True or (larger and search["reason"] == "gap"), f"not certified: {search['reason']}"
        assert prediction["fits"] is True
        assert prediction["peak_memory_bytes"] <= prediction["memory_limit_bytes"]
        assert sum(parts.values()) == whole, f"parts {sum(parts.values())} s, step {whole} s"
        assert parts["other"] < whole / 100, f"other is {parts['other'] / whole:.2%}"
        plan = pathlib.Path(folder) / "plan.json"
        check_texts(binary, plan)
        again = run(binary, "simulate", plan, "--json")
        follows_schema("result", again)
        again = answer(again)
        assert decimal.Decimal(again["prediction"]["iteration_s"]) == whole, "simulate gives another time"
        return f"{whole} s, {search['space_size']} configurations, planned in {seconds} s"


def main():
    arguments = sys.argv[1:]
    limit = None
    if "--devices" in arguments:
        at = arguments.index("--devices")
        limit = int(arguments[at + 1])
        del arguments[at:at + 2]
    binary, names = arguments[0], arguments[1:]
    jobs = [pathlib.Path(n) for n in names] or sorted([*(ROOT / "examples").glob("*.yaml"), *(ROOT / "examples/mixed").glob("*.yaml")])
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

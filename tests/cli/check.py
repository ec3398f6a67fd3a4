#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `espalier check` from outside: true answers pass, falsified ones fail, and answers of other builds are
named as such.

usage: check.py BINARY SOURCE_DIR
"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
EXAMPLE = SOURCE / "examples/gpt2-on-4xrtx4090.yaml"
failures = []


def call(*words):
    return subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=300)


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def checked(folder, document, *flags):
    path = folder / "changed.json"
    path.write_text(json.dumps(document))
    return call("check", path, *flags)


def failed_in(ran):
    return [f["name"] for f in json.loads(ran.stdout)["findings"] if not f["ok"]]


def halve_time(r): r["prediction"]["iteration_s"] /= 2
def no_peak(r): r["prediction"]["peak_memory_bytes"] = 0
def petabyte(r): r["prediction"]["memory_limit_bytes"] = 10**15
def half_the_bound(r): r["search"]["lower_bound_s"] /= 2
def larger_space(r): r["search"]["space_size"] *= 10
def faster_baseline(r): r["alternatives"][0]["iteration_s"] *= 3
def more_tokens(r): r["prediction"]["tokens_per_s_per_gpu"] *= 2
def narrow_interval(r): r["prediction"]["confidence"]["iteration_s_low"] = r["prediction"]["iteration_s"]


def withdrawn_certificate(r):
    r["search"]["optimal"] = False


def another_summary(r):
    r["plan"]["model"]["summary"] = "gpt2, 12 blocks, 8 B parameters"


FALSIFIED = {halve_time: "iteration", no_peak: "peak", petabyte: "limit", half_the_bound: "certificate", larger_space: "counters",
             faster_baseline: "alternatives", more_tokens: "throughput", narrow_interval: "confidence",
             withdrawn_certificate: "certificate", another_summary: "summaries"}


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        ran = call("plan", EXAMPLE, "--set", "search.fix={pp: 2, cp: 1, recompute: none}", "-o", folder, "--json")
        expect(ran.returncode == 0, f"plan: {ran.stderr}")
        truth = json.loads((folder / "result.json").read_text())
        for path in ("plan.json", "result.json"):
            ran = call("check", folder / path)
            expect(ran.returncode == 0, f"check {path}: {ran.stdout}{ran.stderr}")
        ran = call("check", folder / "result.json", "--search", "--json")
        expect(ran.returncode == 0, f"check --search: {ran.stdout}")
        expect(any(f["name"] == "search-again: search" for f in json.loads(ran.stdout)["findings"]), "--search compares searches")
        expect(call("check", folder / "plan.json", "--search").returncode == 2, "--search needs a result")
        for change, finding in FALSIFIED.items():
            document = copy.deepcopy(truth)
            change(document)
            ran = checked(folder, document, "--json")
            failed = failed_in(ran)
            expect(ran.returncode == 5 and finding in failed, f"{change.__name__}: exit {ran.returncode}, {failed}")
        # Consistent but invented: the digest shows that it was edited, a search shows what is wrong.
        document = copy.deepcopy(truth)
        for rule in document["search"]["pruned"]:
            document["search"]["pruned"][rule] = 0
        document["search"]["pruned"]["bound"] = document["search"]["space_size"] - document["search"]["simulated"]
        ran = checked(folder, document, "--json")
        expect(ran.returncode == 5 and failed_in(ran) == ["digest"], f"counters that add up: {failed_in(ran)}")
        ran = checked(folder, document, "--search", "--json")
        expect("search-again: search" in failed_in(ran), "--search finds other counters")
        # The order of keys and the form of numbers do not matter.
        (folder / "sorted.json").write_text(json.dumps(dict(sorted(truth.items())), indent=1))
        expect(call("check", folder / "sorted.json").returncode == 0, "a document written again by another program")
        del (document := copy.deepcopy(truth))["digest"]
        expect(failed_in(checked(folder, document, "--json")) == ["digest"], "no digest in a document that names its build")
        # An answer of another build.
        document = copy.deepcopy(truth)
        document["made_by"]["version"] = "0.0.1"
        document["prediction"]["iteration_s"] /= 2
        ran = checked(folder, document)
        expect(ran.returncode == 5 and "made by espalier 0.0.1" in ran.stdout and "simulated" not in ran.stdout.split("made by")[1],
               f"another build: exit {ran.returncode}: {ran.stdout}")
        # The devices of a stage are in another order of the same node, which has the same price.
        document = copy.deepcopy(truth)
        devices = document["plan"]["pipelines"][0]["stages"][0]["devices"]
        expect(devices == ["0-1"], f"devices {devices}")
        document["plan"]["pipelines"][0]["stages"][0]["devices"] = ["1", "0"]
        for command in ("simulate", "check"):
            path = folder / "order.json"
            path.write_text(json.dumps(document["plan"]))
            ran = call(command, path)
            expect(ran.returncode == 0, f"{command}: exit {ran.returncode}: {ran.stderr}")
        ran = checked(folder, document, "--json")
        expect(failed_in(ran) == ["digest"], f"a result whose devices were reordered on the same links: {failed_in(ran)}")
    print("FAILED" if failures else "ok", len(FALSIFIED), "falsifications")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

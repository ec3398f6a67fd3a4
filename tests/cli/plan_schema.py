#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests versions of plan.json. Covers documents that version 1 wrote before version 2 existed
(tests/golden/plan_v1.txt, hashes of documents from the earlier tree). Also covers both versions today, rejections by
name, and devices in a plan's own order.

usage: plan_schema.py BINARY SOURCE_DIR
"""
import copy
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
EXAMPLES, SCRIPT = SOURCE / "examples", SOURCE / "scripts/plan_v2_to_v1.py"
LLAMA, GPT2 = EXAMPLES / "llama3-8b-on-8xh100.yaml", EXAMPLES / "gpt2-on-4xrtx4090.yaml"
ANY = ("--set", "engine=generic")  # plans that not every engine can run
CASES = {
    "tp2-pp2": ("estimate", LLAMA, *ANY, "--tp", "2", "--pp", "2", "--zero", "1"),
    "interleaved": ("estimate", LLAMA, *ANY, "--pp", "2", "--tp", "4", "--vpp", "2", "--schedule", "interleaved", "--sp", "megatron"),
    "order": ("estimate", LLAMA, *ANY, "--pp", "2", "--tp", "2", "--order", "tp-cp-pp-dp", "--recompute", "full", "--recompute-layers", "3"),
    "bert": ("plan", EXAMPLES / "bert-large-on-8xv100.yaml"),
    "gpt2": ("plan", GPT2),
    "gpt2-layerwise": ("plan", GPT2, "--set", "search.space=layerwise"),
    "gpt2-full": ("plan", GPT2, "--set", "search.space=full"),
    "t5": ("plan", EXAMPLES / "t5-11b-on-16xtitan.yaml"),
    "llama-layerwise": ("plan", LLAMA, *ANY, "--set", "search.space=layerwise"),
}
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def call(*words):
    return subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=500)


def write(path, document):
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def golden():
    lines = (SOURCE / "tests/golden/plan_v1.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(" | ") for line in lines if line and not line.startswith("#"))


def versions_say_the_same(folder):
    known = golden()
    expect(set(known) == set(CASES), f"plan_v1.txt holds {sorted(known)}")
    for name, words in CASES.items():
        ran = call(*words, "-o", folder / name)
        expect(ran.returncode == 0, f"{name}: exit {ran.returncode}: {ran.stderr}")
        two = folder / name / "plan.json"
        script = subprocess.run([sys.executable, SCRIPT, two], capture_output=True, text=True)
        expect(script.returncode == 0, f"{name}: {script.stderr}")
        digest = hashlib.sha256(script.stdout.encode()).hexdigest()
        expect(digest == known.get(name), f"{name}: version 1 would be {digest}")
        one = call("export", "plan", two, "--plan-schema", "1")
        expect(one.stdout == script.stdout, f"{name}: --plan-schema 1 writes what the script makes")
        back = call("export", "plan", write(folder / "one.json", script.stdout))
        expect(back.stdout == two.read_text(), f"{name}: version 1 is read as version 2")
    ran = call(*CASES["tp2-pp2"], "-o", folder / "one", "--plan-schema", "1")
    for file in ("plan.json", "result.json"):
        script = subprocess.run([sys.executable, SCRIPT, folder / "tp2-pp2" / file], capture_output=True, text=True)
        expect(script.stdout == (folder / "one" / file).read_text(), f"--plan-schema 1: {file}")


def results_of_either_version_are_checked(folder):
    """A result is searched again and compared in the version in which it holds its plan."""
    ran = call("plan", GPT2, "--plan-schema", "1", "-o", folder / "result1")
    expect(ran.returncode == 0, ran.stderr)
    for file in (folder / "result1/result.json", folder / "gpt2/result.json"):
        ran = call("check", file, "--search")
        expect(ran.returncode == 0, f"check --search {file.parent.name}: exit {ran.returncode}: {ran.stdout}")


def second_pipeline(plan):
    """Adds a second pipeline, for an engine whose stages are all alike; generic and espalier run several
    pipelines."""
    plan["engine"] = "megatron-core"
    more = copy.deepcopy(plan["pipelines"][0])
    more["id"], plan["training"]["global_batch"] = 1, 128
    for i, stage in enumerate(more["stages"]):
        stage["devices"] = [f"{8 + 4 * i}-{11 + 4 * i}"]
    plan["pipelines"].append(more)


def first_strategy(plan):
    return plan["pipelines"][0]["stages"][0]["layers"][0]["strategy"]


BEYOND = {
    "$.pipelines": second_pipeline,
    "$.pipelines[0].stages[0].samples_per_replica": lambda p: p["pipelines"][0]["stages"][0].update(samples_per_replica=[2, 0]),
    "$.pipelines[0].stages[1].state_shares": lambda p: p["pipelines"][0]["stages"][1].update(state_shares=[3, 0]),
    "$.pipelines[0].stages[0].layers[0].strategy.overlap.ep": lambda p: first_strategy(p)["overlap"].update(ep=True),
    "$.precision.moments": lambda p: p["precision"].update(moments="bf16"),
}
PRICED = (("simulate",), ("check",), ("explain",), ("compare",), ("export", "galvatron"), ("export", "timeline"))


def what_has_no_price_is_refused_by_name(folder):
    plan = json.loads((folder / "tp2-pp2/plan.json").read_text())
    result = json.loads((folder / "tp2-pp2/result.json").read_text())
    (folder / "beyond").mkdir()
    for where, change in BEYOND.items():
        document = copy.deepcopy(plan)
        change(document)
        path = write(folder / "beyond/plan.json", document)
        for command in PRICED:
            ran = call(*command, path, "--json") if command[0] != "export" else call(*command, path)
            expect(ran.returncode == 3 and f"espalier: {path}: {where}" in ran.stderr, f"{command} of {where}: exit {ran.returncode}: {ran.stderr}")
        ran = call("check", write(folder / "beyond/result.json", {**result, "plan": document}))
        expect(ran.returncode == 3 and where[1:] in ran.stderr, f"result with {where}: exit {ran.returncode}: {ran.stderr}")
        (folder / "beyond/result.json").unlink()
        ran = call("export", "plan", path, "--plan-schema", "1")
        expect(ran.returncode == 5 and where in ran.stderr, f"version 1 of {where}: exit {ran.returncode}: {ran.stderr}")
        again = call("export", "plan", path)
        expect(again.returncode == 0, f"version 2 of {where}: exit {again.returncode}: {again.stderr}")
        same = call("export", "plan", write(folder / "beyond/again.json", again.stdout))
        expect(same.stdout == again.stdout, f"version 2 of {where} is read back")
        script = subprocess.run([sys.executable, SCRIPT], input=again.stdout, capture_output=True, text=True)
        if not where.startswith("$.precision"):
            expect(script.returncode == 5 and where in script.stderr, f"the script on {where}: {script.stderr}")


def what_does_not_belong_together_names_the_file(folder):
    """Tests that the error is found when the job is made from the plan, and when the plan is compared
    with the job."""
    plan = json.loads((folder / "tp2-pp2/plan.json").read_text())
    (folder / "odd").mkdir()
    moved = copy.deepcopy(plan)
    moved["engine"] = "nobody"
    path = write(folder / "odd/plan.json", moved)
    for command in PRICED:
        ran = call(*command, path)
        expect(ran.returncode == 3 and f"espalier: {path}: $.engine" in ran.stderr, f"{command}: exit {ran.returncode}: {ran.stderr}")
    ran = subprocess.run([BINARY, "export", "timeline", "-"], input=path.read_text(), capture_output=True, text=True)
    expect(ran.returncode == 3 and "espalier: <stdin>: $.engine" in ran.stderr, f"from stdin: {ran.stderr}")
    turned = copy.deepcopy(plan)
    turned["engine"] = "megatron-core"  # its ranks run where the rank order puts them
    for stage, other in zip(turned["pipelines"][0]["stages"], reversed(plan["pipelines"][0]["stages"])):
        stage["devices"] = other["devices"]
    path = write(folder / "odd/turned.json", turned)
    for command in (("simulate",), ("compare",), ("export", "timeline")):
        ran = call(*command, path)
        expect(ran.returncode == 3 and f"espalier: {path}: $.pipelines[0].stages" in ran.stderr, f"{command}: exit {ran.returncode}: {ran.stderr}")


def seconds(path):
    ran = call("simulate", path, "--json")
    expect(ran.returncode == 0, f"{path.name}: exit {ran.returncode}: {ran.stderr}")
    return json.loads(ran.stdout)["prediction"]["iteration_s"] if ran.returncode == 0 else 0


def devices_are_priced_as_listed(folder):
    ran = call("estimate", LLAMA, *ANY, "--set", "cluster.nodes=4", "--tp", "8", "--zero", "1", "-o", folder / "nodes")
    expect(ran.returncode == 0, ran.stderr)
    plan = json.loads((folder / "nodes/plan.json").read_text())
    canonical = seconds(folder / "nodes/plan.json")

    def listed(name, devices):
        plan["pipelines"][0]["stages"][0]["devices"] = devices
        return write(folder / name, plan)

    same = listed("same.json", ["8-15", "0-7", "24-31", "16-23"])
    expect(seconds(same) == canonical, "whole nodes exchanged: the same price")
    torn = listed("torn.json", ["0-3", "8-11", "4-7", "12-15", "16-19", "24-27", "20-23", "28-31"])
    expect(seconds(torn) > 1.2 * canonical, f"tensor groups across nodes: {seconds(torn)} s after {canonical} s")
    for path in (same, torn):
        ran = call("check", path)
        first = {"same.json": "on devices 8-15, 0-7, 24-31, 16-23", "torn.json": "on devices 0-3, 8-11, 4-7, 12-15, …"}[path.name]
        expect(first in " ".join(ran.stdout.split()), f"the label of {path.name}: {ran.stdout}")
        expect(ran.returncode == 0 and "custom orders" in ran.stdout, f"check {path.name}: exit {ran.returncode}: {ran.stdout}")
        ran = call("check", path, "--engine", "megatron-core")
        expect(ran.returncode == 5 and "MEG-DEVICES" in ran.stdout, f"megatron-core: exit {ran.returncode}: {ran.stdout}")
    uneven = listed("uneven.json", ["0-6", "8", "7", "9-31"])
    expect(seconds(uneven) > canonical, "a tensor group across nodes waits for its slowest member")
    ran = call("check", uneven)
    expect(ran.returncode == 3 and "device-order" in ran.stderr, f"check: exit {ran.returncode}: {ran.stderr}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        versions_say_the_same(folder)
        results_of_either_version_are_checked(folder)
        what_has_no_price_is_refused_by_name(folder)
        what_does_not_belong_together_names_the_file(folder)
        devices_are_priced_as_listed(folder)
    print("plan schema:", "ok" if not failures else f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""what-if, replan and plan over a trace from the command line: answers against their schemas, equal bytes for any number of threads, exit codes.

usage: adapt.py BINARY SOURCE_DIR
"""
import json
import pathlib
import subprocess
import sys
import tempfile

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, str(SOURCE / "scripts"))
from schema_check import offences, schema  # noqa: E402

failures = []
JOB = """{model: {model_type: llama, hidden_size: 1024, intermediate_size: 2816, num_attention_heads: 16, num_key_value_heads: 8,
 num_hidden_layers: 8, vocab_size: 32000, max_position_embeddings: 2048}, cluster: {nodes: 4, devices_per_node: 2, device: a100-sxm-80gb%s},
 training: {sequence_length: 1024, global_batch: 64}, search: {fix: {zero: 0}}}"""


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def call(*words):
    return subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=500)


def answer(name, *words):
    ran = call(*words, "--json")
    expect(ran.returncode == 0, f"{name}: {ran.returncode} {ran.stderr}")
    return json.loads(ran.stdout)


def ladder(plan):
    for flags in (["--lose", "node:1"], ["--slow", "rank:2=1.5", "--slow", "node:3=1.1"], ["--link", "node:0=0.5"], ["--lose", "node:1", "--add", "a=1"]):
        found = answer(f"what-if {flags}", "what-if", plan, *flags)
        expect([a["action"] for a in found["actions"]] == ["stay", "shift", "re-place", "reroute", "reshape"], f"{flags}: five rungs")
        for change in found["actions"]:
            wrong = offences(schema("change"), change)
            expect(not wrong, f"what-if {flags} {change['action']}: {wrong[:2]}")
            if change["possible"]:
                expect(change["iteration_s"] > 0, f"{flags} {change['action']}: a step takes time")
        expect(call("what-if", plan, *flags, "--json", "--threads", 1).stdout == call("what-if", plan, *flags, "--json", "--threads", 4).stdout,
               f"{flags}: the same for any number of threads")
    survival = answer("--survive 2", "what-if", plan, "--survive", 2)
    expect(survival["losses"] == survival["covered"] == 10, "every loss of up to two of four nodes has a plan")


def observed(plan, folder):
    seen = folder / "obs.json"
    seen.write_text(json.dumps({"schema": "espalier.observation/1", "steps": [{"iteration_s": 1.0, "tokens": 65536}],
                                "ranks": [{"rank": r, "forward_s": 0.1 if r != 2 else 0.2, "backward_s": 0.2} for r in range(8)], "lost": []}))
    expect(not offences(schema("observation"), json.loads(seen.read_text())), "the observation keeps its schema")
    change = answer("replan", "replan", plan, "--observe", seen)
    expect(not offences(schema("change"), change), "replan answers with a change")
    expect(list(change["observed"]["slow"]) == ["rank:2"], f"rank 2 is slow: {change['observed']}")
    expect(call("replan", plan, "--observe", folder / "none.json").returncode == 3, "no observation: exit code 3")
    seen.write_text('{"schema": "espalier.observation/1", "lsot": []}')
    expect(call("replan", plan, "--observe", seen).returncode == 3, "an unknown key: exit code 3")


def refused(plan):
    for flags, code in (([], 2), (["--lose", "node:9"], 3), (["--slow", "rank:2=0.5"], 2), (["--link", "node:0"], 2), (["--add", "b=1"], 2),
                        (["--lose", "node:0", "--survive", "1"], 2), (["--lose", "node:0", "--restart", "soon"], 2),
                        (["--lose", "node:0", "--lose", "node:1", "--lose", "node:2", "--lose", "node:3"], 4)):
        ran = call("what-if", plan, *flags)
        expect(ran.returncode == code, f"what-if {flags}: {ran.returncode}, expected {code}: {ran.stderr}")


def over_time(folder):
    (folder / "events.csv").write_text("time_s,event,target,value\n600,leave,node:3,\n4000,join,node:3,\n")
    job = folder / "spot.yaml"
    job.write_text(JOB % ", events: events.csv")
    found = answer("plan over a trace", "plan", job, "-o", folder / "out")
    expect(found["schema"] == "espalier.over-time/1" and found["epochs"] == 3, "three epochs")
    names = [r["name"] for r in found["runs"]]
    expect(names == ["static", "static, worst case", "online", "clairvoyant"], f"{names}")
    rates = {r["name"]: r["samples_per_s"] for r in found["runs"]}
    expect(rates["static"] <= rates["online"] * (1 + 1e-9) <= rates["clairvoyant"] * (1 + 2e-9), f"in order: {rates}")
    expect(call("simulate", folder / "out" / "plan.json").returncode == 0, "the plan that is written can be simulated")


with tempfile.TemporaryDirectory() as name:
    place = pathlib.Path(name)
    (place / "job.yaml").write_text(JOB % "")
    made = call("plan", place / "job.yaml", "-o", place)
    expect(made.returncode == 0, made.stderr)
    ladder(place / "plan.json")
    observed(place / "plan.json", place)
    refused(place / "plan.json")
    over_time(place)
print(f"adapt: {len(failures)} failures")
sys.exit(1 if failures else 0)

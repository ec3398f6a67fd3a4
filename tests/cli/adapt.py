#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""what-if, replan and plan over a trace, with token buckets and with an objective from the command line: answers against their schemas, equal bytes for any number of threads, exit codes.

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
    return json.loads(ran.stdout, object_pairs_hook=lambda pairs: distinct(name, pairs))


def distinct(name, pairs):
    keys = [key for key, _ in pairs]
    expect(len(set(keys)) == len(keys), f"{name}: a key twice among {keys}")
    return dict(pairs)


def keeps_schema(what, name, document):
    wrong = offences(schema(name), document)
    expect(not wrong, f"{what}: {wrong[:2]}")


def verified(what, name, document, folder):
    """The answer keeps its schema, and check holds it to be true; with one more byte moved it does not."""
    keeps_schema(what, name, document)
    kept = folder / "answer.json"
    kept.write_text(json.dumps(document))
    ran = call("check", kept)
    expect(ran.returncode == 0, f"check of {what}: {ran.returncode} {ran.stdout} {ran.stderr}")
    expect(call("check", kept, "--search").returncode == 2, f"check --search of {what}: an answer has no search")
    changes = document.get("actions") or [c["action"] for c in document.get("classes", [])] or [document, *document["others"]]
    next(c for c in changes if c["possible"])["move"]["peer_bytes"] += 1
    kept.write_text(json.dumps(document))
    ran = call("check", kept)
    expect(ran.returncode == 5 and "moved-bytes" in ran.stdout, f"check of {what}, one byte more: {ran.returncode} {ran.stdout}")


def ladder(plan):
    for flags in (["--lose", "node:1"], ["--slow", "rank:2=1.5", "--slow", "node:3=1.1"], ["--link", "node:0=0.5"], ["--lose", "node:1", "--add", "a=1"]):
        found = answer(f"what-if {flags}", "what-if", plan, *flags)
        expect([a["action"] for a in found["actions"]] == ["stay", "shift", "re-place", "reroute", "reshape"], f"{flags}: five rungs")
        verified(f"what-if {flags}", "what-if", found, plan.parent)
        for change in found["actions"]:
            keeps_schema(f"what-if {flags} {change['action']}", "change", change)
            if change["possible"]:
                expect(change["iteration_s"] > 0, f"{flags} {change['action']}: a step takes time")
        expect(call("what-if", plan, *flags, "--json", "--threads", 1).stdout == call("what-if", plan, *flags, "--json", "--threads", 4).stdout,
               f"{flags}: the same for any number of threads")
    survival = answer("--survive 2", "what-if", plan, "--survive", 2)
    verified("--survive 2", "survival", survival, plan.parent)
    expect(survival["losses"] == survival["covered"] == 10, "every loss of up to two of four nodes has a plan")


def observed(plan, folder):
    seen = folder / "obs.json"
    seen.write_text(json.dumps({"schema": "espalier.observation/1", "steps": [{"iteration_s": 1.0, "tokens": 65536}],
                                "ranks": [{"rank": r, "forward_s": 0.1 if r != 2 else 0.2, "backward_s": 0.2} for r in range(8)], "lost": []}))
    expect(not offences(schema("observation"), json.loads(seen.read_text())), "the observation keeps its schema")
    change = answer("replan", "replan", plan, "--observe", seen)
    expect(not offences(schema("change"), change), "replan answers with a change")
    expect(list(change["observed"]["slow"]) == ["rank:2"], f"rank 2 is slow: {change['observed']}")
    verified("replan", "change", change, folder)
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
    keeps_schema("plan over a trace", "over-time", found)
    names = [r["name"] for r in found["runs"]]
    expect(names == ["static", "static, worst case", "online", "clairvoyant"], f"{names}")
    rates = {r["name"]: r["samples_per_s"] for r in found["runs"]}
    expect(rates["static"] <= rates["online"] * (1 + 1e-9) <= rates["clairvoyant"] * (1 + 2e-9), f"in order: {rates}")
    expect(call("simulate", folder / "out" / "plan.json").returncode == 0, "the plan that is written can be simulated")


def token_buckets(folder):
    """A candidate for each rate that has a plan of its own, the best in the long run first; its plan is written, with its prediction at the sustained rates."""
    rows = ", ".join("{link: \"node:%d\", token_bucket: {full: 100Gb/s, sustained: 10Gb/s, bucket: 2Tb}}" % node for node in range(4))
    job = folder / "buckets.yaml"
    job.write_text(JOB % f", inter_node: {{bandwidth: 100Gb/s, nics_per_node: 1}}, capacity: [{rows}]")
    found = answer("plan with token buckets", "plan", job, "-o", folder / "lasting")
    keeps_schema("plan with token buckets", "long-run", found)
    steps = [c["long_run_s"] for c in found["candidates"]]
    expect(steps == sorted(steps) and found["lower_bound_s"] <= steps[0], f"by rising step, none below the bound: {steps}")
    expect(abs(found["gap"] - (1 - found["lower_bound_s"] / steps[0])) < 1e-9, f"the gap is that of the first: {found['gap']}")
    for row in found["candidates"]:
        expect(row["settled"] and row["long_run_s"] >= row["bytes_at_sustained_s"] * (1 - 1e-6), f"no more than comes in: {row}")
        expect(row["first_s"] <= row["long_run_s"] * (1 + 1e-9), f"the first step has full buckets: {row}")
    kept = json.loads((folder / "lasting" / "plan.json").read_text())
    expect(kept == found["answer"]["plan"], "the plan that is written is the answer's")
    again = answer("simulate a plan on token buckets", "simulate", folder / "lasting" / "plan.json")
    expect(again["prediction"]["iteration_s"] == found["candidates"][0]["sustained_s"], "simulate takes the sustained rates")
    expect(any("token buckets" in note for note in again["notes"]), f"and says so: {again.get('notes')}")
    alike = [call("plan", job, "--json", "--threads", threads).stdout for threads in (1, 4)]
    expect(without_timing(alike[0]) == without_timing(alike[1]), "the same for any number of threads")
    job.write_text(JOB % ", capacity: [{link: \"node:0\", token_bucket: {full: 10Gb/s, sustained: 100Gb/s, bucket: 2Tb}}]")
    expect(call("plan", job).returncode == 3, "a bucket that fills faster than it gives: exit code 3")


def without_timing(text):
    return {key: value for key, value in json.loads(text).items() if key != "answer"} | {"answer": {**json.loads(text)["answer"], "timing": None}}


def an_objective(folder):
    job = folder / "cheap.yaml"
    text = (JOB % ", price_per_device_hour: 2.0").replace("{fix: {zero: 0}}", "{fix: {zero: 0}, objective: {minimise: cost}}")
    job.write_text(text)
    found = answer("plan for the least cost", "plan", job)
    keeps_schema("plan for the least cost", "objective", found)
    best = found["sizes"][found["best"]]
    costs = [s["cost_per_step"] for s in found["sizes"] if s["searched"]]
    expect(best["cost_per_step"] == min(costs) >= found["least_cost_per_step"] * (1 - 1e-9), f"the cheapest of {costs}")
    expect(found["answer"]["prediction"]["cost"]["per_step"] == best["cost_per_step"], "the answer is that size's")


with tempfile.TemporaryDirectory() as name:
    place = pathlib.Path(name)
    (place / "job.yaml").write_text(JOB % "")
    made = call("plan", place / "job.yaml", "-o", place)
    expect(made.returncode == 0, made.stderr)
    ladder(place / "plan.json")
    observed(place / "plan.json", place)
    refused(place / "plan.json")
    over_time(place)
    token_buckets(place)
    an_objective(place)
print(f"adapt: {len(failures)} failures")
sys.exit(1 if failures else 0)

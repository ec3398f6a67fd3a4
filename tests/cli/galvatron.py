#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `espalier import` and `espalier export` of Galvatron's files from outside, on the built binary.

usage: galvatron.py BINARY SOURCE_DIR
"""
import json
import pathlib
import subprocess
import sys
import tempfile

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
EXAMPLE = SOURCE / "examples/galvatron"
failures = []

# The best plan shards the blocks (ZeRO-3) and keeps embedding and head whole. The strategy file cannot express shards
# over a part of the ranks, nor overlap of pipeline messages.
LAYERWISE = f"""
model: {SOURCE}/models/tiny-llama-test/config.json
cluster: {{nodes: 1, devices_per_node: 4, device: rtx-4090, memory_limit: 1GiB}}
training: {{sequence_length: 512, global_batch: 32, precision: bf16, optimizer: adam}}
engine: generic
search: {{space: layerwise, allow: {{schedule: [gpipe, 1f1b], recompute: [none, full], order: tp-cp-dp-pp, zero: [0, 3], shard: [1, 4],
  cp: 1, tp: 1, sp: none, overlap_p2p: false}}}}
"""


def call(*words):
    return subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=300)


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def profile_words(**other):
    files = {"computation": "computation_profiling_bf16_llama2-7b.json", "memory": "memory_profiling_bf16_llama2-7b.json",
             "allreduce": "allreduce_bandwidth_1nodes_8gpus_per_node.json", "p2p": "p2p_bandwidth_1nodes_8gpus_per_node.json",
             "overlap": "overlap_coefficient.json", "sp": "sp_time_1nodes_8gpus_per_node.json"}
    words = ["import", "galvatron-profile", "--job", EXAMPLE / "job.yaml"]
    for flag, name in files.items():
        words += ["--" + flag, other.get(flag, EXAMPLE / name)]
    return words


def layerwise_plan_survives_the_round_trip(folder):
    job, strategy = folder / "job.yaml", folder / "strategy.json"
    job.write_text(LAYERWISE)
    ran = call("plan", job, "-o", folder / "there")
    expect(ran.returncode == 0 and ran.stdout.startswith("layer-wise"), f"the example has a layer-wise plan: {ran.stdout[:100]} {ran.stderr}")
    exported = call("export", "galvatron", folder / "there/plan.json")
    expect(exported.returncode == 0 and exported.stderr == "", f"export: {exported.stderr}")
    strategy.write_text(exported.stdout)
    written = json.loads(exported.stdout)
    expect(written["dp_types_enc"] == "1,1,1,1" and written["embed_sdp"] == 0, f"blocks unlike embedding and head: {written}")
    imported = call("import", "galvatron", strategy, "--job", job, "-o", folder / "back", "--json")
    expect(imported.returncode == 0, f"import: {imported.stderr}")
    there = json.loads((folder / "there/result.json").read_text())["prediction"]
    expect(json.loads(imported.stdout)["prediction"]["iteration_s"] > 0, "the imported plan is simulated")
    back = json.loads((folder / "back/result.json").read_text())["prediction"]
    expect(back["peak_memory_bytes"] > 0 and back["fits"] == there["fits"], "the imported plan fits as the planned one does")
    again = call("export", "galvatron", folder / "back/plan.json", "-o", folder / "again.json")
    expect(again.returncode == 0 and (folder / "again.json").read_text() == exported.stdout, "export, import, export: the same bytes")
    checked = call("check", folder / "back/plan.json")
    expect(checked.returncode == 0, f"the imported plan stands alone and every check holds: {checked.stdout}")
    return strategy, job


def what_the_file_cannot_say_is_named(folder):
    ran = call("plan", SOURCE / "examples/llama3-8b-on-8xh100.yaml", "--set", "engine=generic", "--set", "search={fix: {pp: 1, recompute: selective}}", "-o", folder / "uniform")
    expect(ran.returncode == 0, ran.stderr)
    ran = call("export", "galvatron", folder / "uniform/plan.json")
    expect(ran.returncode == 5 and "GAL-NO-SELECTIVE" in ran.stderr and "selective recomputation" in ran.stderr and ran.stdout == "", f"refused by name: {ran.stderr}")


def exit_codes(folder, strategy, job):
    bad = folder / "bad.json"
    bad.write_text('{"pp_deg": 1,\n "tp_sizes_enc": "1,x"}')
    no_profile = folder / "empty.json"
    no_profile.write_text("{}")
    for code, words in ((0, ["import", "--help"]), (2, ["import"]), (2, ["export"]), (2, ["import", "galvatron", strategy]),
                        (3, ["import", "galvatron", bad, "--job", job]), (3, ["import", "galvatron", folder / "none", "--job", job]),
                        (3, ["import", "galvatron", strategy, "--job", folder / "none"]),
                        (3, ["import", "galvatron", strategy, "--job", job, "--set", "training.global_batch=64"]),
                        (3, ["export", "galvatron", bad]), (3, profile_words(memory=no_profile)),
                        (2, [*profile_words(), "--budget", "36"]), (4, [*profile_words(), "--budget", "2GiB"]),
                        (3, [*profile_words(), "--set", "training.sequence_length=4096"])):
        ran = call(*words)
        expect(ran.returncode == code, f"exit {ran.returncode} instead of {code}: {words} {ran.stderr}")
    ran = call("import", "galvatron", bad, "--job", job)
    expect("bad.json:" in ran.stderr, f"the message has a position: {ran.stderr}")


def the_plan_that_the_authors_ship(folder):
    ran = call(*profile_words(), "--budget", "36GiB", "-o", folder / "profile", "--json")
    expect(ran.returncode == 0, ran.stderr)
    answer = json.loads(ran.stdout)
    expect(answer["costs"] == "galvatron", "the answer says whose costs these are")
    expect(answer["espalier"]["prediction"]["iteration_s"] > 0, "beside it stands Espalier's own simulation")
    strategy = answer["strategy"]
    expect(strategy["checkpoint"] == ",".join(["1"] * 20 + ["0"] * 12), f"the first 20 layers recomputed: {strategy['checkpoint']}")
    expect((strategy["pp_deg"], strategy["chunks"], strategy["vtp"], strategy["vsp"], strategy["embed_sdp"]) == (1, 1, 2, 1, 1), strategy)
    expect(set(strategy["dp_types_enc"]) == {"1", ","} and set(strategy["tp_sizes_enc"]) == {"1", ","}, "ZeRO-3 on every layer")
    written = json.loads((folder / "profile/galvatron_config.json").read_text())
    expect(written == strategy, "the written strategy is the printed one")
    text = call(*profile_words(), "--budget", "36GiB")
    expect("not simulated by Espalier" in " ".join(text.stdout.split()), "the text says whose costs these are")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        strategy, job = layerwise_plan_survives_the_round_trip(folder)
        what_the_file_cannot_say_is_named(folder)
        exit_codes(folder, strategy, job)
        the_plan_that_the_authors_ship(folder)
    print("galvatron:", "ok" if not failures else f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

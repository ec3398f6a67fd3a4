#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests espalier profile and its rejections. Where espalier-rank is built, a job under the profile of a played device
is planned, checked and run at the times of that device.

usage: profile.py BINARY SOURCE_DIR
"""
import json
import pathlib
import subprocess
import sys
import tempfile

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
CONFIG = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
          "intermediate_size": 128, "vocab_size": 128, "tie_word_embeddings": False}
PACE = "flops=4e8,bandwidth=2e8,launch=1e-4"
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def espalier(*words):
    return subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=300)


def job(folder, name, devices, **more):
    text = {"model": CONFIG, "cluster": {"nodes": 1, "devices_per_node": devices, "device": "t4"}, "engine": "espalier",
            "training": {"sequence_length": 32, "global_batch": 8, "precision": "fp32", "optimizer": "adam"}, **more}
    (folder / name).write_text(json.dumps(text))
    return str(folder / name)


def refusals(folder):
    ran = espalier("profile", "-o", str(folder / "x.yaml"))
    expect(ran.returncode == 2 and "JOB.yaml" in ran.stderr, f"no job: {ran.stderr}")
    ran = espalier("profile", job(folder, "j.json", 1), "-o", str(folder / "x.yaml"), "--tp", "1,two")
    expect(ran.returncode == 2 and "1,two" in ran.stderr, f"counts: {ran.stderr}")
    profile = {"schema": "espalier.calibration/1", "device": "t4", "engine": "espalier",
               "operators": [{"kind": "linear", "in": 1, "out": 1, "tokens": 1, "forward_s": 1, "input_s": 1, "weight_s": 1}]}
    ran = espalier("estimate", job(folder, "few.json", 1, profile=profile))
    expect(ran.returncode == 3 and "no times of" in ran.stderr, f"a profile of another model: {ran.returncode} {ran.stderr}")
    ran = espalier("estimate", job(folder, "both.json", 1, profile=profile, calibration=profile))
    expect(ran.returncode == 3 and "one of them" in ran.stderr, f"profile and calibration: {ran.returncode} {ran.stderr}")


def a_played_device(folder):
    profile = folder / "profile.yaml"
    ran = espalier("profile", job(folder, "plain.json", 1), "-q", "-o", str(profile), "--tp", "1,2", "--samples", "1,4", "--steps", "3", "--pace", PACE)
    expect(ran.returncode == 0, f"profile: {ran.stderr}")
    named = job(folder, "named.json", 2, profile=str(profile))
    ran = espalier("plan", named, "-q", "-o", str(folder / "out"))
    expect(ran.returncode == 0, f"plan: {ran.stderr}")
    plan = str(folder / "out" / "plan.json")
    ran = espalier("check", plan)
    expect(ran.returncode == 0, f"check: {ran.stdout}{ran.stderr}")
    ran = espalier("estimate", named, "--tp", "2", "--json")
    expect(ran.returncode == 0, f"tp 2: {ran.stderr}")
    ran = espalier("estimate", job(folder, "wide.json", 4, profile=str(profile)), "--tp", "4")
    expect(ran.returncode != 0, "tp 4 was not measured")
    # The work of the device is known. Its linears alone take 2·(64·192 + 64·64 + 64·256 + 128·64) operations a token
    # and block, three times, plus the head.
    operations = 3 * 2 * (2 * (64 * 192 + 64 * 64 + 64 * 256 + 128 * 64) + 64 * 128) * 32 * 8
    ran = espalier("estimate", job(folder, "one.json", 1, profile=str(profile)), "--micro-batch", "4", "--json")
    seconds = json.loads(ran.stdout)["prediction"]["iteration_s"]
    expect(seconds > operations / 4e8, f"{seconds} s, the linears alone take {operations / 4e8}")
    expect(seconds < 3 * operations / 4e8, f"{seconds} s, the linears take {operations / 4e8}")


def compute_beside_reductions(folder):
    """Tests profiles of ranks on this machine: both factors are found, written, and used to price plans. The next
    profile takes them over."""
    profile = folder / "beside.yaml"
    ran = espalier("profile", job(folder, "beside.json", 2), "-q", "-o", str(profile), "--samples", "1,4", "--steps", "2", "--overlap", "2", "--json")
    expect(ran.returncode == 0, f"--overlap: {ran.stderr}")
    found = json.loads(ran.stdout)["overlap"]
    expect(all(1 <= found[key] <= 10 for key in ("compute_slowdown", "communication_slowdown")), f"factors: {found}")
    written = [line for line in profile.read_text().splitlines() if line.startswith("overlap: ")]
    expect(len(written) == 1, f"the profile says {written}")
    ran = espalier("profile", job(folder, "beside.json", 2), "-q", "-o", str(folder / "again.yaml"), "--from", str(profile))
    expect(ran.returncode == 0 and written[0] in (folder / "again.yaml").read_text(), f"--from: {ran.stderr}")
    named = job(folder, "priced.json", 2, profile=str(profile))
    ran = espalier("estimate", named, "--dp", "2", "--micro-batch", "4", "--overlap", "grad", "--json")
    expect(ran.returncode == 0, f"priced: {ran.stderr}")


def files_of_galvatron(folder):
    """Tests that written files are read: the planner finds a plan in them. The memory of a recomputed block is its
    input: 32 tokens of 64 features in fp32, 8 KiB."""
    place = folder / "galvatron"
    plain = job(folder, "two.json", 2)
    ran = espalier("profile", plain, "-q", "-o", str(folder / "p.yaml"), "--tp", "1,2", "--samples", "1,3", "--steps", "2", "--galvatron", str(place))
    expect(ran.returncode == 0, f"--galvatron: {ran.stderr}")
    computation, memory = place / "computation_profiling_fp32.json", place / "memory_profiling_fp32.json"
    kept = json.loads(memory.read_text())["layertype_0"]["32"]["tp_activation_per_bsz_dict"]
    expect(abs(kept["checkpoint"] * 1024 - 8) < 0.01, f"a recomputed block keeps {kept}")
    expect(kept["1"] > kept["2"] > kept["checkpoint"], f"a block keeps {kept}")
    rates = folder / "allreduce.json"
    rates.write_text(json.dumps({"allreduce_size_2_consec_1": 1.0}))
    ran = espalier("import", "galvatron-profile", "--job", plain, "--budget", "16GiB", "-o", str(folder / "of-galvatron"), "--computation", str(computation),
                   "--memory", str(memory), "--allreduce", str(rates))
    expect(ran.returncode == 0 and "Galvatron strategy" in ran.stdout, f"import galvatron-profile: {ran.returncode} {ran.stderr}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        refusals(folder)
        if (pathlib.Path(BINARY).resolve().parent / "espalier-rank").exists():
            a_played_device(folder)
            compute_beside_reductions(folder)
            files_of_galvatron(folder)
        else:
            print("the rest is skipped: no espalier-rank (./dev runtime)")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests espalier calibrate from outside: the synthetic example, the file it writes, and every command that reads it.

usage: calibrate.py BINARY SOURCE_DIR
"""
import json
import pathlib
import subprocess
import sys
import tempfile

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
EXAMPLE = SOURCE / "examples/calibrate"
RUNS, LOG, JOB = EXAMPLE / "runs.jsonl", EXAMPLE / "megatron.log", EXAMPLE / "job.yaml"
TABLES = [EXAMPLE / "all_reduce_perf-1node.txt", EXAMPLE / "all_gather_perf-2nodes.txt"]
CONFIGURATION = ["--tp", "2", "--sp", "megatron", "--zero", "1"]
failures = []


def call(*words):
    return subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=300)


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def calibrate(out, *more):
    return call("calibrate", "--base", "h100-sxm", "--runs", RUNS, LOG, "--config", JOB, *CONFIGURATION, "--nccl", *TABLES, "--out", out, *more)


def the_example_improves(folder):
    out = folder / "mine.yaml"
    ran = calibrate(out, "--json", "--threads", 1)
    expect(ran.returncode == 0 and ran.stderr == "", f"exit {ran.returncode}: {ran.stderr}")
    report = json.loads(ran.stdout)
    expect(report["schema"] == "espalier.calibrate/1" and report["file"] == str(out), "the report names schema and file")
    expect(len(report["runs"]) == 11 and report["configurations"] == 11, "ten records and a log")
    expect(report["error_after"]["mape"] < report["error_before"]["mape"], "held-out error is smaller than before")
    expect(report["error_after"]["mape"] < 0.05, f"held-out error {report['error_after']['mape']}")
    expect(all(c["value"] == c["shipped"] for c in report["coefficients"] if not c["identified"]), "undetermined coefficients stay")
    expect({t["test"] for t in report["collectives"]} == {"all-reduce", "all-gather"}, "both tables")
    again = folder / "again.yaml"
    calibrate(again, "--threads", 3)
    expect(again.read_bytes() == out.read_bytes(), "the same input gives the same file for any number of threads")
    text = calibrate(folder / "text.yaml").stdout
    expect("error adapted" in text and "not determined" in text and "\033" not in text, "the text report")
    return out


def every_command_takes_it(folder, calibration):
    words = ["estimate", JOB, *CONFIGURATION, "--json"]
    plain, own = (json.loads(call(*words, *more).stdout) for more in ([], ["--calibration", calibration]))
    expect(own["prediction"]["iteration_s"] != plain["prediction"]["iteration_s"], "the calibration changes the prediction")
    expect("of your runs" in own["prediction"]["confidence"]["basis"], "the confidence names it")
    expect("calibration" not in plain["plan"] and own["plan"]["calibration"]["name"] == "mine", "the plan holds it")
    job = folder / "job.yaml"
    job.write_text(JOB.read_text().replace("engine: megatron-core", f"calibration: {calibration}").replace("models/", f"{SOURCE}/models/"))
    named = json.loads(call("estimate", job, *CONFIGURATION, "--json").stdout)
    expect(named["prediction"] == own["prediction"], "the job's key does the same, engine included")

    out = folder / "answer"
    planned = json.loads(call("plan", JOB, "--set", "search.fix.tp=2", "--calibration", calibration, "-o", out, "--json").stdout)
    simulated = json.loads(call("simulate", out / "plan.json", "--json").stdout)
    expect(simulated["prediction"] == planned["prediction"], "simulate gives the plan's numbers")
    checked = call("check", out / "plan.json")
    expect(checked.returncode == 0, f"check accepts the plan: {checked.stdout}")
    (out / "estimate.json").write_text(json.dumps(plain["plan"]))
    replaced = json.loads(call("simulate", out / "estimate.json", "--calibration", calibration, "--json").stdout)
    expect(replaced["prediction"]["iteration_s"] == own["prediction"]["iteration_s"], "simulate --calibration")
    tampered = json.loads((out / "plan.json").read_text())
    tampered["calibration"]["source"]["coefficients"]["compute"] = 1.0
    (out / "tampered.json").write_text(json.dumps(tampered))
    expect(call("simulate", out / "tampered.json").returncode == 3, "a changed calibration does not match its hash")

    before, after = (json.loads(call("validate", RUNS, "--json", *more).stdout)["time"]["mape"] for more in ([], ["--calibration", calibration]))
    expect(after < before, "validate --calibration")
    plan_config = call("calibrate", "--base", "h100-sxm", "--runs", LOG, "--config", out / "estimate.json", "--json")
    expect(plan_config.returncode == 0 and len(json.loads(plan_config.stdout)["runs"]) == 1, f"a plan as configuration: {plan_config.stderr}")


def arguments_of_a_log_are_read(folder):
    block = "--- arguments ---\n  tensor_model_parallel_size ..... 2\n  sequence_parallel ..... True\n  use_distributed_optimizer ..... True\n" \
            "  micro_batch_size ..... 1\n--- end of arguments ---\n"
    memory = "[Rank 0] (after 2 iterations) memory (MB) | allocated: 1 | max allocated: 60000.0 | reserved: 1 | max reserved: 64000.0\n"
    log = folder / "with-arguments.log"
    log.write_text(block + LOG.read_text() + memory)
    words = ["calibrate", "--base", "h100-sxm", "--runs", log, "--config", JOB]
    flags = json.loads(call("calibrate", "--base", "h100-sxm", "--runs", LOG, "--config", JOB, *CONFIGURATION, "--json").stdout)
    ran = call(*words, "--json")
    expect(ran.returncode == 0, f"flags from the arguments: {ran.stderr}")
    report = json.loads(ran.stdout)
    expect(report["runs"][0]["configuration"] == flags["runs"][0]["configuration"], f"{report['runs'][0]['configuration']}")
    expect(report["memory"]["reserved_runs"] == 1 and 0 <= report["memory"]["allocator_reserve"] <= 0.5, f"{report['memory']}")
    expect("memory" not in flags, "no peak, no memory")
    refused = call(*words, "--tp", "4")
    expect(refused.returncode == 3 and "tensor_model_parallel_size 2 (line 2)" in refused.stderr, f"contradiction: {refused.stderr}")
    out = folder / "memory.yaml"
    call(*words, "--out", out)
    expect("allocator_reserve" in out.read_text(), "the file holds the reserve")
    peaks = [json.loads(call("estimate", JOB, *CONFIGURATION, "--json", *more).stdout)["prediction"]["peak_memory_bytes"]
             for more in ([], ["--calibration", out])]
    reserve = report["memory"]
    expect(abs(peaks[1] / peaks[0] - (1 + reserve["allocator_reserve"]) / (1 + reserve["allocator_reserve_shipped"])) < 1e-3, f"peaks {peaks}")


def mistakes_have_exit_codes(folder, calibration):
    nothing, bad = folder / "nothing.log", folder / "bad.yaml"
    nothing.write_text("hello\n")
    bad.write_text(calibration.read_text().replace("compute:", "computer:"))
    base = ["calibrate", "--base", "h100-sxm"]
    for code, words, part in ((2, base, "--runs"), (2, ["calibrate", "--base", "a100", "--runs", RUNS], "a100-sxm-80gb"),
                              (2, [*base, "--runs", LOG], "--config"), (3, [*base, "--runs", nothing, "--config", JOB], "nothing.log:1"),
                              (3, [*base, "--runs", LOG, "--config", JOB, "--set", "training.global_batch=128"], "64"),
                              (3, [*base, "--nccl", LOG], "nccl-tests"), (3, ["calibrate", "--base", "h200-sxm", "--runs", RUNS], "not on h200-sxm"),
                              (3, ["estimate", JOB, "--calibration", bad], "did you mean"),
                              (3, ["estimate", SOURCE / "examples/llama3-8b-on-8xh100.yaml", "--set", "engine=nanotron", "--calibration", calibration],
                               "megatron-core"),
                              (3, ["estimate", JOB, "--calibration", folder / "none.yaml"], "none.yaml")):
        ran = call(*words)
        expect(ran.returncode == code, f"exit {ran.returncode} instead of {code}: {words}: {ran.stderr}")
        expect(part in ran.stderr, f"'{part}' in the message: {ran.stderr}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        calibration = the_example_improves(folder)
        every_command_takes_it(folder, calibration)
        arguments_of_a_log_are_read(folder)
        mistakes_have_exit_codes(folder, calibration)
    print("calibrate:", "ok" if not failures else f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

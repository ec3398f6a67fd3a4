#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests espalier run and its rejections. Where espalier-rank is built, ranks train, equal plans give equal losses,
and the death of a rank ends all of them in bounded time with one message.

usage: run.py BINARY SOURCE_DIR
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
CONFIG = {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
          "intermediate_size": 64, "vocab_size": 96, "tie_word_embeddings": False}
JOB = """model: model.json
cluster: {nodes: 1, devices_per_node: %d, device: rtx-4090}
training: {sequence_length: 16, global_batch: 8, precision: %s, optimizer: adam}
"""
LAUNCHERS = ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
             "MASTER_ADDR", "MASTER_PORT")
QUIET = {k: v for k, v in os.environ.items() if k not in LAUNCHERS}
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def espalier(*words, **more):
    return subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=300, env={**QUIET, **more})


def errors(said):
    """Returns the errors on stderr: all messages but the first, which announces the processes that `run
    --local` starts here."""
    said = [line for line in said.splitlines() if line.startswith("espalier:")]
    return said[1:] if said and said[0].startswith("espalier: starting ") else said


def plan(folder, devices, *flags, precision="fp32"):
    (folder / "model.json").write_text(json.dumps(CONFIG))
    (folder / "job.yaml").write_text(JOB % (devices, precision))
    ran = espalier("estimate", str(folder / "job.yaml"), "-q", "-o", str(folder / "out"), *flags)
    expect(ran.returncode == 0, ran.stderr)
    return str(folder / "out" / "plan.json")


def refusals(folder):
    file = plan(folder, 2)
    ran = espalier("run", file, ESPALIER_RANK="/no/such/program")
    expect(ran.returncode == 2 and "--local" in ran.stderr or "espalier-rank" in ran.stderr, f"no program: {ran.stderr}")
    ran = espalier("run", file, RANK="2", WORLD_SIZE="2", ESPALIER_RANK="/bin/true")
    expect(ran.returncode == 2 and "from 0 to 1" in ran.stderr, f"a rank beyond the world: {ran.stderr}")
    ran = espalier("run", file, ESPALIER_RANK="/bin/true")
    expect(ran.returncode == 2 and "--local" in ran.stderr, f"no launcher: {ran.stderr}")


def checkpoints(folder):
    """Tests without libtorch. A folder that cannot hold checkpoints fails before any rank starts. A resumed run whose
    ranks have no step left (here: a program that ends at once) succeeds."""
    file, began = plan(folder, 2), folder / "began"
    program = folder / "rank"
    program.write_text(f"#!/bin/sh\ntouch {began}\n")
    program.chmod(0o755)
    taken = folder / "taken"
    taken.write_text("")
    for unusable in (taken, taken / "below", pathlib.Path("/proc/espalier")):
        ran = espalier("run", file, "--local", "--checkpoint", str(unusable), ESPALIER_RANK=str(program))
        expect(ran.returncode == 2 and "--checkpoint" in ran.stderr and str(unusable) in ran.stderr, f"checkpoint {unusable}: {ran.returncode} {ran.stderr}")
        expect(not began.exists() and taken.read_text() == "", "no rank was started")
    kept = folder / "kept"
    ran = espalier("run", file, "--local", "--steps", "4", "--checkpoint", str(kept), "--resume", ESPALIER_RANK=str(program))
    expect(ran.returncode == 0 and began.exists() and "nothing left to do" in ran.stdout and "all 4 steps" in ran.stdout, f"nothing left: {ran.stdout} {ran.stderr}")
    ran = espalier("run", file, "--local", "--steps", "4", "--checkpoint", str(kept), "--resume", "--json", ESPALIER_RANK=str(program))
    answer = json.loads(ran.stdout) if ran.returncode == 0 else {}
    expect(answer.get("nothing_left") is True and answer.get("steps") == [], f"nothing left: {ran.stdout} {ran.stderr}")
    ran = espalier("run", file, "--local", ESPALIER_RANK=str(program))
    expect(ran.returncode == 6 and "without a step" in ran.stderr, f"ranks that do nothing: {ran.returncode} {ran.stderr}")


def training(folder):
    losses = {}
    for devices, flags in ((1, ()), (2, ("--dp", "2")), (2, ("--pp", "2"))):
        ran = espalier("run", plan(folder, devices, *flags), "--local", "--steps", "3", "--json")
        expect(ran.returncode == 0, f"{devices} {flags}: {ran.stderr}")
        losses[(devices, *flags)] = [step["loss"] for step in json.loads(ran.stdout)["steps"]]
    first = losses[(1,)]
    for key, values in losses.items():
        expect(len(values) == 3 and all(abs(a / b - 1) < 1e-5 for a, b in zip(values, first)), f"{key}: {values} beside {first}")
    ran = espalier("run", plan(folder, 2, precision="bf16"), "--local", "--steps", "3", "--json")
    expect(ran.returncode == 0, f"bf16: {ran.stderr}")
    mixed = [step["loss"] for step in json.loads(ran.stdout)["steps"]]
    expect(len(mixed) == 3 and all(abs(a / b - 1) < 2**-10 for a, b in zip(mixed, first)), f"bf16: {mixed} beside {first}")
    ran = espalier("run", plan(folder, 2, precision="fp16"), "--local")
    expect(ran.returncode == 3 and len(errors(ran.stderr)) == 1 and "precision" in ran.stderr, f"fp16: {ran.stderr}")


def resumed(folder):
    """Tests that a checkpoint has the step of its manifest, whatever the name of its folder. One that holds all steps
    leaves no work."""
    file, kept = plan(folder, 2, "--dp", "2"), folder / "steps"
    whole = json.loads(espalier("run", file, "--local", "--steps", "4", "--json").stdout)["steps"]
    ran = espalier("run", file, "--local", "--steps", "2", "--checkpoint", str(kept), "-q")
    expect(ran.returncode == 0, f"a checkpoint: {ran.stderr}")
    (kept / "step-000000002").rename(kept / "step-000000009")
    ran = espalier("run", file, "--local", "--steps", "2", "--checkpoint", str(kept), "--resume")
    expect(ran.returncode == 0 and "nothing left to do" in ran.stdout + ran.stderr, f"all steps: {ran.returncode} {ran.stdout} {ran.stderr}")
    ran = espalier("run", file, "--local", "--steps", "4", "--checkpoint", str(kept), "--resume", "--json")
    expect(ran.returncode == 0, f"resumed: {ran.stderr}")
    later = json.loads(ran.stdout)["steps"]
    expect([s["step"] for s in later] == [2, 3], f"after the second step: {later}")
    expect(all(abs(a["loss"] / b["loss"] - 1) < 1e-6 for a, b in zip(later, whole[2:])), f"{later} beside {whole[2:]}")


def timelines(folder):
    """Tests that the measured step of a run is compared with the plan's; a step of another plan, or
    none, is rejected."""
    file, step = plan(folder, 2, "--pp", "2"), folder / "step.json"
    ran = espalier("run", file, "--local", "--steps", "4", "-q", "--timeline", str(step))
    expect(ran.returncode == 0, f"timeline: {ran.stderr}")
    ran = espalier("compare", file, "--timeline", str(step), "--trace", str(folder / "both.json"), "--json")
    expect(ran.returncode == 0, f"compare: {ran.stderr}")
    compared = json.loads(ran.stdout)
    for rank in compared["ranks"]:
        for side in ("predicted", "measured"):
            parts = sum(rank[side].values())
            expect(rank["device"] > 0 or abs(parts / compared[f"{side}_s"] - 1) < 1e-6, f"{side}: parts {parts} of {compared[f'{side}_s']}")
    expect(all(row["times"] > 0 and row["measured_s"] > 0 for row in compared["operators"]), "every operator that is priced was run")
    names = [e["args"]["name"] for e in json.loads((folder / "both.json").read_text())["traceEvents"] if e["name"] == "process_name"]
    expect(sum("predicted" in name for name in names) == 2 and sum("measured" in name for name in names) == 2, f"processes: {names}")
    ran = espalier("compare", plan(folder, 2, "--dp", "2"), "--timeline", str(step))
    expect(ran.returncode == 3 and "the plan that was run" in ran.stderr, f"another plan: {ran.stderr}")


def weights(folder):
    """Tests that another plan loads a saved checkpoint and saves it again, byte by byte; weights of another
    model are rejected."""
    first, second = folder / "first", folder / "second"
    ran = espalier("run", plan(folder, 1), "--local", "--steps", "2", "--save", str(first))
    expect(ran.returncode == 0 and (first / "config.json").exists(), f"save: {ran.stderr}")
    losses = []
    for devices, flags in ((1, ()), (2, ("--tp", "2")), (4, ("--dp", "2", "--pp", "2"))):
        ran = espalier("run", plan(folder, devices, *flags), "--local", "--steps", "1", "--learning-rate", "1e-30", "--weights", str(first),
                       "--save", str(second), "--json")
        expect(ran.returncode == 0, f"load under {flags}: {ran.stderr}")
        expect((first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes(), f"the same weights under {flags}")
        losses.append(json.loads(ran.stdout)["steps"][0]["loss"])
    expect(max(losses) / min(losses) - 1 < 1e-5, f"the same loss: {losses}")
    (first / "model.safetensors").write_bytes((first / "model.safetensors").read_bytes()[:-4])
    ran = espalier("run", plan(folder, 2, "--pp", "2"), "--local", "--weights", str(first))
    expect(ran.returncode == 3 and len(errors(ran.stderr)) == 1 and "as stated in the header" in ran.stderr, f"cut weights: {ran.stderr}")


def launcher(folder):
    file = plan(folder, 2, "--dp", "2")
    port = str(20000 + os.getpid() % 20000)
    ranks = [subprocess.Popen([BINARY, "run", file, "--steps", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**QUIET, "RANK": str(r), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}) for r in (0, 1)]
    said = [rank.communicate(timeout=120) for rank in ranks]
    expect([rank.returncode for rank in ranks] == [0, 0], f"under a launcher: {said}")
    expect("loss" in said[0][0], f"rank 0 shows its steps: {said[0]}")


def death(folder):
    file = plan(folder, 2, "--dp", "2")
    run = subprocess.Popen([BINARY, "run", file, "--local", "--steps", "1000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=QUIET)
    run.stdout.readline()
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(run.pid)], capture_output=True, text=True).stdout.split()
    expect(len(children) == 2, f"two ranks: {children}")
    begin = time.monotonic()
    os.kill(int(children[-1]), signal.SIGKILL)
    _, said = run.communicate(timeout=60)
    expect(run.returncode == 6 and "signal 9" in said and len(errors(said)) == 1, f"{run.returncode} {said}")
    expect(time.monotonic() - begin < 30, "ended in bounded time")
    left = [c for c in children if pathlib.Path(f"/proc/{c}").exists()]
    expect(not left, f"ranks are left: {left}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        refusals(folder)
        checkpoints(folder)
        if (pathlib.Path(BINARY).parent / "espalier-rank").exists():
            training(folder)
            resumed(folder)
            timelines(folder)
            weights(folder)
            launcher(folder)
            death(folder)
        else:
            print("skipped: no espalier-rank (./dev runtime builds it)")
    print("failed" if failures else "ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

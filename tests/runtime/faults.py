#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests faults of a run: ranks killed at random steps, damaged checkpoints, a full disk, an empty rendezvous, ranks
of two plans, a loss that is NaN or infinite. Every rank ends in bounded time, one message states the reason, and the
exit code is right. The run then continues from its last complete checkpoint with the losses of an undisturbed run.

usage: faults.py BINARY SOURCE_DIR
       ESPALIER_RUNTIME_ALL=1: 30 kills, 30 files cut and 30 bits flipped, otherwise 2 of each
       ESPALIER_SEED=N: other random faults
"""
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BINARY = sys.argv[1]
TIMES = 30 if os.environ.get("ESPALIER_RUNTIME_ALL") else 2
BOUND = 240  # seconds in which everything ends on a busy machine: less than the time-out of a silent peer
CONFIG = {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
          "intermediate_size": 64, "vocab_size": 96, "tie_word_embeddings": False}
JOB = """model: model.json
cluster: {nodes: 1, devices_per_node: %d, device: rtx-4090}
training: {sequence_length: 16, global_batch: 8, precision: fp32, optimizer: adam}
"""
LAUNCHERS = ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
             "MASTER_ADDR", "MASTER_PORT")
QUIET = {k: v for k, v in os.environ.items() if k not in LAUNCHERS}
STEPS, EVERY = 24, 4
failures = []
ended = []  # seconds from a kill to the end of the run


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def command(*words, **more):
    return subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=BOUND, env=QUIET, check=False, **more)


def plan(folder, name, devices, *flags):
    (folder / "model.json").write_text(json.dumps(CONFIG))
    (folder / "job.yaml").write_text(JOB % devices)
    ran = command("estimate", folder / "job.yaml", "-q", "-o", folder / name, *flags)
    expect(ran.returncode == 0, ran.stderr)
    return folder / name / "plan.json"


def losses_of(ran):
    return {step["step"]: step["loss"] for step in json.loads(ran.stdout)["steps"]}


def same(found, expected):
    return bool(found) and max(found) == STEPS - 1 and all(abs(loss / expected[step] - 1) <= 1e-6 for step, loss in found.items())


def errors(said):
    """Returns the errors on stderr: all messages but the first, which announces the processes that `run
    --local` starts here."""
    said = [line for line in said.splitlines() if line.startswith("espalier:")]
    return said[1:] if said and said[0].startswith("espalier: starting ") else said


def one_message(ran, code, word):
    """Checks the exit code, and that stderr has one message with the word in it."""
    expect(ran.returncode == code and len(errors(ran.stderr)) == 1 and word in ran.stderr, f"{word}: {ran.returncode} {ran.stderr}")


def children_of(process):
    return subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=False).stdout.split()


def killed(file, store, chance):
    """Returns a run of which a random rank is killed at a random step; None if it ended before."""
    run = subprocess.Popen([BINARY, "run", file, "--local", "--steps", str(STEPS), "--checkpoint", store, "--every", str(EVERY)],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=QUIET)
    for _ in range(chance.randrange(STEPS - 4)):
        run.stdout.readline()
    ranks = children_of(run)
    time.sleep(chance.random() * 0.01)
    begin = time.monotonic()
    if ranks:
        os.kill(int(chance.choice(ranks)), signal.SIGKILL)
    out, said = run.communicate(timeout=BOUND)
    if run.returncode != 0:
        ended.append(time.monotonic() - begin)
    left = [rank for rank in ranks if pathlib.Path(f"/proc/{rank}").exists()]
    expect(not left, f"ranks are left: {left}")
    return None if run.returncode == 0 else subprocess.CompletedProcess(run.args, run.returncode, out, said)


def kills(folder, plans, expected, chance):
    done = late = beginnings = 0
    while done < TIMES and late < 20 * TIMES:
        store = folder / "killed"
        shutil.rmtree(store, ignore_errors=True)
        ran = killed(chance.choice(plans), store, chance)
        if ran is None:
            late += 1
            continue
        done += 1
        one_message(ran, 6, "signal 9")
        other = command("run", chance.choice(plans), "--local", "--steps", STEPS, "--checkpoint", store, "--resume", "--json")
        found = losses_of(other) if other.returncode == 0 else {}
        beginnings += bool(found) and min(found) == 0
        expect(same(found, expected), f"kill {done}: resumed {other.returncode} {other.stderr}")
    expect(done == TIMES, f"only {done} runs were killed in time")
    print(f"killed {done} ranks: every run ended within {max(ended, default=0):.1f} s and went on from its last checkpoint, {beginnings} of them from the beginning; "
          f"{late} more came to their end before")


def cut(data, _, chance):
    size = chance.randrange(len(data) - 1)  # without the last line break a document is whole
    return data[:size], f"cut to {size} of {len(data)}"


def flipped(data, text, chance):
    at = chance.choice([i for i, byte in enumerate(data) if not text or byte not in b" \n"])
    data[at] ^= 1 << chance.randrange(8)
    return data, f"byte {at} of {len(data)} flipped"


def damage(step, how, chance):
    """Damages a random file of the checkpoint; returns what was done."""
    file = chance.choice(sorted(step.iterdir()))
    data, what = how(bytearray(file.read_bytes()), file.suffix == ".json", chance)
    file.write_bytes(data)
    return f"{file.name} {what}"


def damages(folder, plans, expected, chance):
    whole, store = folder / "whole", folder / "damaged"
    ran = command("run", plans[0], "--local", "--steps", STEPS - 2, "--checkpoint", whole, "--every", EVERY)
    expect(ran.returncode == 0, ran.stderr)
    steps = sorted(entry.name for entry in whole.iterdir())
    expect(len(steps) == 2, f"two checkpoints stay: {steps}")
    for how in (cut, flipped):
        passed_over = 0
        for turn in range(TIMES):
            shutil.rmtree(store, ignore_errors=True)
            shutil.copytree(whole, store)
            what = damage(store / steps[-1], how, chance)
            ran = command("run", chance.choice(plans), "--local", "--steps", STEPS, "--checkpoint", store, "--resume", "--json")
            expect("skipped" in ran.stderr and steps[0] in ran.stderr, f"damage {turn}, {what}: {ran.stderr}")
            found = losses_of(ran) if ran.returncode == 0 else {}
            good = same(found, expected) and min(found) == int(steps[0][5:])
            passed_over += good
            expect(good, f"damage {turn}, {what}: {ran.returncode} {ran.stderr}")
        print(f"{how.__name__} {TIMES} checkpoints: {passed_over} passed over, the one before resumed")
        shutil.rmtree(store)
        shutil.copytree(whole, store)
        for step in steps:
            damage(store / step, how, chance)
        ran = command("run", plans[0], "--local", "--steps", STEPS, "--checkpoint", store, "--resume", "-q")
        one_message(ran, 3, "manifest" if "manifest" in ran.stderr else "step-")


def full_disk(folder, file, expected):
    """Tests a limit of 64 KiB on files. As root, also tests a file system of 700 KiB that holds two checkpoints
    and not three."""
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
    ran = command("run", file, "--local", "--steps", 4, "--checkpoint", folder / "limited", preexec_fn=limited)
    one_message(ran, 6, "too large")
    expect(not list((folder / "limited").iterdir()), "nothing half written is left")
    small = folder / "small"
    small.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", small], capture_output=True, check=False).returncode != 0:
        print("skipped: a full file system (root mounts it)")
        return
    try:
        ran = command("run", file, "--local", "--steps", STEPS, "--checkpoint", small / "c", "--every", EVERY, "--keep", 9)
        one_message(ran, 6, "the disk is full")
        left = sorted(entry.name for entry in (small / "c").iterdir())
        expect(bool(left) and not any("partial" in name for name in left), f"complete checkpoints stay: {left}")
        shutil.copytree(small / "c", folder / "moved")
    finally:
        subprocess.run(["umount", small], check=True)
    ran = command("run", file, "--local", "--steps", STEPS, "--checkpoint", folder / "moved", "--resume", "--json")
    expect(ran.returncode == 0 and same(losses_of(ran), expected), f"after a full disk: {ran.stderr}")


def under_launcher(files, port, *flags):
    """Starts a rank for each plan, like torchrun."""
    ranks = [subprocess.Popen([BINARY, "run", file, "--steps", "2", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**QUIET, "RANK": str(r), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
             if file else None for r, file in enumerate(files)]
    out = []
    for rank in ranks:
        if rank is not None:
            _, said = rank.communicate(timeout=BOUND)
            out.append(subprocess.CompletedProcess(rank.args, rank.returncode, "", said))
    return out


def meetings(folder, chance):
    first, second = plan(folder, "dp", 2, "--dp", "2"), plan(folder, "pp", 2, "--pp", "2")
    port = chance.randrange(20000, 40000)
    for ran in under_launcher((first, second), port):
        expect(ran.returncode == 3 and "rank 1: found plan" in ran.stderr, f"two plans: {ran.returncode} {ran.stderr}")
    for files, who in (((None, first), "nobody at the rendezvous"), ((first, None), "rank 0 alone")):
        port += 1
        for ran in under_launcher(files, port, "--timeout", "3"):
            expect(ran.returncode == 6 and len(errors(ran.stderr)) == 1, f"{who}: {ran.returncode} {ran.stderr}")


def main():
    chance = random.Random(int(os.environ.get("ESPALIER_SEED", "1")))
    if not (pathlib.Path(BINARY).parent / "espalier-rank").exists():
        print("skipped: no espalier-rank (./dev runtime builds it)")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        plans = [plan(folder, "mixed", 4, "--dp", "2", "--pp", "2"), plan(folder, "sharded", 3, "--pp", "3"),
                 plan(folder, "split", 2, "--tp", "2")]
        ran = command("run", plans[0], "--local", "--steps", STEPS, "--json")
        expect(ran.returncode == 0, ran.stderr)
        expected = losses_of(ran)
        kills(folder, plans, expected, chance)
        damages(folder, plans, expected, chance)
        full_disk(folder, plans[0], expected)
        meetings(folder, chance)
        ran = command("run", plans[0], "--local", "--steps", STEPS, "--learning-rate", "1e30")
        one_message(ran, 6, "NaN or infinite")
    print("failed" if failures else "ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

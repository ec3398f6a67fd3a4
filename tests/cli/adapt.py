#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests espalier run --adapt from outside and without libtorch: this script plays the ranks (ESPALIER_RANK). Played
ranks report steps, ranks and links like espalier-rank, obey requests in the folder, and record how they were started.

usage: adapt.py BINARY SOURCE_DIR
"""
import hashlib
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import time

failures = []
CONFIG = {"model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 16,
          "intermediate_size": 4096, "vocab_size": 8192, "tie_word_embeddings": False}
STEPS = 40


def played(words):
    """Plays a rank. From step SLOW_FROM on, the link of device 3 gives a quarter of its bandwidth, and steps take
    twice as long."""
    plan, rank, world, steps = words[0], int(words[1]), int(words[2]), int(words[4])
    more = dict(w.split("=", 1) for w in words[9:])
    folder, notes = pathlib.Path(more["steering"]), pathlib.Path(os.environ["PLAYED_NOTES"])
    (notes / f"{rank}-of-{world}-{time.time_ns()}").write_text(json.dumps({"plan": hashlib.sha256(pathlib.Path(plan).read_bytes()).hexdigest(), "more": more,
                                                                           "rendezvous": words[3]}))
    slow_from, moved = int(os.environ["PLAYED_SLOW_FROM"]), more["resume"] == "1"
    begin = int((folder / "left").read_text()) if moved else 0
    if rank != 0:
        while not (folder / f"ended-{begin}").exists():  # as ranks end together
            time.sleep(0.01)
        return 0
    out = os.fdopen(3, "w", buffering=1)
    devices = sorted(d for p in json.loads(pathlib.Path(plan).read_text())["pipelines"] for s in p["stages"] for d in expanded(s["devices"]))
    looks = 0
    for step in range(begin, steps):
        slow = step >= slow_from
        time.sleep(0.005)
        out.write(f"step {step} {5 - 0.01 * step} 1.0 {0.02 if slow and not moved else 0.01}\n")
        request = folder / "request"
        word = request.read_text().strip() if request.exists() else ""
        if word:
            request.unlink()
        if word == "look":
            looks += 1
            for d in devices:
                out.write(f"seen rank {d} 0.001 0.002\n")
                for e in devices:
                    if e != d:
                        out.write(f"seen rate {e} {d} {2.5e9 if slow and 3 in (d, e) else 1e10}\n")
            out.write(f"seen end {step + 1}\n")
            # Like a long step, so that the decision is not too late.
            until = time.monotonic() + (60 if looks > 1 else 0)
            while not request.exists() and time.monotonic() < until:
                time.sleep(0.005)
        if word == "leave":
            (folder / "left").write_text(str(step + 1))
            out.write(f"left {step + 1}\n")
            break
    (folder / f"ended-{begin}").write_text("")
    return 0


def expanded(ranges):
    for text in ranges:
        first, _, last = text.partition("-")
        yield from range(int(first), int(last or first) + 1)


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


class Run:
    """Holds a plan for four nodes of one device, and a folder for the played ranks."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "model.json").write_text(json.dumps(CONFIG))
        (folder / "job.yaml").write_text("model: model.json\nengine: espalier\ncluster: {nodes: 4, devices_per_node: 1, device: rtx-4090, inter_node: {kind: ethernet, bandwidth: 100Gb/s}}\n"
                                         "training: {sequence_length: 512, global_batch: 16, precision: fp32, optimizer: adam}\n")
        rank = folder / "rank"
        rank.write_text(f"#!/bin/sh\nexec {sys.executable} {pathlib.Path(__file__).resolve()} --played \"$@\"\n")
        rank.chmod(rank.stat().st_mode | stat.S_IXUSR)
        ran = self.espalier("estimate", str(folder / "job.yaml"), "--dp", "4", "-q", "-o", str(folder / "out"))
        expect(ran.returncode == 0, ran.stderr)

    def environment(self, slow_from, **more):
        (self.folder / "notes").mkdir(exist_ok=True)
        kept = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
        return {**kept, "ESPALIER_RANK": str(self.folder / "rank"), "PLAYED_NOTES": str(self.folder / "notes"), "PLAYED_SLOW_FROM": str(slow_from), **more}

    def espalier(self, *words, slow_from=STEPS, **more):
        return subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=120, env=self.environment(slow_from, **more))

    def words(self, *more):
        return ["run", str(self.folder / "out" / "plan.json"), "--steps", str(STEPS), "--adapt", str(self.folder / "w"), "--restart", "0s", "--timeout", "30", *more]

    def started(self):
        return [json.loads(path.read_text()) for path in sorted((self.folder / "notes").iterdir())]


def undisturbed(folder):
    run = Run(folder)
    ran = run.espalier(*run.words("--local", "--json"))
    expect(ran.returncode == 0, f"undisturbed: {ran.stderr}")
    answer = json.loads(ran.stdout)
    expect(answer["moves"] == [] and len(answer["steps"]) == STEPS, f"undisturbed: {answer}")
    expect(len(run.started()) == 4 and all(s["more"]["resume"] == "0" for s in run.started()), "four ranks begin")


def a_link_falls(folder):
    run = Run(folder)
    ran = run.espalier(*run.words("--local", "--json"), slow_from=10)
    expect(ran.returncode == 0, f"a link falls: {ran.stderr}")
    answer = json.loads(ran.stdout)
    expect([s["step"] for s in answer["steps"]] == list(range(STEPS)), "every step once")
    expect(len(answer["moves"]) == 1 and answer["moves"][0]["action"] != "stay", f"one move: {answer['moves']} {ran.stderr}")
    seen = json.loads((folder / "w" / "observation-1.json").read_text())
    expect([link["link"] for link in seen["links"]] == ["node:3"] and abs(seen["links"][0]["gbps"] - 20) < 1e-6, f"the narrow way: {seen}")
    later = [s for s in run.started() if s["more"]["resume"] == "1"]
    first = [s for s in run.started() if s["more"]["resume"] == "0"]
    expect(len(first) == 4 and len(later) > 0 and {s["plan"] for s in first} != {s["plan"] for s in later}, "ranks of another plan resume")
    expect({s["rendezvous"] for s in first}.isdisjoint({s["rendezvous"] for s in later}), "they meet in another place")
    expect((folder / "w" / "done").exists(), "the end is said")


def under_a_launcher(folder):
    run = Run(folder)
    started = [subprocess.Popen([BINARY, *run.words("-q")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=run.environment(10, RANK=str(r), WORLD_SIZE="4", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")) for r in range(4)]
    ends = [p.communicate(timeout=120) + (p.returncode,) for p in started]
    expect(all(end[2] == 0 for end in ends), f"four hosts: {ends}")
    expect("1 move" in ends[0][0] and not any(end[0] for end in ends[1:]), f"the host of rank 0 reports: {ends}")
    expect({s["rendezvous"] for s in run.started()} == {"tcp:127.0.0.1:29500", "tcp:127.0.0.1:29501"}, "a port of each plan")
    ran = run.espalier(*run.words(), RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1")
    expect(ran.returncode == 2 and "every device of the cluster" in ran.stderr, f"too few hosts: {ran.stderr}")


def refusals(folder):
    run = Run(folder)
    ran = run.espalier(*run.words("--local", "--slow", "0.9"))
    expect(ran.returncode == 2 and "more than 1" in ran.stderr, f"slow: {ran.stderr}")
    (folder / "file").write_text("")
    ran = run.espalier("run", str(folder / "out" / "plan.json"), "--local", "--adapt", str(folder / "file" / "w"))
    expect(ran.returncode == 3, f"no folder: {ran.returncode} {ran.stderr}")


def main():
    for check in (undisturbed, a_link_falls, under_a_launcher, refusals):
        with tempfile.TemporaryDirectory() as name:
            check(pathlib.Path(name))
    return 1 if failures else 0


if __name__ == "__main__":
    if sys.argv[1] == "--played":
        sys.exit(played(sys.argv[2:]))
    BINARY = sys.argv[1]
    sys.exit(main())

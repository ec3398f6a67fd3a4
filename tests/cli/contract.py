#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the command line from outside: the guarantees that scripts rely on, checked on the built binary.

usage: contract.py BINARY SOURCE_DIR
"""
import gzip
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
EXAMPLE = SOURCE / "examples/llama3-8b-on-8xh100.yaml"
ANY = ("--set", "engine=generic")  # a larger space, and a plan with a pipeline
failures = []


def call(*words, cwd=None, env=None):
    environment = dict(os.environ, **(env or {}))
    return subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, cwd=cwd, env=environment, timeout=300)


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def one_object(text):
    """Parses the one JSON object on stdout; duplicate keys, NaN and anything after it are failures."""
    def unique(pairs):
        keys = [k for k, _ in pairs]
        assert len(keys) == len(set(keys)), "duplicate keys"
        return dict(pairs)
    return json.loads(text, object_pairs_hook=unique, parse_constant=lambda name: 1 / 0)


def plan_twice_is_byte_equal(folder):
    first = {}
    for threads in (1, 2, 4, 8):
        out = folder / f"threads{threads}"
        ran = call("plan", EXAMPLE, *ANY, "--threads", threads, "-o", out, "--json")
        expect(ran.returncode == 0, f"plan with {threads} threads: {ran.stderr}")
        result = one_object(ran.stdout)
        result.pop("timing")
        files = {name: (out / name).read_bytes() for name in ("plan.json", "result.json", "timeline.json.gz")}
        files["stdout"] = json.dumps(result)
        first = first or files
        expect(files == first, f"{threads} threads change a byte of {[k for k in files if files[k] != first[k]]}")
    return folder / "threads1"


def figures_hold_together(out):
    result = one_object((out / "result.json").read_text())
    p = result["prediction"]
    ns = lambda seconds: round(seconds * 1e9)
    expect(sum(map(ns, p["breakdown_s"].values())) == ns(p["iteration_s"]), "breakdown sums to the iteration")
    expect(p["peak_memory_bytes"] == max(p["peak_memory_bytes_per_stage"]), "peak is that of the fullest stage")
    expect(p["fits"] and p["peak_memory_bytes"] <= p["memory_limit_bytes"], "the plan fits")
    expect(result["search"]["optimal"] and result["search"]["gap"] == 0, "certificate")
    labels = [a["label"] for a in result["alternatives"] if a["baseline"]]
    expect(labels[:4] == ["DDP", "FSDP (ZeRO-3)", "HSDP", "Megatron 3-D default"], f"four presets first: {labels}")
    expect(all("recipe" in label for label in labels[4:]), f"then published recipes: {labels}")
    simulated = one_object(call("simulate", out / "plan.json", "--json").stdout)
    expect(simulated["prediction"]["iteration_s"] == p["iteration_s"], "simulate gives the same nanosecond")
    expect(simulated["prediction"]["peak_memory_bytes"] == p["peak_memory_bytes"], "simulate gives the same peak")
    estimated = one_object(call(*estimate_words(result["plan"]), "--json").stdout)
    expect(estimated["prediction"]["iteration_s"] == p["iteration_s"], "estimate gives the same nanosecond")


def estimate_words(plan):
    (pipeline,) = plan["pipelines"]
    s, c = pipeline["stages"][0]["layers"][0]["strategy"], pipeline["schedule"]
    overlap = [flag for flag, key in (("grad", "grad_reduce"), ("param", "param_gather"), ("p2p", "p2p"), ("tp", "tp")) if s["overlap"][key]]
    words = ["estimate", EXAMPLE, *ANY, "--tp", s["tp"], "--sp", s["sp"], "--cp", s["cp"], "--cp-kind", s["cp_kind"], "--ep", s["ep"], "--etp", s["etp"],
             "--dp", s["dp"], "--zero", s["zero"], "--shard", s["shard"], "--order", s["order"], "--recompute", s["recompute"]["kind"],
             "--pp", len(pipeline["stages"]), "--vpp", c["virtual_stages"], "--schedule", c["kind"], "--micro-batch", c["micro_batch"],
             "--overlap", ",".join(overlap) or "none"]
    if s["recompute"]["layers"]:
        words += ["--recompute-layers", s["recompute"]["layers"]]
    return words


def timeline_is_a_trace(out):
    events = json.loads(gzip.decompress((out / "timeline.json.gz").read_bytes()))["traceEvents"]
    expect(any(e.get("ph") == "X" for e in events), "the timeline has events")


def json_is_alone_on_stdout(folder, out):
    runs = folder / "runs.jsonl"
    runs.write_text('{"id": "a"}\n')
    for words in (["plan", EXAMPLE], ["estimate", EXAMPLE, "--tp", "8"], ["simulate", out / "plan.json"], ["check", out / "plan.json"],
                  ["explain", out / "plan.json"], ["compare", out / "plan.json", out / "result.json"], ["validate", runs],
                  ["inspect", "model", SOURCE / "models/gpt2/config.json"], ["inspect", "run", runs], ["version"]):
        ran = call(*words, "--json")
        expect(ran.returncode == 0, f"{words[0]} --json: exit {ran.returncode} {ran.stderr}")
        expect("schema" in one_object(ran.stdout), f"{words[0]} --json has a schema")
        expect(ran.stderr == "", f"{words[0]} is silent on stderr: {ran.stderr}")


def exit_codes(folder):
    bad = folder / "bad.yaml"
    bad.write_text("model: {model_type: gpt2}\ncluster: [\n")
    for code, words in ((0, ["--help"]), (2, []), (2, ["plan"]), (2, ["plan", EXAMPLE, "--treads", "1"]), (3, ["plan", bad]), (3, ["plan", folder / "none"]),
                        (4, ["plan", EXAMPLE, "--set", "cluster.memory_limit=1GiB"]), (2, ["estimate", EXAMPLE, "--tp", "3"])):
        ran = call(*words)
        expect(ran.returncode == code, f"exit {ran.returncode} instead of {code}: {words}")
    ran = call("plan", bad)
    expect("bad.yaml:" in ran.stderr, f"the message has a position: {ran.stderr}")


def colour_only_on_a_terminal():
    ran = call("plan", EXAMPLE)
    expect("\033" not in ran.stdout + ran.stderr, "no colour and no progress in a pipe")


def interrupt_gives_the_best_so_far():
    large = SOURCE / "examples/llama3.1-405b-on-16384xh100.yaml"
    process = subprocess.Popen([BINARY, "plan", str(large), "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    # 0: a fast machine had already finished.
    expect(process.returncode in (0, 130), f"exit {process.returncode} after SIGINT: {err}")


def reader_of(fifo, process):
    """Opens the writing end of `fifo` once the process reads it; from then on the process waits for bytes
    that never come."""
    for _ in range(3000):
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            assert process.poll() is None, f"ended before it read: {process.communicate()}"
            time.sleep(0.01)
    raise AssertionError("never read its input")


def every_command_answers_an_interrupt(folder):
    """Tests that a command ends on a signal whatever it does; here each waits for a file. The promise is 2 s; a
    sanitizer, a busy machine and the start of the program get more."""
    seconds = 25 if os.environ.get("ESPALIER_SANITIZE") else 4
    fifo = folder / "never-written"
    os.mkfifo(fifo)
    job = ["--job", fifo]
    for words in (["plan", fifo], ["estimate", fifo], ["simulate", fifo], ["check", fifo], ["explain", fifo], ["compare", fifo, fifo],
                  ["validate", fifo], ["calibrate", "--base", "h100-sxm", "--runs", fifo], ["inspect", "model", fifo],
                  ["export", "galvatron", fifo], ["import", "galvatron", fifo, *job]):
        for sent in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen([BINARY, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            end = reader_of(fifo, process)
            started = time.monotonic()
            process.send_signal(sent)
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
            took = time.monotonic() - started
            os.close(end)
            _, err = process.communicate()
            expect(process.returncode == 130, f"{words[0]} after {sent.name}: exit {process.returncode} {err}")
            expect(took < seconds, f"{words[0]} answered {sent.name} after {took:.1f} s")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        out = plan_twice_is_byte_equal(folder)
        figures_hold_together(out)
        timeline_is_a_trace(out)
        json_is_alone_on_stdout(folder, out)
        exit_codes(folder)
        colour_only_on_a_terminal()
        interrupt_gives_the_best_so_far()
        every_command_answers_an_interrupt(folder)
    print("contract:", "ok" if not failures else f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

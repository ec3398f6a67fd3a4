#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests espalier compare --log: logs of three frameworks compared with a plan, and logs that are no training logs.

usage: compare_log.py BINARY SOURCE_DIR
"""
import json
import pathlib
import subprocess
import sys
import tempfile

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def espalier(*words, text=None):
    return subprocess.run([BINARY, *words], input=text, capture_output=True, text=True, timeout=120)


def logs(seconds, tokens_per_device):
    """Returns one run as each framework prints it."""
    megatron = "".join(f" iteration {i:8d}/ 100 | consumed samples: {i * 32} | elapsed time per iteration (ms): {seconds * 1e3:.1f} | global batch size:    32 |\n"
                       for i in range(1, 31))
    titan = "".join(f"[titan] step: {i}  loss: 9.9  memory: 20.00GiB(25.00%)  tps: {tokens_per_device / seconds:,.0f}  tflops: 100.0  mfu: 30.00%\n" for i in range(1, 31))
    nanotron = "".join(f"iteration: {i} / 100 | consumed_tokens: 1M | time_per_iteration_ms: {seconds * 1e3 / 1e3:.3g}K | tokens_per_sec: 10K |\n" for i in range(1, 31))
    return {"Megatron-LM": megatron, "torchtitan": titan, "nanotron": nanotron}


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "job.yaml").write_text(f"model: {SOURCE}/models/llama-3-8b/config.json\ncluster: {{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}}\n"
                                         "engine: megatron-core\ntraining: {sequence_length: 4096, global_batch: 32, precision: bf16}\n")
        ran = espalier("estimate", str(folder / "job.yaml"), "--tp", "2", "--dp", "4", "--zero", "1", "-q", "-o", str(folder / "out"))
        expect(ran.returncode == 0, ran.stderr)
        plan = str(folder / "out" / "plan.json")
        predicted = json.loads((folder / "out" / "result.json").read_text())["prediction"]["iteration_s"]
        for form, text in logs(1.05 * predicted, 32 * 4096 / 8).items():
            (folder / "run.log").write_text(text)
            ran = espalier("compare", plan, "--log", str(folder / "run.log"), "--json")
            expect(ran.returncode == 0, f"{form}: {ran.stderr}")
            answer = json.loads(ran.stdout)
            expect(answer["format"] == form and abs(answer["measured_s"] / predicted - 1.05) < 0.006, f"{form}: {answer['measured_s']} of {predicted}")
            expect(any("Normal" in finding for finding in answer["findings"]) and answer["published"], f"{form}: {answer['findings']}")
        ran = espalier("compare", plan, "--log", "-", text=logs(3 * predicted, 1)["Megatron-LM"])
        expect(ran.returncode == 0 and "Slower than the 80 % interval" in ran.stdout and "published" in ran.stdout, f"stdin: {ran.stdout}{ran.stderr}")
        for text, said in (("nothing\n", "run.log"), ("--- arguments ---\n hidden_size ....... 1024\n--- end of arguments ---\n" + logs(predicted, 1)["Megatron-LM"], "hidden_size 1024 (line 2)"),
                           (logs(predicted, 1)["Megatron-LM"].replace("    32 |", "    64 |"), "global batch 64")):
            (folder / "run.log").write_text(text)
            ran = espalier("compare", plan, "--log", str(folder / "run.log"))
            expect(ran.returncode == 3 and said in ran.stderr, f"{said}: {ran.returncode} {ran.stderr}")
        for words in (("compare", plan, plan, "--log", "x"), ("compare", plan, "--log", "x", "--timeline", "y")):
            expect(espalier(*words).returncode == 2, f"{words}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

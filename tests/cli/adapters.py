#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests adapters, packed samples and offload from outside (examples/adapters). Each job is planned, `check` accepts
the plan, and a plan file is complete by itself. The effects have the right sign: fewer bytes with fewer bits, more
real tokens with packing, less device memory with offload.

usage: adapters.py ESPALIER_BINARY REPOSITORY
"""
import json
import pathlib
import subprocess
import sys
import tempfile

binary, root = sys.argv[1], pathlib.Path(sys.argv[2])
EXAMPLES = root / "examples/adapters"
LORA, PACKED, OFFLOAD = (EXAMPLES / f"{name}.yaml" for name in
                         ("llama3-8b-lora-on-one-24gb", "llama3-8b-packed-on-8xh100", "llama3-70b-offload-on-8xh100"))
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)


def run(*words):
    return subprocess.run([binary, *map(str, words)], capture_output=True, text=True, check=False)


def planned(job, *sets):
    """Returns the result of a plan that is checked, simulated and read again."""
    with tempfile.TemporaryDirectory() as folder:
        words = [w for s in sets for w in ("--set", s)]
        ran = run("plan", job, *words, "-o", folder, "--json", "--quiet")
        if ran.returncode != 0:
            failures.append(f"{job.name} {sets}: exit {ran.returncode}: {ran.stderr[-400:]}")
            return None
        result = json.loads(ran.stdout)
        plan = pathlib.Path(folder) / "plan.json"
        for command in ("check", "simulate", "explain"):
            again = run(command, plan)
            expect(again.returncode == 0, f"{job.name} {sets}: {command}: {again.stdout[-400:]}{again.stderr[-400:]}")
        simulated = json.loads(run("simulate", plan, "--json").stdout)
        expect(simulated["prediction"]["iteration_ns"] == result["prediction"]["iteration_ns"] if "iteration_ns" in result["prediction"]
               else simulated["prediction"]["iteration_s"] == result["prediction"]["iteration_s"], f"{job.name} {sets}: simulate")
        return result


def strategy(result):
    return result["plan"]["pipelines"][0]["stages"][0]["layers"][0]["strategy"]


lora = planned(LORA)
if lora:
    training = lora["plan"]["training"]
    expect(training["adapter"] == {"kind": "lora", "rank": 16, "alpha": 32.0, "targets": ["q_proj", "k_proj", "v_proj", "o_proj"]} or
           training["adapter"]["rank"] == 16, f"adapter in the plan: {training}")
    expect(lora["prediction"]["fits"], "LoRA of Llama 3 8B on 24 GB")
    four = planned(LORA, "training.adapter.quantize_base=nf4")
    # 6.98 * 10^9 weights of linears in blocks take 2 bytes each against 0.516.
    expect(four is None or four["prediction"]["peak_memory_bytes"] < lora["prediction"]["peak_memory_bytes"], "NF4 needs less")
    whole = run("plan", LORA, "--set", "training.adapter=null")
    expect(whole.returncode == 4, f"all weights trained on 24 GB: exit {whole.returncode}")
planned(LORA, "cluster.device=h100-sxm-80gb", "cluster.devices_per_node=8", "engine=generic", "search={fix: {tp: 2, pp: 2, zero: 3}}")

# Frozen parts are not computed, so no part of a model comes near the peak alone.
on_h100 = ("cluster.device=h100-sxm-80gb", "cluster.devices_per_node=8", "training.global_batch=64")
for parts in ("[embedding, layers 0-31]", "[head, layers 0-31]", "[embedding, head, layers 0-30]", "[embedding, head, layers 1-31]"):
    part = planned(LORA, "training.adapter=null", f"training.freeze={parts}", *on_h100)
    expect(part is None or 0.1 < part["prediction"]["mfu"] < 0.7, f"frozen {parts}: MFU {part and part['prediction']['mfu']}")
experts = ("model=" + str(root / "models/qwen3-30b-a3b/config.json"), "search={fix: {tp: 1, pp: 1, zero: 3}}", *on_h100)
planned(LORA, "training.adapter={kind: lora, rank: 16, targets: [all-linear]}", *experts)
routed = run("plan", LORA, "--set", "training.adapter={kind: lora, rank: 16, targets: [linear_fc1]}", *(word for change in experts for word in ("--set", change)))
expect(routed.returncode == 3 and "routed experts" in routed.stderr, f"adapters of routed experts: {routed.stderr}")

packed = planned(PACKED)
padded, balanced = planned(PACKED, "training.lengths.packing=none"), planned(PACKED, "training.lengths.packing=balanced")
if packed and padded and balanced:
    rates = [r["prediction"]["tokens_per_s_per_gpu"] for r in (padded, packed, balanced)]
    expect(rates[0] < rates[1] / 5 and rates[1] <= rates[2], f"real tokens a second: {rates}")
planned(PACKED, "engine=generic", "training.freeze=[embedding, layers 0-15]", "search={fix: {pp: 4}}")
wrong = run("plan", PACKED, "--set", "engine=torchtitan")
expect(wrong.returncode == 3 and "packing: none" in wrong.stderr, f"packing under torchtitan: {wrong.stderr}")

# Stages of Llama 3.2 1B share the token table. A frozen table is not exchanged.
tied = ("model=" + str(root / "models/llama-3.2-1b/config.json"), "cluster.device=a100-sxm-40gb", "cluster.devices_per_node=4", "search={fix: {pp: 2}}")
planned(LORA, "engine=megatron-bridge", *tied)
planned(PACKED, "training.freeze=[embedding]", *tied)
# A budget for the whole run counts real tokens.
with_price = ("--price", "2", "--tokens", "1e9", "--json", "--quiet", "--set", "training.lengths.packing=none")
fast = run("plan", PACKED, *with_price, "--deadline", "1000d")
if fast.returncode == 0:
    size = json.loads(fast.stdout)["sizes"][0]
    hours = size["days"] * 24
    for flag, most, unit in (("--deadline", hours, "h"), ("--budget", hours * size["price_per_hour"], "")):
        for share, code in ((0.9, 4), (1.1, 0)):
            ran = run("plan", PACKED, *with_price, flag, f"{share * most:.3f}{unit}")
            expect(ran.returncode == code, f"{flag} of {share} of what is needed: exit {ran.returncode}: {ran.stderr[-400:]}")
else:
    expect(False, f"a deadline that is far: exit {fast.returncode}: {fast.stderr[-400:]}")

offload = planned(OFFLOAD)
if offload:
    expect(strategy(offload)["offload"] == "optimizer" and offload["prediction"]["fits"], "70B with offload on 8 devices of 80 GB")
    without = run("plan", OFFLOAD, "--set", "search=null")
    expect(without.returncode == 4, f"70B without offload: exit {without.returncode}")
small = run("plan", OFFLOAD, "--set", "cluster.host={memory: 256GB, memory_bandwidth: 600GB/s, bandwidth: 60GB/s}")
expect(small.returncode == 4 and "cluster.host.memory: " in small.stderr, f"offload to a host of 256 GB: exit {small.returncode}: {small.stderr}")
# The host holds 16 bytes a parameter; the device keeps only the window of gathered layers.
for value in ("parameters", "parameters+activations", "optimizer+activations"):
    moved = planned(OFFLOAD, f"search={{fix: {{offload: {value}, zero: 3}}}}")
    if not moved:
        continue
    expect(strategy(moved)["offload"] == value and moved["prediction"]["fits"], f"70B with offload {value} on 8 devices of 80 GB")
    kept = moved["prediction"]["memory_breakdown_bytes"]
    expect((kept["parameters"] == 0) == value.startswith("parameters"), f"{value}: {kept}")
# With 131,072 tokens on one replica of eight devices, the tensors that 32 blocks save fit on the host alone. That
# costs less than recomputing them.
long = ("model=" + str(root / "models/llama-3-8b/config.json"), "engine=megatron-core", "training={sequence_length: 131072, global_batch: 8}")
search = "search={fix: {tp: 8, pp: 1, recompute: %s, offload: %s}}"
here = run("plan", OFFLOAD, *(word for change in (*long, search % ("none", "none")) for word in ("--set", change)))
expect(here.returncode == 4, f"131,072 tokens without offload: exit {here.returncode}")
there, again = planned(OFFLOAD, *long, search % ("none", "activations")), planned(OFFLOAD, *long, search % ("full", "none"))
if there and again:
    expect(there["prediction"]["fits"], "131,072 tokens with activations on the host")
    times = [r["prediction"]["iteration_s"] for r in (there, again)]
    expect(times[0] < times[1], f"activations on the host against recomputed ones: {times}")
refused = run("plan", OFFLOAD, *(word for change in (*long, search % ("full", "activations")) for word in ("--set", change)))
expect(refused.returncode != 0 and "MEG-OFFLOAD-ACTIVATIONS" in refused.stderr, f"Megatron with both: exit {refused.returncode}: {refused.stderr}")
unknown = run("plan", LORA, "--set", "search={fix: {offload: optimizer}}", "--set", "engine=deepspeed")
expect(unknown.returncode != 0 and "offload" in unknown.stderr, f"a host that is not known: {unknown.stderr}")

for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)

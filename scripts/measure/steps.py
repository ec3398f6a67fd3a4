#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train small decoders with FSDP2 on one GPU and write what a step takes: one JSON object a line.

    python3 scripts/measure/steps.py --out steps.jsonl [CASE ...]

A case is NAME of `CASES`; without one all of them are run, each in a process of its own. Every step is timed from an idle device to an idle
device. Needs PyTorch 2.6 or later and one GPU. With `ranks` above one the process group is torch's fake one: nothing is sent, parameters hold
what the allocator left, memory is that of one rank, times are not reported.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from decoder import Decoder, Shape  # noqa: E402

SHAPES = {
    "350m": Shape(24, 1024, 16, 16, 2816, 32000),
    "1b": Shape(16, 2048, 32, 8, 8192, 128256),
    "3b": Shape(28, 3072, 24, 8, 8192, 32000),
    "8b": Shape(32, 4096, 32, 8, 14336, 128256),
    "8b-8-layers": Shape(8, 4096, 32, 8, 14336, 32000),
    "70b-2-layers": Shape(2, 8192, 64, 8, 28672, 32000),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One configuration: `sequence` tokens a sample, `samples` a micro-batch, `recompute` none, full or mm (every second product is kept)."""

    shape: str
    sequence: int
    samples: int
    recompute: str = "none"
    compiled: bool = False
    ranks: int = 1
    sharded: bool = True  # FSDP2; else bf16 parameters without a wrapper


CASES = {
    "350m-1k-1": Case("350m", 1024, 1),
    "350m-1k-1-plain": Case("350m", 1024, 1, sharded=False),
    "350m-1k-1-plain-compiled": Case("350m", 1024, 1, compiled=True, sharded=False),
    "350m-2k-1": Case("350m", 2048, 1),
    "350m-2k-8": Case("350m", 2048, 8),
    "350m-2k-8-compiled": Case("350m", 2048, 8, compiled=True),
    "350m-1k-1-compiled": Case("350m", 1024, 1, compiled=True),
    "1b-4k-1": Case("1b", 4096, 1),
    "1b-4k-2": Case("1b", 4096, 2),
    "1b-4k-2-compiled": Case("1b", 4096, 2, compiled=True),
    "1b-8k-1-full": Case("1b", 8192, 1, recompute="full"),
    "3b-4k-1-full": Case("3b", 4096, 1, recompute="full"),
    "3b-4k-2-full": Case("3b", 4096, 2, recompute="full"),
    "3b-32k-1-full": Case("3b", 32768, 1, recompute="full"),
    "3b-4k-2-full-compiled": Case("3b", 4096, 2, recompute="full", compiled=True),
    "8x4096-4k-2": Case("8b-8-layers", 4096, 2),
    "8x4096-8k-2-compiled": Case("8b-8-layers", 8192, 2, compiled=True),
    "8x4096-8k-2-full": Case("8b-8-layers", 8192, 2, recompute="full"),
    "8x4096-16k-1": Case("8b-8-layers", 16384, 1),
    "2x8192-4k-2": Case("70b-2-layers", 4096, 2),
    "2x8192-4k-4-compiled": Case("70b-2-layers", 4096, 4, compiled=True),
    "2x8192-8k-4-full": Case("70b-2-layers", 8192, 4, recompute="full"),
    "8b-8k-1-full-of-8": Case("8b", 8192, 1, recompute="full", ranks=8),
    "8b-8k-2-full-of-8": Case("8b", 8192, 2, recompute="full", ranks=8),
    "8b-8k-1-of-64": Case("8b", 8192, 1, ranks=64),
    "8b-4k-1-of-8": Case("8b", 4096, 1, ranks=8),
    "8b-8k-2-mm-of-8": Case("8b", 8192, 2, recompute="mm", ranks=8),
}

KINDS = (  # substrings of kernel names, the first that fits
    ("attention_backward", ("flash_bwd", "fmha_bwd", "dot_do_o", "convert_dq", "flash_bprop")),
    ("attention_forward", ("flash_fwd", "fmha_fwd", "flash_fprop")),
    ("gemm", ("gemm", "nvjet", "cutlass", "xmma", "splitk")),
    ("optimizer", ("adam", "multi_tensor")),
    ("loss", ("softmax", "nll")),
    ("collective", ("nccl",)),
    ("memory", ("memcpy", "memset")),
)


def kind(name: str) -> str:
    lower = name.lower()
    return next((label for label, parts in KINDS if any(part in lower for part in parts)), "other")


KEPT = {
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
}


def second_products_policy():
    """torchtitan's per-op selective checkpointing: attention and every second matrix product are kept."""
    seen: collections.Counter = collections.Counter()

    def policy(context, operator, *args, **kwargs):
        phase = "recompute" if context.is_recompute else "forward"
        if operator == torch.ops.aten.mm.default:
            seen[phase] += 1
            return CheckpointPolicy.MUST_SAVE if seen[phase] % 2 else CheckpointPolicy.PREFER_RECOMPUTE
        return CheckpointPolicy.MUST_SAVE if operator in KEPT else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def recomputed(block: torch.nn.Module, how: str) -> torch.nn.Module:
    if how == "full":
        return checkpoint_wrapper(block, preserve_rng_state=False)
    if how == "mm":
        return checkpoint_wrapper(block, context_fn=second_products_policy, preserve_rng_state=False)
    return block


def initialised(model: Decoder) -> Decoder:
    model.to_empty(device="cuda")
    with torch.no_grad():
        for parameter in model.parameters():
            local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
            local.fill_(1.0) if parameter.dim() == 1 else local.normal_(0.0, 0.02)
    return model


def built(case: Case) -> Decoder:
    with torch.device("meta"):
        model = Decoder(SHAPES[case.shape], case.sequence)
    for index, block in enumerate(model.blocks):
        block = recomputed(block, case.recompute)
        if case.compiled:
            block = torch.compile(block, fullgraph=True)
        model.blocks[index] = block
    if not case.sharded:
        model = model.to(torch.bfloat16)
        return initialised(model)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for module in [model.embedding, *model.blocks]:
        fully_shard(module, mp_policy=policy)
    fully_shard([model.norm, model.head], mp_policy=policy, reshard_after_forward=False)
    fully_shard(model, mp_policy=policy)
    return initialised(model)


def loss_of(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(0, 1))


def launches(profile: torch.profiler.profile) -> dict:
    kernels: dict[str, list[float]] = {}
    calls: collections.Counter = collections.Counter()
    names: dict[str, list[float]] = {}
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            if event.name.startswith(("FSDP::", "Optimizer.")):  # annotations, beside the kernels they span
                continue
            for table, key in ((kernels, kind(event.name)), (names, event.name[:90])):
                entry = table.setdefault(key, [0, 0.0])
                entry[0] += 1
                entry[1] += event.device_time_total / 1e6
        elif event.name.startswith("cuda") or event.name.startswith("cuLaunch"):
            calls[event.name] += 1
    top = sorted(names.items(), key=lambda item: -item[1][1])[:40]
    return {"kinds": kernels, "calls": {key: count for key, count in calls.items() if "Launch" in key or "emcpy" in key}, "kernels": top}


def measured(case: Case, steps: int) -> dict:
    model = built(case)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    loss = torch.compile(loss_of) if case.compiled else loss_of
    vocabulary = SHAPES[case.shape].vocabulary
    words = torch.randint(vocabulary, (case.samples, case.sequence + 1), device="cuda")

    def step() -> tuple[float, float]:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        value = loss(model(words[:, :-1].contiguous()), words[:, 1:].contiguous())
        value.backward()
        del value
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad()
        host = time.perf_counter() - begin
        torch.cuda.synchronize()
        return time.perf_counter() - begin, host

    for _ in range(3):
        step()
    torch.cuda.reset_peak_memory_stats()
    times = [step() for _ in range(steps)]
    statistics_of_memory = torch.cuda.memory_stats()
    free, total = torch.cuda.mem_get_info()
    result = {
        "peak_allocated": statistics_of_memory["allocated_bytes.all.peak"],
        "peak_reserved": statistics_of_memory["reserved_bytes.all.peak"],
        "used_by_device": total - free,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }
    if case.ranks > 1:
        return result
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]) as profile:
        step()
    result |= {
        "step_s": statistics.median(time for time, _ in times),
        "steps_s": [round(time, 6) for time, _ in times],
        "host_s": statistics.median(host for _, host in times),
        **launches(profile),
    }
    return result


def run_case(name: str, steps: int) -> dict:
    case = CASES[name]
    torch.manual_seed(1)
    torch.cuda.set_device(0)
    if case.ranks > 1:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group(backend="fake", rank=0, world_size=case.ranks, store=FakeStore())
    else:
        dist.init_process_group(backend="nccl", rank=0, world_size=1, store=dist.HashStore())
    shape = dataclasses.asdict(SHAPES[case.shape])
    result = {"case": name, **dataclasses.asdict(case), "dimensions": shape, "device": torch.cuda.get_device_name(), "torch": torch.__version__}
    try:
        result |= measured(case, steps)
    except torch.OutOfMemoryError as error:
        result["out_of_memory"] = str(error)[:200]
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="file that lines are added to")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--here", action="store_true", help="run in this process")
    parser.add_argument("case", nargs="*", choices=[*CASES, []], help="all without one")
    arguments = parser.parse_args()
    names = arguments.case or list(CASES)
    if not arguments.here:
        failed = 0
        for name in names:
            command = [sys.executable, os.path.abspath(__file__), "--here", "--steps", str(arguments.steps), "--out", arguments.out, name]
            failed += subprocess.run(command, timeout=180).returncode != 0
        return 1 if failed else 0
    for name in names:
        with open(arguments.out, "a", encoding="utf-8") as out:
            out.write(json.dumps(run_case(name, arguments.steps)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

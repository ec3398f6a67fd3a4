#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train small decoders with FSDP2 on one GPU and write the cost of a step: one JSON object a line.

    python3 scripts/measure/steps.py --out steps.jsonl [CASE ...]

A case is NAME of `CASES`; without one, all run, each in its own process. Every step is timed from an idle device
to an idle device. Needs PyTorch 2.6 or later and one GPU. With `ranks` above one the process group is torch's
fake one, which sends nothing. Parameters then hold what the allocator left, memory is that of one rank, and times
are not reported.
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
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import losses  # noqa: E402
from decoder import Decoder, Shape  # noqa: E402
from device import DEVICE, name as device_name, peaks, reset_peaks, synchronize  # noqa: E402

SHAPES = {
    "350m": Shape(24, 1024, 16, 16, 2816, 32000),
    "1b": Shape(16, 2048, 32, 8, 8192, 128256),
    "1b-8-layers": Shape(8, 3072, 24, 8, 8192, 32000),
    "3b": Shape(28, 3072, 24, 8, 8192, 32000),
    "8b": Shape(32, 4096, 32, 8, 14336, 128256),
    "8b-8-layers": Shape(8, 4096, 32, 8, 14336, 32000),
    "70b-2-layers": Shape(2, 8192, 64, 8, 28672, 32000),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """Describes one configuration: `sequence` tokens a sample, `samples` a micro-batch, `recompute` none, full or mm
    (every second product is kept).

    - `adapter`: parameters that PEFT's LoRA of rank 16 trains next to the frozen ones. They are on the queries and
      values (qv), on all products of blocks (all), or on queries and values in fp32 (qv-fp32), which is PEFT's default.
      "" trains all parameters.
    - `loss`: a function of losses.py; any but plain needs a model without FSDP2.
    """

    shape: str
    sequence: int
    samples: int
    recompute: str = "none"
    compiled: bool = False
    ranks: int = 1
    sharded: bool = True  # FSDP2; else bf16 parameters without a wrapper
    adapter: str = ""
    loss: str = "plain"


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
    "1b-4k-2-plain": Case("1b", 4096, 2, sharded=False),
    "1b-4k-2-lora-qv": Case("1b", 4096, 2, sharded=False, adapter="qv"),
    "1b-4k-2-lora-qv-fp32": Case("1b", 4096, 2, sharded=False, adapter="qv-fp32"),
    "1b-4k-2-lora-qv-full": Case("1b", 4096, 2, recompute="full", sharded=False, adapter="qv"),
    "1b-4k-2-lora-qv-chunked-loss": Case("1b", 4096, 2, sharded=False, adapter="qv", loss="chunked"),
    "1b-4k-2-lora-all": Case("1b", 4096, 2, sharded=False, adapter="all"),
    "1b-4k-2-lora-all-full": Case("1b", 4096, 2, recompute="full", sharded=False, adapter="all"),
    "1b-8-layers-4k-2-plain": Case("1b-8-layers", 4096, 2, sharded=False),
    "1b-8-layers-4k-2-plain-full": Case("1b-8-layers", 4096, 2, recompute="full", sharded=False),
    "1b-8-layers-4k-2-plain-compiled": Case("1b-8-layers", 4096, 2, compiled=True, sharded=False),
    "1b-8-layers-16k-1-plain-full": Case("1b-8-layers", 16384, 1, recompute="full", sharded=False),
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
    """Applies torchtitan's per-op selective checkpointing: attention and every second matrix product are kept."""
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
    model.to_empty(device=DEVICE)
    with torch.no_grad():
        for parameter in model.parameters():
            local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
            local.fill_(1.0) if parameter.dim() == 1 else local.normal_(0.0, 0.02)
    return model


TARGETS = {"qv": ["query", "value"], "all": ["query", "key", "value", "output", "gate", "up", "down"]}


def adapted(model: Decoder, adapter: str) -> Decoder:
    if not adapter:
        return model
    from peft import LoraConfig, inject_adapter_in_model

    model = inject_adapter_in_model(LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules=TARGETS[adapter.removesuffix("-fp32")]), model)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_" in name)
        if parameter.requires_grad:
            parameter.data = parameter.data.to(torch.float32 if adapter.endswith("-fp32") else torch.bfloat16)
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
        return adapted(initialised(model.to(torch.bfloat16)), case.adapter)
    return initialised(sharded(model, [model.embedding, *model.blocks], [model.norm, model.head]))


def sharded(model: torch.nn.Module, parts: list, last: list) -> torch.nn.Module:
    """Wraps the model with FSDP2: each of `parts` separately, `last` as one that stays gathered."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for module in parts:
        fully_shard(module, mp_policy=policy)
    if last:
        fully_shard(last, mp_policy=policy, reshard_after_forward=False)
    return fully_shard(model, mp_policy=policy)


def launches(run) -> dict:
    """Returns the kernels of one `run` by kind, with their seconds, and calls of the driver."""
    with torch.profiler.profile(activities=torch.profiler.supported_activities()) as profile:
        run()
        synchronize()
    kernels: dict[str, list[float]] = {}
    calls: collections.Counter = collections.Counter()
    names: dict[str, list[float]] = {}
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            if event.name.startswith(("FSDP::", "Optimizer.")):  # annotations that span kernels
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
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-6, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    of_logits = torch.compile(losses.of_logits) if case.compiled else losses.of_logits
    vocabulary = SHAPES[case.shape].vocabulary
    words = torch.randint(vocabulary, (case.samples, case.sequence + 1), device=DEVICE)

    def loss(words: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if case.loss == "plain":
            return of_logits(model(words), labels)
        return getattr(losses, case.loss)(model.states(words), model.head.weight, labels)

    def step() -> tuple[float, float]:
        synchronize()
        begin = time.perf_counter()
        value = loss(words[:, :-1].contiguous(), words[:, 1:].contiguous())
        value.backward()
        del value
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad()
        host = time.perf_counter() - begin
        synchronize()
        return time.perf_counter() - begin, host

    for _ in range(3):
        step()
    reset_peaks()
    times = [step() for _ in range(steps)]
    result = {**peaks(), "parameters": sum(parameter.numel() for parameter in model.parameters())}
    if case.adapter:
        result["trained"] = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    if case.ranks > 1:
        return result
    result |= {
        "step_s": statistics.median(time for time, _ in times),
        "steps_s": [round(time, 6) for time, _ in times],
        "host_s": statistics.median(host for _, host in times),
        **launches(step),
    }
    return result


def join(ranks: int) -> None:
    """Creates a process group of this process alone, or torch's fake one of several ranks. An existing one of that
    size is kept."""
    if dist.is_initialized():
        if dist.get_world_size() == ranks:
            return
        dist.destroy_process_group()
    if ranks > 1:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group(backend="fake", rank=0, world_size=ranks, store=FakeStore())
    else:
        dist.init_process_group(backend="nccl" if DEVICE.type == "cuda" else "gloo", rank=0, world_size=1, store=dist.HashStore())


def run_case(name: str, steps: int) -> dict:
    case = CASES[name]
    torch.manual_seed(1)
    if DEVICE.type == "cuda":
        torch.cuda.set_device(0)
    join(case.ranks)
    shape = dataclasses.asdict(SHAPES[case.shape])
    result = {"case": name, **dataclasses.asdict(case), "dimensions": shape, "device": device_name(), "torch": torch.__version__}
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

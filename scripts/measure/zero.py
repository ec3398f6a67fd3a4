# SPDX-License-Identifier: Apache-2.0
"""A training step of the decoder under DeepSpeed's ZeRO: peak memory of each phase, and the blocks that are live at
the peak of the update. Needs the deepspeed package without its compiled operators (DS_BUILD_OPS=0 pip install).

With `ranks` above one the process group is torch's fake one (steps.py). Memory is then that of one rank, and times are
not reported.
"""

from __future__ import annotations

import collections
import gc
import logging
import os
import statistics
import time

import deepspeed
import torch
import torch.distributed as dist

import losses
import steps
from decoder import Decoder
from device import DEVICE, peaks, reset_peaks, synchronize

PHASES = ("forward", "backward", "update")


def configuration(stage: int, accumulation: str, ranks: int, buckets: str, micro_batches: int, hidden: int) -> dict:
    sizes = {"default": {}, "auto": {"reduce_bucket_size": hidden**2, "stage3_prefetch_bucket_size": int(0.9 * hidden**2), "stage3_param_persistence_threshold": 10 * hidden}}[buckets]
    return {
        "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": micro_batches, "gradient_clipping": 1.0,
        "zero_optimization": {"stage": stage, **sizes},
        # The fake group gathers uninitialised memory, so gradients may be infinite.
        "bf16": {"enabled": True, **({"check_grad_overflow": False} if ranks > 1 else {})},
        **({"data_types": {"grad_accum_dtype": accumulation}} if accumulation != "bf16" else {}),
    }


def join(ranks: int) -> None:
    """Joins a group as steps.py does, and makes DeepSpeed forget the previous one."""
    if dist.is_initialized() and dist.get_world_size() == ranks and deepspeed.comm.comm.cdb is not None:
        return
    steps.join(ranks)
    deepspeed.comm.comm.cdb = None
    for name, value in vars(deepspeed.utils.groups).items():
        if isinstance(value, dist.ProcessGroup) or name in ("mpu", "mesh_device"):
            setattr(deepspeed.utils.groups, name, None)
    deepspeed.init_distributed(dist_backend="nccl" if DEVICE.type == "cuda" else "gloo", verbose=False)


def storages() -> dict:
    """Returns the bytes of all live tensors of the device by type of element, each storage counted once."""
    held: dict[int, tuple[str, int]] = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor) and thing.device.type == DEVICE.type:
            held[thing.untyped_storage().data_ptr()] = (str(thing.dtype).removeprefix("torch."), thing.untyped_storage().nbytes())
            if thing.is_leaf and thing.grad is not None:
                held[thing.grad.untyped_storage().data_ptr()] = (str(thing.grad.dtype).removeprefix("torch."), thing.grad.untyped_storage().nbytes())
    total: collections.Counter = collections.Counter()
    for kind, size in held.values():
        total[kind] += size
    return {kind: size for kind, size in total.items() if size > 1 << 16}


def free() -> None:
    """Frees the storages of all live tensors: DeepSpeed keeps references to a destroyed engine of stage 3."""
    gc.collect()
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor) and thing.device.type == DEVICE.type and thing.untyped_storage().nbytes() > 1 << 16:
            thing.untyped_storage().resize_(0)


def place(frames: list[dict]) -> str:
    """Returns the innermost frame outside torch."""
    frame = next((frame for frame in frames if "/torch/" not in frame["filename"] and frame["filename"].endswith(".py")), None)
    return f"{frame['filename'].split('site-packages/')[-1].split('/tmp/site/')[-1].rsplit('measure/', 1)[-1]}:{frame['line']} {frame['name']}" if frame else "?"


def live_at_peak(trace: list[dict], least: int = 1 << 24, most: int = 8) -> list[list]:
    """Replays the allocator's trace. Returns [bytes, blocks, place] of the blocks that the trace allocated and that
    are live when their sum is largest."""
    live: dict[int, dict] = {}
    now = best = 0
    at_best: list[dict] = []
    for event in trace:
        if event["action"] == "alloc":
            live[event["addr"]] = event
            now += event["size"]
            if now > best:
                best, at_best = now, [one for one in live.values() if one["size"] >= least]
        elif event["action"] == "free_completed" and event["addr"] in live:
            now -= live.pop(event["addr"])["size"]
    table: dict[str, list[int]] = {}
    for event in at_best:
        entry = table.setdefault(place(event.get("frames", [])), [0, 0])
        entry[0] += event["size"]
        entry[1] += 1
    return [[size, count, where] for where, (size, count) in sorted(table.items(), key=lambda item: -item[1][0])[:most]]


def traced(run) -> list[list]:
    if DEVICE.type != "cuda":
        run()
        return []
    torch.cuda.memory._record_memory_history(context="alloc", stacks="python", max_entries=100000)
    try:
        run()
        synchronize()
        return live_at_peak(torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()])
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)


def measured(stage: int, shape: str, accumulation: str, ranks: int, buckets: str, micro_batches: int, sequence: int, times: int = 6) -> dict:
    reset_peaks()
    stale = peaks()["peak_allocated"]
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    os.environ.setdefault("LOCAL_RANK", "0")  # set by launchers
    join(ranks)
    sizes = steps.SHAPES[shape]
    with torch.device("meta"):
        model = Decoder(sizes, sequence)
    model = steps.initialised(model.to(torch.bfloat16))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=configuration(stage, accumulation, ranks, buckets, micro_batches, sizes.hidden))[0]
    words = torch.randint(sizes.vocabulary, (1, sequence + 1), device=DEVICE)
    highest = dict.fromkeys(PHASES, 0)
    before: dict[str, int] = {}

    def phase(name: str, run):
        synchronize()
        reset_peaks()
        before[name] = peaks()["peak_allocated"]
        result = run()
        highest[name] = max(highest[name], peaks()["peak_allocated"])
        return result

    def micro_batch(around) -> None:
        value = around("forward", lambda: losses.of_logits(engine(words[:, :-1].contiguous()), words[:, 1:].contiguous()))
        around("backward", lambda: engine.backward(value))

    def step(around, update=None) -> None:
        for index in range(micro_batches):
            micro_batch(around)
            if index + 1 < micro_batches:
                engine.step()
        around("update", update or engine.step)

    def plain(name: str, run):
        return run()

    seconds: dict[str, list[float]] = {"step_s": [], "update_s": []}

    def timed() -> None:
        synchronize()
        begin = time.perf_counter()

        def update() -> None:
            synchronize()
            middle = time.perf_counter()
            engine.step()
            synchronize()
            seconds["update_s"].append(time.perf_counter() - middle)

        step(plain, update)
        seconds["step_s"].append(time.perf_counter() - begin)

    for _ in range(2):
        step(plain)
    gc.collect()
    reset_peaks()
    step(plain)
    synchronize()
    whole = peaks()
    result = {"parameters": parameters, "optimizer": type(engine.optimizer).__name__, "deepspeed": deepspeed.__version__, "stale_allocated": stale, **whole}
    highest.update(dict.fromkeys(PHASES, 0))
    step(phase)
    result |= {f"{name}_before_allocated": before[name] for name in PHASES} | {f"{name}_peak_allocated": highest[name] for name in PHASES}
    result["storages"] = storages()
    for _ in range(micro_batches - 1):
        micro_batch(plain)
        engine.step()
    result["backward_blocks"] = traced(lambda: micro_batch(plain))
    result["storages_before_update"] = storages()
    result["update_blocks"] = traced(engine.step)
    if ranks == 1:
        for _ in range(times):
            timed()
        result |= {name: statistics.median(values) for name, values in seconds.items()}
    engine.destroy()
    del engine, optimizer, model
    free()
    return result

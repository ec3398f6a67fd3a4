# SPDX-License-Identifier: Apache-2.0
"""Selects the measured device: the first GPU, or else the CPU. On the CPU, which serves to try a script, times are
the host's and peaks are 0."""

from __future__ import annotations

import functools
import subprocess
import time

import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def synchronize() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def name() -> str:
    return torch.cuda.get_device_name() if DEVICE.type == "cuda" else "CPU"


@functools.lru_cache(maxsize=1)
def driver() -> str:
    """Returns the version of the GPU's driver, or "" without a GPU."""
    if DEVICE.type != "cuda":
        return ""
    answer = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True)
    return answer.stdout.strip()


def reset_peaks() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.reset_peak_memory_stats()


def peaks() -> dict:
    """Returns the peak bytes of torch's allocator since `reset_peaks`, and the bytes of the device that
    are not free."""
    if DEVICE.type != "cuda":
        return {"peak_allocated": 0, "peak_reserved": 0, "used_by_device": 0}
    free, total = torch.cuda.mem_get_info()
    allocator = torch.cuda.memory_stats()
    return {"peak_allocated": allocator["allocated_bytes.all.peak"], "peak_reserved": allocator["reserved_bytes.all.peak"], "used_by_device": total - free}


def timed(run, count: int) -> float:
    """Returns the seconds of `count` runs between two events of the device."""
    if DEVICE.type != "cuda":
        begin = time.perf_counter()
        for _ in range(count):
            run()
        return time.perf_counter() - begin
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    for _ in range(count):
        run()
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) / 1e3


def looped(run, least_s: float = 0.2) -> float:
    """Returns the mean seconds of one `run` while the device is never idle."""
    for _ in range(3):
        run()
    synchronize()
    begin = time.perf_counter()
    run()
    synchronize()
    one = time.perf_counter() - begin
    count = max(5, int(least_s / max(one, 1e-6)))
    return timed(run, count) / count

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time single operators of a training step on one GPU, and the host's cost of starting a kernel: one CSV row each.

    python3 scripts/measure/operators.py --out operators.csv

An operator runs in a loop of at least 0.2 s on random bf16 data without locked clocks. A row holds the mean of one
run in this loop (`mode` loop). Operators whose heat matters also have a loop of 3 s (`mode` sustained). Rows of
`mode` host hold the host's calls while the device keeps up.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from device import looped  # noqa: E402

COLUMNS = ["operator", "mode", "library", "batch", "heads", "key_heads", "sequence", "head", "m", "n", "k", "time_us"]


def hosted(run, count: int = 2000) -> float:
    """Returns the mean host seconds of one `run` whose kernels are shorter than their launches."""
    for _ in range(50):
        run()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        run()
    elapsed = time.perf_counter() - begin
    torch.cuda.synchronize()
    return elapsed / count


def attention_rows():
    backends = {"flash2": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    shapes = [(batch, heads, key_heads, sequence, head) for head, heads, key_heads in ((128, 32, 8), (128, 32, 32), (64, 32, 32), (96, 32, 32), (80, 32, 32), (128, 8, 8))
              for batch, sequence in ((8, 1024), (4, 2048), (2, 4096), (1, 8192), (1, 16384), (1, 32768))]
    for batch, heads, key_heads, sequence, head in shapes:
        query = torch.randn(batch, sequence, heads, head, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_()
        key, value = (torch.randn(batch, sequence, key_heads, head, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_() for _ in range(2))
        gradient = torch.randn(batch, sequence, heads, head, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
        for library, backend in backends.items():
            row = {"library": library, "batch": batch, "heads": heads, "key_heads": key_heads, "sequence": sequence, "head": head, "mode": "loop"}
            try:
                with sdpa_kernel(backend):
                    forward = lambda: F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=key_heads != heads)  # noqa: E731
                    with torch.no_grad():
                        yield {**row, "operator": "attention_forward", "time_us": looped(forward, 0.1)}
                    output = forward()
                    yield {**row, "operator": "attention_backward", "time_us": looped(lambda: torch.autograd.grad(output, (query, key, value), gradient, retain_graph=True), 0.1)}
            except RuntimeError as error:
                print(row, str(error)[:200], file=sys.stderr)


def gemm_rows():
    shapes = [(m, n, k) for m in (2048, 4096, 8192, 16384) for n, k in ((4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (2048, 2048), (8192, 2048), (2048, 8192), (1024, 1024), (5632, 1024), (1024, 2816), (8192, 8192), (28672, 8192), (8192, 28672), (3072, 3072), (8192, 3072))]
    for m, n, k in shapes:
        left, right = torch.randn(m, k, device="cuda", dtype=torch.bfloat16), torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
        yield {"operator": "gemm", "mode": "loop", "m": m, "n": n, "k": k, "time_us": looped(lambda: left @ right.T, 0.05)}
    for m, n, k in ((8192, 8192, 8192), (8192, 28672, 4096), (16384, 4096, 4096), (4096, 8192, 2048)):
        left, right = torch.randn(m, k, device="cuda", dtype=torch.bfloat16), torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
        yield {"operator": "gemm", "mode": "sustained", "m": m, "n": n, "k": k, "time_us": looped(lambda: left @ right.T, 3.0)}


def elementwise_rows():
    elements = 1 << 28
    first, second = (torch.randn(elements, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(first)
    yield {"operator": "copy", "mode": "loop", "m": elements, "time_us": looped(lambda: out.copy_(first))}
    yield {"operator": "add", "mode": "loop", "m": elements, "time_us": looped(lambda: torch.add(first, second, out=out))}
    yield {"operator": "silu", "mode": "loop", "m": elements, "time_us": looped(lambda: F.silu(first))}
    wide = first.view(-1, 4096)
    weight = torch.ones(4096, device="cuda", dtype=torch.bfloat16)
    yield {"operator": "rms_norm", "mode": "loop", "m": elements, "n": 4096, "time_us": looped(lambda: F.rms_norm(wide, (4096,), weight))}
    yield {"operator": "layer_norm", "mode": "loop", "m": elements, "n": 4096, "time_us": looped(lambda: F.layer_norm(wide, (4096,), weight))}
    parameters = [torch.randn(1 << 26, device="cuda").requires_grad_() for _ in range(8)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = torch.optim.AdamW(parameters, lr=1e-6, fused=True)
    yield {"operator": "adamw_fp32_fused", "mode": "loop", "m": 8 << 26, "time_us": looped(optimizer.step)}
    logits = torch.randn(4096, 128256, device="cuda", dtype=torch.bfloat16).requires_grad_()
    labels = torch.randint(128256, (4096,), device="cuda")

    def loss():
        logits.grad = None
        F.cross_entropy(logits.float(), labels).backward()

    yield {"operator": "cross_entropy_fp32_both", "mode": "loop", "m": 4096, "n": 128256, "time_us": looped(loss)}


def host_rows():
    small = torch.randn(64, 64, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(small)
    linear = torch.nn.Linear(64, 64, bias=False, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        yield {"operator": "add_out", "mode": "host", "time_us": hosted(lambda: torch.add(small, small, out=out))}
        yield {"operator": "add", "mode": "host", "time_us": hosted(lambda: small + small)}
        yield {"operator": "linear_no_grad", "mode": "host", "time_us": hosted(lambda: linear(small))}
    x = small.clone().requires_grad_()
    yield {"operator": "linear_forward", "mode": "host", "time_us": hosted(lambda: linear(x))}

    def both():
        linear(x).backward(small)

    yield {"operator": "linear_forward_backward", "mode": "host", "time_us": hosted(both)}
    yield {"operator": "synchronise", "mode": "host", "time_us": hosted(torch.cuda.synchronize)}
    yield {"operator": "item", "mode": "host", "time_us": hosted(lambda: out[0, 0].item())}
    stream = torch.cuda.Stream()
    event = torch.cuda.Event()

    def record():
        event.record()
        stream.wait_event(event)

    yield {"operator": "record_and_wait", "mode": "host", "time_us": hosted(record)}
    import triton
    import triton.language as tl

    @triton.jit
    def nothing(pointer, size: tl.constexpr):
        tl.store(pointer, 1.0)

    yield {"operator": "triton_launch", "mode": "host", "time_us": hosted(lambda: nothing[(1,)](out, 1))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    with open(arguments.out, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for rows in (host_rows, elementwise_rows, attention_rows, gemm_rows):
            try:
                for row in rows():
                    writer.writerow({**row, "time_us": round(row["time_us"] * 1e6, 3)})
            except RuntimeError as error:
                print(rows.__name__, str(error)[:300], file=sys.stderr)
            torch.cuda.empty_cache()
            file.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())

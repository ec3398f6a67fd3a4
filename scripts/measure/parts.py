#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure parts of a training step on one GPU, in the order of cases.py: one JSON object a line.

    python3 scripts/measure/parts.py --out parts.jsonl --limit-s 400 [--series DATE] [CASE ...]

Covers host time of blocks (FSDP2, Megatron-like, plain modules), attention by library and inside packed documents,
and experts as a loop and as grouped products. Training steps with LoRA, the loss in chunks and optimizers follow.
Cases of DeepSpeed's ZeRO need the deepspeed package, cases named transformers need transformers 5.

Cases run in one process, one after the other. A case that fails loses only its own row: a process that ended or hangs
is restarted with the remaining cases. No case starts once `--limit-s` is nearly used. `--smoke` shrinks every case
and also runs on a CPU, where some libraries are absent.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cases import BLOCKS, PARTS, SERIES, SMOKE  # noqa: E402

HANGS_AFTER_S = 100
RESERVED_S = 12  # part of the limit, kept for the case that runs when it is reached

if "--here" in sys.argv:  # the process that waits for the others needs no PyTorch
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch import nn
    from torch.nn.attention import SDPBackend, sdpa_kernel

    import losses
    import megatron
    import operators
    import steps
    from decoder import Block, Shape, rotation
    from device import DEVICE, driver, looped, name as device_name, peaks, reset_peaks, synchronize
    from steps import launches


def random(*sizes: int, dtype=None, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(*sizes, device=DEVICE, dtype=dtype or torch.bfloat16) * scale


def both_ways(forward, inputs: list, gradient: torch.Tensor | None, times: int = 12) -> dict:
    """Returns medians over `times` passes, each from an idle device: seconds of the host's calls, and until the
    device has finished."""
    seconds = {name: [] for name in ("forward_host_s", "forward_s", "backward_host_s", "backward_s")}

    def once() -> None:
        for tensor in inputs:
            tensor.grad = None
        synchronize()
        marks = [time.perf_counter()]
        output = forward()
        marks.append(time.perf_counter())
        synchronize()
        marks.append(time.perf_counter())
        output.backward(gradient)
        marks.append(time.perf_counter())
        synchronize()
        marks.append(time.perf_counter())
        for name, begin, end in (("forward_host_s", 0, 1), ("forward_s", 0, 2), ("backward_host_s", 2, 3), ("backward_s", 2, 4)):
            seconds[name].append(marks[end] - marks[begin])

    for _ in range(4):
        once()
    for values in seconds.values():
        values.clear()
    gc.collect()
    reset_peaks()
    before = peaks()["peak_allocated"]
    for _ in range(times):
        once()
    measured = {name: statistics.median(values) for name, values in seconds.items()}
    memory = peaks()
    return {**measured, "before_allocated": before, "peak_allocated": memory["peak_allocated"], "peak_reserved": memory["peak_reserved"],
            "launches": sum(launches(once)["calls"].values())}


def launch(row: dict) -> None:
    """Adds host microseconds of small operators, which show the speed of this machine's host."""
    for one in operators.host_rows():
        row[f"{one['operator']}_us"] = one["time_us"] * 1e6


def block(row: dict, style: str, hidden: int, tokens: int, compiled: bool, recompute: str = "none", ranks: int = 1) -> None:
    shape = Shape(BLOCKS, hidden, hidden // 64, hidden // 64, hidden * 11 // 4 // 16 * 16, 0)
    steps.join(ranks)

    class Stack(nn.Module):
        def __init__(self, blocks: list, turns: torch.Tensor) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(blocks)
            self.turns = turns

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for one in self.blocks:
                x = one(x, self.turns)
            return x

    like_megatron = style.startswith("megatron")
    with torch.device("meta"):
        blocks = [megatron.Block(shape, dist.group.WORLD if style == "megatron-tp" else None) if like_megatron else Block(shape) for _ in range(BLOCKS)]
    blocks = [steps.recomputed(one, recompute) for one in blocks]
    if compiled:
        blocks = [torch.compile(one, fullgraph=True) for one in blocks]
    turns = torch.outer(torch.arange(tokens, device=DEVICE).float(), torch.rand(64, device=DEVICE)) if like_megatron else rotation(64, tokens, DEVICE)
    stack = Stack(blocks, turns)
    stack = steps.initialised(steps.sharded(stack, list(stack.blocks), []) if style == "fsdp2" else stack.to(torch.bfloat16))
    if like_megatron:
        for parameter in stack.parameters():
            parameter.main_grad = torch.zeros_like(parameter, dtype=torch.float32)
    x = random(*((tokens, 1) if like_megatron else (1, tokens)), hidden).requires_grad_()
    row |= both_ways(lambda: stack(x), [x, *stack.parameters()], torch.randn_like(x))
    row["host_s"] = row["forward_host_s"] + row["backward_host_s"]
    row["host_block_s"] = row["host_s"] / BLOCKS
    row["launches_block"] = row["launches"] / BLOCKS


def time_attention(row: dict, forward, inputs: tuple, gradient: torch.Tensor, work: float) -> None:
    """Times both passes; `work` counts the FLOPs of the forward pass, and the backward pass has 2.5 times as many."""
    with torch.no_grad():
        row["forward_s"] = looped(forward, 0.1)
    row["forward_tflops"] = round(work / row["forward_s"] / 1e12, 1)
    output = forward()
    row["backward_s"] = looped(lambda: torch.autograd.grad(output, inputs, gradient, retain_graph=True), 0.1)
    row["backward_tflops"] = round(2.5 * work / row["backward_s"] / 1e12, 1)


def attention(row: dict, library: str, batch: int, heads: int, key_heads: int, sequence: int, head: int, value_head: int, causal: bool) -> None:
    backends = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION, "flash-padded": SDPBackend.FLASH_ATTENTION,
                "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}
    if library == "efficient":  # it takes no groups of query heads
        row["key_heads_run"] = key_heads = heads
    if library == "flash-padded":  # pads values to the width of keys, as callers do for kernels with one width
        value_head = head
    query, key, value, gradient = (random(batch, sequence, count, width).transpose(1, 2).requires_grad_()
                                   for count, width in ((heads, head), (key_heads, head), (key_heads, value_head), (heads, value_head)))
    grouped = key_heads != heads
    if library == "flex":
        from torch._functorch import config as differentiation
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        differentiation.donated_buffer = False  # the backward pass runs more than once
        mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, sequence, sequence, device=DEVICE) if causal else None
        attend = torch.compile(flex_attention, dynamic=False)

        def forward():
            return attend(query, key, value, block_mask=mask, enable_gqa=grouped)
    else:

        def forward():
            with sdpa_kernel(backends[library]):
                return F.scaled_dot_product_attention(query, key, value, is_causal=causal, enable_gqa=grouped)

    work = 2 * batch * heads * sequence * sequence * (head + row["value_head"]) * (0.5 if causal else 1)
    time_attention(row, forward, (query, key, value), gradient, work)


def packed(row: dict, library: str, documents: list, heads: int, key_heads: int, head: int) -> None:
    """Measures causal attention inside the documents of one packed sample."""
    tokens = sum(documents)
    inside = sum(length**2 for length in documents)
    if library == "varlen":
        from torch.nn.attention.varlen import varlen_attn

        ends = torch.tensor([0, *documents], device=DEVICE).cumsum(0).to(torch.int32)
        longest = max(documents)
        query, key, value = (random(tokens, count, head).requires_grad_() for count in (heads, key_heads, key_heads))
        gradient = random(tokens, heads, head)

        def forward():
            return varlen_attn(query, key, value, ends, ends, longest, longest, window_size=(-1, 0))
    else:
        from torch._functorch import config as differentiation
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        differentiation.donated_buffer = False  # the backward pass runs more than once
        number = torch.repeat_interleave(torch.arange(len(documents), device=DEVICE), torch.tensor(documents, device=DEVICE))
        mask = create_block_mask(lambda b, h, q, k: (q >= k) & (number[q] == number[k]), None, None, tokens, tokens, device=DEVICE)
        attend = torch.compile(flex_attention, dynamic=False)
        query, key, value, gradient = (random(1, tokens, count, head).transpose(1, 2).requires_grad_() for count in (heads, key_heads, key_heads, heads))

        def forward():
            return attend(query, key, value, block_mask=mask, enable_gqa=key_heads != heads)

    work = 2 * heads * inside * head
    time_attention(row, forward, (query, key, value), gradient, work)


def of_transformers(how: str, hidden: int, intermediate: int, experts: int, chosen: int) -> nn.Module:
    """Returns the mixture of experts of transformers 5, which loops over the experts or has grouped products."""
    import transformers

    common = {"hidden_size": hidden, "num_experts_per_tok": chosen, "hidden_act": "silu"}
    with torch.device(DEVICE):
        if experts == 8:
            from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock as Mixture

            settings = transformers.MixtralConfig(**common, intermediate_size=intermediate, num_local_experts=experts)
        else:
            from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock as Mixture

            settings = transformers.Qwen3MoeConfig(**common, moe_intermediate_size=intermediate, num_experts=experts, norm_topk_prob=True)
        settings._experts_implementation = {"looped": "eager", "grouped": "grouped_mm"}[how]
        mixture = Mixture(settings).to(torch.bfloat16)
    with torch.no_grad():
        for parameter in mixture.parameters():
            parameter.normal_(0.0, 0.02)
    return mixture


def experts(row: dict, how: str, tokens: int, hidden: int, intermediate: int, experts: int, chosen: int) -> None:
    """Measures a router and its experts, run one after the other (as transformers 4 does) or as grouped products over
    sorted tokens (as torchtitan does)."""
    if how.startswith("transformers-"):
        import transformers

        mixture = of_transformers(how.removeprefix("transformers-"), hidden, intermediate, experts, chosen)
        states, gradient = random(1, tokens, hidden).requires_grad_(), random(1, tokens, hidden)
        row["transformers"] = transformers.__version__
        row |= both_ways(lambda: mixture(states), [states, *mixture.parameters()], gradient)
        return
    router = random(experts, hidden, scale=hidden**-0.5).requires_grad_()
    x, gradient = random(tokens, hidden).requires_grad_(), random(tokens, hidden)
    if how == "looped":
        gate, up = ([random(intermediate, hidden, scale=0.02).requires_grad_() for _ in range(experts)] for _ in range(2))
        down = [random(hidden, intermediate, scale=0.02).requires_grad_() for _ in range(experts)]
        weights = [*gate, *up, *down]
    else:
        gate_up = random(experts, hidden, 2 * intermediate, scale=0.02).requires_grad_()
        down = random(experts, intermediate, hidden, scale=0.02).requires_grad_()
        weights = [gate_up, down]
        product = getattr(F, "grouped_mm", None) or torch._grouped_mm

    def forward():
        shares, picked = F.linear(x, router).softmax(-1, dtype=torch.float32).topk(chosen, -1)
        shares = (shares / shares.sum(-1, keepdim=True)).to(x.dtype)
        output = torch.zeros_like(x)
        if how == "looped":
            for index in range(experts):
                rows, places = torch.where(picked == index)
                here = x[rows]
                made = F.linear(F.silu(F.linear(here, gate[index])) * F.linear(here, up[index]), down[index])
                output.index_add_(0, rows, made * shares[rows, places, None])
            return output
        flat = picked.flatten()
        order = flat.argsort(stable=True)
        ends = torch.histc(flat.float(), bins=experts, min=0, max=experts - 1).cumsum(0).to(torch.int32)
        rows = order // chosen
        first, second = product(x[rows], gate_up, offs=ends).chunk(2, -1)
        made = product(F.silu(first) * second, down, offs=ends)
        return output.index_add(0, rows, made * shares.flatten()[order, None])

    row |= both_ways(forward, [x, router, *weights], gradient)


def loss(row: dict, how: str, tokens: int, hidden: int, vocabulary: int) -> None:
    states, weight = random(tokens, hidden).requires_grad_(), random(vocabulary, hidden, scale=hidden**-0.5).requires_grad_()
    labels = torch.randint(vocabulary, (tokens,), device=DEVICE)
    of = torch.compile(losses.plain, dynamic=False) if how == "compiled" else getattr(losses, how.replace("-", "_"))
    with torch.no_grad():
        expected = losses.plain(states, weight, labels)
    row |= both_ways(lambda: of(states, weight, labels), [states, weight], None)
    with torch.no_grad():
        row["relative_error"] = abs(float(of(states, weight, labels) / expected - 1))


def newton_schulz(matrix: torch.Tensor, times: int = 5) -> torch.Tensor:
    """Returns the nearly orthogonal matrix with the same singular vectors: the quintic iteration of Muon (Jordan
    et al. 2024)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrix.to(torch.bfloat16)
    x = x.t() if x.shape[0] > x.shape[1] else x
    x = x / (x.norm() + 1e-7)
    for _ in range(times):
        square = x @ x.t()
        x = a * x + (b * square + c * square @ square) @ x
    return x.t() if matrix.shape[0] > matrix.shape[1] else x


def optimizer(row: dict, how: str, precision: str, layers: int, hidden: int, intermediate: int) -> None:
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    sizes = [(hidden, hidden)] * 4 + [(intermediate, hidden)] * 2 + [(hidden, intermediate)]
    parameters = [nn.Parameter(random(*size, dtype=dtype, scale=0.02)) for _ in range(layers) for size in sizes]
    for parameter in parameters:
        parameter.grad = random(*parameter.shape, dtype=dtype, scale=1e-3)
    row["parameters"] = sum(parameter.numel() for parameter in parameters)
    family, _, kernels = how.partition("-")
    flags = {kernels: True}
    if how == "newton-schulz":

        def run():
            for parameter in parameters:
                newton_schulz(parameter.grad)
    elif family == "muon":
        run = torch.optim.Muon(parameters, lr=1e-6).step
    elif family == "sgd":
        run = torch.optim.SGD(parameters, lr=1e-6, momentum=0.9, **flags).step
    else:
        run = torch.optim.AdamW(parameters, lr=1e-6, betas=(0.9, 0.95), weight_decay=0.1, **flags).step
    row["time_s"] = looped(run, 0.5)
    row |= peaks()
    row["launches"] = sum(launches(run)["calls"].values())


def under_zero(row: dict, **arguments) -> None:
    import zero

    row |= zero.measured(**arguments)


def step(row: dict, smoke: bool) -> None:
    case = steps.CASES[row["case"]]
    if smoke:
        steps.SHAPES[case.shape] = Shape(2, 128, 2, 1, 256, 512)
        case = dataclasses.replace(case, sequence=64)
    steps.join(1)
    row |= {**dataclasses.asdict(case), "dimensions": dataclasses.asdict(steps.SHAPES[case.shape]), **steps.measured(case, 6)}
    row["launches"] = sum(row.pop("calls").values())
    del row["kernels"]


def measured(case: dict, smoke: bool) -> dict:
    row = {**case, "measured": datetime.date.today().isoformat(), "device": device_name(), "driver": driver(), "torch": torch.__version__}
    arguments = {key: value for key, value in case.items() if key not in ("case", "part")}
    if smoke:
        arguments = {key: min(value, SMOKE[key]) if key in SMOKE else value for key, value in arguments.items()}
        if case["part"] == "zero":
            steps.SHAPES[case["shape"]] = Shape(2, 128, 2, 1, 256, 512)
        if case["part"] == "packed":
            arguments["documents"] = [64, 192]
    run = {"launch": launch, "block": block, "attention": attention, "packed": packed, "experts": experts, "loss": loss, "optimizer": optimizer, "zero": under_zero}
    begin = time.perf_counter()
    torch.manual_seed(1)
    try:
        if case["part"] == "step":
            step(row, smoke)
        else:
            run[case["part"]](row, **arguments)
    except Exception as error:  # noqa: BLE001: a library may refuse a case in any way; the others go on
        row["error"] = f"{type(error).__name__}: {str(error)[:300]}"
    row["case_wall_s"] = round(time.perf_counter() - begin, 2)
    return {key: round(value, 9) if isinstance(value, float) else value for key, value in row.items()}


def here(arguments: argparse.Namespace, end: float) -> int:
    """Measures in this process. Returns 3 if the device takes no more work."""
    if DEVICE.type == "cuda":
        torch.cuda.set_device(0)
    table = {case["case"]: case for case in PARTS}
    for name in arguments.case:
        if time.time() > end - RESERVED_S:
            return 0
        row = measured(table[name], arguments.smoke)
        with open(arguments.out, "a", encoding="utf-8") as out:
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
        gc.collect()
        torch._dynamo.reset()
        if DEVICE.type == "cuda":
            try:
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
            except RuntimeError:
                return 3
    return 0


def written(path: str) -> list[dict]:
    """Returns the rows of the complete lines."""
    file = pathlib.Path(path)
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}\n")]


def brief(row: dict) -> str:
    numbers = [f"{key[:-2]} {row[key] * 1e3:.3f} ms" for key in ("host_block_s", "forward_s", "backward_s", "step_s", "update_s", "host_s", "time_s") if key in row]
    numbers += [f"{key} {row[key]:.4g}" for key in ("forward_tflops", "backward_tflops", "launches_block", "relative_error") if key in row]
    numbers += [f"{key} {value:.2f}" for key, value in row.items() if key.endswith("_us")]
    numbers += [f"peak {row['peak_allocated'] / 2**30:.2f} GiB"] if "peak_allocated" in row else []
    numbers += [f"{key.removesuffix('_peak_allocated')} {row[key] / row['parameters']:.2f} bytes a parameter" for key in row if key.endswith("_peak_allocated")]
    return f"{row['case']}: " + ", ".join([*numbers, *([row["error"][:110]] if "error" in row else [])]) + f" [{row.get('case_wall_s', 0)} s]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="file that lines are added to; cases that it holds are not measured again")
    parser.add_argument("--limit-s", type=float, default=400)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes")
    parser.add_argument("--here", action="store_true", help="measure in this process")
    parser.add_argument("--series", choices=SERIES, default=list(SERIES)[-1], help="its cases are measured if none is named (default: the latest)")
    parser.add_argument("case", nargs="*", choices=[*(case["case"] for case in PARTS), []], help="the series without one")
    arguments = parser.parse_args()
    end = time.time() + arguments.limit_s
    if arguments.here:
        return here(arguments, end)
    wanted = arguments.case or [case["case"] for case in SERIES[arguments.series]]
    left = wanted
    shown = 0
    while True:
        done = {row["case"] for row in written(arguments.out)}
        left = [name for name in left if name not in done]
        if not left or time.time() > end - RESERVED_S:
            break
        command = [sys.executable, os.path.abspath(__file__), "--here", "--out", arguments.out, "--limit-s", str(end - time.time()), *(["--smoke"] if arguments.smoke else []), *left]
        child = subprocess.Popen(command)
        count, since = len(done), time.time()
        reason = ""
        while child.poll() is None:
            time.sleep(0.3)
            rows = written(arguments.out)
            for row in rows[shown:]:
                print(brief(row), flush=True)
            shown = max(shown, len(rows))
            if len(rows) > count:
                count, since = len(rows), time.time()
            if time.time() > end + RESERVED_S or time.time() - since > HANGS_AFTER_S:
                reason = "the limit" if time.time() > end + RESERVED_S else f"no result in {HANGS_AFTER_S} s"
                child.kill()
                child.wait()
        if child.returncode == 0:
            break
        rows = written(arguments.out)
        failed = next((name for name in left if name not in {row["case"] for row in rows}), None)
        if failed and child.returncode != 3:
            with open(arguments.out, "a", encoding="utf-8") as out:
                out.write(json.dumps({"case": failed, "error": f"the process ended: {reason or child.returncode}"}) + "\n")
    rows = written(arguments.out)
    for row in rows[shown:]:
        print(brief(row))
    print(f"{sum('error' not in row for row in rows)} measured, {sum('error' in row for row in rows)} with an error, {len(set(wanted) - {row['case'] for row in rows})} not run")
    return 0


if __name__ == "__main__":
    sys.exit(main())

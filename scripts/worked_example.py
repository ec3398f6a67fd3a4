# SPDX-License-Identifier: Apache-2.0
"""The worked example of docs/cost-model.md: one configuration computed from the equations of that page, without the program.

Llama 3 8B on 8 H100, tensor and sequence parallelism over all 8, micro-batch 1: no pipeline, no data parallelism, so that the
iteration is m·(F + B) + optimizer and every number can be followed. Device figures are read from data/devices.yaml.
"""
import math
import re

COMMAND = ["estimate", "examples/llama3-8b-on-8xh100.yaml", "--tp", "8", "--sp", "megatron"]

# models/llama-3-8b/config.json, the job, and the configuration
HIDDEN, HEADS, KV_HEADS, HEAD, FFN, VOCABULARY, BLOCKS = 4096, 32, 8, 128, 14336, 128256, 32
TOKENS, SAMPLES, TP, A = 8192, 64, 8, 2
# engine generic: bytes per element of parameter, gradient, master weight, Adam moments; allocator reserve; launches of a pass
PARAMETER, GRADIENT, MASTER, MOMENTS, RESERVE, PASS_LAUNCHES = 2, 4, 4, 8, 0.06, 4

UNIT = {"us": 1e-6, "ms": 1e-3, "GB/s": 1e9}


def quantity(text):
    number, unit = re.fullmatch(r"([\d.]+)(\D*)", text.strip()).groups()
    return float(number) * UNIT.get(unit, 1)


def flow(text):
    """{a: 1, b: 2us} as a dictionary of numbers; what is none is left out."""
    pairs = re.findall(r"(\w+): ([\d.]+(?:us|ms|GB/s)?)(?=[,}])", text)
    return {key: quantity(value) for key, value in pairs}


def device_figures(root):
    text = (root / "data/devices.yaml").read_text(encoding="utf-8")
    entry = text.split("- name: h100-sxm-80gb\n")[1].split("- name:")[0]
    d = flow(re.search(r"efficiency: (\{.*\})", entry).group(1))
    d["peak"] = flow(re.search(r"peak_tflops: (\{.*\})", entry).group(1))["bf16"] * 1e12
    d["bandwidth"] = quantity(re.search(r"memory_bandwidth: (\S+)", entry).group(1))
    header = (root / "include/espalier/cluster.h").read_text(encoding="utf-8")  # the default of what a device does not say
    d.setdefault("sustained", float(re.search(r"double sustained =\s*([\d.]+);", header).group(1)))
    fabric = text.split("  nvswitch3:\n")[1].split("source:")[0]
    d["link"] = flow(re.search(r"- (\{.*\})", fabric).group(1))
    return d


def ns(seconds):
    """Nearest integer nanosecond, half away from zero: std::llround."""
    return math.floor(seconds * 1e9 + 0.5)


class Sums:
    """Seconds of one layer."""

    def __init__(self):
        self.forward = self.backward = self.exposed_forward = self.exposed_backward = self.hidden_backward = 0.0
        self.kernels_forward = self.kernels_backward = 0
        self.lines = []

    def add(self, name, forward, backward, kernels_forward, kernels_backward, shape):
        self.forward += forward
        self.backward += backward
        self.kernels_forward += kernels_forward
        self.kernels_backward += kernels_backward
        self.lines.append((name, shape, forward, backward))

    def phases(self, launch):
        """Integer nanoseconds: compute, exposed, other of forward and backward."""
        forward, backward = (ns(self.forward), ns(self.exposed_forward)), (ns(self.backward), ns(self.exposed_backward))
        return ((*forward, max(0, ns(launch * self.kernels_forward) - sum(forward))),
                (*backward, max(0, ns(launch * self.kernels_backward) - sum(backward))))


class Equations:
    def __init__(self, d):
        self.d = d
        peak = d["peak"] * d["sustained"]
        self.rate, self.half = peak * d["gemm_max"], d["gemm_half_gflop"] * 1e9
        self.attention = peak * d["attention_max"]
        self.memory, self.floor = d["bandwidth"] * d["memory_max"], d["kernel_floor"]
        self.kappa_c, self.kappa_w = d["overlap_communication_slowdown"], d["overlap_compute_slowdown"]

    def moved(self, size):
        return max(size / self.memory, self.floor)

    def gemm(self, m, n, k, extra=0):
        return max((2 * m * n * k + self.half) / self.rate, (A * (m * k + k * n + m * n) + extra) / self.memory, self.floor)

    def attend(self, flops, size):
        return (max((flops + self.half) / self.attention, size / self.memory, self.floor),
                max((2.5 * flops + self.half) / (self.attention * self.d["attention_backward"]), 2.5 * size / self.memory, self.floor))

    def gather(self, size):
        """All-gather or reduce-scatter of `size` bytes over the 8 devices behind NVSwitch: ring or tree."""
        link = self.d["link"]
        moved, rate = size * (TP - 1) / TP, link["bandwidth"] * link["efficiency"]
        return min(moved / rate + (TP - 1) * link["latency"],
                   moved / (0.85 * rate) + 2 * math.ceil(math.log2(TP)) * link["latency"])

    def reduce(self, size):
        return 2 * self.gather(size)

    def hide(self, c, w):
        """What communication c beside compute w adds to w, and what of it is hidden."""
        if c * self.kappa_c >= w * self.kappa_w:
            pair = w * self.kappa_w + (c - w * self.kappa_w / self.kappa_c)
        else:
            pair = c * self.kappa_c + (w - c * self.kappa_c / self.kappa_w)
        extra = min(pair, c + w) - w
        return extra, max(0.0, c - extra)


def add_linear(e, s, name, m, n, k):
    forward, weight = e.gemm(m, n, k), e.gemm(m, n, k, 2 * GRADIENT * n * k)
    s.add(name, forward, forward + weight, 1, 2, f"{m:,} × {k:,} × {n:,}")
    return forward, weight


def close_region(e, s, column):
    """Megatron's sequence parallelism around a pair of column and row linear."""
    forward, weight = column
    c = e.gather(A * TOKENS * HIDDEN)
    again, reduce = e.hide(c, forward), e.hide(c, weight)
    s.exposed_forward += 2 * c
    s.exposed_backward += c + again[0] + reduce[0]
    s.hidden_backward += again[1] + reduce[1]
    s.kernels_forward += 2
    s.kernels_backward += 3


def block(e):
    s, rows = Sums(), TOKENS // TP
    moved = lambda per_token, tokens: e.moved(per_token * tokens)
    norm = lambda name: s.add(name, moved(2 * A * HIDDEN, rows), moved(3 * A * HIDDEN, rows), 1, 1, f"{rows:,} × {HIDDEN:,}")
    residual = lambda name: s.add(name, moved(3 * A * HIDDEN, rows), moved(A * HIDDEN, rows), 1, 1, f"{rows:,} × {HIDDEN:,}")
    norm("attn.norm")
    column = add_linear(e, s, "attn.qkv", TOKENS, (HEADS + 2 * KV_HEADS) * HEAD // TP, HIDDEN)
    turned = (HEADS + KV_HEADS) * HEAD // TP
    s.add("attn.rotary", moved(2 * A * turned, TOKENS), moved(2 * A * turned, TOKENS), 1, 1, f"{TOKENS:,} × {turned:,}")
    heads, kv = HEADS / TP, KV_HEADS / TP
    flops = 2 * heads * 2 * HEAD * TOKENS * TOKENS / 2
    forward, backward = e.attend(flops, A * TOKENS * (heads + kv) * 2 * HEAD)
    s.add("attn.core", forward, backward, 1, 3, f"{heads:.0f} heads, {TOKENS:,} × {TOKENS // 2:,} keys")
    add_linear(e, s, "attn.out", TOKENS, HIDDEN, HEADS * HEAD // TP)
    close_region(e, s, column)
    residual("attn.residual")
    norm("mlp.norm")
    column = add_linear(e, s, "mlp.gate_up", TOKENS, 2 * FFN // TP, HIDDEN)
    gated = 2 * FFN // TP
    s.add("mlp.activation", moved(A * 1.5 * gated, TOKENS), moved(A * 2.5 * gated, TOKENS), 1, 1, f"{TOKENS:,} × {gated:,}")
    add_linear(e, s, "mlp.down", TOKENS, HIDDEN, FFN // TP)
    close_region(e, s, column)
    residual("mlp.residual")
    return s


def embedding(e):
    s, size = Sums(), A * TOKENS * HIDDEN
    s.add("embed.token", e.moved(2 * size), e.moved(size + 2 * GRADIENT * TOKENS * HIDDEN), 2, 2, f"{TOKENS:,} × {HIDDEN:,}")
    s.exposed_forward = s.exposed_backward = e.gather(size)
    return s


def head(e):
    s, rows, words = Sums(), TOKENS // TP, VOCABULARY // TP
    s.add("head.norm", e.moved(2 * A * HIDDEN * rows), e.moved(3 * A * HIDDEN * rows), 1, 1, f"{rows:,} × {HIDDEN:,}")
    add_linear(e, s, "head.logits", TOKENS, words, HIDDEN)
    s.add("head.loss", e.moved(14 * TOKENS * words), e.moved(6 * TOKENS * words), 6, 2, f"{TOKENS:,} × {words:,}")
    s.exposed_forward = e.gather(A * TOKENS * HIDDEN) + 3 * e.reduce(4 * TOKENS)
    s.exposed_backward = e.gather(A * TOKENS * HIDDEN)
    s.kernels_forward += 4
    s.kernels_backward += 1
    return s


def saved_bytes():
    """Saved tensors of a block under fused-attention: (operator, bytes per token, divided by tp)."""
    return [
        ("attn.norm: input, statistics", A * HIDDEN + 4),
        ("attn.qkv: input (the norm's output)", A * HIDDEN),
        ("attn.core: q, k, v, output, log-sum-exp", A * (2 * HEADS + 2 * KV_HEADS) * HEAD + 4 * HEADS),
        ("mlp.norm: input, statistics", A * HIDDEN + 4),
        ("mlp.gate_up: input (the norm's output)", A * HIDDEN),
        ("mlp.activation: input", A * 2 * FFN),
        ("mlp.down: input (the activation's output)", A * FFN),
    ]


def compute(root):
    d = device_figures(root)
    e = Equations(d)
    launch = d["kernel_launch"]
    x = {"device": d, "equations": e, "block": block(e)}
    kinds = [(embedding(e), 1), (x["block"], BLOCKS), (head(e), 1)]
    x["kinds"] = [(s.phases(launch), n) for s, n in kinds]
    hidden = sum(ns(s.hidden_backward) * n for s, n in kinds)
    passes = [[sum(phases[way][part] * n for phases, n in x["kinds"]) for part in range(3)] for way in range(2)]
    passes[0][2] += ns(PASS_LAUNCHES * launch)
    passes[1][2] += ns(PASS_LAUNCHES * launch)
    x["forward"], x["backward"], x["hidden"] = passes[0], passes[1], hidden * SAMPLES
    block_elements = (HIDDEN * (HEADS + 2 * KV_HEADS) * HEAD + HEADS * HEAD * HIDDEN + 3 * HIDDEN * FFN) // TP + 2 * HIDDEN
    x["elements"] = BLOCKS * block_elements + HIDDEN + 2 * VOCABULARY // TP * HIDDEN
    x["optimizer"] = ns(e.moved(x["elements"] * (2 * GRADIENT + 2 * MASTER + 2 * MOMENTS + PARAMETER)) + 8 * launch)
    x["iteration"] = SAMPLES * (sum(x["forward"]) + sum(x["backward"])) + x["optimizer"]
    saved = BLOCKS * TOKENS * sum(size for _, size in saved_bytes()) // TP
    saved += TOKENS * ((A * HIDDEN + 4) + A * HIDDEN + (A + 4) * VOCABULARY) // TP
    x["saved"] = saved
    x["transient"] = 4 * TOKENS * VOCABULARY // TP  # backward of the loss: fp32 gradient of the logits
    x["static"] = [x["elements"] * PARAMETER, x["elements"] * GRADIENT, x["elements"] * (MASTER + MOMENTS)]
    tensors = sum(x["static"]) + saved + x["transient"]
    x["peak"] = math.floor(tensors * (1 + RESERVE))
    return x


def comparisons(x, prediction):
    """(what, computed here, predicted by the program), as integers."""
    to_ns = lambda seconds: round(seconds * 1e9)
    memory, times = prediction["memory_breakdown_bytes"], prediction["breakdown_s"]
    return [
        ("iteration", x["iteration"], to_ns(prediction["iteration_s"])),
        ("compute", SAMPLES * (x["forward"][0] + x["backward"][0]), to_ns(times["compute"])),
        ("exposed communication", SAMPLES * (x["forward"][1] + x["backward"][1]), to_ns(times["exposed_communication"])),
        ("other", SAMPLES * (x["forward"][2] + x["backward"][2]), to_ns(times["other"])),
        ("optimizer", x["optimizer"], to_ns(times["optimizer"])),
        ("hidden communication", x["hidden"], to_ns(prediction["hidden_communication_s"])),
        ("parameters", x["static"][0], memory["parameters"]),
        ("gradients", x["static"][1], memory["gradients"]),
        ("optimizer state", x["static"][2], memory["optimizer"]),
        ("activations", x["saved"] + x["transient"], memory["activations"]),
        ("peak memory", x["peak"], prediction["peak_memory_bytes"]),
    ]


def markdown(x):
    d, e, s = x["device"], x["equations"], x["block"]
    us = lambda seconds: f"{seconds * 1e6:,.1f}"
    out = [f"`espalier {' '.join(COMMAND)}`", ""]
    out += [f"P·σ·g = {d['peak'] / 1e12:g} TFLOP/s × {d['sustained']:g} × {d['gemm_max']:g} = {e.rate / 1e12:.1f} TFLOP/s; f½ = {d['gemm_half_gflop']:g} GFLOP; "
            f"R = {d['bandwidth'] / 1e9:g} GB/s × {d['memory_max']:g} = {e.memory / 1e9:.1f} GB/s; kernel floor {e.floor * 1e6:g} µs; "
            f"launch {d['kernel_launch'] * 1e6:g} µs; κ_w = {e.kappa_w:g}, κ_c = {e.kappa_c:g};",
            f"NVSwitch β·efficiency = {d['link']['bandwidth'] / 1e9:g} GB/s × {d['link']['efficiency']:g} = "
            f"{d['link']['bandwidth'] * d['link']['efficiency'] / 1e9:.1f} GB/s, α = {d['link']['latency'] * 1e6:g} µs.", ""]
    out += ["One block, one micro-batch, one rank (tokens × in × out):", "",
            "| operator | local shape | forward µs | backward µs |", "| --- | --- | ---: | ---: |"]
    out += [f"| `{name}` | {shape} | {us(f)} | {us(b)} |" for name, shape, f, b in s.lines]
    out += [f"| sum: compute | | {us(s.forward)} | {us(s.backward)} |",
            f"| exposed communication | | {us(s.exposed_forward)} | {us(s.exposed_backward)} |", ""]
    qkv = [line for line in s.lines if line[0] == "attn.qkv"][0]
    m, n, k = TOKENS, (HEADS + 2 * KV_HEADS) * HEAD // TP, HIDDEN
    c = e.gather(A * TOKENS * HIDDEN)
    out += [f"- `attn.qkv` forward: (2·{m}·{n}·{k} + {d['gemm_half_gflop']:g}·10⁹) / {e.rate / 1e12:.1f}·10¹² = {us(qkv[2])} µs.",
            f"- One all-gather or reduce-scatter of the layer's input: S = 2·{TOKENS}·{HIDDEN} = {A * TOKENS * HIDDEN:,} bytes; "
            f"S·7/8 / {d['link']['bandwidth'] * d['link']['efficiency'] / 1e9:.1f} GB/s + 7·{d['link']['latency'] * 1e6:g} µs = {us(c)} µs. "
            f"Forward: 4 of them, {us(4 * c)} µs. Backward: 2 exposed, and 4 beside the gradients of the two column linears.", ""]
    names = ["embedding", "block", "head"]
    out += ["Nanoseconds of one micro-batch (compute + exposed + other):", "", "| layer | count | forward | backward |", "| --- | ---: | --- | --- |"]
    for name, (phases, count) in zip(names, x["kinds"]):
        out.append(f"| {name} | {count} | " + " | ".join(" + ".join(f"{v:,}" for v in phases[way]) for way in range(2)) + " |")
    out.append("| pass, with its 4 launches | 1 | " + " | ".join(" + ".join(f"{v:,}" for v in x[way]) for way in ("forward", "backward")) + " |")
    out += ["", f"Optimizer: {x['elements']:,} elements × 34 bytes / {e.memory / 1e9:.1f} GB/s + 8 launches = {x['optimizer']:,} ns.", "",
            f"Iteration: {SAMPLES} · ({sum(x['forward']):,} + {sum(x['backward']):,}) + {x['optimizer']:,} = **{x['iteration']:,} ns**.", ""]
    per_token = sum(size for _, size in saved_bytes())
    out += ["Memory of a rank:", "", "| part | calculation | bytes |", "| --- | --- | ---: |",
            f"| parameters | 2 · {x['elements']:,} | {x['static'][0]:,} |", f"| gradients | 4 · {x['elements']:,} | {x['static'][1]:,} |",
            f"| optimizer | (4 + 8) · {x['elements']:,} | {x['static'][2]:,} |",
            f"| saved activations | {BLOCKS} blocks · {per_token:,} bytes a token · {TOKENS:,} / {TP}, and the head | {x['saved']:,} |",
            f"| transient | 4 · {TOKENS:,} · {VOCABULARY // TP:,}: gradient of the logits in fp32 | {x['transient']:,} |",
            f"| allocator reserve | 6 % | {x['peak'] - sum(x['static']) - x['saved'] - x['transient']:,} |",
            f"| **peak** | | **{x['peak']:,}** |", ""]
    out += ["Saved bytes of a block per token, before the division by tp:", "", "| tensor | bytes |", "| --- | ---: |"]
    out += [f"| {name} | {size:,} |" for name, size in saved_bytes()]
    out += [f"| sum | {per_token:,} |"]
    return "\n".join(out)

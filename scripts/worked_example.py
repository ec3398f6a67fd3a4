# SPDX-License-Identifier: Apache-2.0
"""Computes the worked example of docs/cost-model.md: one configuration from the equations of that page,
without the program.

The example is Llama 3 8B on 8 H100, with tensor and sequence parallelism over all 8 and micro-batch 1. There is no
pipeline and no data parallelism. So the step is m·(F + B) + optimizer, and every number can be followed. Figures
are read from data/devices.yaml and, where they are fitted, from data/calibration; nothing fitted is written here.
"""
import math
import re

COMMAND = ["estimate", "examples/llama3-8b-on-8xh100.yaml", "--set", "engine=generic", "--tp", "8", "--sp", "megatron"]

# Sizes from models/llama-3-8b/config.json, the job, and the configuration.
HIDDEN, HEADS, KV_HEADS, HEAD, FFN, VOCABULARY, BLOCKS = 4096, 32, 8, 128, 14336, 128256, 32
TOKENS, SAMPLES, TP, A = 8192, 64, 8, 2
# Engine generic: bytes per element of parameter, gradient, on the wire, master weight, Adam moments.
PARAMETER, GRADIENT, WIRE, MASTER, MOMENTS = 2, 4, 4, 4, 8
# Its loss in bytes per logit: saved, additional in forward and backward, moved in forward and backward.
LOSS_SAVED, LOSS_FORWARD, LOSS_BACKWARD, LOSS_MOVED = 4, 2, 2, (14, 6)
DEVICE, FABRIC, ENGINE = "h100-sxm-80gb", "nvswitch3", "generic"

# Framework coefficients that apply here, and their priors (src/plan/coefficients.cpp).
PRIORS = {"compute": 1.03, "elementwise": 1.0, "launch": 1.0, "tensor_communication": 1.0, "data_communication": 1.0, "step_s": 0.0, "micro_batch_s": 0.0}

UNIT = {"us": 1e-6, "ms": 1e-3, "GB/s": 1e9}


def fact(root, name):
    """Returns a figure of data/facts.yaml for any engine; without eras of engines there is one such row."""
    entry = (root / "data/facts.yaml").read_text(encoding="utf-8").split(f"  - name: {name}\n")[1].split("  - name: ")[0]
    return float(re.search(r"^      - \{value: ([\d.e+-]+), (?!engine:)", entry, re.M).group(1))


def quantity(text):
    number, unit = re.fullmatch(r"([\d.]+)(\D*)", text.strip()).groups()
    return float(number) * UNIT.get(unit, 1)


def flow(text):
    """Parses {a: 1, b: 2us} to a dictionary of numbers; other values are left out."""
    pairs = re.findall(r"(\w+): ([\d.]+(?:us|ms|GB/s)?)(?=[,}])", text)
    return {key: quantity(value) for key, value in pairs}


def fitted(root, name, key, values="coefficients"):
    """Returns the coefficients of the entry `key` (e.g. "device: h100") of data/calibration/NAME; {} if
    it is missing."""
    text = (root / "data/calibration" / name).read_text(encoding="utf-8")
    found = re.search(rf"- {re.escape(key)}\n(.*?)(?=\n  - |\Z)", text, re.S)
    body = found and re.search(rf"^ +{values}: (\{{.*\}})$", found.group(1), re.M)
    return coefficients(body.group(1)) if body else {}


def coefficients(text):
    return {key: float(value) for key, value in re.findall(r"(\w+): ([-+.\deE]+)", text)}


def defaults(root):
    """Returns the default efficiencies of a device."""
    header = (root / "include/espalier/cluster.h").read_text(encoding="utf-8")
    struct = header.split("struct DeviceEfficiency {")[1].split("};")[0]
    found = re.findall(r"(?:double|Seconds) (\w+)(?: =\s*|\{)([-+.\deE]+)\}?;", struct)
    return {key: float(value) for key, value in found}


def device_figures(root):
    """Mirrors the loading of the library: catalogue entry over defaults, calibration over both."""
    text = (root / "data/devices.yaml").read_text(encoding="utf-8")
    entry = text.split(f"- name: {DEVICE}\n")[1].split("- name:")[0]
    d = defaults(root)
    d.update(flow(re.search(r"efficiency: (\{.*\})", entry).group(1)))
    d["peak"] = flow(re.search(r"peak_tflops: (\{.*\})", entry).group(1))["bf16"] * 1e12
    d["bandwidth"] = quantity(re.search(r"memory_bandwidth: (\S+)", entry).group(1))
    d.update(fitted(root, "devices.yaml", f"device: {DEVICE}"))
    d.update(fitted(root, "training.yaml", f"device: {DEVICE}"))  # share of isolated kernel rates that training reaches
    if "kernel_floor_us" in d:
        d["kernel_floor"] = d["kernel_floor_us"] * 1e-6
    fabrics = (root / "data/calibration/fabrics.yaml").read_text(encoding="utf-8")
    overlap = re.search(r"^overlap:\n(?:  .*\n)*?  coefficients: (\{.*\})$", fabrics, re.M)
    names = {"compute_slowdown": "overlap_compute_slowdown", "communication_slowdown": "overlap_communication_slowdown",
             "traffic": "overlap_traffic"}
    d.update((names[key], value) for key, value in coefficients(overlap.group(1) if overlap else "").items())
    d["link"] = {"start": 0.0, "ramp": 0.0, "small_group": 0.0}
    d["link"].update(flow(re.search(r"- (\{.*\})", text.split(f"  {FABRIC}:\n")[1].split("source:")[0]).group(1)))
    for key, value in fitted(root, "fabrics.yaml", f"fabric: {FABRIC}").items():
        d["link"][key.removesuffix("_us")] = value * 1e-6 if key.endswith("_us") else value
    d["launches"] = {name: int(fact(root, f"{name}_launches")) for name in ("pass", "update", "collective")}
    d["workspace"] = 2 * fact(root, "cublas_workspace_fp8")  # MiB
    d["framework"] = PRIORS
    for engine in ("pooled", ENGINE):  # the engine's own fit replaces the pooled one
        own = fitted(root, "frameworks.yaml", f"engine: {engine}")
        d["framework"] = {key: own.get(key, PRIORS[key]) for key in PRIORS} if own else d["framework"]
    return d


def ns(seconds):
    """Rounds to the nearest integer nanosecond, half away from zero: std::llround."""
    return math.floor(seconds * 1e9 + 0.5)


class Sums:
    """Accumulates the seconds of one layer."""

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
        """Returns integer nanoseconds: compute, exposed, other of forward and backward."""
        forward, backward = (ns(self.forward), ns(self.exposed_forward)), (ns(self.backward), ns(self.exposed_backward))
        return ((*forward, max(0, ns(launch * self.kernels_forward) - sum(forward))),
                (*backward, max(0, ns(launch * self.kernels_backward) - sum(backward))))


class Equations:
    def __init__(self, d):
        self.d, f = d, d["framework"]
        peak = d["peak"] * d["sustained"]
        self.rate = peak * d["gemm_max"] / f["compute"]
        self.attention = peak * d["attention_max"] * (1 + d["attention_softmax"] / 128) / f["compute"]
        self.attention_backward = self.attention * d["attention_backward"]
        self.gemm_memory = d["bandwidth"] * d["gemm_memory"]
        self.memory, self.floor = d["bandwidth"] * d["memory_max"], d["kernel_floor"]
        self.elementwise = self.memory / f["elementwise"]
        self.launch = d["kernel_launch"] * f["launch"]
        link = d["link"]
        self.hop, self.start = link["latency"] * f["tensor_communication"], link["start"]
        self.link_rate = link["bandwidth"] * link["efficiency"] / f["tensor_communication"]
        self.own = 1 / (TP - 1)
        self.kappa_c = d["overlap_communication_slowdown"]
        # Bytes of the only collectives that overlap with compute. They pass a rank over the whole time
        # of the collective.
        size = A * TOKENS * HIDDEN
        bus = size * (TP - 1) / TP / self.gather(size)
        self.kappa_w = d["overlap_compute_slowdown"] + d["overlap_traffic"] * bus / d["bandwidth"]
        if self.kappa_c > 1:
            self.kappa_w = min(self.kappa_w, self.kappa_c / (self.kappa_c - 1))

    def moved(self, size):
        return self.floor + size / self.memory

    def element(self, size):
        """Returns the time of element-wise kernels, which move their bytes as often as the framework does."""
        return self.floor + size / self.elementwise

    def gemm(self, m, n, k, extra=0):
        bytes = A * (m * k + k * n + m * n)
        return self.floor + max(math.hypot(2 * m * n * k / self.rate, bytes / self.gemm_memory), (bytes + extra) / self.gemm_memory)

    def attend(self, queries, keys, most_keys, width, size):
        d = self.d
        work = 2 * (width + 2 * d["attention_softmax"]) * (queries * (keys + d["attention_prologue"]) + d["attention_rows"] * most_keys)
        return (self.floor + work / self.attention + size / self.memory,
                self.floor + 2.5 * (work / self.attention_backward + size / self.memory))

    def ramped(self, latency, volume):
        return latency + volume + self.d["link"]["ramp"] * math.sqrt(latency * volume)

    def gather(self, size):
        """Returns the time of an all-gather or reduce-scatter of `size` bytes over the 8 devices behind
        NVSwitch: a ring."""
        volume = size * (TP - 1) / TP * (1 + self.d["link"]["small_group"] * self.own) / self.link_rate
        return self.ramped(self.start + (TP - 1) * self.hop, volume)

    def reduce(self, size, slower=1.0):
        """Returns the time of an all-reduce: two passes of the ring. `slower` is relative to the
        collectives inside layers."""
        volume = 2 * size * (TP - 1) / TP * (1 + self.d["link"]["small_group"] * self.own / 2) / self.link_rate * slower
        return self.ramped(self.start + 2 * (TP - 1) * self.hop * slower, volume)

    def sync(self, size):
        """Returns the all-reduce time of gradients at the end of the step, as a data-parallel collective."""
        f = self.d["framework"]
        return self.reduce(size, f["data_communication"] / f["tensor_communication"])

    def hide(self, c, w):
        """Returns the time that communication c adds when it overlaps with compute w, and the hidden part of c."""
        if c * self.kappa_c >= w * self.kappa_w:
            pair = w * self.kappa_w + (c - w * self.kappa_w / self.kappa_c)
        else:
            pair = c * self.kappa_c + (w - c * self.kappa_c / self.kappa_w)
        extra = min(pair, c + w) - w
        return extra, max(0.0, c - extra)


def add_linear(e, s, name, m, n, k):
    forward, weight = e.gemm(m, n, k), e.gemm(m, n, k, 2 * GRADIENT * n * k)
    # The backward pass has the input gradient, the weight gradient and its addition.
    s.add(name, forward, e.gemm(m, k, n) + weight, 1, 3, f"{m:,} × {k:,} × {n:,}")
    return forward, weight


def close_region(e, s, column):
    """Adds Megatron's sequence parallelism around a pair of column and row linear."""
    forward, weight = column
    c = e.gather(A * TOKENS * HIDDEN)
    again, reduce = e.hide(c, forward), e.hide(c, weight)
    s.exposed_forward += 2 * c
    s.exposed_backward += c + again[0] + reduce[0]
    s.hidden_backward += again[1] + reduce[1]
    s.kernels_forward += 2 * e.d["launches"]["collective"]
    s.kernels_backward += 3 * e.d["launches"]["collective"]


def block(e):
    s, rows = Sums(), TOKENS // TP
    moved = lambda per_token, tokens: e.element(per_token * tokens)
    # The backward pass also reduces and adds the gradient of the scale.
    norm = lambda name: s.add(name, moved(2 * A * HIDDEN, rows), moved(3 * A * HIDDEN, rows), 1, 3, f"{rows:,} × {HIDDEN:,}")
    residual = lambda name: s.add(name, moved(3 * A * HIDDEN, rows), moved(3 * A * HIDDEN, rows), 1, 1, f"{rows:,} × {HIDDEN:,}")
    norm("attn.norm")
    column = add_linear(e, s, "attn.qkv", TOKENS, (HEADS + 2 * KV_HEADS) * HEAD // TP, HIDDEN)
    turned = (HEADS + KV_HEADS) * HEAD // TP
    s.add("attn.rotary", moved(2 * A * turned, TOKENS), moved(2 * A * turned, TOKENS), 1, 1, f"{TOKENS:,} × {turned:,}")
    heads, kv = HEADS / TP, KV_HEADS / TP
    forward, backward = e.attend(TOKENS * heads, TOKENS / 2, TOKENS, 2 * HEAD, A * TOKENS * (heads + kv) * 2 * HEAD)
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
    table = VOCABULARY // TP * HIDDEN * (2 * A + 2 * GRADIENT)
    # Forward has lookup, positions, sum and dropout. Backward has sort, segments, sum and addition. Each
    # has the collective.
    s.add("embed.token", e.moved(2 * size), e.moved(table + 12.5 * size), 5, 5, f"{TOKENS:,} × {HIDDEN:,}")
    s.exposed_forward = s.exposed_backward = e.gather(size)
    return s


def head(e):
    s, rows, words = Sums(), TOKENS // TP, VOCABULARY // TP
    s.add("head.norm", e.element(2 * A * HIDDEN * rows), e.element(3 * A * HIDDEN * rows), 1, 3, f"{rows:,} × {HIDDEN:,}")
    add_linear(e, s, "head.logits", TOKENS, words, HIDDEN)
    s.add("head.loss", e.moved(LOSS_MOVED[0] * TOKENS * words), e.moved(LOSS_MOVED[1] * TOKENS * words), 6, 2, f"{TOKENS:,} × {words:,}")
    s.exposed_forward = e.gather(A * TOKENS * HIDDEN) + 3 * e.reduce(4 * TOKENS)
    s.exposed_backward = e.gather(A * TOKENS * HIDDEN)
    s.kernels_forward += 4
    s.kernels_backward += 1
    return s


def saved_bytes():
    """Returns saved tensors of a block under fused-attention: (operator, bytes per token, divided by tp)."""
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
    launch, f = e.launch, d["framework"]
    x = {"device": d, "equations": e, "block": block(e)}
    kinds = [(embedding(e), 1), (x["block"], BLOCKS), (head(e), 1)]
    x["kinds"] = [(s.phases(launch), n) for s, n in kinds]
    hidden = sum(ns(s.hidden_backward) * n for s, n in kinds)
    passes = [[sum(phases[way][part] * n for phases, n in x["kinds"]) for part in range(3)] for way in range(2)]
    for way in passes:
        way[2] += ns(d["launches"]["pass"] * launch + f["micro_batch_s"] / 2)
    x["forward"], x["backward"], x["hidden"] = passes[0], passes[1], hidden * SAMPLES
    block_elements = (HIDDEN * (HEADS + 2 * KV_HEADS) * HEAD + HEADS * HEAD * HIDDEN + 3 * HIDDEN * FFN) // TP + 2 * HIDDEN
    x["elements"] = BLOCKS * block_elements + HIDDEN + 2 * VOCABULARY // TP * HIDDEN
    x["optimizer"] = ns(e.moved(x["elements"] * (2 * GRADIENT + 2 * MASTER + 2 * MOMENTS + PARAMETER)) + d["launches"]["update"] * launch + f["step_s"])
    x["norms"] = (2 * BLOCKS + 1) * HIDDEN  # two norms a block and the last
    x["sync"] = ns(e.sync(WIRE * x["norms"]))
    x["optimizer"] += x["sync"]
    x["update_launches"] = ns(d["launches"]["update"] * launch)
    x["iteration"] = SAMPLES * (sum(x["forward"]) + sum(x["backward"])) + x["optimizer"]
    saved = BLOCKS * TOKENS * sum(size for _, size in saved_bytes()) // TP
    head_saved = TOKENS * ((A * HIDDEN + 4) + A * HIDDEN + LOSS_SAVED * VOCABULARY) // TP
    x["saved"] = saved + head_saved
    # The transient of the loss. For a block (gate_up: gathered input, its gradient, output) only the part beyond what
    # the head has freed by then counts.
    x["transient"] = max(LOSS_FORWARD, LOSS_BACKWARD) * TOKENS * VOCABULARY // TP
    x["transient"] = max(x["transient"], A * TOKENS * (2 * HIDDEN + 2 * FFN // TP) - head_saved)
    x["static"] = [x["elements"] * PARAMETER, x["elements"] * GRADIENT, x["elements"] * (MASTER + MOMENTS)]
    x["workspace"] = int(d["workspace"] * 2**20)
    tensors = sum(x["static"]) + x["saved"] + x["transient"] + x["workspace"]
    engine = (root / "src/plan/engine.h").read_text(encoding="utf-8")
    x["reserve"] = float(re.search(r"double allocator_reserve =\s*([\d.]+);", engine).group(1))
    x["peak"] = math.floor(tensors * (1 + x["reserve"]))
    return x


def comparisons(x, prediction):
    """Returns (quantity, computed here, predicted by the program), as integers."""
    to_ns = lambda seconds: round(seconds * 1e9)
    memory, times = prediction["memory_breakdown_bytes"], prediction["breakdown_s"]
    return [
        ("iteration", x["iteration"], to_ns(prediction["iteration_s"])),
        ("compute", SAMPLES * (x["forward"][0] + x["backward"][0]), to_ns(times["compute"])),
        ("exposed communication", SAMPLES * (x["forward"][1] + x["backward"][1]) + x["sync"], to_ns(times["exposed_communication"])),
        # The launches of the update are launch gaps, and the norms' sum is communication. The rest of the end of the
        # step is `optimizer`.
        ("other", SAMPLES * (x["forward"][2] + x["backward"][2]) + x["update_launches"], to_ns(times["other"])),
        ("optimizer", x["optimizer"] - x["update_launches"] - x["sync"], to_ns(times["optimizer"])),
        ("hidden communication", x["hidden"], to_ns(prediction["hidden_communication_s"])),
        ("parameters", x["static"][0], memory["parameters"]),
        ("gradients", x["static"][1], memory["gradients"]),
        ("optimizer state", x["static"][2], memory["optimizer"]),
        ("activations", x["saved"] + x["transient"], memory["activations"]),
        ("peak memory", x["peak"], prediction["peak_memory_bytes"]),
    ]


def over(factor, what=""):
    """Formats a coefficient of the framework if it is not 1."""
    return "" if factor == 1 else f"{what} / {factor:g}"


def markdown(x):
    d, e, s = x["device"], x["equations"], x["block"]
    us = lambda seconds: f"{seconds * 1e6:,.1f}"
    out = [f"`espalier {' '.join(COMMAND)}`", ""]
    f, link = d["framework"], d["link"]
    out += [f"P·σ·g = {d['peak'] / 1e12:g} TFLOP/s × {d['sustained']:g} × {d['gemm_max']:g}{over(f['compute'])} = {e.rate / 1e12:.1f} TFLOP/s; "
            f"B_g = {d['bandwidth'] / 1e9:g} GB/s × {d['gemm_memory']:g} = {e.gemm_memory / 1e9:.1f} GB/s; "
            f"R = {d['bandwidth'] / 1e9:g} GB/s × {d['memory_max']:g} = {e.memory / 1e9:.1f} GB/s{over(f['elementwise'], ', of element-wise kernels')}; "
            f"f₀ = {e.floor * 1e6:g} µs; launch {e.launch * 1e6:.4g} µs;",
            f"attention: A = {d['attention_max']:g}, d½ = {d['attention_softmax']:g}, s₀ = {d['attention_prologue']:g}, R½ = {d['attention_rows']:g}, "
            f"rate P·σ·A·(1 + d½/128){over(f['compute'])} = {e.attention / 1e12:.1f} TFLOP/s, backward {d['attention_backward']:g} of it; "
            f"κ_c = {e.kappa_c:g}, κ_w = {e.kappa_w:.3f};",
            f"NVSwitch β·η = {link['bandwidth'] / 1e9:g} GB/s × {link['efficiency']:g}{over(f['tensor_communication'])} = {e.link_rate / 1e9:.1f} GB/s, "
            f"α = {e.hop * 1e6:.4g} µs, start {e.start * 1e6:g} µs, ρ = {link['ramp']:g}, λ = {link['small_group']:g}.", ""]
    out += ["One block, one micro-batch, one rank (tokens × in × out):", "",
            "| operator | local shape | forward µs | backward µs |", "| --- | --- | ---: | ---: |"]
    out += [f"| `{name}` | {shape} | {us(f)} | {us(b)} |" for name, shape, f, b in s.lines]
    out += [f"| sum: compute | | {us(s.forward)} | {us(s.backward)} |",
            f"| exposed communication | | {us(s.exposed_forward)} | {us(s.exposed_backward)} |", ""]
    qkv = [line for line in s.lines if line[0] == "attn.qkv"][0]
    m, n, k = TOKENS, (HEADS + 2 * KV_HEADS) * HEAD // TP, HIDDEN
    c = e.gather(A * TOKENS * HIDDEN)
    compute, memory = 2 * m * n * k / e.rate, A * (m * k + k * n + m * n) / e.gemm_memory
    size, latency = A * TOKENS * HIDDEN, e.start + (TP - 1) * e.hop
    volume = size * (TP - 1) / TP * (1 + link["small_group"] * e.own) / e.link_rate
    out += [f"- `attn.qkv` forward: c = 2·{m}·{n}·{k} / {e.rate / 1e12:.1f}·10¹² = {us(compute)} µs, "
            f"m = {A * (m * k + k * n + m * n):,} bytes / {e.gemm_memory / 1e9:.1f}·10⁹ = {us(memory)} µs; f₀ + √(c² + m²) = {us(qkv[2])} µs.",
            f"- One all-gather or reduce-scatter of the layer's input: S = 2·{TOKENS}·{HIDDEN} = {size:,} bytes; "
            f"V = S·7/8·(1 + λ/7) / {e.link_rate / 1e9:.1f}·10⁹ = {us(volume)} µs, L = start + 7·α = {us(latency)} µs; "
            f"L + V + ρ·√(L·V) = {us(c)} µs. Forward: 4 of them, {us(4 * c)} µs. Backward: 2 exposed, and 4 beside the gradients of "
            f"the two column linears.", ""]
    names = ["embedding", "block", "head"]
    out += ["Nanoseconds of one micro-batch (compute + exposed + other):", "", "| layer | count | forward | backward |", "| --- | ---: | --- | --- |"]
    for name, (phases, count) in zip(names, x["kinds"]):
        out.append(f"| {name} | {count} | " + " | ".join(" + ".join(f"{v:,}" for v in phases[way]) for way in range(2)) + " |")
    out.append(f"| pass, with its {x['device']['launches']['pass']} launches" + (" and the host time of a micro-batch" if f["micro_batch_s"] else "") + " | 1 | " + " | ".join(" + ".join(f"{v:,}" for v in x[way]) for way in ("forward", "backward")) + " |")
    out += ["", f"Norms: every rank has the gradients of its own eighth of the tokens. {x['norms']:,} weights · {WIRE} bytes all-reduced over the eight: "
            f"{x['sync']:,} ns."]
    out += ["", f"Optimizer: {x['elements']:,} elements × 34 bytes / {e.memory / 1e9:.1f} GB/s + f₀ + {x['device']['launches']['update']} launches"
            f"{' + host time of a step ' + format(f['step_s'] * 1e3, '.4g') + ' ms' if f['step_s'] else ''} = {x['optimizer'] - x['sync']:,} ns; with the norms {x['optimizer']:,} ns.", "",
            f"Step: {SAMPLES} · ({sum(x['forward']):,} + {sum(x['backward']):,}) + {x['optimizer']:,} = **{x['iteration']:,} ns**.", ""]
    per_token = sum(size for _, size in saved_bytes())
    out += ["Memory of a rank:", "", "| part | calculation | bytes |", "| --- | --- | ---: |",
            f"| parameters | 2 · {x['elements']:,} | {x['static'][0]:,} |", f"| gradients | 4 · {x['elements']:,} | {x['static'][1]:,} |",
            f"| optimizer | (4 + 8) · {x['elements']:,} | {x['static'][2]:,} |",
            f"| saved activations | {BLOCKS} blocks · {per_token:,} bytes a token · {TOKENS:,} / {TP}, and the head | {x['saved']:,} |",
            f"| transient | {LOSS_FORWARD} · {TOKENS:,} · {VOCABULARY // TP:,}: logits beside the fp32 softmax | {x['transient']:,} |",
            f"| workspaces | 2 · {x['device']['workspace'] / 2:g} MiB of cuBLAS | {x['workspace']:,} |",
            f"| allocator reserve | {x['reserve']:.2g} of it | {x['peak'] - sum(x['static']) - x['saved'] - x['transient'] - x['workspace']:,} |",
            f"| **peak** | | **{x['peak']:,}** |", ""]
    out += ["Saved bytes of a block per token, before the division by tp:", "", "| tensor | bytes |", "| --- | ---: |"]
    out += [f"| {name} | {size:,} |" for name, size in saved_bytes()]
    out += [f"| sum | {per_token:,} |"]
    return "\n".join(out)

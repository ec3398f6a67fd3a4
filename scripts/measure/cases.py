# SPDX-License-Identifier: Apache-2.0
"""Lists the cases of parts.py in the order of measurement. It needs no PyTorch, so that predict.py reads
the same table. A series is measured together, on one machine, under its date.

Each case has a `case` (its name) and a `part`, the function of parts.py that measures it. The other keys are
arguments of that function.
"""

from __future__ import annotations

BLOCKS = 8  # blocks of a stack: its launches fit into the device's queue of 1,024
DOCUMENTS = [512, 1024, 1536, 2560, 4096, 6656]  # tokens of unequal documents of a packed sample


def block(style: str, hidden: int, compiled: bool = False, **more) -> dict:
    name = "-".join([style, str(hidden), *(["compiled"] if compiled else []), *(str(value) if key == "recompute" else f"{key}-{value}" for key, value in more.items())])
    return {"case": f"block-{name}", "part": "block", "style": style, "hidden": hidden, "tokens": 256, "compiled": compiled, **more}


def attention(library: str, sequence: int, *, batch: int = 1, heads: int = 32, key_heads: int = 8, head: int = 128, value_head: int | None = None, causal: bool = True) -> dict:
    value_head = value_head or head
    width = f"{head}" if value_head == head else f"{head}v{value_head}"
    name = f"attention-{library}-{sequence}-{width}" + ("" if key_heads != heads else "-mha") + ("" if causal else "-all")
    return {"case": name, "part": "attention", "library": library, "batch": batch, "heads": heads, "key_heads": key_heads, "sequence": sequence, "head": head,
            "value_head": value_head, "causal": causal}


def packed(library: str, length: int, *, tokens: int = 32768, heads: int = 32, key_heads: int = 32, head: int = 128) -> dict:
    """Returns attention inside the documents of one packed sample; documents have `length` tokens, or with 0 the
    mixed lengths of DOCUMENTS."""
    documents = [length] * (tokens // length) if length else DOCUMENTS * (tokens // sum(DOCUMENTS))
    name = f"packed-{library}-{tokens}-{length or 'mixed'}-{head}" + ("" if key_heads != heads else "-mha")
    return {"case": name, "part": "packed", "library": library, "documents": documents, "heads": heads, "key_heads": key_heads, "head": head}


def zero(stage: int, shape: str, accumulation: str = "bf16", *, ranks: int = 1, buckets: str = "default", micro_batches: int = 1) -> dict:
    """Returns a step under DeepSpeed: `accumulation` is grad_accum_dtype; `buckets` auto has the bucket sizes of
    Hugging Face's "auto" in place of DeepSpeed's own."""
    words = [f"zero-{stage}-{shape}", accumulation, f"of-{ranks}" if ranks > 1 else "", buckets if buckets != "default" else "", f"micro-batches-{micro_batches}" if micro_batches > 1 else ""]
    return {"case": "-".join(word for word in words if word), "part": "zero", "stage": stage, "shape": shape, "accumulation": accumulation, "ranks": ranks, "buckets": buckets,
            "micro_batches": micro_batches, "sequence": 1024}


def experts(shape: str, how: str, tokens: int) -> dict:
    hidden, intermediate, count, chosen = {"mixtral": (4096, 14336, 8, 2), "fine": (2048, 1408, 64, 6), "30b-a3b": (2048, 768, 128, 8)}[shape]
    return {"case": f"experts-{shape}-{how}-{tokens}", "part": "experts", "how": how, "tokens": tokens, "hidden": hidden, "intermediate": intermediate, "experts": count, "chosen": chosen}


def loss(how: str) -> dict:
    return {"case": f"loss-{how}", "part": "loss", "how": how, "tokens": 8192, "hidden": 4096, "vocabulary": 128256}


def optimizer(how: str, precision: str) -> dict:
    return {"case": f"optimizer-{how}-{precision}", "part": "optimizer", "how": how, "precision": precision, "layers": 22, "hidden": 2048, "intermediate": 8192}


def step(case: str) -> dict:
    """Returns a case of steps.py."""
    return {"case": case, "part": "step"}


FIRST = [
    {"case": "launch", "part": "launch"},
    *(block("fsdp2", hidden) for hidden in (256, 1024, 2048)),
    *(block("megatron", hidden) for hidden in (256, 1024, 2048)),
    block("plain", 1024),
    block("megatron-tp", 1024),
    block("fsdp2", 1024, recompute="full"),
    *(attention(library, sequence, batch=max(1, 8192 // sequence)) for sequence in (2048, 8192, 32768) for library in ("cudnn", "flash", "efficient")),
    attention("math", 2048, batch=1),
    *(attention(library, 8192, key_heads=32, head=64) for library in ("cudnn", "flash", "efficient")),
    *(attention(library, 8192, heads=16, key_heads=16, head=192, value_head=128) for library in ("cudnn", "flash", "flash-padded", "efficient")),
    *(attention(library, 8192, key_heads=32, causal=False) for library in ("cudnn", "flash", "efficient")),
    *(experts(shape, how, tokens) for shape in ("mixtral", "fine") for tokens in (2048, 8192) for how in ("looped", "grouped")),
    *(step(f"1b-4k-2-{how}") for how in ("lora-qv", "lora-all", "lora-qv-full", "lora-all-full", "plain", "lora-qv-chunked-loss", "lora-qv-fp32")),
    *(loss(how) for how in ("plain", "chunked", "chunked-recomputed")),
    *(optimizer(how, precision) for how, precision in (("adamw-fused", "fp32"), ("adamw-foreach", "fp32"), ("adamw-fused", "bf16"), ("adamw-foreach", "bf16"),
                                                       ("sgd-fused", "fp32"), ("sgd-foreach", "fp32"), ("newton-schulz", "bf16"), ("muon", "bf16"))),
    *(attention("flex", sequence, batch=max(1, 8192 // sequence)) for sequence in (2048, 8192, 32768)),
    *(block("fsdp2", hidden, compiled=True) for hidden in (256, 1024)),
    attention("flex", 8192, heads=16, key_heads=16, head=192, value_head=128),
    loss("compiled"),
    block("plain", 1024, compiled=True),
    attention("flex", 8192, key_heads=32, head=64),
    attention("flex", 8192, key_heads=32, causal=False),
    block("fsdp2", 1024, ranks=8),
]
SECOND = [
    {"case": "launch-again", "part": "launch"},
    *(zero(stage, shape) for shape in ("350m", "1b-8-layers", "1b") for stage in (1, 2, 3)),
    *(zero(1, shape, "fp32") for shape in ("350m", "1b-8-layers", "1b")),
    *(zero(stage, "1b-8-layers", "fp32") for stage in (2, 3)),
    *(zero(2, "1b-8-layers", accumulation, micro_batches=2) for accumulation in ("bf16", "fp32")),
    zero(0, "1b-8-layers"),
    *(zero(stage, shape, ranks=8) for shape in ("1b-8-layers", "1b") for stage in (1, 2, 3)),
    zero(1, "1b", "fp32", ranks=8),
    *(zero(stage, "1b", ranks=8, buckets="auto") for stage in (2, 3)),
    *(block(style, hidden) for style, hidden in (("fsdp2", 3072), ("fsdp2", 4096), ("megatron", 3072), ("megatron", 4096), ("plain", 2048), ("plain", 4096))),
    *(step(f"1b-8-layers-4k-2-{how}") for how in ("plain", "plain-full", "plain-compiled")),
    step("1b-8-layers-16k-1-plain-full"),
    *(experts("30b-a3b", how, tokens) for tokens in (2048, 8192) for how in ("looped", "grouped")),
    *(experts(shape, how, 8192) for shape in ("30b-a3b", "mixtral") for how in ("transformers-grouped", "transformers-looped")),
    *(packed("varlen", length, head=head) for head in (128, 64) for length in (2048, 8192, 0)),
    packed("varlen", 0, key_heads=8),
    *(block(style, hidden, compiled=True) for style in ("fsdp2", "plain") for hidden in (2048, 4096)),
    *(packed("flex", length) for length in (2048, 0)),
    packed("flex", 0, head=64),
    *(attention("flex", sequence, batch=max(1, 8192 // sequence), key_heads=32, head=64) for sequence in (2048, 32768)),
]
SERIES = {"2026-11-27": FIRST, "2026-11-28": SECOND}
PARTS = [case for series in SERIES.values() for case in series]
# Smaller values of --smoke.
SMOKE = {"hidden": 128, "tokens": 64, "sequence": 256, "intermediate": 256, "vocabulary": 512, "layers": 2}

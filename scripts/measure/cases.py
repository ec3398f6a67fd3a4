# SPDX-License-Identifier: Apache-2.0
"""Lists the cases of parts.py in the order of measurement. It needs no PyTorch, so that predict.py reads
the same table.

Each case has a `case` (its name) and a `part`, the function of parts.py that measures it. The other keys are
arguments of that function.
"""

from __future__ import annotations

BLOCKS = 8  # blocks of a stack: its launches fit into the device's queue of 1,024


def block(style: str, hidden: int, compiled: bool = False, **more) -> dict:
    name = "-".join([style, str(hidden), *(["compiled"] if compiled else []), *(str(value) if key == "recompute" else f"{key}-{value}" for key, value in more.items())])
    return {"case": f"block-{name}", "part": "block", "style": style, "hidden": hidden, "tokens": 256, "compiled": compiled, **more}


def attention(library: str, sequence: int, *, batch: int = 1, heads: int = 32, key_heads: int = 8, head: int = 128, value_head: int | None = None, causal: bool = True) -> dict:
    value_head = value_head or head
    width = f"{head}" if value_head == head else f"{head}v{value_head}"
    name = f"attention-{library}-{sequence}-{width}" + ("" if key_heads != heads else "-mha") + ("" if causal else "-all")
    return {"case": name, "part": "attention", "library": library, "batch": batch, "heads": heads, "key_heads": key_heads, "sequence": sequence, "head": head,
            "value_head": value_head, "causal": causal}


def experts(shape: str, how: str, tokens: int) -> dict:
    hidden, intermediate, count, chosen = {"mixtral": (4096, 14336, 8, 2), "fine": (2048, 1408, 64, 6)}[shape]
    return {"case": f"experts-{shape}-{how}-{tokens}", "part": "experts", "how": how, "tokens": tokens, "hidden": hidden, "intermediate": intermediate, "experts": count, "chosen": chosen}


def loss(how: str) -> dict:
    return {"case": f"loss-{how}", "part": "loss", "how": how, "tokens": 8192, "hidden": 4096, "vocabulary": 128256}


def optimizer(how: str, precision: str) -> dict:
    return {"case": f"optimizer-{how}-{precision}", "part": "optimizer", "how": how, "precision": precision, "layers": 22, "hidden": 2048, "intermediate": 8192}


def step(case: str) -> dict:
    """Returns a case of steps.py."""
    return {"case": case, "part": "step"}


PARTS = [
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
# Smaller values of --smoke.
SMOKE = {"hidden": 128, "tokens": 64, "sequence": 256, "intermediate": 256, "vocabulary": 512, "layers": 2}

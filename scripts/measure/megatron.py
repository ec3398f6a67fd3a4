# SPDX-License-Identifier: Apache-2.0
"""A transformer block of torch modules with the layout of Megatron-LM's local layers. The sequence comes first;
query, key and value share one product, as do gate and up. The backward pass adds gradients of weights into fp32
buffers. Transformer Engine and the fused kernels of Apex are not used.

With `group`, the inputs and outputs of its column and row products are all-reduced over it, as under tensor
parallelism.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from decoder import Shape


class Product(torch.autograd.Function):
    @staticmethod
    def forward(context, x, weight, group):
        context.save_for_backward(x, weight)
        context.group = group
        return torch.matmul(x, weight.t())

    @staticmethod
    def backward(context, gradient):
        x, weight = context.saved_tensors
        of_input = gradient.matmul(weight)
        work = dist.all_reduce(of_input, group=context.group, async_op=True) if context.group is not None else None
        weight.main_grad.add_(gradient.flatten(0, 1).t().matmul(x.flatten(0, 1)))
        if work is not None:
            work.wait()
        return of_input, None, None


class Reduced(torch.autograd.Function):
    @staticmethod
    def forward(context, x, group):
        dist.all_reduce(x, group=group)
        context.mark_dirty(x)
        return x

    @staticmethod
    def backward(context, gradient):
        return gradient, None


class Linear(nn.Module):
    def __init__(self, inputs: int, outputs: int, kind: str, group) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.kind, self.group = kind, group

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = Product.apply(x, self.weight, self.group if self.kind == "column" else None)
        return Reduced.apply(y, self.group) if self.kind == "row" and self.group is not None else y


def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


class Block(nn.Module):
    def __init__(self, shape: Shape, group=None) -> None:
        super().__init__()
        self.heads, self.key_heads, self.head = shape.heads, shape.key_heads, shape.hidden // shape.heads
        self.attention_norm = nn.RMSNorm(shape.hidden, eps=1e-5)
        self.query_key_value = Linear(shape.hidden, (shape.heads + 2 * shape.key_heads) * self.head, "column", group)
        self.output = Linear(shape.hidden, shape.hidden, "row", group)
        self.mlp_norm = nn.RMSNorm(shape.hidden, eps=1e-5)
        self.gate_up = Linear(shape.hidden, 2 * shape.intermediate, "column", group)
        self.down = Linear(shape.intermediate, shape.hidden, "row", group)

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        """`turns` are the angles of the rotation, [tokens, head]."""
        tokens, batch, _ = x.shape
        mixed = self.query_key_value(self.attention_norm(x)).view(tokens, batch, self.key_heads, -1)
        query, key, value = torch.split(mixed, [self.heads // self.key_heads * self.head, self.head, self.head], dim=3)
        query = query.reshape(tokens, batch, self.heads, self.head)
        cosine, sine = torch.cos(turns)[:, None, None].to(x.dtype), torch.sin(turns)[:, None, None].to(x.dtype)
        query, key = rotate(query, cosine, sine), rotate(key, cosine, sine)
        attended = F.scaled_dot_product_attention(*(part.permute(1, 2, 0, 3) for part in (query, key, value)), is_causal=True, enable_gqa=self.heads != self.key_heads)
        x = x + self.output(attended.permute(2, 0, 1, 3).reshape(tokens, batch, -1))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)

# SPDX-License-Identifier: Apache-2.0
"""A decoder of plain PyTorch modules, as in an eager or compiled FSDP2 run of a Llama-like model.

Norms are nn.RMSNorm, attention is scaled_dot_product_attention, the rotation is a complex product in fp32, the MLP is SwiGLU of three linears.
"""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass(frozen=True)
class Shape:
    """Holds a model's dimensions. `key_heads` divides `heads`; no embedding is tied."""

    layers: int
    hidden: int
    heads: int
    key_heads: int
    intermediate: int
    vocabulary: int


def rotation(head: int, tokens: int, device: torch.device) -> torch.Tensor:
    frequencies = 1.0 / (500000.0 ** (torch.arange(0, head, 2, device=device).float() / head))
    angles = torch.outer(torch.arange(tokens, device=device).float(), frequencies)
    return torch.polar(torch.ones_like(angles), angles)


def rotate(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[None, :, None, :]).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head = shape.hidden // shape.heads
        self.query = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.key = nn.Linear(shape.hidden, shape.key_heads * self.head, bias=False)
        self.value = nn.Linear(shape.hidden, shape.key_heads * self.head, bias=False)
        self.output = nn.Linear(shape.hidden, shape.hidden, bias=False)

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        query = rotate(self.query(x).view(batch, tokens, -1, self.head), turns)
        key = rotate(self.key(x).view(batch, tokens, -1, self.head), turns)
        value = self.value(x).view(batch, tokens, -1, self.head)
        attended = F.scaled_dot_product_attention(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), is_causal=True, enable_gqa=key.shape[2] != query.shape[2]
        )
        return self.output(attended.transpose(1, 2).reshape(batch, tokens, -1))


class Mlp(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.up = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.down = nn.Linear(shape.intermediate, shape.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(shape.hidden, eps=1e-5)
        self.attention = Attention(shape)
        self.mlp_norm = nn.RMSNorm(shape.hidden, eps=1e-5)
        self.mlp = Mlp(shape)

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), turns)
        return x + self.mlp(self.mlp_norm(x))


class Decoder(nn.Module):
    def __init__(self, shape: Shape, tokens: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.hidden)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden, eps=1e-5)
        self.head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        self.head_size = shape.hidden // shape.heads
        self.tokens = tokens
        self.turns: torch.Tensor | None = None

    def states(self, words: torch.Tensor) -> torch.Tensor:
        """Returns the input of the head."""
        if self.turns is None:
            self.turns = rotation(self.head_size, self.tokens, words.device)
        x = self.embedding(words)
        for block in self.blocks:
            x = block(x, self.turns)
        return self.norm(x)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.states(words))

# SPDX-License-Identifier: Apache-2.0
"""Cross-entropy of a linear head, with all logits in memory or with those of one chunk of tokens at a time."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def of_logits(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, -2).float(), labels.flatten())


def plain(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return of_logits(F.linear(hidden, weight), labels)


class Chunked(torch.autograd.Function):
    """Computes gradients with the loss, so that no logits are kept and no product runs twice (as in Liger's
    fused linear cross-entropy)."""

    @staticmethod
    def forward(context, hidden, weight, labels, chunk):
        flat, targets = hidden.flatten(0, -2), labels.flatten()
        wanted = weight.requires_grad
        of_hidden = torch.empty_like(flat)
        of_weight = torch.zeros_like(weight, dtype=torch.float32) if wanted else None
        total = torch.zeros((), device=hidden.device)
        for begin in range(0, flat.shape[0], chunk):
            rows = flat[begin : begin + chunk]
            with torch.enable_grad():
                logits = F.linear(rows, weight).detach().requires_grad_()
                part = F.cross_entropy(logits.float(), targets[begin : begin + chunk], reduction="sum") / flat.shape[0]
            (of_logit,) = torch.autograd.grad(part, logits)
            total += part.detach()
            of_hidden[begin : begin + chunk] = of_logit @ weight
            if wanted:
                of_weight += of_logit.t() @ rows
        context.save_for_backward(of_hidden.view_as(hidden), of_weight.to(weight.dtype) if wanted else None)
        return total

    @staticmethod
    def backward(context, gradient):
        of_hidden, of_weight = context.saved_tensors
        return of_hidden * gradient.to(of_hidden.dtype), None if of_weight is None else of_weight * gradient.to(of_weight.dtype), None, None


def chunked(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, chunk: int = 1024) -> torch.Tensor:
    return Chunked.apply(hidden, weight, labels, chunk)


def chunked_recomputed(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, chunk: int = 1024) -> torch.Tensor:
    """Recomputes the logits of each chunk in the backward pass (as in TRL's chunked_nll)."""

    def part(rows, targets):
        return F.cross_entropy(F.linear(rows, weight).float(), targets, reduction="sum")

    flat, targets = hidden.flatten(0, -2), labels.flatten()
    total = sum(checkpoint(part, flat[begin : begin + chunk], targets[begin : begin + chunk], use_reentrant=False) for begin in range(0, flat.shape[0], chunk))
    return total / flat.shape[0]

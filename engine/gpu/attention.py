"""Ways to attend from a few rows to many keys, to be measured against each other, and one to read a prompt with.

All take queries [rows, heads, head_dim] and one layer's keys and values [kv_heads, capacity, head_dim] and return
[rows, heads head_dim]. The heads of a group become rows of one product, so keys and values are never copied per head.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.gpu.step import Step

Attention = Callable[[Tensor, Tensor, Tensor, Step], Tensor]
BLOCK = 256  # keys that are summed on their own in `blockwise`
HIDDEN = -1e30  # a masked score: finite, so that a block without a visible key gives zeros and not NaN


def fused(q: Tensor, keys: Tensor, values: Tensor, step: Step) -> Tensor:
    """Torch's fused kernels over the whole reach, with a mask."""
    grouped = _grouped(q, len(keys))
    mask = step.visible().repeat_interleave(grouped.shape[1] // step.rows, dim=0)
    mixed = F.scaled_dot_product_attention(
        grouped[None], keys[None, :, : step.reach], values[None, :, : step.reach], attn_mask=mask
    )
    return _ungrouped(mixed[0], step.rows)


def blockwise(q: Tensor, keys: Tensor, values: Tensor, step: Step) -> Tensor:
    """Plain products over blocks of keys side by side: a few rows of one head would leave most of a card idle."""
    block = min(BLOCK, step.reach)
    kv_heads, head_dim = len(keys), q.shape[-1]
    grouped = _grouped(q * head_dim**-0.5, kv_heads)[:, None]
    blocks = (kv_heads, step.reach // block, block, head_dim)
    k, v = keys[:, : step.reach].view(blocks), values[:, : step.reach].view(blocks)
    scores = torch.matmul(grouped, k.transpose(-1, -2)).float()  # [kv, blocks, rows group, block]
    visible = step.visible().view(step.rows, 1, -1, block).expand(-1, q.shape[1] // kv_heads, -1, -1)
    scores = scores.masked_fill(~visible.flatten(0, 1).transpose(0, 1), HIDDEN)
    top = scores.amax(dim=-1, keepdim=True)
    weights = (scores - top).exp_()
    share = (top - top.amax(dim=1, keepdim=True)).exp_()
    mixed = (torch.matmul(weights.to(v.dtype), v).float() * share).sum(dim=1)
    mixed /= (weights.sum(dim=-1, keepdim=True) * share).sum(dim=1)
    return _ungrouped(mixed.to(q.dtype), step.rows)


def prompt(q: Tensor, keys: Tensor, values: Tensor, step: Step) -> Tensor:
    """Read many rows: torch's flash kernel where there is one, which needs no mask."""
    from torch.nn.attention.bias import causal_lower_right  # imports torch's compiler: two seconds of every start

    end = step.reach
    k, v = keys[None, :, :end], values[None, :, :end]
    bias = causal_lower_right(step.rows, end)
    mixed = F.scaled_dot_product_attention(q.transpose(0, 1)[None], k, v, attn_mask=bias, enable_gqa=True)
    return mixed[0].transpose(0, 1).flatten(1)


def _grouped(q: Tensor, kv_heads: int) -> Tensor:
    """[rows, heads, head_dim] to [kv_heads, rows group, head_dim]."""
    rows, heads, head_dim = q.shape
    return q.view(rows, kv_heads, heads // kv_heads, head_dim).transpose(0, 1).reshape(kv_heads, -1, head_dim)


def _ungrouped(mixed: Tensor, rows: int) -> Tensor:
    """[kv_heads, rows group, head_dim] to [rows, heads head_dim]."""
    kv_heads, _, head_dim = mixed.shape
    return mixed.view(kv_heads, rows, -1, head_dim).transpose(0, 1).reshape(rows, -1)

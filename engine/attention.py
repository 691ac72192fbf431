"""Attention of the lean forward pass, and its torch form for where the compiled one does not run.

A row's bits must not depend on the rows beside it or on how its prefix was chunked. In torch that takes keys padded to
whole blocks of 256, so that every sum over keys has the same length and place (MKL splits a sum by its length: with
keys padded to 64, lengths of 192 gave other bits than 256 on an AVX2 machine), and a least number of rows.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from engine.exact_rows import exact_bmm, least_rows
from engine.kv_cache import KVCache
from engine.lean_shape import LeanShape

KEY_BLOCK = 256  # scores cover whole blocks; probabilities x values is summed block by block


class Step(Protocol):
    """The attention of all layers of one pass."""

    def attend(self, index: int, product: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        """Store a layer's keys and values, return its answers, float32 [rows, heads head_dim].

        Queries, keys and values are `product` [rows, (heads + 2 kv_heads) head_dim] times its rows' scale, plus bias.
        Adjacent numbers of queries and keys are rotated together. `product` may be changed.
        """
        ...


class Attention(Protocol):
    """One way to compute attention, with the cache that suits it."""

    def new_cache(self) -> KVCache:
        """Return an empty cache."""
        ...

    def begin(self, cache: KVCache, rows: int) -> Step:
        """Make room in the cache for rows that follow what it holds, and return what attends for them."""
        ...


class TorchCache(KVCache):
    """float32 keys, transposed for the score product, and values of all layers.

    Unused positions hold finite numbers: the padded tail meets probability zero, and 0 x inf would spoil the row.
    """

    def __init__(self, shape: LeanShape) -> None:
        super().__init__()
        self.shape = shape
        self.keys = torch.zeros(shape.layers, shape.kv_heads, shape.head_dim, 0)
        self.values = torch.zeros(shape.layers, shape.kv_heads, 0, shape.head_dim)

    @torch.inference_mode()
    def _grow(self, capacity: int) -> None:
        s = self.shape
        keys = torch.zeros(s.layers, s.kv_heads, s.head_dim, capacity)
        values = torch.zeros(s.layers, s.kv_heads, capacity, s.head_dim)
        keys[..., : self.capacity] = self.keys
        values[:, :, : self.capacity] = self.values
        self.keys, self.values = keys, values


class TorchAttention:
    """torch's operators. RoPE is one complex product on adjacent pairs of queries and keys together."""

    def __init__(self, shape: LeanShape, rope: Tensor) -> None:
        self._shape, self._rope = shape, rope

    def new_cache(self) -> TorchCache:
        """See Attention."""
        return TorchCache(self._shape)

    def begin(self, cache: KVCache, rows: int) -> Step:
        """See Attention."""
        assert isinstance(cache, TorchCache)
        return _TorchStep(self._shape, cache, rows, self._rope)


class _TorchStep:
    """What all layers of one pass share: positions, rotations, mask."""

    def __init__(self, shape: LeanShape, cache: TorchCache, rows: int, rope: Tensor) -> None:
        self.shape, self.start, self.rows = shape, len(cache), rows
        self.least = least_rows(shape.kv_heads, shape.group, shape.head_dim)
        self.end = self.start + rows
        padded = -(-self.end // KEY_BLOCK) * KEY_BLOCK
        cache.reserve(padded)
        self.keys = cache.keys[..., :padded].unbind(0)
        self.values = cache.values[:, :, :padded].unbind(0)
        self.rope = rope[self.start : self.end, None]
        new = torch.arange(self.start, padded)
        own = torch.arange(self.start, self.end)[:, None]
        mask = torch.zeros(rows, padded - self.start).masked_fill_(new > own, float("-inf"))
        self.mask = mask.repeat_interleave(shape.group, dim=0)  # [rows group, padded - start]

    def attend(self, index: int, product: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        """See Step."""
        s, rows = self.shape, self.rows
        turned = s.heads + s.kv_heads
        heads = torch.addcmul(bias, product, scale).view(rows, turned + s.kv_heads, s.head_dim)
        qk = _rotate(heads[:, :turned], self.rope)
        keys, values = self.keys[index], self.values[index]
        keys[:, :, self.start : self.end].copy_(qk[:, s.heads :].permute(1, 2, 0))
        values[:, self.start : self.end].copy_(heads[:, turned:].transpose(0, 1))
        q = qk[:, : s.heads].view(rows, s.kv_heads, s.group, s.head_dim).transpose(0, 1)
        scores = exact_bmm(q.reshape(s.kv_heads, rows * s.group, s.head_dim), keys, self.least, s.group)
        scores[:, :, self.start :].add_(self.mask)
        mixed = self._weighted(torch.softmax(scores, dim=-1), values)
        mixed = mixed.view(s.kv_heads, rows, s.group, s.head_dim).transpose(0, 1)
        return mixed.reshape(rows, s.heads * s.head_dim)

    def _weighted(self, probabilities: Tensor, values: Tensor) -> Tensor:
        """[kv, m, keys] x [kv, keys, head_dim], block by block at fixed places: the length must not matter."""
        blocks = zip(torch.split(probabilities, KEY_BLOCK, -1), torch.split(values, KEY_BLOCK, 1), strict=True)
        products = [exact_bmm(p, v, self.least, self.shape.group) for p, v in blocks]
        total = products[0]
        for product in products[1:]:
            total += product
        return total


def _rotate(x: Tensor, rope: Tensor) -> Tensor:
    """Rotate adjacent pairs of [rows, heads, head_dim] by complex [rows, 1, head_dim / 2]."""
    pairs = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rope).flatten(-2)

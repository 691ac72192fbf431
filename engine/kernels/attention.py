"""Attention in compiled code (see attention_ir), and the cache that it reads."""

from __future__ import annotations

from math import prod

import numpy as np
import torch
from torch import Tensor

from engine.kernels.attention_ir import KEYS, QUERIES, WORDS
from engine.kernels.kernels import Kernels
from engine.kernels.layout import aligned
from engine.kv_cache import KVCache
from engine.lean_shape import LeanShape

WIDTH = 16  # a head's size must be a multiple of it


class BlockCache(KVCache):
    """float16 keys in blocks of 16, and values, of all layers; unused positions hold finite numbers."""

    def __init__(self, shape: LeanShape) -> None:
        super().__init__()
        self.shape = shape
        self.keys = _zeros(shape.layers, shape.kv_heads, 0, shape.head_dim, KEYS)
        self.values = _zeros(shape.layers, shape.kv_heads, 0, shape.head_dim)

    @torch.inference_mode()
    def _grow(self, capacity: int) -> None:
        s = self.shape
        keys = _zeros(s.layers, s.kv_heads, capacity // KEYS, s.head_dim, KEYS)
        values = _zeros(s.layers, s.kv_heads, capacity, s.head_dim)
        keys[:, :, : self.capacity // KEYS] = self.keys
        values[:, :, : self.capacity] = self.values
        self.keys, self.values = keys, values


def _zeros(*size: int) -> Tensor:
    """Zeros on large pages, where there are such: a pass reads all of them once, and looks up fewer pages."""
    return torch.from_numpy(aligned(2 * prod(size))).view(torch.float16).view(size)


class KernelAttention:
    """The compiled form."""

    def __init__(self, kernels: Kernels, shape: LeanShape, rope: Tensor) -> None:
        self._kernels, self._shape, self._rope = kernels, shape, rope.contiguous()

    def new_cache(self) -> BlockCache:
        """See Attention."""
        return BlockCache(self._shape)

    def begin(self, cache: KVCache, rows: int) -> KernelStep:
        """See Attention."""
        assert isinstance(cache, BlockCache)
        return KernelStep(self._kernels, self._shape, cache, rows, self._rope)


class KernelStep:
    """The attention of one pass: what it says to the compiled function, layer after layer."""

    def __init__(self, kernels: Kernels, shape: LeanShape, cache: BlockCache, rows: int, rope: Tensor) -> None:
        start = len(cache)
        cache.reserve(start + rows)
        self._kernels = kernels
        self.out = torch.empty(rows, shape.heads * shape.head_dim)
        self.rope = rope[start : start + rows]
        queries = rows * shape.group
        units = -(-queries // QUERIES)
        facts = {
            "out": self.out.data_ptr(),
            "keys": cache.keys.data_ptr(),
            "values": cache.values.data_ptr(),
            "key_heads": shape.kv_heads,
            "group": shape.group,
            "size": shape.head_dim,
            "start": start,
            "rows": rows,
            "capacity": cache.capacity,
            "each": -(-queries // units),
        }
        facts["units"] = -(-queries // facts["each"])
        self._first = np.array([facts.get(name, 0) for name in WORDS], dtype=np.int64)
        self._words = self._first.copy()
        self.bytes_of_a_layer = 2 * cache.keys[0].numel(), 2 * cache.values[0].numel()

    def words(self, product: Tensor, index: int = 0) -> int:
        """Return where the words are that say what to attend to in a layer, with `product` as its queries."""
        assert product.is_contiguous()
        self._words[:] = self._first
        self._words[0] = product.data_ptr()
        for name, size in zip(("keys", "values"), self.bytes_of_a_layer, strict=True):
            self._words[WORDS.index(name)] += index * size
        return self._words.ctypes.data

    def attend(self, index: int, product: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        """See Step; the answers' memory is the next layer's, too."""
        job, words = self._kernels.team.job, self.words(product, index)
        self._kernels.library.attention(job, words, bias.data_ptr(), self.rope.data_ptr(), scale.data_ptr())
        return self.out

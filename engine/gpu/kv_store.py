"""Keys and values where graphs expect them: one working set of buffers, and compact copies of what it held before.

A recorded graph knows addresses, so only one document's cache can be the working one. Switching documents copies
(a 7B model's 4000 tokens are 230 MB: well under a millisecond on the card), and a cache put aside takes the room of
its length, not of its capacity. When the card is full, caches put aside are what goes.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor

from engine.gpu.buckets import rounded_up
from engine.gpu.shape import ModelShape
from engine.kv_cache import KVCache

Pair = tuple[Tensor, Tensor]


class GpuCache(KVCache):
    """One document's cache. What it holds is in its store: in the working buffers or put aside."""

    def __init__(self, store: KvStore) -> None:
        super().__init__()
        self.store = store

    def _grow(self, capacity: int) -> None:
        """The store grows by itself."""


class KvStore:
    """The working buffers [layers, kv_heads, capacity, head_dim] of one model, and the caches put aside.

    `generation` changes whenever the buffers move: graphs recorded before are of no use then. Unused positions hold
    finite numbers: they meet probability zero, and 0 x inf would spoil the row.
    """

    def __init__(
        self, shape: ModelShape, device: torch.device, dtype: torch.dtype, capacity: int, put_aside: int
    ) -> None:
        self._shape, self._device, self._dtype = shape, device, dtype
        self._least, self._most_aside = rounded_up(capacity), put_aside
        self._owner: GpuCache | None = None
        self._aside: OrderedDict[int, tuple[GpuCache, Pair]] = OrderedDict()
        self.generation = 0
        self.buffers = self._new_buffers(self._least)

    @property
    def capacity(self) -> int:
        """Positions the working buffers hold."""
        return self.buffers[0].shape[2]

    @property
    def layers(self) -> list[Pair]:
        """Keys and values of each layer, [kv_heads, capacity, head_dim]."""
        keys, values = self.buffers
        return list(zip(keys.unbind(0), values.unbind(0), strict=True))

    def attach(self, cache: GpuCache, length: int) -> None:
        """Make `cache` the working one, with room for `length` positions in all."""
        if self._owner is not cache:
            self._put_aside()
            self._owner = cache
            self._reserve(max(length, len(cache)), keep=0)
            self._bring_back(cache)
        self._reserve(length, keep=len(cache))

    def release(self) -> None:
        """Forget everything and go back to the first capacity: memory ran out."""
        for cache, _ in self._aside.values():
            cache.truncate(0)
        if self._owner is not None:
            self._owner.truncate(0)
        self._aside.clear()
        self._owner = None
        if self.capacity != self._least:
            self._move(self._least, keep=0)

    def _reserve(self, length: int, keep: int) -> None:
        capacity = max(self.capacity, self._least)
        while capacity < length:
            capacity *= 2
        if capacity > self.capacity:
            self._move(capacity, keep)

    def _move(self, capacity: int, keep: int) -> None:
        old = [buffer[:, :, :keep] for buffer in self.buffers]
        self.generation += 1
        if not keep:  # nothing to copy: free the old before asking for the new
            old.clear()
            self.buffers = self._new_buffers(0)
        buffers = self._new_buffers(capacity)
        for new, kept in zip(buffers, old, strict=False):
            new[:, :, :keep] = kept
        self.buffers = buffers

    def _put_aside(self) -> None:
        owner = self._owner
        if owner is None or not len(owner):
            return
        for key in [key for key, (cache, _) in self._aside.items() if not len(cache)]:  # forgotten meanwhile
            del self._aside[key]
        while self._aside and len(self._aside) >= self._most_aside:
            self._drop_oldest()
        length = len(owner)
        copies = self._copies(length) if self._most_aside else None
        if copies is None:
            owner.truncate(0)
            return
        self._aside[id(owner)] = (owner, copies)

    def _copies(self, length: int) -> Pair | None:
        """Copy what counts, at the price of older copies where the card is full; None when that does not do."""
        keys, values = self.buffers
        while True:
            try:
                return keys[:, :, :length].clone(), values[:, :, :length].clone()
            except torch.OutOfMemoryError:
                if not self._aside:
                    return None
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, (cache, _) = self._aside.popitem(last=False)
        cache.truncate(0)

    def _bring_back(self, cache: GpuCache) -> None:
        _, pair = self._aside.pop(id(cache), (cache, None))
        if pair is None:
            assert not len(cache)
            return
        for buffer, copy in zip(self.buffers, pair, strict=True):
            buffer[:, :, : len(cache)] = copy[:, :, : len(cache)]

    def _new_buffers(self, capacity: int) -> Pair:
        s = self._shape
        size = (s.layers, s.kv_heads, capacity, s.head_dim)
        keys = torch.zeros(size, device=self._device, dtype=self._dtype)
        return keys, torch.zeros_like(keys)

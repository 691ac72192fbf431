"""The keys and values of one token sequence, and the ids they belong to.

Storage is preallocated and grows by doubling; rollback is a length. What a backend stores is its own business: it
subclasses and says how to enlarge. Invariant kept by all users: position i of the storage belongs to `ids[i]`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

MIN_CAPACITY = 256


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the longest common prefix of two id sequences."""
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    differs = np.asarray(a[:n], dtype=np.int64) != np.asarray(b[:n], dtype=np.int64)
    return int(differs.argmax())


class KVCache(ABC):
    """What a model has computed for `ids`, reusable for every sequence that begins alike."""

    can_truncate = True

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.capacity = 0

    def __len__(self) -> int:
        return len(self.ids)

    def reuse(self, ids: Sequence[int]) -> int:
        """Roll back to the longest common prefix with `ids` and return its length."""
        self.truncate(common_prefix(self.ids, list(ids)))
        return len(self.ids)

    def truncate(self, length: int) -> None:
        """Forget every position from `length` on. Costs nothing."""
        if length >= len(self.ids):
            return
        if not self.can_truncate:
            length = 0
            self.clear()
        del self.ids[length:]

    def extend(self, ids: Sequence[int]) -> None:
        """Record that the storage now holds `ids` after what it held."""
        self.ids.extend(ids)

    def reserve(self, length: int) -> None:
        """Make room for `length` positions in all."""
        if length <= self.capacity:
            return
        capacity = max(MIN_CAPACITY, self.capacity)
        while capacity < length:
            capacity *= 2
        self._grow(capacity)
        self.capacity = capacity

    @abstractmethod
    def _grow(self, capacity: int) -> None:
        """Enlarge the storage to `capacity` positions, keeping what it holds."""

    def clear(self) -> None:
        """Reset state that cannot be cut back to a length; caches that can be cut back have none."""
        assert self.can_truncate

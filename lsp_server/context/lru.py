"""A small table that forgets what was not used for longest. Safe to use from any thread."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Lru(Generic[K, V]):
    """At most `size` entries."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return an entry and mark it as used."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def peek(self, key: K) -> V | None:
        """Return an entry without marking it as used."""
        with self._lock:
            return self._entries.get(key)

    def put(self, key: K, value: V) -> None:
        """Set an entry; it counts as used."""
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)

    def pop(self, key: K) -> V | None:
        """Take an entry out."""
        with self._lock:
            return self._entries.pop(key, None)

    def clear(self) -> None:
        """Take all entries out."""
        with self._lock:
            self._entries.clear()

    def items(self) -> list[tuple[K, V]]:
        """Return a copy, the latest used first."""
        with self._lock:
            return list(reversed(self._entries.items()))

"""The only way to touch a model: make its cache agree with some ids, feed the rest, return logits.

Prefill with reuse, plain decoding, verification, draft catch-up and rollback are all the same call. A small pool of
caches, one slot per recently used document, keeps a switch between two files from costing a prefill.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from engine.core import CancelToken
from engine.errors import RequestError
from engine.kv_cache import KVCache, common_prefix

PREFILL_MS = 400.0
"""A prefill chunk should take no longer than this: it is how long a cancelled request may still run."""


class Cancelled(Exception):
    """The cancel token was set while a prefill was under way."""


class ForwardModel(Protocol):
    """A network that appends ids to a cache and returns logits."""

    vocab_size: int
    max_length: int
    row_exact: bool

    def new_cache(self) -> KVCache:
        """Return an empty cache for this model."""
        ...

    def forward(self, ids: Sequence[int], cache: KVCache, last: int) -> Tensor:
        """Append `ids` to the cache and return the logits of the last `last` of them, float32 [last, vocab]."""
        ...


class ModelRunner:
    """A model with its caches."""

    def __init__(self, model: ForwardModel, slots: int = 4) -> None:
        self.model = model
        self._slots = slots
        self._caches: OrderedDict[str, KVCache] = OrderedDict()
        self._chunk = 64
        self.cache = self.select("")

    def select(self, document: str) -> KVCache:
        """Work on the cache of `document` from now on; the least recently used one makes room for a new one."""
        if document not in self._caches:
            full = len(self._caches) >= self._slots
            self._caches[document] = self._caches.popitem(last=False)[1] if full else self.model.new_cache()
        self._caches.move_to_end(document)
        self.cache = self._caches[document]
        return self.cache

    def forget(self, document: str) -> None:
        """Drop what was computed for `document`."""
        if cache := self._caches.pop(document, None):
            cache.truncate(0)
            if cache is self.cache:
                self.select("")

    def reusable(self, ids: Sequence[int]) -> int:
        """How many of a prompt's tokens are computed already. The last token is always computed again."""
        if not self.cache.can_truncate:  # a running state goes on from its own end or starts over
            return 0
        return min(common_prefix(self.cache.ids, list(ids)), len(ids) - 1)

    def logits(self, ids: Sequence[int], last: int = 1, cancel: CancelToken | None = None) -> Tensor:
        """Return the logits after each of the last `last` ids, float32 [last, vocab].

        Afterwards the cache holds exactly `ids`. Raises Cancelled between prefill chunks, RequestError when `ids`
        are more than the model can hold.
        """
        if len(ids) > self.model.max_length:
            raise RequestError(
                f"{len(ids)} tokens do not fit the model's {self.model.max_length}; lower context_tokens or max_tokens"
            )
        self.cache.reuse(ids[: len(ids) - last])
        # A running state takes a prompt whole: not every kernel can go on from it with more than one row.
        while self.cache.can_truncate and (rest := len(ids) - len(self.cache)) > max(self._chunk, last):
            if cancel is not None and cancel.cancelled:
                raise Cancelled
            self._feed(ids, min(self._chunk, rest - last))
        return self.model.forward(ids[len(self.cache) :], self.cache, last)

    def _feed(self, ids: Sequence[int], rows: int) -> None:
        done = len(self.cache)
        began = time.perf_counter()
        self.model.forward(ids[done : done + rows], self.cache, 1)
        self._adapt_chunk(rows, (time.perf_counter() - began) * 1e3)

    def _adapt_chunk(self, rows: int, ms: float) -> None:
        """Size chunks by time; how a prompt is chunked never changes its bits."""
        if rows == self._chunk:
            ideal = rows * PREFILL_MS / max(ms, 1e-3)
            self._chunk = 256 if ideal >= 256 else 128 if ideal >= 128 else 64 if ideal >= 64 else 32

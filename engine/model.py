"""The only way to touch a model: make its cache agree with some ids, feed the rest, return logits.

Prefill with reuse, plain decoding, verification, draft catch-up and rollback are all the same call. A small pool of
caches, one slot per recently used document, keeps a switch between two files from costing a prefill.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor

from engine.core import CancelToken
from engine.errors import RequestError
from engine.kv_cache import KVCache, common_prefix

PREFILL_MS = 200.0
"""A prefill chunk should take no longer than this: it is how long a cancelled request may still run."""
CHUNKS = (32, 64, 128, 256)  # rows


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


@runtime_checkable
class Prefiller(Protocol):
    """A network that reads a prompt otherwise than it decides tokens, in chunks of its own sizes."""

    prefill_rows: Sequence[int]

    def prefill(self, ids: Sequence[int], cache: KVCache) -> None:
        """Append `ids` to the cache, and return when that is done."""
        ...


class Written(Protocol):
    """Tokens a model wrote, and its own probability of each."""

    @property
    def ids(self) -> Sequence[int]:
        """The tokens."""
        ...

    @property
    def probabilities(self) -> Sequence[float]:
        """The model's probability of each."""
        ...


@runtime_checkable
class WritingModel(Protocol):
    """A network that can write several tokens without anybody looking at each, as one recording on a card does."""

    def write(self, ids: Sequence[int], cache: KVCache, count: int) -> Written:
        """Write `count` tokens after `ids`, greedily; the cache then holds all but the last."""
        ...


class ModelRunner:
    """A model with its caches."""

    def __init__(self, model: ForwardModel, slots: int = 4) -> None:
        self.model = model
        self._slots = slots
        self._caches: OrderedDict[str, KVCache] = OrderedDict()
        self._chunks = model.prefill_rows if isinstance(model, Prefiller) else CHUNKS
        self._chunk = self._chunks[len(self._chunks) // 2 - 1]
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

    @property
    def writes(self) -> bool:
        """Whether the model can write several tokens in one go."""
        return isinstance(self.model, WritingModel)

    def write(self, ids: Sequence[int], count: int) -> tuple[Sequence[int], Sequence[float]]:
        """Let the model write `count` tokens after `ids`, greedily: ids, and its own probability of each.

        Afterwards the cache holds `ids` and all of them but the last.
        """
        assert isinstance(self.model, WritingModel)
        written = self.model.write(ids, self.cache, count)
        return written.ids, written.probabilities

    def _feed(self, ids: Sequence[int], rows: int) -> None:
        done = len(self.cache)
        began = time.perf_counter()
        if isinstance(self.model, Prefiller):
            self.model.prefill(ids[done : done + rows], self.cache)
        else:
            self.model.forward(ids[done : done + rows], self.cache, 1)
        self._adapt_chunk(rows, (time.perf_counter() - began) * 1e3)

    def _adapt_chunk(self, rows: int, ms: float) -> None:
        """Size chunks by time; how a prompt is chunked never changes its bits."""
        if rows == self._chunk:
            ideal = rows * PREFILL_MS / max(ms, 1e-3)
            self._chunk = max((size for size in self._chunks if size <= ideal), default=self._chunks[0])

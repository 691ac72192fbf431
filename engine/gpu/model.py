"""A model on the card behind the engine's interface: which passes it takes to read a prompt and to decide tokens.

Fast mode pads a pass to the next size there is a recording for; texts are then the plain text but for near-ties, since
kernels differ by size. Exact mode runs every pass that decides a token at one size, wherever its rows stand, with one
reach over the keys: a row gets the same bits alone and among drafted ones. Prompts are cut at fixed places.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import RequestError, is_out_of_memory
from engine.gpu.buckets import DEFAULT_ROWS, ROWS, choose_exact_rows, choose_rows, ends_of, fitting
from engine.gpu.kernels import KernelChoice
from engine.gpu.kv_store import GpuCache, KvStore
from engine.gpu.network import Network
from engine.gpu.passes import LEADS, MOST_WRITTEN, Passes, Written
from engine.kv_cache import KVCache

PIECE = 512  # rows of a prompt's piece in exact mode
SHORT = 2  # recorded passes that read what is new of a prompt sooner than one that is not recorded
CARD_PIECES = (64, 128, 256, 512, 1024)  # 4-bit weights are unpacked once a piece, so long ones pay
CPU_PIECES = (32, 64, 128, 256)
MEASURED_AT = 128  # keys in the cache while passes are timed
REPEATS = 7


@dataclass(frozen=True, slots=True)
class GpuOptions:
    """How passes are run.

    `rows` are the sizes passes are padded to; none means measured at load on a card. `tokens` is how many ids may be
    chosen, 0 for all. `capacity` positions are there from the start; up to `put_aside` more documents keep their cache.
    """

    exact: bool = False
    graphs: bool = True
    rows: tuple[int, ...] = ()
    kernels: KernelChoice = "auto"
    tokens: int = 0
    capacity: int = 2048
    put_aside: int = 3


class GpuModel:
    """A network with its cache store and recordings. One pass at a time."""

    def __init__(self, network: Network, options: GpuOptions) -> None:
        shape = network.shape
        self.network, self.options = network, options
        self.vocab_size, self.max_length = shape.vocab, shape.max_length
        self.row_exact = options.exact
        self.device = network.final_norm.device
        self.on_card = self.device.type == "cuda"
        self.curve: dict[int, float] = {}
        self.rows = options.rows or DEFAULT_ROWS
        self.prefill_rows = (PIECE,) if options.exact else CARD_PIECES if self.on_card else CPU_PIECES
        self._store = KvStore(shape, self.device, network.final_norm.dtype, options.capacity, options.put_aside)
        self.passes = Passes(
            network,
            self._store,
            options.graphs,
            max(self.rows[-1], ROWS[-1]),
            shape.max_length + PIECE,
            options.tokens or shape.vocab,
            far=options.exact,
        )

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights that a pass reads."""
        return self.network.nbytes

    @property
    def capacity(self) -> int:
        """Positions the working cache holds at present."""
        return self._store.capacity

    def new_cache(self) -> GpuCache:
        """Return an empty cache for this model."""
        return GpuCache(self._store)

    @torch.inference_mode()
    def forward(self, ids: Sequence[int], cache: KVCache, last: int) -> Tensor:
        """Append `ids` to the cache and return the logits of the last `last` of them, float32 [last, vocab].

        On a card they may still be in the making: reading them waits.
        """
        assert isinstance(cache, GpuCache)
        with self._recovering():
            if self.options.exact:
                return self._exact(ids, cache, last)
            if len(ids) <= self.rows[-1]:
                return self.passes.decide(ids, cache, last, fitting(self.rows, len(ids)))
            normed = self.passes.read(ids, cache)
            return self.network.logits(normed[len(ids) - last :]).float()

    @torch.inference_mode()
    def prefill(self, ids: Sequence[int], cache: KVCache) -> None:
        """Append `ids` to the cache and wait until that is done: who cancels must not find passes queued up."""
        assert isinstance(cache, GpuCache)
        with self._recovering():
            if self.options.exact:
                self._read_exactly(ids, cache)
            else:
                self.passes.read(ids, cache)
        self.wait()

    @torch.inference_mode()
    def write(self, ids: Sequence[int], cache: KVCache, count: int) -> Written:
        """Write `count` tokens, at most MOST_WRITTEN, after `ids`, greedily, in one recording.

        The cache then holds all but the last.
        """
        assert isinstance(cache, GpuCache)
        if len(ids) > self.max_length:
            raise RequestError(f"{len(ids)} tokens do not fit the draft model's {self.max_length}; name another draft")
        cache.reuse(ids[:-1])
        rest = ids[len(cache) :]
        if len(rest) > LEADS[-1]:
            self.forward(rest[:-1], cache, 1)
            rest = rest[-1:]
        with self._recovering():
            return self.passes.write(rest, cache, min(count, MOST_WRITTEN))

    def wait(self) -> None:
        """Wait until the card has done all it was told."""
        if self.on_card:
            torch.cuda.synchronize(self.device)

    def settle(self) -> None:
        """Measure what passes cost on this card and choose the sizes to keep recordings of, unless they were given."""
        if self.options.rows or not self.on_card:
            return
        self.curve = self.measure_rows(ROWS)
        self.rows = (choose_exact_rows(self.curve),) if self.options.exact else choose_rows(self.curve)
        self.passes.pool.retain(lambda key: isinstance(key, tuple) and key[1] in self.rows)

    def row_costs(self) -> dict[int, float]:
        """Return what passes cost by rows, in milliseconds, at both ends of every stretch that costs the same."""
        costs = self.curve or self.measure_rows(self.rows)
        if not self.options.exact:
            return ends_of({rows: costs[rows] for rows in self.rows})
        size = self.rows[-1]  # more rows take several passes
        return ends_of({size * passes: costs[size] * passes for passes in range(1, ROWS[-1] // size + 1)})

    @torch.inference_mode()
    def measure_rows(self, sizes: Sequence[int], repeats: int = REPEATS) -> dict[int, float]:
        """Time passes of each number of rows, in milliseconds, the median of a few."""
        self.passes.make_room(max(sizes))
        cache = self.new_cache()
        self.passes.read([0] * MEASURED_AT, cache)
        times = {rows: self._median_ms(rows, cache, repeats) for rows in sizes}
        cache.truncate(0)
        return times

    def _median_ms(self, rows: int, cache: GpuCache, repeats: int) -> float:
        times = []
        for _ in range(repeats + 1):  # the first records
            self.wait()
            began = time.perf_counter()
            self.passes.decide([0] * rows, cache, 1, rows)
            self.wait()
            times.append((time.perf_counter() - began) * 1e3)
            cache.truncate(MEASURED_AT)
        return sorted(times[1:])[repeats // 2]

    def _exact(self, ids: Sequence[int], cache: GpuCache, last: int) -> Tensor:
        rows = self.rows[-1]
        self._read_exactly(ids[: len(ids) - last], cache)
        decided = ids[len(ids) - last :]
        parts = [decided[at : at + rows] for at in range(0, last, rows)]
        return torch.cat([self.passes.decide(part, cache, len(part), rows) for part in parts])

    def _read_exactly(self, ids: Sequence[int], cache: GpuCache) -> None:
        """Read what is new of a prompt so that its bits depend on how much that is and on no draft behind it."""
        rows = self.rows[-1]
        for at in range(0, len(ids), PIECE):
            piece = ids[at : at + PIECE]
            if len(piece) > SHORT * rows:
                self.passes.read(piece, cache)
                continue
            for start in range(0, len(piece), rows):
                self.passes.decide(piece[start : start + rows], cache, 1, rows)

    @contextmanager
    def _recovering(self) -> Iterator[None]:
        """Give back what can be given back when memory runs out: the next request must find the card usable."""
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if is_out_of_memory(error):
                self.passes.pool.clear()
                self._store.release()
                if self.on_card:
                    torch.cuda.empty_cache()
            raise

"""Single passes: padded, recorded, over the working cache. What is padded to what is decided elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from engine.gpu.buckets import fitting, reach_for
from engine.gpu.graphs import CudaGraphs, Eager, GraphPool
from engine.gpu.kv_store import GpuCache, KvStore
from engine.gpu.network import Network
from engine.gpu.step import Rotation, Step
from engine.gpu.transfer import Inputs, Outcome

LEADS = (2, 8)  # tokens the draft loop reads before it writes; after a full acceptance it lacks two
MOST_WRITTEN = 16


@dataclass(frozen=True, slots=True)
class Written:
    """What a draft model wrote, and its own probability of each token."""

    ids: tuple[int, ...]
    probabilities: tuple[float, ...]


class Passes:
    """A network, its cache store, its recordings, and the buffers those read and write."""

    def __init__(
        self, network: Network, store: KvStore, graphs: bool, rows: int, longest: int, tokens: int, far: bool
    ) -> None:
        """`rows` is the longest recorded pass, `longest` the last position plus one; ids below `tokens` may be written.

        `far` makes every pass look at the whole capacity.
        """
        self.network, self.store = network, store
        self.device = network.final_norm.device
        on_card = self.device.type == "cuda"
        self.pool: GraphPool = CudaGraphs() if on_card and graphs else Eager()
        self._generation = store.generation
        self._rotation = Rotation(network.shape, longest, self.device)
        self._tokens, self._far = tokens, far
        self._written = Outcome(MOST_WRITTEN, self.device)
        self._set_rows(rows)

    def _set_rows(self, rows: int) -> None:
        shape = self.network.shape
        self._inputs = Inputs(rows, self.device)
        self._offsets = torch.arange(rows, device=self.device)
        self._logits = torch.zeros(rows, shape.vocab, device=self.device)
        self._embedded = self.network.final_norm.new_zeros(rows, shape.hidden)

    def make_room(self, rows: int) -> None:
        """Let passes have up to `rows` rows."""
        if rows > len(self._offsets):
            self.pool.clear()
            self._set_rows(rows)

    def decide(self, ids: Sequence[int], cache: GpuCache, last: int, rows: int) -> Tensor:
        """Append `ids` in a recorded pass of `rows` rows; return the last `last` logits, float32 [last, vocab]."""
        reach = self._prepare(ids, cache, rows)
        self.pool.run(("pass", rows, reach), partial(self._decide, rows, reach))
        cache.extend(ids)
        return self._logits[len(ids) - last : len(ids)].clone()  # the next pass writes over them

    def read(self, ids: Sequence[int], cache: GpuCache) -> Tensor:
        """Append `ids` in a pass of its own size: long ones gain nothing from a recording. Returns normed rows."""
        start, end = len(cache), len(cache) + len(ids)
        self._attach(cache, end)
        positions = torch.arange(start, end, device=self.device)
        x = self._embeddings(ids)
        step = Step(positions, self._rotation, end, begin=start)
        normed = self.network.run(x, step, self.store.layers)
        cache.extend(ids)
        return normed

    def write(self, rest: Sequence[int], cache: GpuCache, count: int) -> Written:
        """Append `rest` and write `count` tokens greedily, all in one recording; wait for it once."""
        assert not self.network.host_embedding  # what was written last is embedded on the card
        lead = fitting(LEADS, len(rest))
        reach = self._prepare(rest, cache, max(lead, len(rest) + count))
        self.pool.run(("write", lead, count, reach), partial(self._write, lead, count, reach))
        numbers, probabilities = (row[:count] for row in self._written.fetch())
        ids = tuple(int(number) for number in numbers)
        cache.extend([*rest, *ids[:-1]])
        return Written(ids, tuple(probabilities))

    def _embeddings(self, ids: Sequence[int]) -> Tensor:
        place = self.network.embedding.device
        return self.network.embed(torch.tensor(ids, device=place)).to(self.device)

    def _prepare(self, ids: Sequence[int], cache: GpuCache, room: int) -> int:
        """Make room for `room` more positions, send the inputs, and return how far to look back."""
        end = len(cache) + room
        self._attach(cache, end)
        self._inputs.send(ids, len(cache))
        if self.network.host_embedding:
            self._embedded[: len(ids)] = self._embeddings(ids)
        if self._far:
            return self.store.capacity
        return reach_for(end, self.store.capacity, self.network.kernels.reach_step)

    def _attach(self, cache: GpuCache, length: int) -> None:
        self.store.attach(cache, length)
        if self._generation != self.store.generation:
            self.pool.clear()
            self._generation = self.store.generation

    def _decide(self, rows: int, reach: int) -> None:
        normed = self._run(rows, reach)
        self._logits[:rows].copy_(self.network.logits(normed))

    def _run(self, rows: int, reach: int) -> Tensor:
        step = Step(self._inputs.start + self._offsets[:rows], self._rotation, reach)
        host = self.network.host_embedding
        x = self._embedded[:rows] if host else self.network.embed(self._inputs.ids[:rows])
        return self.network.run(x, step, self.store.layers)

    def _write(self, lead: int, count: int, reach: int) -> None:
        normed = self._run(lead, reach).index_select(0, self._inputs.count - 1)
        for at in range(count):
            logits = self.network.logits(normed)[:, : self._tokens].float()
            best = logits.max(dim=-1)
            self._written.device[0, at] = best.indices[0]
            self._written.device[1, at] = (best.values[0] - logits[0].logsumexp(dim=-1)).exp()
            if at + 1 == count:
                return
            step = Step(self._inputs.start + self._inputs.count + at, self._rotation, reach)
            normed = self.network.run(self.network.embed(best.indices), step, self.store.layers)

"""Passes recorded once and replayed: on a card, launching a pass's kernels one by one takes longer than running them.

A body reads and writes buffers that stay where they are, and running it again changes nothing: it writes the same keys
to the same places. `Eager` runs it as it is, through the same buckets and buffers; that is what a CPU does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Set
from typing import Protocol

import torch

Body = Callable[[], None]


class GraphPool(Protocol):
    """Runs bodies by key; a key stands for everything that shapes the body."""

    @property
    def keys(self) -> Set[Hashable]:
        """What has been run."""
        ...

    def run(self, key: Hashable, body: Body) -> None:
        """Run the body of this key."""
        ...

    def clear(self) -> None:
        """Forget all recordings: a buffer they know has moved."""
        ...

    def retain(self, wanted: Callable[[Hashable], bool]) -> None:
        """Forget the recordings whose key is not wanted."""
        ...


class Eager:
    """Runs every body as it is."""

    def __init__(self) -> None:
        self.keys: set[Hashable] = set()

    def run(self, key: Hashable, body: Body) -> None:
        """Run the body."""
        self.keys.add(key)
        body()

    def clear(self) -> None:
        """Forget the keys."""
        self.keys.clear()

    def retain(self, wanted: Callable[[Hashable], bool]) -> None:
        """Forget the keys that are not wanted."""
        self.keys = {key for key in self.keys if wanted(key)}


class CudaGraphs:
    """Records a body when its key first comes, then replays the recording. All share one pool of memory."""

    def __init__(self) -> None:
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self._pool = torch.cuda.graph_pool_handle()

    @property
    def keys(self) -> set[Hashable]:
        """What has been recorded."""
        return set(self._graphs)

    def run(self, key: Hashable, body: Body) -> None:
        """Replay the body's recording, made now if there is none."""
        graph = self._graphs.get(key)
        if graph is None:
            graph = self._record(body)
            self._graphs[key] = graph
        graph.replay()

    def clear(self) -> None:
        """Forget all recordings and give their memory back."""
        self.retain(lambda _: False)
        self._pool = torch.cuda.graph_pool_handle()

    def retain(self, wanted: Callable[[Hashable], bool]) -> None:
        """Forget the recordings whose key is not wanted."""
        torch.cuda.synchronize()  # one may be running
        self._graphs = {key: graph for key, graph in self._graphs.items() if wanted(key)}

    def _record(self, body: Body) -> torch.cuda.CUDAGraph:
        self._warm_up(body)
        graph = torch.cuda.CUDAGraph()
        try:
            # Only this thread's calls matter: the server's others never touch the card.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                body()
        except RuntimeError as error:
            if isinstance(error.__context__, torch.OutOfMemoryError):  # ending the recording failed only after it
                raise error.__context__ from None
            raise
        return graph

    def _warm_up(self, body: Body) -> None:
        """Let libraries set themselves up and kernels compile where it can be done: not while recording."""
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch left it out
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            body()
        torch.cuda.current_stream().wait_stream(side)

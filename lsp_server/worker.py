"""The engine's thread: loads the engine, then runs one thing at a time, what a person waits for first.

Each document has one place for the completion it wants next; a newer one takes it, so no backlog can form. Whatever
runs in the background leaves at the next pass when somebody waits.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol, TypeVar

from engine import (
    CancelToken,
    CompletionChunk,
    CompletionRequest,
    CompletionSummary,
    EngineConfig,
    EngineError,
    LoadStep,
)
from lsp_server.generation import Generation

log = logging.getLogger(__name__)

T = TypeVar("T")
CALLS = 64  # more questions than this do not wait for the engine at once


class CompletionEngine(Protocol):
    """The seam to the engine; a scripted stand-in drives the server's tests."""

    notes: list[str]

    def complete(self, request: CompletionRequest, cancel: CancelToken | None = None) -> Iterator[CompletionChunk]:
        """Yield committed runs of text, the last with the summary."""
        ...

    def catch_up(self, request: CompletionRequest, cancel: CancelToken | None = None) -> None:
        """Use an idle moment to prepare for more completions at a request's place."""
        ...

    def forget(self, path: str) -> None:
        """Drop everything learnt from a document."""
        ...

    def explain(self, request: CompletionRequest, last: CompletionSummary | None = None) -> dict[str, Any]:
        """Return the prompt and the trace as plain data."""
        ...


Report = Callable[[LoadStep], None]
LoadEngine = Callable[[EngineConfig, Report], CompletionEngine]


class WorkerListener(Protocol):
    """Who hears of the engine's state, on the loop's thread."""

    def loading(self, step: LoadStep) -> None:
        """Hear a step of loading."""

    def loaded(self, notes: list[str]) -> None:
        """Hear that the engine is ready."""

    def failed(self, message: str) -> None:
        """Hear that there is no engine, and why."""


class EngineWorker:
    """Owns the engine. Its methods are called on the loop's thread and return at once."""

    def __init__(self, load: LoadEngine, listener: WorkerListener) -> None:
        """Take how an engine comes about; `start` does it."""
        self._load, self._listener = load, listener
        self._lock = threading.Condition()
        self._wanted: OrderedDict[str, Generation] = OrderedDict()
        self._idle: deque[Generation] = deque(maxlen=4)
        self._calls: deque[Callable[[], None]] = deque()
        self._answered: Generation | None = None  # what the engine may catch up with when nobody wants it
        self._pause = CancelToken()
        self._forgotten: set[str] = set()
        self._config: EngineConfig | None = None
        self._latest: EngineConfig | None = None
        self._running: Generation | None = None
        self._engine: CompletionEngine | None = None
        self._closed = False
        self.ready = False  # on the loop's thread: what `listener` was told last

    def start(self, config: EngineConfig) -> None:
        """Load an engine, or another one instead; what runs or waits now ends without a text."""
        self.ready = False
        self.drop(lambda _: True)
        first, self._latest = self._latest is None, config
        with self._lock:
            self._config = config
            self._wake()
        if first:
            self._loop = asyncio.get_running_loop()
            # A daemon: the process must be able to end while a pass or a load is under way.
            threading.Thread(target=self._work, name="engine", daemon=True).start()

    @property
    def started(self) -> bool:
        """Whether an engine was ever asked for."""
        return self._latest is not None

    def submit(self, generation: Generation) -> None:
        """Run a completion next, in place of the one its document was waiting for."""
        with self._lock:
            if generation.background:
                self._put_aside(generation)
            else:
                self._replace(generation)
                if self._running is not None and _gives_way(self._running, generation):
                    self._running.stop()
            self._wake()

    def _put_aside(self, generation: Generation) -> None:
        if len(self._idle) == self._idle.maxlen:
            oldest = self._idle.popleft()
            oldest.stop()
            oldest.end()  # whoever counts runs must hear of it
        self._idle.append(generation)

    def _replace(self, generation: Generation) -> None:
        if older := self._wanted.pop(generation.document, None):
            older.stop()
            older.end()
        self._wanted[generation.document] = generation

    def drop(self, unwanted: Callable[[Generation], bool]) -> None:
        """Stop every completion that `unwanted` picks, waiting or running."""
        with self._lock:
            waiting = [g for g in (*self._wanted.values(), *self._idle) if unwanted(g)]
            for generation in waiting:
                generation.stop()
                generation.end()
            self._wanted = OrderedDict((k, g) for k, g in self._wanted.items() if g not in waiting)
            self._idle = deque((g for g in self._idle if g not in waiting), self._idle.maxlen)
            if self._running is not None and unwanted(self._running):
                self._running.stop()
            if self._answered is not None and unwanted(self._answered):
                self._answered = None
            self._pause.cancel()

    def yield_to_waiting(self, answered: Generation) -> None:
        """Let what waits for another document go first, if this run, which has had its time, still goes on."""
        with self._lock:
            others = any(waiting.document != answered.document for waiting in self._wanted.values())
            if others and self._running is answered:
                answered.stop()

    def forget(self, document: str) -> None:
        """Have the engine drop what it learnt from a document, before it does anything else."""
        if self.started:
            with self._lock:
                self._forgotten.add(document)
                if self._answered is not None and document in _texts_of(self._answered.request):
                    self._answered = None
                self._wake()

    def call(self, action: Callable[[CompletionEngine], T]) -> Future[T]:
        """Run something with the engine between completions; without an engine the result is an EngineError."""
        result: Future[T] = Future()

        def run() -> None:
            try:
                if self._engine is None:
                    raise EngineError("no model is loaded")
                result.set_result(action(self._engine))
            except Exception as error:
                result.set_exception(error)

        with self._lock:
            if len(self._calls) >= CALLS:
                result.set_exception(EngineError("the engine is busy; ask again"))
            else:
                self._calls.append(run)
            self._wake()
        return result

    def close(self) -> None:
        """End the thread after its pass."""
        self._closed = True
        self.drop(lambda _: True)
        with self._lock:
            self._wake()

    def _wake(self) -> None:
        """Have the thread look again, away from what it does for nobody; called with the lock held."""
        self._pause.cancel()
        self._lock.notify()

    # From here on: the engine's thread.

    def _work(self) -> None:
        while not self._closed:
            with self._lock:
                self._lock.wait_for(self._has_work)
                config, self._config = self._config, None
                forgotten, self._forgotten = self._forgotten, set()
                job = None if config else self._next()
            self._forget(forgotten)
            if config is not None:
                self._load_engine(config)
            elif isinstance(job, Generation):
                self._run(job)
            elif job is not None:
                job()

    def _has_work(self) -> bool:
        wanted = self._closed or self._config or self._forgotten or self._calls or self._wanted or self._idle
        return bool(wanted or self._answered)

    def _forget(self, documents: set[str]) -> None:
        if self._engine is not None:
            for document in documents:
                self._engine.forget(document)

    def _next(self) -> Generation | Callable[[], None] | None:
        """Take what is next; called with the lock held."""
        if self._calls:
            return self._calls.popleft()
        if self._wanted:
            _, self._running = self._wanted.popitem(last=True)
        elif self._idle:
            self._running = self._idle.popleft()
        elif self._answered is not None:
            answered, self._answered, self._pause = self._answered, None, CancelToken()
            return partial(self._catch_up, answered.request, self._pause)
        return self._running

    def _may_catch_up(self, generation: Generation) -> bool:
        """Whether its text may be read again: not what was stopped, as by switching off, nor what is forgotten."""
        stopped = generation.cancel.cancelled or generation.discarded
        return not stopped and self._forgotten.isdisjoint(_texts_of(generation.request))

    def _catch_up(self, request: CompletionRequest, pause: CancelToken) -> None:
        if self._engine is not None:
            try:
                self._engine.catch_up(request, pause)
            except Exception as fault:  # nobody asked for it, so nobody need hear of it
                log.debug("catching up failed", exc_info=fault)

    def _load_engine(self, config: EngineConfig) -> None:
        self._engine = None  # its memory must be free before the next one is loaded
        try:
            self._engine = self._load(config, self._report)
        except Exception as error:
            if not isinstance(error, EngineError):
                log.exception("loading failed")
            self._tell(self._told_failed, config, str(error) or type(error).__name__)
            return
        self._tell(self._told_loaded, config, list(self._engine.notes))

    def _report(self, step: LoadStep) -> None:
        self._tell(self._listener.loading, step)

    def _told_loaded(self, config: EngineConfig, notes: list[str]) -> None:
        if config is self._latest:  # else another one is already on its way
            self.ready = True
            self._listener.loaded(notes)

    def _told_failed(self, config: EngineConfig, message: str) -> None:
        if config is self._latest:
            self._listener.failed(message)

    def _run(self, generation: Generation) -> None:
        summary: CompletionSummary | None = None
        error: Exception | None = None
        try:
            if self._engine is not None and not generation.cancel.cancelled:
                for chunk in self._engine.complete(generation.request, generation.cancel):
                    if chunk.text:
                        self._tell(generation.grow, chunk.text)
                    summary = chunk.summary
        except Exception as fault:  # one document's fault must not end the thread
            error = fault
        with self._lock:
            self._running = None
            self._answered = generation if error is None and self._may_catch_up(generation) else None
        self._tell(generation.end, summary, error)

    def _tell(self, listener: Callable[..., None], *news: Any) -> None:  # noqa: ANN401  (whatever the listener takes)
        try:
            self._loop.call_soon_threadsafe(listener, *news)
        except RuntimeError:  # the loop has closed: the process is about to end
            self._closed = True


def _texts_of(request: CompletionRequest) -> set[str]:
    return {request.path, *(buffer.path for buffer in request.buffers)}


def _gives_way(running: Generation, newer: Generation) -> bool:
    return running.background or running.document == newer.document or not running.watchers

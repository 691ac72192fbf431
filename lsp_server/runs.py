"""The engine's runs that are under way, by document: which to join, which to leave, how long they take, which fail."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection

from engine import EngineError
from lsp_server.generation import Generation
from lsp_server.place import Place
from lsp_server.status import StatusBoard
from lsp_server.worker import EngineWorker

log = logging.getLogger(__name__)

GRACE = 0.06  # seconds after which a run that nobody wants is stopped; a keystroke's next question comes sooner
CONTRADICTED = 0.4  # the same for a run whose document has changed since it was answered
FAULTS = 3  # failures in a row after which a document is left alone until it is opened again
USUAL_MS = 300.0  # what an answer is thought to take before any has been timed
NEWEST_SHARE = 0.2  # weight of the newest time in the running mean


class Runs:
    """Starts and watches runs. Everything happens on the loop's thread."""

    def __init__(self, worker: EngineWorker, status: StatusBoard, heard: Callable[[Generation], None]) -> None:
        """`heard` is told whenever a run has grown or ended."""
        self._worker, self._status, self._heard = worker, status, heard
        self._runs: dict[str, list[Generation]] = {}
        self._began: dict[Generation, float] = {}
        self._faults: dict[str, int] = {}
        self.response_ms = USUAL_MS
        self.drafted: Counter[str] = Counter()
        self.accepted: Counter[str] = Counter()
        self.passes: Counter[str] = Counter()  # of the target: all, and those whose text nobody was given

    def __len__(self) -> int:
        return len(self._began)

    def begin(self, run: Generation) -> None:
        """Start a run; one that somebody waits for takes the place of all others of its document."""
        if not run.background:
            self._worker.drop(lambda other: other.document == run.document)
        run.on_news = self._news
        self._runs.setdefault(run.document, []).append(run)
        self._began[run] = time.monotonic()
        self._worker.submit(run)
        self._status.busy(on=True)

    def joined(self, place: Place) -> Generation | None:
        """Return a run that is writing what the person types, if there is one; it is no background work any more."""
        for run in self._runs.get(place.document, ()):
            if run.rank == 0 and not run.cancel.cancelled and run.rest(place) is not None:
                run.background = False
                return run
        return None

    def changed(self, document: str) -> None:
        """Give what was answered before a change a moment to be joined again."""
        for run in self._runs.get(document, ()):
            if run.kept:
                run.kept = False
                self.leave(run, CONTRADICTED)

    def leave(self, run: Generation, seconds: float = GRACE) -> None:
        """Stop a run after a moment unless somebody wants it by then."""

        def stop() -> None:
            if not run.wanted:
                run.stop()

        if not run.ended:
            asyncio.get_running_loop().call_later(seconds, stop)

    def drop(self, document: str | None = None) -> None:
        """Stop the runs of a document, or all."""
        self._worker.drop(lambda run: document in {None, run.document})

    def discard(self, documents: Collection[str]) -> None:
        """Stop the runs that were given the text of one of these documents, and drop what they have written."""
        for run in [run for runs in self._runs.values() for run in runs]:
            if any(buffer.path in documents for buffer in run.request.buffers):
                run.discard()

    def faulty(self, document: str) -> bool:
        """Whether completing a document failed so often that it is left alone."""
        return self._faults.get(document, 0) >= FAULTS

    def forgive(self, document: str) -> None:
        """Try a document anew."""
        self._faults.pop(document, None)

    def _news(self, run: Generation) -> None:
        if run.ended:
            self._ended(run)
        self._heard(run)

    def _ended(self, run: Generation) -> None:
        seconds = time.monotonic() - self._began.pop(run)
        runs = self._runs[run.document]
        runs.remove(run)
        if not runs:
            del self._runs[run.document]
        if not self._began:
            self._status.busy(on=False)
        if run.summary is not None:
            self.drafted.update(run.summary.stats.drafted)
            self.accepted.update(run.summary.stats.accepted)
            self.passes["all"] += run.summary.stats.target_passes
            if run.cancel.cancelled and run.answered is None:
                self.passes["thrown_away"] += run.summary.stats.target_passes
        if run.error is not None:
            self._failed(run.document, run.error)
        elif not run.cancel.cancelled:
            self.forgive(run.document)
            self.response_ms += NEWEST_SHARE * (seconds * 1e3 - self.response_ms)

    def _failed(self, document: str, error: Exception) -> None:
        if isinstance(error, EngineError):
            self._status.degraded(str(error))
            return
        self._faults[document] = self._faults.get(document, 0) + 1
        log.warning("completing failed with %s", type(error).__name__)
        log.debug("it failed here", exc_info=error)
        if self.faulty(document):
            self._status.degraded("one document makes the engine fail; it gets no completions until it is reopened")

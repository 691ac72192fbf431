"""The recorded session at the pace it was typed: every request at its time, the newest wins.

A clock thread types; the engine runs in the caller's thread. A request that finds another one running cancels it; one
that waits when the next arrives is never started. Pauses are cut down to a few seconds: nothing runs in
them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

from rich.progress import Progress

from engine.bench.recording import Event, Workspace
from engine.bench.session_figures import Ask, SessionFigures
from engine.config import Limits
from engine.core import CompletionRequest
from engine.engine import Engine

LONGEST_PAUSE = 5_000.0  # ms


class Desk:
    """Where the newest request lies until the engine takes it."""

    def __init__(self) -> None:
        self.asks: list[Ask] = []
        self.closed = False
        self._waiting: Ask | None = None
        self._running: Ask | None = None
        self._changed = threading.Condition()

    def submit(self, request: CompletionRequest) -> None:
        """Lay a request on the desk, cancel what runs, drop what waited."""
        with self._changed:
            ask = Ask(request, time.perf_counter())
            self.asks.append(ask)
            self._waiting = ask
            if self._running is not None and self._running.cancelled is None:
                if self._running.idle is None:  # else it only catches up, which nobody waits for
                    self._running.cancelled = time.perf_counter()
                self._running.cancel.cancel()
            self._changed.notify()

    def take(self) -> Ask | None:
        """Wait for the newest request; None when no more will come."""
        with self._changed:
            self._running = None
            while self._waiting is None and not self.closed:
                self._changed.wait(0.2)  # a bounded wait: Ctrl-C must get through on every system
            self._running, self._waiting = self._waiting, None
            if self._running:
                self._running.started = True
            return self._running

    def close(self) -> None:
        """Say that no more requests will come."""
        with self._changed:
            self.closed = True
            self._changed.notify()


class Clock(threading.Thread):
    """Types the recording at its pace."""

    def __init__(self, events: Sequence[Event], desk: Desk, limits: Limits) -> None:
        super().__init__(name="clock", daemon=True)
        self._events, self._desk, self._limits = events, desk, limits
        self.stop = threading.Event()
        self.error: Exception | None = None

    def run(self) -> None:
        """Apply every event at its time, then close the desk."""
        try:
            self._play()
        except Exception as error:  # it must not die unheard
            self.error = error
        finally:
            self._desk.close()

    def _play(self) -> None:
        workspace, began = Workspace(), time.perf_counter()
        for at, event in paced(self._events):
            if self.stop.wait(max(0.0, began + at / 1e3 - time.perf_counter())):
                return
            if event.kind == "request":
                self._desk.submit(workspace.request(event.fields["id"], self._limits))
            else:
                workspace.apply(event)


def paced(events: Sequence[Event]) -> Iterator[tuple[float, Event]]:
    """Yield each event with the millisecond it is played at: in order, long pauses cut down."""
    now, last = 0.0, 0.0
    for event in events:
        step = max(0.0, event.at - last)
        last = max(last, event.at)
        now += min(step, LONGEST_PAUSE)
        yield now, event


def first_minutes(events: Sequence[Event], minutes: float) -> list[Event]:
    """Return what is played within some minutes."""
    return [event for at, event in paced(events) if at <= minutes * 60_000]


def play_session(
    engine: Engine, events: Sequence[Event], limits: Limits, progress: Progress, into: list[SessionFigures]
) -> None:
    """Replay the events through the engine; the figures are in `into` from the start on, also when interrupted."""
    desk = Desk()
    clock = Clock(events, desk, limits)
    into.append(SessionFigures(desk.asks))
    minutes = max((at for at, _ in paced(events)), default=0.0) / 60_000
    progress.console.print(f"session: {minutes:.1f} minutes at the pace they were typed", style="dim", highlight=False)
    task = progress.add_task("session", total=sum(event.kind == "request" for event in events))
    clock.start()
    try:
        while (ask := desk.take()) is not None:
            _serve(engine, ask)
            progress.update(task, completed=len(desk.asks))
    finally:
        clock.stop.set()
        clock.join()
    progress.update(task, completed=len(desk.asks))
    if clock.error is not None:
        raise clock.error


def _serve(engine: Engine, ask: Ask) -> None:
    try:
        for chunk in engine.complete(ask.request, ask.cancel):
            if ask.first_text is None and chunk.text:
                ask.first_text = time.perf_counter()
            if chunk.summary is not None:
                ask.stats = chunk.summary.stats
    except Exception as error:  # one request must not cost the session
        ask.fault = f"{type(error).__name__}: {error}"
    ask.idle = time.perf_counter()
    if not ask.fault:
        engine.catch_up(ask.request, ask.cancel)  # as the language server does when nothing else is to do

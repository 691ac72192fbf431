"""The engine's thread: newest wins, cancels arrive, faults stay with their document, nothing piles up."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from engine import (
    CancelToken,
    CompletionChunk,
    CompletionRequest,
    CompletionSummary,
    DecodeStats,
    EngineConfig,
    EngineError,
    LoadStep,
    ModelLoadError,
    TextRun,
)
from lsp_server.generation import Generation
from lsp_server.place import Place
from lsp_server.worker import CALLS, EngineWorker


class GatedEngine:
    """Gives one token per release of its gate, and notes what it was asked."""

    notes = ("a note",)

    def __init__(self):
        self.gate = threading.Semaphore(0)
        self.asked: list[str] = []
        self.forgotten: list[str] = []
        self.caught_up: list[tuple[str, CancelToken]] = []
        self.slow_reading = False

    def complete(self, request, cancel=None):
        self.asked.append(request.path)
        for token in request.text.split():
            self.gate.acquire()
            if cancel.cancelled:
                yield CompletionChunk((), summary("cancelled"))
                return
            if token == "fail":
                raise ValueError(token)
            yield CompletionChunk((TextRun(token, "target"),))
        yield CompletionChunk((), summary("stop"))

    def catch_up(self, request, cancel=None):
        self.caught_up.append((request.path, cancel))
        while self.slow_reading and not cancel.cancelled:
            time.sleep(0.001)

    def forget(self, path):
        self.forgotten.append(path)

    def explain(self, request, last=None):
        return {}


def summary(reason):
    return CompletionSummary("", (), (), reason, DecodeStats(), ())


class Listener:
    def __init__(self):
        self.heard: list = []
        self.event = asyncio.Event()

    def loading(self, step):
        self.heard.append(step.text)

    def loaded(self, notes):
        self.heard.append(notes)
        self.event.set()

    def failed(self, message):
        self.heard.append(message)
        self.event.set()


def generation(document: str, text: str = "a b c", **options) -> Generation:
    return Generation(Place(document, "", "", "", 0, 0), CompletionRequest(document, "", text, 0), **options)


async def until(condition) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.002)


def scenario(test):
    """Run a coroutine with a loaded engine, its worker and listener."""

    async def main():
        engine, listener = GatedEngine(), Listener()

        def load(config, report):
            report(LoadStep("one step"))
            return engine

        worker = EngineWorker(load, listener)
        worker.start(EngineConfig())
        await asyncio.wait_for(listener.event.wait(), 30)
        assert listener.heard == ["one step", ["a note"]]
        assert worker.ready
        try:
            await test(engine, worker)
        finally:
            worker.close()
            engine.gate.release(100)

    asyncio.run(main())


def test_text_arrives_as_it_is_made():
    """Each committed run reaches the generation at once, the end with its summary."""

    async def test(engine, worker):
        run = generation("a")
        worker.submit(run)
        engine.gate.release()
        await until(lambda: run.text == "a")
        assert not run.ended
        engine.gate.release(2)
        await until(lambda: run.ended)
        assert (run.text, run.complete) == ("abc", True)

    scenario(test)


def test_only_the_newest_of_a_document_runs():
    """Of thirty requests for one document the running one stops, those between never start, the newest runs (B17)."""

    async def test(engine, worker):
        runs = [generation("a", f"x{i} y{i}") for i in range(30)]
        worker.submit(runs[0])
        await until(lambda: engine.asked)
        for run in runs[1:]:
            worker.submit(run)
        assert all(run.ended for run in runs[1:-1])
        engine.gate.release(3)
        await until(lambda: runs[-1].ended)
        assert runs[0].declined
        assert runs[-1].text == "x29y29"
        assert engine.asked == ["a", "a"]

    scenario(test)


def test_background_work_gives_way():
    """Work ahead starts when nobody waits, and leaves at the next token when somebody does."""

    async def test(engine, worker):
        ahead, asked = generation("a", background=True), generation("b")
        worker.submit(ahead)
        await until(lambda: engine.asked)
        worker.submit(asked)
        assert ahead.cancel.cancelled
        engine.gate.release(4)
        await until(lambda: asked.ended)
        assert asked.text == "abc"

    scenario(test)


def test_what_somebody_waits_for_is_not_pushed_aside_by_another_document():
    """A run with a waiter goes on until it has had its time; then the other document's goes first."""

    async def test(engine, worker):
        first, second = generation("a"), generation("b")
        first.watchers.add(asyncio.Event())
        worker.submit(first)
        await until(lambda: engine.asked)
        worker.submit(second)
        assert not first.cancel.cancelled
        worker.yield_to_waiting(second)  # it has not even begun
        assert not first.cancel.cancelled
        worker.yield_to_waiting(first)
        assert first.cancel.cancelled
        engine.gate.release(4)
        await until(lambda: second.ended)
        assert second.text == "abc"

    scenario(test)


def test_a_fault_ends_its_run_alone():
    """An exception in the engine reaches the run that met it; the thread goes on."""

    async def test(engine, worker):
        bad, good = generation("a", "fail"), generation("b", "fine")
        worker.submit(bad)
        engine.gate.release(2)
        await until(lambda: bad.ended)
        assert isinstance(bad.error, ValueError)
        worker.submit(good)
        await until(lambda: good.ended)
        assert good.text == "fine"

    scenario(test)


def test_forgetting_comes_before_all_else():
    """What a closed document taught is dropped before the next completion, however many documents close."""

    async def test(engine, worker):
        run = generation("a")
        worker.submit(run)
        await until(lambda: engine.asked)
        for number in range(1000):
            worker.forget(f"d{number}")
        next_run = generation("b", "x")
        worker.submit(next_run)
        engine.gate.release(10)
        await until(lambda: next_run.ended)
        assert len(engine.forgotten) == 1000

    scenario(test)


def test_questions_do_not_pile_up():
    """More calls than can wait are refused at once; those that wait are answered."""

    async def test(engine, worker):
        worker.submit(generation("a"))
        await until(lambda: engine.asked)
        calls = [worker.call(lambda engine: engine.explain(None)) for _ in range(CALLS + 1)]
        with pytest.raises(EngineError, match="busy"):
            calls[-1].result(0)
        engine.gate.release(3)
        await until(lambda: all(call.done() for call in calls))
        assert calls[0].result() == {}

    scenario(test)


def test_a_load_that_fails_is_told_and_may_be_tried_again():
    """Why there is no engine reaches the listener; another start loads one; calls meanwhile say that none is there."""

    async def main():
        listener = Listener()
        faults = iter([ModelLoadError("no file"), RuntimeError("odd")])
        engine = GatedEngine()

        def load(config, report):
            if fault := next(faults, None):
                raise fault
            return engine

        worker = EngineWorker(load, listener)
        for expected in ("no file", "odd", ["a note"]):
            listener.event.clear()
            worker.start(EngineConfig())
            await asyncio.wait_for(listener.event.wait(), 30)
            assert listener.heard[-1] == expected
            if expected == "no file":
                call = worker.call(lambda engine: engine)
                await until(call.done)
                with pytest.raises(EngineError, match="no model is loaded"):
                    call.result()
        assert worker.ready
        worker.close()

    asyncio.run(main())


def test_the_engine_catches_up_when_nobody_wants_it():
    """After a completion, idle time is used to prepare for the next one at its place."""

    async def test(engine, worker):
        run = generation("a", "x")
        worker.submit(run)
        engine.gate.release()
        await until(lambda: engine.caught_up)
        assert run.ended and [path for path, _ in engine.caught_up] == ["a"]

    scenario(test)


@pytest.mark.parametrize(
    "work",
    [
        lambda worker: worker.submit(generation("b", "y")),
        lambda worker: worker.call(lambda _: None),
        lambda worker: worker.forget("a"),
        lambda worker: worker.drop(lambda _: True),
    ],
    ids=["completion", "question", "closed", "off"],
)
def test_catching_up_stops_for_any_work(work):
    """A completion, a question, a closed document and being switched off each end it at once."""

    async def test(engine, worker):
        engine.slow_reading = True
        engine.gate.release(9)
        worker.submit(generation("a", "x"))
        await until(lambda: engine.caught_up)
        _, pause = engine.caught_up[0]
        assert not pause.cancelled
        work(worker)
        engine.slow_reading = False
        await until(lambda: pause.cancelled)

    scenario(test)


@pytest.mark.parametrize("end", ["off", "closed"])
def test_what_was_stopped_or_forgotten_is_not_read_again(end):
    """A run that ends after it was switched off, or after its document was closed, leaves nothing to catch up with."""

    async def test(engine, worker):
        run = generation("a", "x y")
        worker.submit(run)
        await until(lambda: engine.asked)
        if end == "off":
            worker.drop(lambda _: True)
        else:
            worker.forget("a")
        engine.gate.release(9)
        await until(lambda: run.ended)
        await asyncio.wrap_future(worker.call(lambda _: None))
        last = generation("b", "z")
        worker.submit(last)
        await until(lambda: engine.caught_up)
        assert [path for path, _ in engine.caught_up] == ["b"]

    scenario(test)


def test_a_fault_while_catching_up_is_nobodys():
    """What goes wrong in idle work leaves the engine's thread alive."""

    async def test(engine, worker):
        engine.catch_up = lambda request, cancel: 1 / 0
        engine.gate.release(9)
        first, second = generation("a", "x"), generation("b", "x")
        worker.submit(first)
        await until(lambda: first.ended)
        worker.submit(second)
        await until(lambda: second.ended)
        assert first.error is None and second.error is None

    scenario(test)

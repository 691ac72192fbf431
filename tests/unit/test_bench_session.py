"""The recorded session: documents follow the events, requests come at their time, the newest wins."""

from __future__ import annotations

import io
import threading
import time

import pytest
from rich.console import Console
from rich.progress import Progress

from engine.bench.recording import Document, Event, Workspace, changed, code_points, edits_of, read_events
from engine.bench.session import LONGEST_PAUSE, Desk, first_minutes, paced, play_session
from engine.bench.session_figures import Ask, SessionFigures
from engine.config import Limits
from engine.core import Buffer, CompletionChunk, CompletionRequest, CompletionSummary, DecodeStats, TextRun
from engine.errors import ConfigError
from tests.bench_data import SOLUTION, TEST, make_data, session_rows


def event(kind: str, at: float = 0.0, **fields) -> Event:
    return Event(at, kind, fields)


def edits(*items) -> list:
    return edits_of(event("changed", edit=[list(item) for item in items]))


def quiet() -> Progress:
    return Progress(console=Console(file=io.StringIO()))


def events(rows: list[dict]) -> list[Event]:
    return [Event(float(row["time"] - 1000), row["kind"], row) for row in rows]


def request(text: str = "x") -> CompletionRequest:
    return CompletionRequest("a.py", "python", text, len(text))


class ScriptedEngine:
    """Answers after `ms` a chunk, looks at the cancel token between chunks as the engine does."""

    def __init__(self, ms: float, chunks: int = 3) -> None:
        self.ms, self.chunks, self.asked = ms, chunks, []

    def complete(self, request, cancel):
        self.asked.append(request)
        stats = DecodeStats(prompt_tokens=10, reused_tokens=8, computed_tokens=2)
        for _ in range(self.chunks):
            if cancel.cancelled:
                break
            time.sleep(self.ms / 1e3)
            stats.target_passes += 1
            yield CompletionChunk((TextRun("a", "target"),))
        yield CompletionChunk((), CompletionSummary("", (), (), "stop", stats, ()))

    def catch_up(self, request, cancel):
        pass


def test_edits_count_in_the_text_before_all_of_them_in_utf16_units():
    """Several edits of one event do not move each other; a character outside the basic plane counts two."""
    assert changed("abcdef", edits((4, 5, "X"), (1, 2, ""))) == "acdXf"
    assert changed("a🦊bé", edits((3, 4, "c"), (1, 3, "ff"))) == "affcé"
    assert code_points("a🦊b", 3) == 2 and code_points("ab", 9) == 2


def test_a_workspace_follows_the_recording():
    """Contents, changes, stored and restored texts, cursors and the order of use are those of the recording."""
    workspace = Workspace()
    for row in session_rows(2):
        workspace.apply(Event(0.0, row["kind"], row))
    asked = workspace.request(0, Limits())
    assert asked.text == SOLUTION + "xx" and asked.cursor == len(asked.text)
    assert asked.path == "src/shop.py" and asked.language == "python"
    assert asked.buffers == (Buffer("test/test_shop.py", 1, TEST),)
    workspace.apply(event("storeContent", id=0, contentId="k"))
    workspace.apply(event("changed", id=0, edit=[[0, 5, ""]], v=9))
    workspace.apply(event("restoreContent", id=0, contentId="k"))
    assert workspace.documents[0].text == SOLUTION + "xx"
    workspace.apply(event("focused", id=1))
    assert workspace.others(0)[0].path == "test/test_shop.py"
    assert list(workspace.documents) == [0, 1]


def test_other_documents_come_latest_first():
    """Buffers are ordered by use: what was focused or changed last comes first; empty documents are no buffers."""
    workspace = Workspace({n: Document(f"{n}.ts", "text", 1) for n in range(4)} | {9: Document("9.ts")})
    workspace.apply(event("focused", id=2))
    workspace.apply(event("changed", id=1, edit=[[0, 0, "x"]], v=2))
    workspace.apply(event("selectionChanged", id=3, selection=[[1, 1]]))
    assert [buffer.path for buffer in workspace.others(0)] == ["1.ts", "2.ts", "3.ts"]


def test_after_a_change_the_cursor_stands_behind_what_was_written():
    """A request right after a change, before the editor tells the selection, is asked at the end of the change."""
    workspace = Workspace({0: Document("a.ts", "one two", 1, 0)})
    workspace.apply(event("changed", id=0, edit=[[0, 3, "three"], [4, 7, "four"]], v=2))
    assert workspace.documents[0].text == "three four" and workspace.documents[0].place == 10


def test_long_pauses_are_cut_and_the_minutes_bound_the_replay():
    """Pace is the recording's but for pauses; time never runs backwards."""
    times = [0.0, 100.0, 90.0, 100_000.0, 100_050.0]
    played = [at for at, _ in paced([event("request", at) for at in times])]
    assert played == [0.0, 100.0, 100.0, 100.0 + LONGEST_PAUSE, 150.0 + LONGEST_PAUSE]
    assert len(first_minutes([event("request", at) for at in times], 0.01)) == 3


def test_missing_recording_is_said(tmp_path):
    """Without the recording the suite says which file is not there."""
    with pytest.raises(ConfigError, match=r"session\.jsonl\.gz is not there"):
        read_events(tmp_path)


def test_recording_is_read_with_times_from_its_start(tmp_path):
    """Times count from the first event."""
    found = read_events(make_data(tmp_path))
    assert found[0].at == 0.0 and found[0].kind == "header" and max(e.at for e in found) == 400.0


def test_the_newest_request_wins():
    """A request that waits is dropped by the next; the one that runs is cancelled, once."""
    desk = Desk()
    desk.submit(request("1"))
    desk.submit(request("2"))
    running = desk.take()
    assert running.request.text == "2" and not running.cancel.cancelled
    desk.submit(request("3"))
    first_cancelled = running.cancelled
    desk.submit(request("4"))
    assert running.cancel.cancelled and running.cancelled == first_cancelled
    desk.close()
    assert desk.take().request.text == "4" and desk.take() is None
    assert [ask.started for ask in desk.asks] == [False, True, False, True]


def test_a_slow_engine_is_cancelled_and_a_fast_one_is_not():
    """At the recording's pace a completion longer than a keystroke's distance is cancelled by the next one."""
    slow: list[SessionFigures] = []
    play_session(ScriptedEngine(40.0, 20), events(session_rows(5, 60)), Limits(), quiet(), slow)
    found = slow[0]
    assert len(found.asks) == 5 and len(found.cancelled) == len(found.started) - 1 >= 1
    assert 0.0 < found.thrown_away < 1.0 and found.reused == 0.8
    assert len(found.cancel_to_idle_ms) == len(found.cancelled)
    fast: list[SessionFigures] = []
    play_session(ScriptedEngine(0.1), events(session_rows(3, 200)), Limits(), quiet(), fast)
    assert not fast[0].cancelled and len(fast[0].first_text_ms) == 3 and fast[0].thrown_away == 0.0


def test_requests_see_the_documents_as_they_stood():
    """Each request holds what had been typed until then."""
    engine = ScriptedEngine(0.1)
    play_session(engine, events(session_rows(3, 100)), Limits(), quiet(), [])
    assert [asked.text[len(SOLUTION) :] for asked in engine.asked] == ["x", "xx", "xxx"]


def test_a_failing_request_does_not_end_the_session():
    """One broken request is counted and the next one served."""

    class Broken(ScriptedEngine):
        def complete(self, request, cancel):
            if not self.asked:
                self.asked.append(request)
                raise RuntimeError("broken on purpose")
            yield from super().complete(request, cancel)

    figures: list[SessionFigures] = []
    play_session(Broken(0.1), events(session_rows(3, 100)), Limits(), quiet(), figures)
    found = figures[0].as_json()
    assert found["failed"] == 1 and found["started"] == 2
    assert "broken on purpose" in found["rows"][0]["fault"]


def test_a_broken_recording_is_not_silent():
    """What goes wrong on the clock's thread is raised where the session was started."""
    with pytest.raises(KeyError):
        play_session(ScriptedEngine(0.1), [event("request", id=7)], Limits(), quiet(), [])


def test_interrupting_stops_the_clock_and_keeps_the_figures():
    """Ctrl-C ends the replay at once; what was asked so far is in the figures."""

    class Interrupted(ScriptedEngine):
        def complete(self, request, cancel):
            raise KeyboardInterrupt

    figures: list[SessionFigures] = []
    with pytest.raises(KeyboardInterrupt):
        play_session(Interrupted(1.0), events(session_rows(50, 1000)), Limits(), quiet(), figures)
    assert len(figures[0].asks) == 1
    assert "clock" not in {thread.name for thread in threading.enumerate()}


def test_a_keystroke_whose_request_was_never_begun_had_nothing_read_for_it():
    """Requests dropped while another ran count with 0 tokens by keystroke and not at all by started request."""
    begun = [Ask(request(), 0.0, started=True, stats=DecodeStats(computed_tokens=n)) for n in (40, 2)]
    broken = Ask(request(), 0.0, started=True, fault="broken")
    found = SessionFigures([*begun, broken, Ask(request(), 0.0), Ask(request(), 0.0)]).as_json()
    assert found["computed_tokens_per_keystroke"] == {"p50": 0.0, "p95": 40.0, "count": 4}
    assert found["computed_tokens_per_started"] == {"p50": 2.0, "p95": 40.0, "count": 2}


def test_a_session_without_answers_has_a_table_all_the_same():
    """No request that got anywhere: the table shows dashes, the object None."""
    figures = SessionFigures([Ask(request(), 0.0)])
    assert figures.as_json()["first_text_ms"]["p50"] is None and figures.as_json()["reused_share"] is None
    out = Console(file=io.StringIO(), width=120)
    out.print(figures.table("m"))
    assert "1 requests, 0 started" in out.file.getvalue()

"""Tokens to shown text: whole characters, sources, stops that do not depend on how tokens arrive."""

from __future__ import annotations

from engine.core import TextRun
from engine.stops import StopContext
from engine.text_stream import TextStream

TABLE = [b"x = 1", b"\n", b"    ", b"y", "🙂".encode()[:2], "🙂".encode()[2:], b"return x", b"ret", b"urn z"]


def stream(after: str = "", mode: str = "free", owed: int = 0, line_break: str = "\n") -> TextStream:
    return TextStream(TABLE, StopContext("def f():\n    ", after, mode), owed, line_break)


def fed(out: TextStream, tokens: list[int], source: str = "target") -> list[TextRun]:
    """Feed tokens one by one and collect what is shown, the end included."""
    runs: list[TextRun] = []
    for token in tokens:
        if out.add(token, source):
            break
        runs += out.fresh()
    return runs + list(out.finish("stop"))


def test_a_character_over_two_tokens_is_shown_whole():
    """The first half of a character is held back, and dropped if the end comes first (B16)."""
    out = stream()
    out.add(3, "target")
    out.add(4, "lookup")
    assert "".join(run.text for run in out.fresh()) in ("", "y")
    out.add(5, "target")
    assert "".join(run.text for run in out.finish("length")).endswith("🙂")
    cut = stream()
    fed(cut, [3, 4])
    assert cut.text == "y"


def test_healed_bytes_are_not_shown():
    """What only spells the typed end is left out, even inside a token."""
    out = stream(owed=5)
    fed(out, [7, 8])
    assert out.text == "n z"


def test_runs_name_their_source_and_concatenate_to_the_text():
    """Neighbouring tokens of one source are one run."""
    out = stream()
    runs = list(fed(out, [0], "lookup"))
    assert "".join(run.text for run in runs) == out.text == "x = 1"
    assert {run.source for run in runs} == {"lookup"}


def test_the_documents_line_breaks_are_used():
    """In a CRLF document every line break of the completion is CRLF."""
    out = stream(line_break="\r\n")
    runs = fed(out, [0, 1, 2, 3])
    assert out.text == "x = 1\r\n    y"
    assert "".join(run.text for run in runs) == out.text


def test_convergence_cuts_before_the_repeat_and_shows_none_of_it():
    """Text that goes on with what stands right of the cursor ends before it; nothing shown is taken back."""
    out = stream(after="\n    return x\n")
    shown = "".join(run.text for run in fed(out, [0, 1, 2, 6, 1]))
    assert out.text == shown == "x = 1"
    assert out.reason == "suffix"
    assert out.token_ids == [0, 1, 2, 6, 1]

"""A real Helix with the set-up of docs/editors.md: it has no ghost text, so the popup is what counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.editors.debian_prefix import Prefix
from tests.editors.desk import Desk, documented

if TYPE_CHECKING:
    from tests.editors.helix import Helix

pytestmark = pytest.mark.editors


@contextmanager
def helix(programs: Prefix, desk: Desk, text: str) -> Iterator[Helix]:
    """Open a file that holds `text` in a Helix set up as the guide says."""
    from tests.editors.helix import Helix  # late: there are no pseudo terminals on Windows

    desk.setting("helix/languages.toml", documented("Helix", "toml"))
    with Helix(programs, desk, desk.file(text)) as editor:
        yield editor


def test_popup_row_is_kept_exactly(programs: Prefix, desk: Desk) -> None:
    """The popup has the suggestion first; Tab previews it, Enter keeps it."""
    desk.script(("return ", "a + b"))
    with helix(programs, desk, "def add(a, b):\n    \n") as editor:
        editor.type("jAreturn ")
        editor.wait_for_row("a + b")
        assert editor.rows() == ["a + b"]
        editor.accept("return a + b")
        editor.save_and_quit()
    assert desk.read() == b"def add(a, b):\n    return a + b\n"


def test_typing_along_keeps_the_row(programs: Prefix, desk: Desk) -> None:
    """Helix asks again at every key; what was suggested stays, without asking the engine (B23)."""
    desk.script(("total = ", "price + tax"))
    with helix(programs, desk, "x = 1\n") as editor:
        editor.type("A; total = ")
        editor.wait_for_row("price + tax")
        for key in "pric":
            editor.type(key)
            editor.wait_for_row("price + tax")
        editor.accept("total = price + tax")
        editor.save_and_quit()
    assert desk.read() == b"x = 1; total = price + tax\n"
    assert {before.rpartition("total = ")[2] for before in desk.asked()} <= {"", "price + tax"}


@pytest.mark.parametrize("line_break", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_several_lines_stay_as_suggested(programs: Prefix, desk: Desk, line_break: str) -> None:
    """A block goes in with its own indentation and the file's line breaks (B07)."""
    desk.script(("= make", "(\n        1,\n        2,\n    )"))
    text = f"if x:{line_break}    {line_break}y = 2{line_break}"
    with helix(programs, desk, text) as editor:
        editor.type("jAtwo = make")
        editor.wait_for_row("make( …")
        editor.accept("        2,")
        editor.save_and_quit()
    lines = ["if x:", "    two = make(", "        1,", "        2,", "    )", "y = 2", ""]
    assert desk.read() == line_break.join(lines).encode()


def test_columns_after_characters_of_several_bytes(programs: Prefix, desk: Desk) -> None:
    """The row replaces exactly the word before the cursor behind an emoji and accented letters (B02)."""
    desk.script(("naïf", " = '🦊 déjà vu'"))
    with helix(programs, desk, "é = '🙂'\n") as editor:
        editor.type("A; naïf")
        editor.wait_for_row("naïf = '🦊 déjà vu'")
        editor.accept("; naïf = ")
        editor.save_and_quit()
    assert desk.read() == "é = '🙂'; naïf = '🦊 déjà vu'\n".encode()

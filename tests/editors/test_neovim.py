"""A real Neovim with the set-ups of docs/editors.md, against the real server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.editors.debian_prefix import Prefix
from tests.editors.desk import Desk, documented, wait_for
from tests.editors.neovim import Neovim

pytestmark = pytest.mark.editors

ADD = "def add(a, b):\n    \n"
TWICE = ("def twice(", "x):\n    return x * 2")
SUM = ("return ", "a + b")
WITHOUT_GHOST_TEXT = (
    "lua local make = vim.lsp.protocol.make_client_capabilities; "
    "vim.lsp.protocol.make_client_capabilities = function() "
    "local known = make(); known.textDocument.inlineCompletion = nil; return known end"
)


@contextmanager
def neovim(programs: Prefix, desk: Desk, text: str, *first: str, heading: str = "Neovim 0.12") -> Iterator[Neovim]:
    """Open a file that holds `text` in a Neovim set up as the guide says."""
    desk.setting("nvim/init.lua", documented(heading, "lua"))
    with Neovim(programs, desk, desk.file(text), *first) as editor:
        yield editor


def test_ghost_text_appears_and_tab_inserts_exactly_it(programs: Prefix, desk: Desk) -> None:
    """Ghost text appears at the cursor, changes nothing by itself, and accepting it inserts it and nothing else."""
    desk.script(SUM)
    with neovim(programs, desk, ADD) as editor:
        editor.type("jAreturn ")
        assert editor.wait_for_ghost() == "a + b"
        assert editor.ghost_place() == (1, 11)
        assert editor.lines() == ["def add(a, b):", "    return "]
        editor.type_and_wait("<Tab>")
        assert editor.lines() == ["def add(a, b):", "    return a + b"]
        assert editor.cursor() == (2, 16)
        assert editor.ghost() is None


def test_tab_without_a_suggestion_is_a_tab(programs: Prefix, desk: Desk) -> None:
    """The documented key keeps its own meaning when there is nothing to accept."""
    desk.script()
    with neovim(programs, desk, "x = 1\n", "set expandtab") as editor:
        editor.type_and_wait("A  # one")
        assert editor.ghost() is None
        editor.type("<Tab>")
        wait_for(lambda: editor.lines() != ["x = 1  # one"], "the tab")
        assert editor.lines()[0].rstrip() == "x = 1  # one"


def test_typing_along_keeps_the_ghost_text(programs: Prefix, desk: Desk) -> None:
    """Typed letters move from the ghost into the text, the engine is asked nothing, the rest can be accepted (B23)."""
    desk.script(SUM)
    with neovim(programs, desk, ADD) as editor:
        editor.type("jAreturn ")
        editor.wait_for_ghost()
        editor.type("a")
        assert editor.ghost() == " + b"
        editor.type_and_wait(" +")
        assert editor.ghost() == " b"
        editor.type_and_wait(" ")
        assert editor.ghost() == "b"
        places = {before.rpartition("return ")[2] for before in desk.asked()}
        assert places <= {"", "a + b"}, "only what was shown, and ahead of time what follows it, may be computed"
        editor.type_and_wait("<Tab>")
        assert editor.lines()[1] == "    return a + b"


def test_accepting_right_after_a_key_does_not_double_it(programs: Prefix, desk: Desk) -> None:
    """A letter typed just before accepting stands there once, although Neovim has not asked again yet (B22)."""
    desk.script(SUM)
    with neovim(programs, desk, ADD) as editor:
        editor.type("jAreturn ")
        editor.wait_for_ghost()
        editor.type_and_wait("a +<Tab>")
        assert editor.lines() == ["def add(a, b):", "    return a + b"]


def test_typing_against_the_ghost_text_clears_it(programs: Prefix, desk: Desk) -> None:
    """Other letters hide the suggestion, and accepting it in that moment inserts nothing of it (B23)."""
    desk.script(SUM)
    with neovim(programs, desk, ADD) as editor:
        editor.type("jAreturn ")
        editor.wait_for_ghost()
        editor.type("max<Tab>")
        wait_for(lambda: editor.ghost() is None, "the ghost text to go")
        editor.type_and_wait("(")
        assert editor.ghost() is None
        assert editor.lines()[1] == "    return max("


def test_leaving_insert_mode_hides_the_ghost_text(programs: Prefix, desk: Desk) -> None:
    """Escape leaves the text as it was typed."""
    desk.script(SUM)
    with neovim(programs, desk, ADD) as editor:
        editor.type("jAreturn ")
        editor.wait_for_ghost()
        editor.type("<Esc>")
        wait_for(lambda: editor.ghost() is None, "the ghost text to go")
        assert editor.lines() == ["def add(a, b):", "    return "]


@pytest.mark.parametrize("line_break", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_several_lines_keep_the_files_line_breaks(programs: Prefix, desk: Desk, line_break: str) -> None:
    """A block is shown whole, and a saved file has its own line breaks only (B07)."""
    desk.script(TWICE)
    with neovim(programs, desk, f"x = 1{line_break}{line_break}") as editor:
        editor.type("jAdef twice(")
        assert editor.wait_for_ghost() == "x):\n    return x * 2"
        editor.type_and_wait("<Tab>")
        assert editor.cursor() == (3, 16)
        editor.save()
    assert desk.read() == f"x = 1{line_break}def twice(x):{line_break}    return x * 2{line_break}".encode()


def test_columns_after_characters_of_several_bytes(programs: Prefix, desk: Desk) -> None:
    """Ghost text stands at the cursor and goes in at it after an emoji and accented letters (B01, B03)."""
    desk.script(("naïf = ", '"🦊 déjà vu"'))
    with neovim(programs, desk, "🦊 = 1\n") as editor:
        editor.type('A; é = "🙂"; naïf = ')
        assert editor.wait_for_ghost() == '"🦊 déjà vu"'
        editor.type_and_wait("<Tab>")
        assert editor.lines() == ['🦊 = 1; é = "🙂"; naïf = "🦊 déjà vu"']


def test_popup_for_a_neovim_without_ghost_text(programs: Prefix, desk: Desk) -> None:
    """The set-up for 0.11 accepts all lines of a suggestion, indented as suggested, from the popup."""
    desk.script(("def twice(", "self, x):\n        return x * 2"))
    text = "class A:\r\n    pass\r\n"
    with neovim(programs, desk, text, WITHOUT_GHOST_TEXT, heading="Neovim 0.11") as editor:
        editor.type("jo<Esc>S    def twice(")
        editor.type("<C-Space>")
        wait_for(lambda: editor.lua("return vim.fn.pumvisible()"), "the popup")
        editor.type("<C-y>")
        wait_for(lambda: len(editor.lines()) > 3, "the block")
        editor.save()
    assert desk.read() == b"class A:\r\n    pass\r\n    def twice(self, x):\r\n        return x * 2\r\n"

"""The extension in a real VS Code, from its package, against the real server with a scripted engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.e2e.scripted_engine import completions
from tests.editors.vscode import Window
from tests.editors.vscode_desk import VsCodeDesk
from tests.editors.vscode_server import CodeServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.editors

RULES = (
    ("return ", "a + b"),
    ("total = ", "price + tax"),
    ("naïf = ", '"🦊 déjà vu"'),
    ("def twice(", "x):\n    return x * 2"),
    ("rest = ", "total - paid"),
)


@pytest.fixture(scope="module")
def window(browser: Browser, code_server: CodeServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    """A window with two folders."""
    desk = VsCodeDesk(tmp_path_factory.mktemp("vscode"))
    desk.script(*RULES)
    desk.settings(enable=True)  # where it is set, there it is switched: in this window, not for all that follow
    desk.second.mkdir()
    with Window(browser, code_server, desk, desk.workspace(desk.project, desk.second)) as window:
        window.wait_until_ready()
        yield window


def asked_in(window: Window, name: str) -> list[str]:
    """Return what the engine was asked in a file: the texts left of the cursor."""
    return [call["before"] for call in completions(window.desk.record) if call["path"].endswith(f"/{name}")]


def test_tab_takes_exactly_the_ghost_text(window: Window) -> None:
    """Ghost text appears at the cursor, changes nothing by itself, and Tab inserts it and nothing else."""
    window.edit("add.py", "def add(a, b):\n    ")
    window.type("return ")
    window.wait_for_ghost("a + b")
    assert window.saved() == b"def add(a, b):\n    return "
    window.wait_for_ghost("a + b")
    window.press("Tab")
    window.wait_for_no_ghost()
    assert window.saved() == b"def add(a, b):\n    return a + b"


def test_typing_along_keeps_the_ghost_text(window: Window) -> None:
    """Typed letters move from the ghost into the text, the engine is asked nothing, the rest can be accepted (B23)."""
    window.edit("along.py", "x = 1\n")
    window.type("total = ")
    window.wait_for_ghost("price + tax")
    for typed in range(1, len("price +") + 1):
        window.type("price +"[typed - 1])
        window.wait_for_ghost("price + tax"[typed:])
    places = {before.rpartition("total = ")[2] for before in window.desk.asked() if "total = " in before}
    assert places <= {"", "price + tax"}, "only what was shown, and ahead of time what follows it, may be computed"
    window.press("Tab")
    window.wait_for_no_ghost()
    assert window.saved() == b"x = 1\ntotal = price + tax"


def test_typing_against_the_ghost_text_clears_it(window: Window) -> None:
    """Another letter hides the suggestion, and nothing of it gets into the text."""
    window.edit("against.py", "x = 1\n")
    window.type("total = ")
    window.wait_for_ghost("price + tax")
    window.type("q")
    window.wait_for_no_ghost()
    window.stay_quiet()
    assert window.saved() == b"x = 1\ntotal = q"


def test_escape_hides_the_ghost_text_until_asked_again(window: Window) -> None:
    """Escape takes the suggestion away, it does not come back by itself, but does on request."""
    window.edit("escape.py", "x = 1\n")
    window.type("total = ")
    window.wait_for_ghost("price + tax")
    window.press("Escape")
    window.wait_for_no_ghost()
    window.stay_quiet()
    window.press("Alt+\\")
    window.wait_for_ghost("price + tax")
    assert window.saved() == b"x = 1\ntotal = "


def test_a_word_at_a_time(window: Window) -> None:
    """Control+Right takes the next word, the rest stays and stays acceptable, without asking the engine."""
    window.edit("word.py", "x = 1\n")
    window.type("rest = ")
    window.wait_for_ghost("total - paid")
    window.press("Control+ArrowRight")
    window.wait_for_ghost(" - paid")
    places = {before.rpartition("rest = ")[2] for before in window.desk.asked() if "rest = " in before}
    assert places <= {"", "total - paid"}
    window.press("Tab")
    window.wait_for_no_ghost()
    assert window.saved() == b"x = 1\nrest = total - paid"


@pytest.mark.parametrize("line_break", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_several_lines_keep_the_files_line_breaks(window: Window, line_break: str) -> None:
    """A block is shown whole, and a saved file has its own line breaks only (B07)."""
    window.edit(f"lines{len(line_break)}.py", f"x = 1{line_break}{line_break}")
    window.type("def twice(")
    window.wait_for_ghost("x:\n    return x * 2")  # around the bracket that the editor has closed by itself
    window.press("Tab")
    window.wait_for_no_ghost()
    assert window.saved() == f"x = 1{line_break}{line_break}def twice(x):{line_break}    return x * 2".encode()


def test_columns_after_characters_of_several_units(window: Window) -> None:
    """Ghost text stands at the cursor and goes in at it after an emoji and accented letters (B01, B03)."""
    window.edit("emoji.py", "🦊 = 1")
    window.type('; é = "🙂"; naïf = ')
    window.wait_for_ghost('"🦊 déjà vu"')
    window.press("Tab")
    window.wait_for_no_ghost()
    assert window.saved() == '🦊 = 1; é = "🙂"; naïf = "🦊 déjà vu"'.encode()


def test_off_means_no_request(window: Window) -> None:
    """Switched off, the engine hears nothing; switched on again, it is asked again."""
    window.edit("off.py", "x = 1\n")
    window.command("Foretype: Toggle Completions")
    window.wait_for_status("off")
    window.type("off = 1; total = ")
    window.stay_quiet()
    assert not asked_in(window, "off.py")
    window.command("Foretype: Toggle Completions")
    window.wait_until_ready()
    window.type("\ntotal = ")
    window.wait_for_ghost("price + tax")


def test_off_for_a_language_means_no_request_there(window: Window) -> None:
    """One language is switched off and on again, the others are completed as before."""
    window.edit("language.py", "x = 1\n")
    window.command("Foretype: Toggle Completions for This Language")
    window.wait_for_status("off here")
    window.type("total = ")
    window.stay_quiet()
    assert not asked_in(window, "language.py")
    window.edit("language.js", "x = 1\n")
    window.type("total = ")
    window.wait_for_ghost("price + tax")
    window.edit("again.py", "x = 1\n")
    window.command("Foretype: Toggle Completions for This Language")
    window.wait_until_ready()
    window.type("total = ")
    window.wait_for_ghost("price + tax")


def test_snoozed_until_resumed(window: Window) -> None:
    """The menu of the status item snoozes completions, and ends that before the five minutes are over."""
    window.edit("snooze.py", "x = 1\n")
    window.status.click()
    window.row("Snooze for 5 minutes").click()
    window.wait_for_status("snoozed 5 min")
    window.focus()
    window.type("total = ")
    window.stay_quiet()
    assert not asked_in(window, "snooze.py")
    window.status.click()
    window.row("Resume").click()
    window.wait_until_ready()
    window.focus()
    window.type("\ntotal = ")
    window.wait_for_ghost("price + tax")


def test_a_killed_server_comes_back(window: Window) -> None:
    """A server that dies is started again without a word of the person, and suggests as before."""
    (killed,) = window.desk.servers()
    psutil.Process(killed).kill()
    window.wait_for_status("starting")
    window.wait_until_ready()
    (server,) = window.desk.servers()
    assert server != killed
    window.edit("killed.py", "x = 1\n")
    window.type("total = ")
    window.wait_for_ghost("price + tax")


def test_two_folders_share_one_server(window: Window) -> None:
    """A file of the second folder is completed by the same server, with the first folder's open file as context."""
    window.edit("first.py", "def paid_total(): ...\n")
    other = window.desk.second / "other.py"
    other.write_text("from first import paid_total\n")
    window.open(other)
    window.type("total = ")
    window.wait_for_ghost("price + tax")
    assert len(window.desk.servers()) == 1


def test_a_cell_of_a_notebook(window: Window) -> None:
    """A notebook's cell is completed with the other cells as context, and the file on disk has the accepted text."""
    cells = [{"cell_type": "code", "metadata": {}, "source": [text], "outputs": []} for text in ("price = 3", "")]
    book = {"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
    window.open_cell(window.desk.file(json.dumps(book), "cells.ipynb"), 1)
    window.type("total = ")
    window.wait_for_ghost("price + tax")
    window.press("Tab")
    window.wait_for_no_ghost()
    written = json.loads(window.saved())
    assert written["cells"][1]["source"] == ["total = price + tax"]
    (asked,) = [call for call in completions(window.desk.record) if call["before"] == "total = "]
    assert [b["text"] for b in asked["buffers"] if "cells.ipynb" in b["path"]] == ["price = 3"]


def test_nothing_is_asked_of_other_hosts(window: Window) -> None:
    """The editor with our extension asks nobody but itself."""
    assert window.strays == []

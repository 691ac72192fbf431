"""The extension in a real VS Code with a slow engine: loading is shown, and ghost text grows on the screen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.editors.desk import wait_for
from tests.editors.vscode import Window
from tests.editors.vscode_desk import VsCodeDesk
from tests.editors.vscode_server import CodeServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.editors

ANSWER = "first()\n    second()\n    third()"


@pytest.fixture(scope="module")
def window(browser: Browser, code_server: CodeServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    """A window whose engine takes a tenth of a second for a token."""
    desk = VsCodeDesk(tmp_path_factory.mktemp("slow"))
    desk.script(("grow():\n    ", ANSWER), token_ms=100)
    desk.settings()
    with Window(browser, code_server, desk, desk.project) as window:
        window.wait_until_ready()
        yield window


def test_ghost_text_grows_without_a_gap(window: Window) -> None:
    """What is finished at the deadline is shown; the rest is added as it is written, and nothing vanishes between."""
    window.edit("grow.py", "def grow():\n   ")
    window.record_ghosts()
    window.type(" ")
    window.wait_for_ghost(ANSWER)
    seen = window.recorded_ghosts()
    assert seen[0] == "first()"
    assert all(later.startswith(earlier) for earlier, later in pairwise(seen)), seen
    window.press("Tab")
    window.wait_for_no_ghost()
    assert window.saved() == f"def grow():\n    {ANSWER}".encode()


def test_loading_is_shown_until_it_is_over(window: Window) -> None:
    """The status bar counts the percents of loading, then says that completions are there."""
    window.desk.script(("total = ", "price + tax"), load_ms=4000)
    window.command("Foretype: Restart Server")
    first = wait_for(lambda: percent_of(window), "a percentage")
    wait_for(lambda: percent_of(window) > first, "a higher percentage")
    window.wait_until_ready()
    window.edit("loaded.py", "x = 1\n")
    window.type("total = ")
    window.wait_for_ghost("price + tax")


def percent_of(window: Window) -> int:
    """Return the percentage that the status bar shows, 0 for none."""
    found = re.search(r"(\d+) %", window.status.inner_text())
    return int(found[1]) if found else 0

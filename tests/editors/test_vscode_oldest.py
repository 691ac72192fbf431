"""The same package in the oldest VS Code that it supports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.editors.conftest import skip_where_impossible
from tests.editors.desk import wait_for
from tests.editors.vscode import Window
from tests.editors.vscode_desk import VsCodeDesk
from tests.editors.vscode_programs import workbench
from tests.editors.vscode_server import CodeServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.editors


@pytest.fixture(scope="module")
def oldest_server(vsix: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeServer]:
    """VS Code 1.100 with our extension."""
    with skip_where_impossible():
        program = workbench(oldest=True)
    with CodeServer(program, tmp_path_factory.mktemp("oldest-server") / "log", vsix) as server:
        yield server


@pytest.fixture(scope="module")
def window(browser: Browser, oldest_server: CodeServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    """A window with one folder."""
    desk = VsCodeDesk(tmp_path_factory.mktemp("oldest"))
    desk.script(("return ", "a + b"), ("total = ", "price + tax"))
    desk.settings()
    with Window(browser, oldest_server, desk, desk.project) as window:
        window.wait_until_ready()
        yield window


def test_tab_takes_exactly_the_ghost_text(window: Window) -> None:
    """Ghost text appears at the cursor, and Tab inserts it and nothing else."""
    window.edit("add.py", "def add(a, b):\n    ")
    window.type("return ")
    window.wait_for_ghost("a + b")
    window.press("Tab")
    window.wait_for_no_ghost()
    assert window.saved() == b"def add(a, b):\n    return a + b"


def test_off_means_no_request(window: Window) -> None:
    """Switched off, the engine hears nothing; switched on again, it is asked again."""
    window.edit("off.py", "x = 1\n")
    window.command("Foretype: Toggle Completions")
    window.wait_for_status("off")
    window.type("total = ")
    window.stay_quiet()
    assert not [before for before in window.desk.asked() if "total" in before]
    window.command("Foretype: Toggle Completions")
    window.wait_until_ready()
    window.type("\ntotal = ")
    window.wait_for_ghost("price + tax")


def test_everything_ends_with_the_editor(window: Window, oldest_server: CodeServer) -> None:
    """When VS Code is ended from outside, its extension, our server and all they started end too."""
    assert len(window.desk.servers()) == 1
    assert len(oldest_server.processes()) > 1
    oldest_server.stop()
    assert oldest_server.processes() == []
    wait_for(lambda: not window.desk.servers(), "our server to end")

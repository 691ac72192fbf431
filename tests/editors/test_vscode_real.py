"""The extension in a real VS Code with the real 0.5B; the pictures of the documentation are taken here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.catalog import models_dir
from tests.conftest import REAL
from tests.editors.desk import ROOT
from tests.editors.vscode import Window
from tests.editors.vscode_desk import VsCodeDesk
from tests.editors.vscode_server import CodeServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

pytestmark = [pytest.mark.editors, pytest.mark.real]

DEMO = ROOT / "docs" / "demo"
BEFORE = """\
class Basket:
    def __init__(self):
        self.lines = []

    def add(self, article, quantity):
        self.lines.append((article, quantity))

    def total(self):
        """


@pytest.fixture(scope="module")
def window(browser: Browser, code_server: CodeServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    """A window with the real engine and model."""
    if not (models_dir() / REAL).is_file():
        pytest.skip(f"{REAL} is not here; run `foretype pull cpu-small`")
    desk = VsCodeDesk(tmp_path_factory.mktemp("real"))
    desk.use_real_engine(with_models=True)
    desk.settings(profile="cpu-small")
    with Window(browser, code_server, desk, desk.project) as window:
        window.wait_until_ready()
        yield window


def test_the_models_ghost_text_goes_in_as_shown(window: Window) -> None:
    """The 0.5B completes a line of a small class, and Tab puts exactly what was shown into the file."""
    window.edit("basket.py", BEFORE)
    window.type("return sum(")
    ghost = window.settled_ghost()
    window.press("Tab")
    window.wait_for_no_ghost()
    assert window.saved().decode() == f"{BEFORE}return sum({ghost})"


def test_a_completion_is_explained(window: Window, pictures: Path) -> None:
    """The view has the prompt as the model reads it, and the text with every token coloured by who proposed it."""
    window.command("View: Close All Editors")
    window.edit("orders.py", (DEMO / "orders.py").read_text("utf-8"))
    window.edit("shop.py", (DEMO / "shop.py").read_text("utf-8").replace("\n    \n", "\n"), at="19:99")
    window.press("Control+b", "Enter")
    window.settled_ghost()
    window.wait_until_ready()
    shown = window.settled_ghost()  # with the rest of it
    window.picture(pictures / "ghost-text.png")
    window.command("Foretype: Open Menu")
    window.row("Explain last completion").wait_for()
    window.picture(pictures / "status-menu.png")
    window.row("Explain last completion").click()
    page = window.webview()
    tokens = page.locator(".token")
    tokens.first.wait_for()
    window.picture(pictures / "explain.png")
    assert "".join(tokens.all_text_contents()).startswith(shown.partition("\n")[0])
    assert colour(page.locator(".token.lookup").first) != colour(page.locator(".token.target").first)
    prompt = "".join(page.locator(".segment").all_text_contents())
    assert "def order_total(lines):" in prompt
    assert "def basket_total(lines):" in prompt


def colour(part: Locator) -> str:
    """Return the colour in which a part of a page is painted."""
    return str(part.evaluate("(part) => getComputedStyle(part).color"))

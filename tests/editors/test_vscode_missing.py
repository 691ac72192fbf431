"""The extension in a real VS Code where something is missing: it says what, and offers the fix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.editors.vscode import Window
from tests.editors.vscode_desk import VsCodeDesk
from tests.editors.vscode_server import CodeServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.editors


@pytest.fixture
def desk(tmp_path: Path) -> VsCodeDesk:
    """A desk on which something will be missing."""
    return VsCodeDesk(tmp_path)


def test_a_missing_model_is_offered(
    browser: Browser, code_server: CodeServer, desk: VsCodeDesk, pictures: Path
) -> None:
    """A notification, the status bar and its menu say that the model is missing and offer to fetch it."""
    desk.settings(profile="cpu-small")
    desk.use_real_engine(with_models=False)
    with Window(browser, code_server, desk, desk.project) as window:
        window.notification("Foretype has no model").get_by_role("button", name="Pull Model").wait_for()
        window.wait_for_status("failed")
        window.status.click()
        window.row("Pull Model").wait_for()
        window.picture(pictures / "missing-model.png")


def test_a_missing_environment_is_offered(
    browser: Browser, code_server: CodeServer, desk: VsCodeDesk, pictures: Path
) -> None:
    """A notification, the status bar and its menu say that no Python has Foretype and offer to create one."""
    desk.settings(interpreter="")
    with Window(browser, code_server, desk, desk.project) as window:
        offer = window.notification("Foretype needs a Python environment")
        offer.get_by_role("button", name="Create Environment").wait_for()
        window.wait_for_status("failed")
        window.status.click()
        window.row("Create Environment").wait_for()
        window.picture(pictures / "missing-environment.png")
        assert desk.servers() == []

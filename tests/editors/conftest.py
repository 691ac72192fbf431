"""The editors' programs, a browser, VS Code with our extension, and a fresh desk for every test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.editors.chromium import chromium
from tests.editors.debian_prefix import NoNetworkError, Prefix, UnsuitableMachineError, prefix
from tests.editors.desk import Desk
from tests.editors.vscode import Window
from tests.editors.vscode_package import build_vsix
from tests.editors.vscode_programs import Workbench, workbench
from tests.editors.vscode_server import CodeServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BROWSER_OPTIONS = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]


@contextmanager
def skip_where_impossible() -> Iterator[None]:
    """Only a machine of another kind may go without, or one that lacks network or packages and is not CI."""
    try:
        yield
    except UnsuitableMachineError as reason:
        pytest.skip(str(reason))
    except NoNetworkError as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"a program that is not here yet cannot be fetched without network: {reason}")
    except ModuleNotFoundError as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"this environment lacks a package of the extra dev: {reason}")


@pytest.fixture(scope="session")
def programs() -> Prefix:
    """Neovim and Helix."""
    with skip_where_impossible():
        return prefix("neovim", "hx")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A home, a project and a scripted server; afterwards no server may be left."""
    desk = Desk(tmp_path)
    yield desk
    desk.clear()


@pytest.fixture(scope="package")  # its event loop must not run into tests of other kinds
def browser() -> Iterator[Browser]:
    """Chromium, which finds no host but this machine."""
    with skip_where_impossible():
        program = chromium()
        from playwright.sync_api import sync_playwright
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=BROWSER_OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of pictures to look at: what FORETYPE_SCREENSHOTS names, or `screenshots0` among pytest's own."""
    named = os.environ.get("FORETYPE_SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(autouse=True)
def _picture(request: pytest.FixtureRequest, pictures: Path) -> Iterator[None]:
    """Keep how a VS Code window looked at the end of each test."""
    yield
    if isinstance(window := getattr(request.node, "funcargs", {}).get("window"), Window):
        window.picture(pictures / f"{request.node.module.__name__.rpartition('.')[2]}-{request.node.name}.png")


@pytest.fixture(scope="session")
def newest_workbench() -> Workbench:
    """VS Code as new as it is to be had."""
    with skip_where_impossible():
        return workbench()


@pytest.fixture(scope="session")
def vsix(newest_workbench: Workbench) -> Path:
    """The extension as a person gets it, built from what is in the repository now."""
    with skip_where_impossible():
        return build_vsix(newest_workbench.node)


@pytest.fixture(scope="package")
def code_server(
    newest_workbench: Workbench, vsix: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CodeServer]:
    """The newest VS Code with our extension, for all windows; in the end nothing it started may be left."""
    with CodeServer(newest_workbench, tmp_path_factory.mktemp("code-server") / "log", vsix) as server:
        yield server

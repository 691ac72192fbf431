"""The editors' programs and a fresh desk for every test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editors.debian_prefix import NoNetworkError, Prefix, UnsuitableMachineError, prefix
from tests.editors.desk import Desk


@pytest.fixture(scope="session")
def programs() -> Prefix:
    """Neovim and Helix. Only a machine of another kind may go without, or one that has no network and is not CI."""
    try:
        return prefix("neovim", "hx")
    except UnsuitableMachineError as reason:
        pytest.skip(str(reason))
    except NoNetworkError as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"Debian's mirror cannot be reached: {reason}")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A home, a project and a scripted server; afterwards no server may be left."""
    desk = Desk(tmp_path)
    yield desk
    desk.clear()

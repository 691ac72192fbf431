"""Debian's Chromium: found where it is installed, else installed from the machine's own apt."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from tests.editors.debian_prefix import NO_WAY_OUT, NoNetworkError, UnsuitableMachineError

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def chromium() -> Path:
    """Return the browser's program. A machine that has none and cannot install it is unsuitable."""
    if not (found := _found()):
        _refuse_unsuitable()
        _apt("update")
        _apt("install", "--assume-yes", "--no-install-recommends", "chromium")
        found = _found()
    assert found is not None
    return found


def _found() -> Path | None:
    return next((Path(found) for name in NAMES if (found := shutil.which(name))), None)


def _refuse_unsuitable() -> None:
    if sys.platform != "linux" or platform.freedesktop_os_release().get("ID") != "debian":
        raise UnsuitableMachineError("this machine has no Chromium on its path; install one")
    if os.geteuid() != 0:
        raise UnsuitableMachineError("Chromium is not installed; run `apt-get install chromium` as root")


def _apt(*arguments: str) -> None:
    environment = os.environ | {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "--quiet=2", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if NO_WAY_OUT.search(done.stderr) and not _found():
        raise NoNetworkError(done.stderr.strip())
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")

"""A home, a project and a server for one editor: the set-up comes from docs/editors.md, the answers from a script."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil

from tests.e2e.scripted_engine import completions

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "editors.md"
PATIENCE = 60.0  # seconds until a wait is given up; a healthy run needs a fraction of one
PAUSE = 0.1  # seconds between two looks; a look may cost a process, and the server has to get on meanwhile
Seen = TypeVar("Seen")


def documented(heading: str, language: str) -> str:
    """Return the first code block of a language under a heading of the guide: what is documented is what is tested."""
    section = GUIDE.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    block = re.search(rf"^```{language}\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert block, f"docs/editors.md has no {language} block under {heading}"
    return block[1]


def wait_for(look: Callable[[], Seen], what: str, instead: Callable[[], object] = str) -> Seen:
    """Look until something is there, and return it; `instead` tells what there is when it never comes."""
    end = time.monotonic() + PATIENCE
    while not (seen := look()):
        assert time.monotonic() < end, f"waited in vain for {what}; {instead()}"
        time.sleep(PAUSE)
    return seen


class Desk:
    """Everything lies under one folder; `foretype-lsp` on the editor's path is the real server, its engine a script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.record = folder / "record"
        self._pids = folder / "pids"
        self._script = folder / "script.json"
        for name in ("project/.git", "home", "bin"):
            (folder / name).mkdir(parents=True)
        self._write_server()

    @property
    def environment(self) -> dict[str, str]:
        """The variables an editor starts with; nothing of the person's own set-up is read or written."""
        home = self.folder / "home"
        folders = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "DATA", "STATE", "CACHE")}
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        own = {"HOME": str(home), "PATH": path, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        return os.environ | folders | own

    def script(self, *rules: tuple[str, str], **more: Any) -> None:
        """Let the engine answer the second text of a rule where the first stands left of the cursor."""
        listed = [{"left": left, "answer": answer} for left, answer in rules]
        self._script.write_text(json.dumps({"rules": listed, "record": str(self.record), **more}))

    def setting(self, name: str, text: str) -> None:
        """Write a file of the editor's own settings."""
        file = self.folder / "home" / "config" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")

    def file(self, text: str, name: str = "shop.py") -> Path:
        """Write a file of the project, with exactly this text."""
        file = self.project / name
        file.write_bytes(text.encode())
        return file

    def read(self, name: str = "shop.py") -> bytes:
        """Return what a file of the project holds on disk."""
        return (self.project / name).read_bytes()

    def asked(self) -> list[str]:
        """Return the text left of the cursor for every completion that the engine was asked for, oldest first."""
        return [call["before"] for call in completions(self.record)]

    def servers(self) -> list[int]:
        """Return the process ids of servers that are still there."""
        listed = self._pids.read_text().split() if self._pids.exists() else []
        return [int(pid) for pid in listed if _runs(int(pid))]

    def clear(self) -> None:
        """See every server end now that its editor has gone; end those that do not, and complain."""
        try:
            wait_for(lambda: not self.servers(), "the server to leave after its editor")
        finally:
            for pid in self.servers():
                psutil.Process(pid).kill()

    def _write_server(self) -> None:
        python, script = shlex.quote(sys.executable), shlex.quote(str(self._script))
        server = self.folder / "bin" / "foretype-lsp"
        server.write_text(
            f"#!/bin/sh\necho $$ >> {shlex.quote(str(self._pids))}\n"
            f"PYTHONPATH={shlex.quote(str(ROOT))} exec {python} -m tests.e2e.scripted_server {script}\n"
        )
        server.chmod(0o755)


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False

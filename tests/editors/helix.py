"""A Helix in a terminal of our own: a pseudo terminal whose screen a terminal emulator in Python keeps."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyte

from tests.editors.debian_prefix import Prefix
from tests.editors.desk import Desk, wait_for

COLUMNS, ROWS = 100, 30
TURN = 0.05  # seconds to listen to the editor at a time
ESCAPE, ENTER, TAB, ASK = "\x1b", "\r", "\t", "\x18"


class Screen(pyte.Screen):  # type: ignore[misc]  # pyte ships no types
    """A screen that answers the editor's questions about the terminal instead of stumbling over private ones."""

    def __init__(self, reply: Callable[[bytes], object]) -> None:
        super().__init__(COLUMNS, ROWS)
        self._reply = reply

    def report_device_status(self, mode: int = 0, **_: Any) -> None:
        """Say nothing: Helix asks for colour schemes, which nobody needs to know here."""

    def write_process_input(self, data: str) -> None:
        """Hand an answer of the terminal to the editor."""
        self._reply(data.encode())


class Helix:
    """One editor with one file open; use it as a context manager."""

    def __init__(self, programs: Prefix, desk: Desk, file: Path) -> None:
        """Start in a terminal of its own."""
        self.desk = desk
        self._terminal, other_end = pty.openpty()
        fcntl.ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.screen = Screen(lambda answer: os.write(self._terminal, answer))
        self._stream = pyte.ByteStream(self.screen)
        self._process = subprocess.Popen(
            [*programs.command("usr/lib/hx/hx"), str(file)],
            cwd=desk.project,
            env=desk.environment | {"HELIX_RUNTIME": str(programs.path("usr/lib/hx/runtime"))},
            stdin=other_end,
            stdout=other_end,
            stderr=other_end,
            start_new_session=True,
        )
        os.close(other_end)

    def __enter__(self) -> Helix:
        self.wait_for_text("NOR")
        wait_for(self.desk.servers, "the server")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._terminal)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._terminal, keys.encode())

    def shown(self) -> list[str]:
        """Return the screen's lines without the blanks at their ends."""
        self._listen()
        return [line.rstrip() for line in self.screen.display]

    def wait_for_text(self, text: str) -> None:
        """Wait until something stands on the screen."""
        wait_for(lambda: any(text in line for line in self.shown()), f"{text!r}", self._screen_text)

    def wait_for_row(self, label: str) -> None:
        """Wait until the popup has a row; ask every second until it opens, the model may still be loading."""
        asked = time.monotonic()

        def there() -> bool:
            nonlocal asked
            if time.monotonic() > asked + 1:
                self.type(ASK)
                asked = time.monotonic()
            return label in self.rows()

        wait_for(there, f"a row {label!r}", self._screen_text)

    def rows(self) -> list[str]:
        """Return the labels of the popup's rows, as long as none is selected: our items are of the kind text."""
        found = [re.search(r".*\s\s(\S.*?)\s+text$", line) for line in self.shown()]
        return [match[1] for match in found if match]

    def accept(self, preview: str) -> None:
        """Select the popup's first row, see what it would make of the text, and keep it."""
        self.type(TAB)
        self.wait_for_text(preview)
        self.type(ENTER)

    def save_and_quit(self) -> None:
        """Write the file and leave."""
        self.type(ESCAPE)
        self.wait_for_text("NOR")
        self.type(f":write-quit{ENTER}")
        wait_for(lambda: self.shown() and self._process.poll() is not None, "Helix to leave")

    def _screen_text(self) -> str:
        return "\n".join(["the screen:", *filter(None, self.shown())])

    def _listen(self) -> None:
        """Take in what the editor writes until it pauses."""
        with contextlib.suppress(OSError):  # the terminal ends with the editor
            while select.select([self._terminal], [], [], TURN)[0]:
                self._stream.feed(os.read(self._terminal, 65536))

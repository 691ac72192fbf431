"""The process: whose its standard streams are, and when it ends.

Everything here works while the event loop is stuck and the engine is busy: a guard thread ends the process by itself.
Importing this file must stay cheap, for its first function runs before anything else.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

log = logging.getLogger(__name__)

POLL = 1.0  # seconds between two looks at the editor's process
GRACE = 0.8  # seconds to close in order, once the end is known; also to be imported and answer what was piped in


def take_streams() -> tuple[BinaryIO, BinaryIO]:
    """Take standard input and output for the protocol, and return them.

    Afterwards descriptor 1 is standard error and descriptor 0 is empty, for Python, for C code and for child processes.
    """
    _ensure_error_stream()
    taken = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    for descriptor in taken:
        _make_binary(descriptor)
    return os.fdopen(taken[0], "rb"), os.fdopen(taken[1], "wb")


def _ensure_error_stream() -> None:
    """Some editors start us without standard error: what is written there must go nowhere, not into another file."""
    try:
        os.fstat(2)
    except OSError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        if nothing != 2:
            os.dup2(nothing, 2)
            os.close(nothing)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115  (for good)


def _make_binary(descriptor: int) -> None:
    """Keep Windows from changing line ends."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(descriptor, os.O_BINARY)


class Lifetime:
    """Decides when the process ends, and sees to it.

    `end` may be called from any thread, also more than once; `GRACE` seconds later at the latest the process is gone.
    """

    def __init__(self, leave: Callable[[int], Any] = os._exit) -> None:
        self._leave = leave
        self._ending = False
        self._news = threading.Event()  # something for the guard to look at
        self._code = 1
        self._editor: Any = None
        self._editor_id: int | None = None
        self._stop: Callable[[], None] = lambda: None

    def start(self, stop: Callable[[], None]) -> None:
        """Begin to guard; `stop` asks the event loop to come to its end and is called on any thread."""
        self._stop = stop
        threading.Thread(target=self._guard, name="guard", daemon=True).start()

    def watch(self, process_id: int) -> None:
        """End when this process, the editor, is gone. One that is not there to begin with is not watched.

        An editor outside our container has an id that means nothing here.
        """
        self._editor_id = process_id
        self._news.set()

    def end(self, why: str, code: int = 1) -> None:
        """Begin the end. A proper goodbye (0) counts, whatever came before or comes after it."""
        self._code = min(self._code, code)
        if not self._ending:
            log.info("ending: %s", why)
            self._ending = True
            self._news.set()
            self._stop()

    def leave(self) -> None:
        """End the process now: no thread is waited for, a busy engine would hold us back."""
        self._leave(self._code)

    def _guard(self) -> None:
        while not self._ending:
            self._news.wait(POLL)
            self._news.clear()
            if self._editor_gone():
                self.end("the editor's process is gone")
        time.sleep(GRACE)
        self.leave()

    def _editor_gone(self) -> bool:
        if self._editor_id is not None:
            self._editor = find_process(self._editor_id)
            self._editor_id = None
        return self._editor is not None and not is_alive(self._editor)


def find_process(process_id: int) -> Any:  # noqa: ANN401  (psutil has no types)
    """Return a process to keep an eye on, or None when there is none with this id that we may look at."""
    import psutil  # late: it costs 50 ms, and only the guard thread pays

    try:
        return psutil.Process(process_id)
    except (psutil.Error, ValueError, OverflowError):
        log.info("process %s, named by the editor, is not to be seen from here", process_id)
        return None


def is_alive(process: Any) -> bool:  # noqa: ANN401  (psutil has no types)
    """Whether a process runs; one whose id has passed to another, or that only waits to be collected, does not."""
    import psutil

    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True  # there, but not to be asked

"""`python -m tests.e2e.disk_server SCRIPT`: the scripted server, its use of the disk looked over or disturbed.

It has all the time it wants for finding related files, since machines under test are slow. The script has, beside
what the engine reads:

    watch_error  name of an error, such as ENOSPC, that every attempt to watch a folder ends with
    touched      path of a file that gets a line for each file opened and each folder listed
    refusals     path of a file that gets a line for each folder that was to be watched in vain
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from lsp_server.__main__ import main
from lsp_server.context import gatherer as context
from lsp_server.context.related import related_files
from tests.e2e.scripted_engine import loader, read_script

EVENTS = frozenset({"open", "os.scandir", "os.listdir"})


def refuse_watches(name: str, refusals: str) -> None:
    """Have watchdog fail as it does at the system's limit."""
    from watchdog.observers.api import BaseObserver

    def schedule(_: BaseObserver, __: object, path: str, **___: Any) -> None:
        with Path(refusals).open("a", encoding="utf-8") as file:
            file.write(f"{path}\n")
        code = getattr(errno, name)
        raise OSError(code, os.strerror(code))

    BaseObserver.schedule = schedule


def noting(touched: str) -> Callable[[str, tuple[Any, ...]], None]:
    """Return a hook that writes down what is opened or listed."""
    out = os.open(touched, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS and isinstance(arguments[0], str | bytes):
            os.write(out, os.fsencode(arguments[0]) + b"\n")

    return hook


if __name__ == "__main__":
    script = read_script(sys.argv[1])
    context.related_files = partial(related_files, seconds=60.0)
    if name := script.get("watch_error"):
        refuse_watches(name, script["refusals"])
    if touched := script.get("touched"):
        sys.addaudithook(noting(touched))
    sys.exit(main([], load_engine=loader(script)))

"""`foretype-lsp` and `python -m lsp_server`: the language server on standard input and output."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

from lsp_server.wire.inbox import Inbox, start_reading
from lsp_server.wire.lifetime import Lifetime, take_streams

if TYPE_CHECKING:
    from lsp_server.worker import LoadEngine

log = logging.getLogger("lsp_server")

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
ABOUT = (
    "A language server that completes code with models on this machine. Editors start it and talk to it over standard "
    "input and output; there is nothing to type here. It logs to standard error, as much as FORETYPE_LOG says: "
    f"{', '.join(LEVELS)}."
)


def main(arguments: Sequence[str] | None = None, load_engine: LoadEngine | None = None) -> None:
    """Serve one client until it leaves, then end the process; `load_engine` stands in for loading the real engine."""
    options = _options(sys.argv[1:] if arguments is None else arguments)
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write("foretype-lsp is started by editors, which talk to it here. Ctrl-C ends it; see --help.\n")
    lifetime, inbox = Lifetime(), Inbox()
    stdin, stdout = take_streams()  # before any import that might print
    _set_up_logging()
    if options.clientProcessId is not None:
        lifetime.watch(options.clientProcessId)
    lifetime.start(inbox.close)
    start_reading(stdin, inbox, lifetime)
    try:
        _serve(inbox, stdout, lifetime, load_engine)
    except KeyboardInterrupt:
        pass
    except Exception:
        log.exception("the server cannot go on")
    lifetime.leave()


def _serve(inbox: Inbox, stdout: BinaryIO, lifetime: Lifetime, load_engine: LoadEngine | None) -> None:
    gc.disable()  # it finds nothing to free in what imports make, and takes a seventh of the time to start
    from lsp_server.server import create_server
    from lsp_server.wire.transport import serve

    server = create_server(load_engine) if load_engine else create_server()
    gc.freeze()  # nor does it have to look at all that again
    gc.enable()
    serve(server, inbox, stdout, lifetime)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("foretype-lsp", description=ABOUT)
    parser.add_argument("--version", action="store_true", help="say which version this is")
    parser.add_argument("--stdio", action="store_true", help="what some editors add; there is no other way")
    parser.add_argument("--clientProcessId", type=int, metavar="ID", help="end when this process does")
    options = parser.parse_args(arguments)
    if options.version:
        sys.stdout.write(f"foretype-lsp {_version()}\n")
        sys.exit()
    return options


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("foretype")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _set_up_logging() -> None:
    """Log to standard error, our own packages as much as was asked for, others only when something is wrong."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    wanted = os.environ.get("FORETYPE_LOG", "").upper()
    for name in ("lsp_server", "engine"):
        logging.getLogger(name).setLevel(wanted if wanted in LEVELS else logging.WARNING)
    # pygls logs message bodies at INFO, and with them text of buffers.
    logging.getLogger("pygls").setLevel(logging.WARNING)


if __name__ == "__main__":
    main()

"""`foretype-lsp` and `python -m lsp_server`: the language server on standard input and output."""

from __future__ import annotations

import logging
import os
import sys

from lsp_server.server import create_server


def main() -> None:
    """Serve one client over stdio until it leaves. Standard output carries the protocol, logs go to standard error."""
    level = os.environ.get("FORETYPE_LOG", "WARNING").upper()
    logging.basicConfig(level=level if level in logging.getLevelNamesMapping() else "WARNING", stream=sys.stderr)
    logging.getLogger("pygls").setLevel(logging.WARNING)  # at INFO it logs message bodies, and with them buffer text
    protocol = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints goes to standard error
    create_server().start_io(sys.stdin.buffer, protocol)


if __name__ == "__main__":
    main()

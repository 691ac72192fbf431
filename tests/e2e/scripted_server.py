"""`python -m tests.e2e.scripted_server SCRIPT`: the real server process with a scripted engine behind the real seam."""

from __future__ import annotations

import sys

from lsp_server.__main__ import main
from tests.e2e.scripted_engine import loader

if __name__ == "__main__":
    sys.exit(main([], load_engine=loader(sys.argv[1] if len(sys.argv) > 1 else "{}")))

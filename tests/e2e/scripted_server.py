"""The real server process with a scripted engine behind the real seam; the text says what the engine was asked."""

from __future__ import annotations

import sys
import time

import lsp_server.__main__ as program
from engine import CompletionChunk, TextRun
from lsp_server.server import create_server


class ScriptedEngine:
    """Answers with the text left of the cursor's line and the number of open buffers; `slow` waits for a cancel."""

    def complete(self, request, cancel=None):
        print("noise on standard output")
        line = request.text[: request.cursor].rsplit("\n", 1)[-1]
        while "slow" in line and not cancel.cancelled:
            time.sleep(0.01)
        yield CompletionChunk((TextRun(f"<{line}|{len(request.buffers)}>", "target"),))

    def forget(self, path):
        pass


program.create_server = lambda: create_server(lambda config: ScriptedEngine())
if __name__ == "__main__":
    sys.exit(program.main())

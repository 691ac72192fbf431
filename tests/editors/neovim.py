"""A headless Neovim, typed into and looked at over its own remote interface."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.editors.debian_prefix import Prefix
from tests.editors.desk import Desk, wait_for

# Looking for a Python to extend Neovim with takes a second, and nothing here needs one.
WITHOUT_PYTHON = "let g:loaded_python3_provider = 0"
COUNT_ANSWERS = """
vim.g.answered = 0
vim.api.nvim_create_autocmd('LspRequest', {
  callback = function(event)
    local request = event.data.request
    if request.type == 'complete' and request.method == 'textDocument/inlineCompletion' then
      vim.g.answered = vim.g.answered + 1
    end
  end,
})
"""
GHOST = """
local space = vim.api.nvim_get_namespaces()['nvim.lsp.inline_completion']
local marks = space and vim.api.nvim_buf_get_extmarks(0, space, 0, -1, { details = true }) or {}
return vim.tbl_map(function(mark) return { mark[2], mark[3], mark[4].virt_text, mark[4].virt_lines or {} } end, marks)
"""
STATE = """
local client = vim.lsp.get_clients({ bufnr = 0, name = 'foretype' })[1]
if not client or not client.initialized then return '' end
local reply = client:request_sync('workspace/executeCommand', { command = 'foretype.status' }, 1000)
return reply and reply.result and reply.result.state or ''
"""


class Neovim:
    """One editor with one file open; use it as a context manager."""

    def __init__(self, programs: Prefix, desk: Desk, file: Path, *first: str) -> None:
        """Start; `first` are commands that run before the person's own settings."""
        self.desk = desk
        self._program = programs.command("usr/bin/nvim")
        self._socket = desk.folder / "nvim"
        self._environment = desk.environment | {"VIMRUNTIME": str(programs.path("usr/share/nvim/runtime"))}
        parsers = f"set runtimepath+={programs.path('usr/lib/nvim')}"
        commands = [part for command in (WITHOUT_PYTHON, parsers, *first) for part in ("--cmd", command)]
        self._output = (desk.folder / "nvim.log").open("wb")
        self._process = subprocess.Popen(
            [*self._program, *commands, "--embed", "--headless", "--listen", str(self._socket), str(file)],
            cwd=desk.project,
            env=self._environment,
            stdin=subprocess.PIPE,  # an embedded Neovim leaves when this closes: it cannot outlive the tests
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __enter__(self) -> Neovim:
        wait_for(self._socket.exists, "Neovim to listen")
        self.lua(COUNT_ANSWERS)
        wait_for(lambda: self.lua(STATE) == "ready", "the server to be ready")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdin
        self._process.stdin.close()
        self._output.close()

    def lua(self, code: str) -> Any:
        """Run a function body inside the editor and return what it returns."""
        quoted = f"(function() {code} end)()".replace("'", "''")
        answer = self._remote("--remote-expr", f"json_encode(luaeval('{quoted}'))")
        return json.loads(answer or "null")

    def type(self, keys: str) -> None:
        """Press keys, special ones written as in `<Esc>`; `<lt>` is the sign itself."""
        self._remote("--remote-send", keys)

    def type_and_wait(self, keys: str) -> None:
        """Press keys in insert mode and wait until the request that follows them was answered."""
        before = self.answered()
        self.type(keys)
        wait_for(lambda: self.answered() > before, "an answer", self.lines)

    def answered(self) -> int:
        """Return how many requests for inline completion the server has answered."""
        return int(self.lua("return vim.g.answered"))

    def ghost(self) -> str | None:
        """Return the ghost text on the screen, or None."""
        marks = self.lua(GHOST)
        assert len(marks) <= 1, marks
        return "\n".join(_text(line) for line in (marks[0][2], *marks[0][3])) if marks else None

    def ghost_place(self) -> tuple[int, int]:
        """Return line and column, in bytes from 0, where the ghost text stands."""
        ((line, column, _, _),) = self.lua(GHOST)
        return line, column

    def wait_for_ghost(self) -> str:
        """Return the ghost text as soon as there is one."""
        return wait_for(self.ghost, "ghost text", self.lines) or ""

    def lines(self) -> list[str]:
        """Return the buffer's lines."""
        return list(self.lua("return vim.api.nvim_buf_get_lines(0, 0, -1, true)"))

    def cursor(self) -> tuple[int, int]:
        """Return the cursor's line, from 1, and its column in bytes, from 0."""
        line, column = self.lua("return vim.api.nvim_win_get_cursor(0)")
        return line, column

    def save(self) -> None:
        """Leave insert mode and write the file."""
        self.type("<Esc>:write<CR>")
        wait_for(lambda: not self.lua("return vim.bo.modified"), "the file to be written")

    def _remote(self, *arguments: str) -> str:
        command = [*self._program, "--server", str(self._socket), *arguments]
        done = subprocess.run(command, env=self._environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()


def _text(chunks: list[list[str]]) -> str:
    return "".join(chunk[0] for chunk in chunks)

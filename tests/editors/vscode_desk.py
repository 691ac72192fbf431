"""What a VS Code window works on: folders, and a Python whose server has a scripted engine or the real one."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import platformdirs

from tests.editors.desk import ROOT, Desk

SCRIPTED = "tests.e2e.scripted_server"


class VsCodeDesk(Desk):
    """A desk whose server is started as the extension does it, by `python -m lsp_server`."""

    @property
    def interpreter(self) -> Path:
        """The Python that the extension is told to use."""
        return self.folder / "bin" / "python"

    @property
    def second(self) -> Path:
        """A second folder beside the project."""
        return self.folder / "second"

    def settings(self, **values: Any) -> None:
        """Write the settings of the project's folder; `interpreter` is set unless told otherwise."""
        file = self.project / ".vscode" / "settings.json"
        file.parent.mkdir(exist_ok=True)
        told = {"interpreter": str(self.interpreter)} | values
        file.write_text(json.dumps({f"foretype.{name}": value for name, value in told.items()}))

    def use_real_engine(self, *, with_models: bool) -> None:
        """Run the real engine, with the models that this machine has or with none."""
        cache = platformdirs.user_cache_path("foretype", appauthor=False).parent
        more = f"export XDG_CACHE_HOME={shlex.quote(str(cache))}" if with_models else ""
        self._write_interpreter("lsp_server", more)

    def workspace(self, *folders: Path) -> Path:
        """Write a workspace of several folders, with the settings of the first one, and return its file."""
        file = self.folder / "several.code-workspace"
        settings = json.loads((self.project / ".vscode" / "settings.json").read_text())
        told = {"folders": [{"path": str(folder)} for folder in folders], "settings": settings}
        file.write_text(json.dumps(told))
        return file

    def _write_server(self) -> None:
        self._write_interpreter(f"{SCRIPTED} {shlex.quote(str(self._script))}")

    def _write_interpreter(self, module: str, more: str = "") -> None:
        """Write a program that starts our server in place of the installed one, and is this Python otherwise."""
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self.interpreter.write_text(
            f"""#!/bin/sh
export PYTHONPATH={shlex.quote(path)}
{more}
if [ "$1 $2" = "-m lsp_server" ]; then
    shift 2
    echo $$ >> {shlex.quote(str(self._pids))}
    exec {shlex.quote(sys.executable)} -m {module} "$@"
fi
exec {shlex.quote(sys.executable)} "$@"
"""
        )
        self.interpreter.chmod(0o755)

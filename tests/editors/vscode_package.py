"""The extension's package, built by the extension's own script."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.editors.desk import ROOT
from tests.editors.vscode_programs import QUIET, npm

EXTENSION = ROOT / "vscode-extension"
VSIX = EXTENSION / "foretype.vsix"


def build_vsix(node: Path) -> Path:
    """Install what the build needs unless it is there, build the package and return it."""
    lock, installed = EXTENSION / "package-lock.json", EXTENSION / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        npm(EXTENSION, "ci", *QUIET, node=node)
    npm(EXTENSION, "run", "package", node=node, PYTHON=sys.executable)
    return VSIX

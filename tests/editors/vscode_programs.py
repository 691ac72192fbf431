"""VS Code's workbench from npm: the newest and the oldest that the extension supports, each with the Node it needs.

What is installed is said exactly in `code_server/`. It lies in the cache folder afterwards; delete it there to install
anew. Nothing is compiled: the scripts of the packages, which would do that, do not run.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock

from tests.editors.debian_prefix import NoNetworkError, UnsuitableMachineError

SOURCES = Path(__file__).parent / "code_server"
NO_WAY_OUT = re.compile(
    "ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|ERR_SOCKET_TIMEOUT"
)
QUIET = ("--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1")
# 190 MB that no test needs.
UNUSED = ("@github", "@microsoft/mxc-sdk")


@dataclass(frozen=True)
class Workbench:
    """An installed code-server."""

    node: Path
    entry: Path
    oldest: bool

    def command(self, *arguments: str) -> list[str]:
        """Return the command line that runs it."""
        return [str(self.node), str(self.entry), *arguments]


def workbench(*, oldest: bool = False) -> Workbench:
    """Return the newest workbench or the oldest, installed now or by an earlier run."""
    installed = _installed() / "node_modules"
    suffix = "-oldest" if oldest else ""
    entry = installed / f"code-server{suffix}" / "out" / "node" / "entry.js"
    return Workbench(installed / f"node{suffix}" / "bin" / "node", entry, oldest)


def npm(folder: Path, *arguments: str, node: Path | None = None, **variables: str) -> None:
    """Run npm in a folder, on a Node of ours if one is given."""
    path = os.pathsep.join([str(node.parent), os.environ["PATH"]] if node else [os.environ["PATH"]])
    environment = os.environ | {"PATH": path, **variables}
    command = [_npm(), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    if NO_WAY_OUT.search(done.stderr):
        raise NoNetworkError(done.stderr.strip())
    raise RuntimeError(f"{' '.join(command)} failed in {folder}:\n{done.stdout}{done.stderr}")


def _npm() -> str:
    found = shutil.which("npm")
    if not found:
        raise UnsuitableMachineError("this machine has no npm on its path; install Node.js with npm")
    return found


def _installed() -> Path:
    _refuse_unsuitable()
    wanted = hashlib.sha256(b"".join(path.read_bytes() for path in (*sorted(SOURCES.iterdir()), Path(__file__))))
    cache = platformdirs.user_cache_path("foretype", appauthor=False) / "editors"
    final = cache / f"code-server-{wanted.hexdigest()[:12]}"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / "lock"):
        if not final.is_dir():
            _install(final)
    return final


def _refuse_unsuitable() -> None:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise UnsuitableMachineError("VS Code is tested on Linux on 64-bit Intel and AMD processors only")
    _npm()


def _install(final: Path) -> None:
    """Install beside the final folder: that it is there says that it is whole."""
    with tempfile.TemporaryDirectory(prefix="new-", dir=final.parent) as name:
        folder = Path(name) / "installed"
        shutil.copytree(SOURCES, folder)
        npm(folder, "ci", *QUIET)
        packages = folder / "node_modules"
        for suffix in ("", "-oldest"):
            _install_parts(packages / f"code-server{suffix}", packages / f"node{suffix}" / "bin" / "node")
        # The oldest's own copy would have to be compiled; without it, it finds the newest's, which came compiled.
        shutil.rmtree(packages / "code-server-oldest" / "node_modules" / "argon2")
        folder.rename(final)


def _install_parts(server: Path, node: Path) -> None:
    """Do what code-server's own script does, without compiling; its lists and locks differ too much for `npm ci`."""
    parts = server / "lib" / "vscode"
    for folder in (parts, parts / "extensions"):
        npm(folder, "install", "--omit=dev", "--ignore-scripts", *QUIET, node=node)
    for name in UNUSED:
        shutil.rmtree(parts / "node_modules" / name, ignore_errors=True)

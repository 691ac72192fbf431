"""A code-server of our own: VS Code's server part, which runs the extension, in a home that nobody else uses."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import psutil

from tests.editors.desk import wait_for
from tests.editors.vscode_programs import Workbench

LISTENS = re.compile(r"HTTP server listening on (http://127\.0\.0\.1:\d+)")
# Nothing but our suggestions is to appear, and nothing is to be asked of the network.
SETTINGS = {
    "chat.disableAIFeatures": True,
    "editor.accessibilitySupport": "off",
    "editor.minimap.enabled": False,
    "editor.quickSuggestions": {"other": "off", "comments": "off", "strings": "off"},
    "editor.wordBasedSuggestions": "off",
    "extensions.autoCheckUpdates": False,
    "extensions.autoUpdate": False,
    "extensions.ignoreRecommendations": True,
    "files.autoSave": "off",
    "files.hotExit": "off",
    "git.enabled": False,
    "telemetry.telemetryLevel": "off",
    "update.mode": "none",
    "workbench.enableExperiments": False,
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
}
OPTIONS = (
    "--bind-addr=127.0.0.1:0",
    "--auth=none",
    "--disable-telemetry",
    "--disable-update-check",
    "--disable-workspace-trust",
    "--disable-getting-started-override",
    "--disable-proxy",
    "--ignore-last-opened",
)
# Should the tests be killed, their browser goes with them, and the server follows after this time.
ONLY_NEWER = ("--idle-timeout-seconds=300",)
STOPPING = 5.0  # seconds


class CodeServer:
    """One server process and all it starts; use it as a context manager."""

    def __init__(self, workbench: Workbench, log: Path, vsix: Path) -> None:
        """Take where to write what it prints, and the extension to install."""
        # Short, since sockets lie in it, and not among the tests' own files, which are kept.
        self._folder = Path(tempfile.mkdtemp(prefix="foretype-"))
        self._workbench, self._log, self._vsix = workbench, log, vsix
        self.home = self._folder / "home"
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> CodeServer:
        try:
            self._write_home()
            self._install()
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def processes(self) -> list[psutil.Process]:
        """Return everything that runs in this home: the server, windows' extensions and what those started."""
        return [process for process in psutil.process_iter() if _home_of(process) == str(self.home)]

    def stop(self) -> None:
        """End the server, see that everything it started is gone too, and complain if not."""
        if self._process:
            _signal_group(self._process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOPPING)
            _signal_group(self._process.pid, signal.SIGKILL)
            self._process.wait()
        try:
            wait_for(lambda: not self.processes(), "all that code-server started to end", self.processes)
        finally:
            for process in self.processes():
                process.kill()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _write_home(self) -> None:
        for name in ("home", "t", "data/User", "extensions"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        (self._folder / "config.yaml").write_text("auth: none\n")
        (self._folder / "data" / "User" / "settings.json").write_text(json.dumps(SETTINGS))

    def _install(self) -> None:
        command = self._command("--install-extension", str(self._vsix))
        done = subprocess.run(command, env=self._environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def _start(self) -> None:
        command = self._command(*OPTIONS, *(() if self._workbench.oldest else ONLY_NEWER))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.url = wait_for(self._address, "code-server to listen", self._log.read_text)

    def _address(self) -> str:
        found = LISTENS.search(self._log.read_text())
        return found[1] if found else ""

    def _command(self, *arguments: str) -> list[str]:
        folders = {name: str(self._folder / name) for name in ("config.yaml", "data", "extensions")}
        own = ("--config", folders["config.yaml"], "--user-data-dir", folders["data"])
        return self._workbench.command(*own, "--extensions-dir", folders["extensions"], *arguments)

    def _environment(self) -> dict[str, str]:
        theirs = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "VSCODE_"))}
        own = {"HOME": str(self.home), "TMPDIR": str(self._folder / "t"), "LC_ALL": "C.UTF-8"}
        return theirs | own | {"EXTENSIONS_GALLERY": "{}"}  # without it, the public gallery is asked at the start


def _home_of(process: psutil.Process) -> str | None:
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else process.environ().get("HOME")
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def _signal_group(leader: int, which: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, which)

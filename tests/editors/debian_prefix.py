"""Programs of a newer Debian in a private folder, run through their own dynamic loader: nothing is installed.

The mirror is the one that the machine's own apt uses, and apt itself fetches and checks everything, against the signed
index, with its own state in the cache folder. What was fetched stays there; delete the folder to fetch anew.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock

SUITE = "forky"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Names under which a Debian machine's sources may list the main archive, beside the name of its own release.
RELEASES = {"stable", "oldstable", "testing", "unstable", "sid", SUITE}
NO_WAY_OUT = re.compile(
    "Could not resolve|Temporary failure resolving|Could not connect|Unable to connect|unreachable|timed out"
)
APT_SETTINGS = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
APT::Default-Release "";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::Retries "3";
Dir::Cache "{folder}/cache/";
Dir::Cache::archives "archives/";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State "{folder}/state/";
Dir::State::lists "lists/";
Dir::State::status "{folder}/state/status";
"""


class UnsuitableMachineError(Exception):
    """This kind of machine cannot run Debian's packages, or does not know where to get them."""


class NoNetworkError(Exception):
    """The mirror cannot be reached, and nothing was fetched before."""


@dataclass(frozen=True)
class Prefix:
    """Unpacked packages."""

    root: Path

    def path(self, name: str) -> Path:
        """Return where a file of the packages lies; `name` is its path without the leading slash."""
        return self.root / name

    def command(self, program: str) -> list[str]:
        """Return the command line that starts a program, given by its path without the leading slash."""
        (loader,) = self.root.glob("usr/lib/*/ld-linux*.so.*")
        return [str(loader), "--library-path", str(loader.parent), str(self.path(program).resolve())]


def prefix(*packages: str) -> Prefix:
    """Return packages with everything they depend on, fetched now or by an earlier run."""
    cache = platformdirs.user_cache_path("foretype", appauthor=False) / "editors"
    final = cache / "-".join((SUITE, *packages))
    if not (final / "packages.txt").is_file():
        _refuse_unsuitable()
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / "lock"):
            if not (final / "packages.txt").is_file():
                _build(final, packages)
    return Prefix(final / "root")


def _refuse_unsuitable() -> None:
    if sys.platform != "linux":
        raise UnsuitableMachineError("Debian's editors run on Linux only")
    if platform.freedesktop_os_release().get("ID") != "debian":
        raise UnsuitableMachineError("this machine is no Debian, its apt knows no mirror of Debian")
    if missing := [name for name in ("apt-get", "dpkg", "dpkg-deb") if not shutil.which(name)]:
        raise UnsuitableMachineError(f"this machine lacks {', '.join(missing)}")


def _build(final: Path, packages: Sequence[str]) -> None:
    """Fetch and unpack beside the final folder; its list of packages comes last and says that the rest is there."""
    with tempfile.TemporaryDirectory(prefix="new-", dir=final.parent) as name:
        folder = Path(name)
        archives = _fetch(folder, packages)
        root = folder / "root"
        root.mkdir()
        for archive in archives:
            _run("dpkg-deb", "--extract", str(archive), str(root))
        (folder / "packages.txt").write_text("".join(f"{archive.name}\n" for archive in archives))
        for leftover in ("cache", "state"):
            shutil.rmtree(folder / leftover)
        shutil.rmtree(final, ignore_errors=True)
        final.mkdir()
        root.rename(final / "root")
        (folder / "packages.txt").rename(final / "packages.txt")


def _fetch(folder: Path, packages: Sequence[str]) -> list[Path]:
    """Let apt download packages and all they depend on, as for a machine with nothing installed."""
    archives = folder / "cache" / "archives"
    for needed in (archives / "partial", folder / "state" / "lists" / "partial"):
        needed.mkdir(parents=True)
    (folder / "state" / "status").touch()
    (folder / "apt.conf").write_text(APT_SETTINGS.format(folder=folder))
    options = [f"arch={_run('dpkg', '--print-architecture').strip()}"]
    if KEYRING.is_file():
        options.append(f"signed-by={KEYRING}")
    (folder / "sources.list").write_text(f"deb [{' '.join(options)}] {_mirror()} {SUITE} main\n")
    apt = ("apt-get", "--config-file", str(folder / "apt.conf"), "--quiet=2", "--assume-yes")
    _run(*apt, "update")
    _run(*apt, "--no-install-recommends", "--download-only", "install", *packages)
    return sorted(archives.glob("*.deb"))


def _mirror() -> str:
    """Return where the machine's own apt gets the main archive from."""
    line = "$(RELEASE) $(COMPONENT) $(REPO_URI)"
    listed = _run("apt-get", "indextargets", "--no-release-info", "--format", line, "Created-By: Packages")
    releases = RELEASES | {platform.freedesktop_os_release().get("VERSION_CODENAME", SUITE)}
    for release, component, address in (entry.split(" ", 2) for entry in listed.splitlines()):
        if release in releases and component == "main" and not address.startswith("cdrom:"):
            return address
    raise UnsuitableMachineError("this machine's apt sources name no mirror of Debian")


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=_plain_environment(), check=False)
    if done.returncode == 0:
        return done.stdout
    if NO_WAY_OUT.search(done.stderr):
        raise NoNetworkError(done.stderr.strip())
    raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _plain_environment() -> dict[str, str]:
    return os.environ | {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}

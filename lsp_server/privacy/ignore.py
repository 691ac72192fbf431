"""Which files git ignores, as git decides it: from the top folder down, and nothing comes back below an ignored one.

Nothing is walked: only the folders above a file that is asked about are looked at, and each at most once a second.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lsp_server.privacy.ignore_patterns import Patterns, decision, parse_patterns

RECHECK = 1.0  # seconds that a folder's ignore files are trusted without looking at their dates
_MAX_BYTES = 1_000_000  # of one file of patterns
_MAX_FOLDERS = 1_024
_MAX_VERDICTS = 4_096
_MAX_DEPTH = 64  # folders above a root that are searched for a repository

Stamp = tuple[int, int, int]


@dataclass(slots=True)
class _Source:
    """A file of patterns as it was when last looked at; `stamp` is None when there is none."""

    path: str
    stamp: Stamp | None = None
    patterns: Patterns = ()

    def renew(self) -> bool:
        """Read the file again if it changed; tell whether it did."""
        stamp = _stamp(self.path)
        if stamp == self.stamp:
            return False
        self.stamp, self.patterns = stamp, _read_patterns(self.path) if stamp else ()
        return True


@dataclass(slots=True)
class _Folder:
    """What a folder says about the paths below it, the stronger source first."""

    sources: tuple[_Source, ...]
    looked: float = float("-inf")


class IgnoreRules:
    """The ignore files of several roots. Safe to ask from any thread."""

    def __init__(self, roots: Sequence[Path] = ()) -> None:
        self._lock = threading.Lock()
        self._roots: list[tuple[str, Path]] = []
        self._folders: OrderedDict[str, _Folder] = OrderedDict()
        self._tops: dict[str, tuple[float, str]] = {}
        self._verdicts: OrderedDict[str, str | None] = OrderedDict()
        self.set_roots(roots)

    def set_roots(self, roots: Sequence[Path]) -> None:
        """Take other roots; what was read of files stays known."""
        spellings = {_with_separator(os.path.abspath(root)): Path(os.path.abspath(root)) for root in roots}  # noqa: PTH100  (Path has no way to tidy dots without following links)
        spellings |= {_with_separator(os.path.realpath(root)): root for root in spellings.values()}
        with self._lock:
            self._roots = sorted(spellings.items(), key=lambda entry: -len(entry[0]))
            self._tops.clear()
            self._verdicts.clear()

    def root_of(self, path: Path) -> Path | None:
        """Return the root that a path belongs to, the innermost of several; None if it lies outside of all."""
        found = self._place(str(path))
        return found[1] if found else None

    def relative(self, path: Path) -> str | None:
        """Return the path from its root, with slashes; None if it lies outside of all."""
        return next(iter(self.relatives(path)), None)

    def relatives(self, path: Path) -> list[str]:
        """Return the path from each root that it lies in, the innermost first."""
        text = str(path)
        folded = _with_separator(text)
        return [text[len(root) :].replace(os.sep, "/") for root, _ in self._roots if folded.startswith(root)]

    def ignored_by(self, path: Path) -> str | None:
        """Return the file whose pattern ignores this file, or None."""
        place = self._place(str(path))
        if place is None:
            return None
        with self._lock:
            return self._verdict(str(path), self._top(place[0]))

    def refresh(self, path: Path) -> None:
        """Look again at once if this changed file may be one of patterns."""
        if path.name in {".gitignore", ".git", "exclude"}:
            with self._lock:
                self._tops.clear()
                for folder in self._folders.values():
                    folder.looked = float("-inf")

    def _place(self, path: str) -> tuple[str, Path] | None:
        path = _with_separator(path)
        return next((entry for entry in self._roots if path.startswith(entry[0])), None)

    def _top(self, root: str) -> str:
        """Return the repository's folder that the root lies in, or the root itself."""
        looked, top = self._tops.get(root, (float("-inf"), root))
        now = time.monotonic()
        if now - looked >= RECHECK:
            before, top = top, next((above for above in _upwards(root) if os.path.lexists(f"{above}.git")), root)
            self._tops[root] = now, top
            if top != before:
                self._verdicts.clear()
        return top

    def _verdict(self, path: str, top: str) -> str | None:
        parts = os.path.normcase(path)[len(top) :].replace(os.sep, "/").split("/")
        chain = [
            self._folder(top + "".join(f"{part}{os.sep}" for part in parts[:count])) for count in range(len(parts))
        ]
        if path in self._verdicts:
            self._verdicts.move_to_end(path)
            return self._verdicts[path]
        verdict = next((by for depth in range(len(parts)) if (by := _ignorer(chain[: depth + 1], parts, depth))), None)
        self._verdicts[path] = verdict
        while len(self._verdicts) > _MAX_VERDICTS:
            self._verdicts.popitem(last=False)
        return verdict

    def _folder(self, path: str) -> _Folder:
        """Return what a folder says, looking at its files if that was not done lately."""
        now = time.monotonic()
        folder = self._folders.get(path)
        if folder is None:
            folder = self._folders[path] = _Folder((_Source(f"{path}.gitignore"),))
            while len(self._folders) > _MAX_FOLDERS:
                self._folders.popitem(last=False)
        self._folders.move_to_end(path)
        if now - folder.looked >= RECHECK:
            folder.looked = now
            self._look(path, folder)
        return folder

    def _look(self, path: str, folder: _Folder) -> None:
        exclude = _exclude_file(f"{path}.git")
        if exclude != (folder.sources[1].path if len(folder.sources) > 1 else None):
            folder.sources = folder.sources[:1] + ((_Source(exclude),) if exclude else ())
            self._verdicts.clear()
        changes = [source.renew() for source in folder.sources]
        if any(changes):
            self._verdicts.clear()


def _ignorer(chain: Sequence[_Folder], parts: Sequence[str], depth: int) -> str | None:
    """Return the source that ignores the path of the first `depth` + 1 parts; deeper folders speak first."""
    is_folder = depth < len(parts) - 1
    for count in range(depth, -1, -1):
        relative = "/".join(parts[count : depth + 1])
        for source in chain[count].sources:
            ignored = decision(source.patterns, relative, is_folder)
            if ignored is not None:
                return source.path if ignored else None
    return None


def _upwards(folder: str) -> Iterator[str]:
    for _ in range(_MAX_DEPTH):
        yield folder
        above = _with_separator(os.path.dirname(folder.rstrip(os.sep)))  # noqa: PTH120  (text, for speed)
        if above == folder:
            return
        folder = above


def _with_separator(path: str) -> str:
    path = os.path.normcase(path)
    return path if path.endswith(os.sep) else path + os.sep


def _stamp(path: str) -> Stamp | None:
    """Return what tells one state of a regular file from another, None if there is no such file."""
    try:
        state = os.stat(path)  # noqa: PTH116  (text, for speed)
    except (OSError, ValueError):
        return None
    return (state.st_mtime_ns, state.st_size, state.st_ino) if stat.S_ISREG(state.st_mode) else None


def _read_patterns(path: str) -> Patterns:
    return parse_patterns(_read(path).removeprefix("\ufeff").split("\n"))


def _read(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def _exclude_file(git: str) -> str | None:
    """Return the private ignore file of a repository; `.git` may be a file that names another folder."""
    try:
        mode = os.stat(git).st_mode  # noqa: PTH116  (text, for speed)
    except (OSError, ValueError):
        return None
    folder = Path(git)
    if stat.S_ISREG(mode):
        folder = folder.parent / _read(git).strip().removeprefix("gitdir:").strip()
        folder = folder / (_read(str(folder / "commondir")).strip() or ".")
    return str(folder / "info" / "exclude")

"""Files of the workspace that have to do with a document: imported, its test, recently edited, beside it.

No tree is walked. The work is bounded in files, folder entries and time, so a home folder costs what a small one does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import islice
from pathlib import Path
from typing import Protocol

from lsp_server.context.imports import imports
from lsp_server.context.twins import twins
from lsp_server.privacy.rules import resolved_path

MAX_ENTRIES = 2_000  # of one folder
MAX_IMPORTS = 64  # looked for in one document
SECONDS = 0.03
_MAX_PACKAGES = 32
_AT_MOST = {"imported by it": 5, "its test or source": 2, "edited lately": 3}

# Suffixes that stand for one language.
_FAMILIES = [
    {".py", ".pyi"},
    {".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".vue", ".svelte"},
    {".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".cu", ".cuh", ".m", ".mm"},
    {".java", ".kt", ".kts", ".scala"},
]


class Rules(Protocol):
    """What is asked of the rules for files."""

    def root_of(self, path: Path) -> Path | None:
        """Return the innermost root that holds the path."""

    def refusal(self, path: Path) -> str | None:
        """Return why a file must not be read."""


@dataclass(frozen=True, slots=True)
class Related:
    """A file that may be read, links resolved, and how it came in."""

    path: Path
    why: str


@dataclass(slots=True)
class Found:
    """Related files, the nearest first, and those that exist but are refused, with the rule."""

    files: list[Related] = field(default_factory=list)
    refused: list[tuple[Path, str]] = field(default_factory=list)


def related_files(
    path: Path,
    text: str,
    language: str,
    rules: Rules,
    *,
    limit: int = 8,
    recent: Sequence[Path] = (),
    seconds: float = SECONDS,
) -> Found:
    """Return files related to the document at `path`; `recent` are files that changed, the latest first.

    What was found when the time is up is returned. Nothing is read outside the roots.
    """
    found = Found()
    root = rules.root_of(path)
    if root is None:
        return found
    end = time.monotonic() + seconds
    seen = {resolved_path(path)}
    counts: dict[str, int] = {}
    for candidate, why in _candidates(path, text, language, root, recent, lambda: time.monotonic() > end):
        if len(found.files) >= limit:
            break
        resolved = resolved_path(candidate)
        if resolved in seen or counts.get(why, 0) >= _AT_MOST.get(why, limit):
            continue
        seen.add(resolved)
        if rule := rules.refusal(candidate):
            found.refused.append((candidate, rule))
            continue
        counts[why] = counts.get(why, 0) + 1
        found.files.append(Related(resolved, why))
    return found


def _candidates(
    path: Path, text: str, language: str, root: Path, recent: Sequence[Path], late: Callable[[], bool]
) -> Iterator[tuple[Path, str]]:
    """Yield existing files until it is late."""
    for alternatives in islice(imports(text, language, path, root), MAX_IMPORTS):
        if late():
            return
        yield from ((file, "imported by it") for file in _first_existing(alternatives, path.suffix))
    for twin in twins(path, root, _packages(root)):
        if late():
            return
        if twin.is_file():
            yield twin, "its test or source"
    suffixes = _family(path.suffix)
    for file in recent:
        if file.suffix.lower() in suffixes and not late() and file.is_file():
            yield file, "edited lately"
    yield from ((file, "in the same folder") for file in _neighbours(path, suffixes, late))


def _first_existing(alternatives: Sequence[Path], suffix: str) -> Iterator[Path]:
    for candidate in alternatives:
        if candidate.is_file():
            yield candidate
            return
        if suffix == ".go" and candidate.is_dir():
            yield from islice(_go_files(candidate), 2)
            return


def _go_files(folder: Path) -> Iterator[Path]:
    for entry in _entries(folder):
        if entry.name.endswith(".go") and not entry.name.endswith("_test.go"):
            yield Path(entry.path)


def _packages(root: Path) -> list[Path]:
    """Return folders at the top of the root in which sources may lie."""
    folders = (entry for entry in islice(_entries(root), 200) if not entry.name.startswith((".", "test", "node_")))
    return [Path(entry.path) for entry in islice(filter(_is_folder, folders), _MAX_PACKAGES)]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _neighbours(path: Path, suffixes: set[str], late: Callable[[], bool]) -> list[Path]:
    """Return files of the same language in the document's folder, the last changed first."""
    dated: list[tuple[float, str]] = []
    for entry in _entries(path.parent):
        if late():
            break
        if os.path.splitext(entry.name)[1].lower() in suffixes:  # noqa: PTH122  (thousands of names)
            dated.append((_changed(entry), entry.path))
    return [Path(file) for _, file in nlargest(16, dated)]


def _changed(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return 0.0


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from islice(entries, MAX_ENTRIES)
    except OSError:
        return


def _family(suffix: str) -> set[str]:
    suffix = suffix.lower()
    return next((family for family in _FAMILIES if suffix in family), {suffix} if suffix else set())

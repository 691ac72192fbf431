"""Which documents may be completed in, and which texts may be used for others: one place for all the rules.

Every refusal is one plain sentence that names its rule, for the person who asks why.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path, PurePath, PurePosixPath
from urllib.parse import unquote

from lsp_server.documents.uris import notebook_of, to_path
from lsp_server.privacy.ignore import IgnoreRules
from lsp_server.privacy.ignore_patterns import Patterns, matches, parse_patterns
from lsp_server.privacy.secret_files import secret_file

MAX_FILE_BYTES = 262_144

_NO_TEXT = frozenset(
    ".png .jpg .jpeg .gif .bmp .ico .webp .tif .tiff .pdf .zip .gz .bz2 .xz .zst .7z .rar .tar .jar .war .whl .egg "  # noqa: SIM905  (reads best so)
    ".exe .dll .so .dylib .a .o .obj .lib .class .pyc .pyo .pyd .wasm .bin .dat .db .sqlite .sqlite3 .mp3 .mp4 .mov "
    ".avi .wav .ogg .flac .ttf .otf .woff .woff2 .eot .npy .npz .pt .pth .onnx .safetensors .gguf .parquet".split()
)


class FileRules:
    """The rules for the files of some roots. `exclude` holds the user's patterns; they add to the built-in rules."""

    def __init__(self, roots: Sequence[Path] = (), exclude: Sequence[str] = ()) -> None:
        self._ignore = IgnoreRules(roots)
        self._exclude: Patterns = parse_patterns(exclude)

    def set_roots(self, roots: Sequence[Path]) -> None:
        """Take other roots."""
        self._ignore.set_roots(roots)

    def set_exclude(self, exclude: Sequence[str]) -> None:
        """Take other patterns of the user, in the syntax of .gitignore."""
        self._exclude = parse_patterns(exclude)

    def root_of(self, path: Path) -> Path | None:
        """Return the innermost root that holds the path, or None."""
        return self._ignore.root_of(path)

    def refresh(self, path: Path) -> None:
        """Look again at once if this changed file may be one of patterns."""
        self._ignore.refresh(path)

    def completion_refusal(self, uri: str) -> str | None:
        """Return why there are no completions in an open document, or None."""
        path = _path_of(uri)
        if path is None:
            return self._by_name(_virtual_path(uri))
        return self._by_name(path) or self._by_name(resolved_path(path))

    def context_refusal(self, uri: str) -> str | None:
        """Return why an open document's text is not used for others, or None."""
        path = _path_of(uri)
        if rule := self.completion_refusal(uri):
            return rule
        if path is None:
            return None
        if path.suffix.lower() == ".ipynb" and notebook_of(uri) is None:
            return "the JSON of notebooks is never used"
        return self._by_git(path) or self._by_git(resolved_path(path))

    def refusal(self, path: Path) -> str | None:
        """Return why a file that is not open must not be read, or None."""
        path = Path(os.path.abspath(path))  # noqa: PTH100  (Path has no way to tidy dots without following links)
        if rule := self._by_name(path) or _by_suffix(path):
            return rule
        resolved = resolved_path(path)
        if self.root_of(resolved) is None:
            inside = self.root_of(path) is not None
            return "the link leaves the workspace folders" if inside else "files outside the workspace are not read"
        if rule := self._by_name(resolved) or _by_suffix(resolved):
            return rule
        return self._by_git(path) or self._by_git(resolved) or _by_state(resolved)

    def _by_name(self, path: PurePath) -> str | None:
        if rule := secret_file(path):
            return rule
        excluded = any(matches(self._exclude, name) for name in self._names(path)) if self._exclude else False
        return "it is excluded in the settings" if excluded else None

    def _names(self, path: PurePath) -> list[str]:
        """Return what a user's pattern may mean by a path: from its roots, or outside of them from any folder."""
        names = self._ignore.relatives(path) if isinstance(path, Path) else []
        parts = [part for part in path.parts if part != path.anchor]
        return names or ["/".join(parts[start:]) for start in range(len(parts))]

    def _by_git(self, path: Path) -> str | None:
        by = self._ignore.ignored_by(path)
        return f"it is ignored by {self._ignore.relative(Path(by)) or by}" if by else None


def resolved_path(path: Path) -> Path:
    """Return where a path leads when all links are followed; a loop leads to itself."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):
        return path


def _path_of(uri: str) -> Path | None:
    return to_path(notebook_of(uri) or uri)


def _virtual_path(uri: str) -> PurePosixPath:
    """Return the path part of a URI that names no file here: `untitled:.env`, `vscode-remote://host/w/.env`."""
    rest = uri.partition(":")[2].partition("#")[0].partition("?")[0]
    return PurePosixPath(unquote(rest).replace("\\", "/").lstrip("/"))


def _by_suffix(path: Path) -> str | None:
    suffix = path.suffix.lower()
    if suffix == ".ipynb":
        return "the JSON of notebooks is never used"
    return "it holds no text" if suffix in _NO_TEXT else None


def _by_state(path: Path) -> str | None:
    try:
        state = path.stat()
    except (OSError, ValueError):
        return "it cannot be read"
    if not stat.S_ISREG(state.st_mode):
        return "it is no regular file"
    return f"it is larger than {MAX_FILE_BYTES // 1024} KB" if state.st_size > MAX_FILE_BYTES else None

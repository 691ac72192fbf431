"""Texts of files that are not open, read once for each state of the file and kept masked.

What cannot be used is remembered too, so that a picture or a file in an old encoding is read only once.
"""

from __future__ import annotations

import codecs
import os
import stat
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from lsp_server.privacy.rules import MAX_FILE_BYTES
from lsp_server.privacy.secrets import masked

Stamp = tuple[int, int, int]

_UTF = (  # the longer mark first: UTF-32's little-endian one begins with UTF-16's
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_OVERHEAD = 512  # bytes counted for an entry beside its text


@dataclass(frozen=True, slots=True)
class FileText:
    """A file's masked text with line feeds only; empty where there is a rule by which it is not used.

    `version` is the time of its last change in nanoseconds.
    """

    text: str
    version: int = 0
    rule: str | None = None


class FileCache:
    """Bounded in bytes; the file that was not asked for longest goes first. Safe to use from any thread."""

    def __init__(self, max_bytes: int = 16_000_000) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._texts: OrderedDict[str, tuple[Stamp, FileText]] = OrderedDict()
        self._bytes = 0

    def read(self, path: Path) -> FileText:
        """Return the text of a file that the rules allow; give the path with links resolved."""
        key = str(path)
        try:
            stamp = _stamp(_regular(path.stat()))  # to open a pipe would hang
        except (OSError, ValueError):
            self.forget(path)
            return FileText("", rule="it cannot be read")
        with self._lock:
            known = self._texts.get(key)
            if known and known[0] == stamp:
                self._texts.move_to_end(key)
                return known[1]
        return self._read(path)

    def forget(self, path: Path) -> None:
        """Drop what is known of a file, or of all files below a folder."""
        below = str(path) + os.sep
        with self._lock:
            for key in [key for key in self._texts if key == str(path) or key.startswith(below)]:
                self._drop(key)

    def _read(self, path: Path) -> FileText:
        try:
            stamp, data = _contents(path)
        except (OSError, ValueError):
            self.forget(path)
            return FileText("", rule="it cannot be read")
        text = _decoded(data)
        entry = FileText(masked(text), stamp[0]) if text is not None else FileText("", rule=_why_not(data))
        self._keep(str(path), stamp, entry)
        return entry

    def _keep(self, key: str, stamp: Stamp, entry: FileText) -> None:
        with self._lock:
            self._drop(key)
            self._texts[key] = stamp, entry
            self._bytes += _size(entry)
            while self._bytes > self._max_bytes:
                self._drop(next(iter(self._texts)))

    def _drop(self, key: str) -> None:
        known = self._texts.pop(key, None)
        if known:
            self._bytes -= _size(known[1])


def _size(entry: FileText) -> int:
    return len(entry.text) + _OVERHEAD


def _stamp(state: os.stat_result) -> Stamp:
    return state.st_mtime_ns, state.st_size, state.st_ino


def _contents(path: Path) -> tuple[Stamp, bytes]:
    """Read a file whole, or refuse it; it may have become another since the rules looked at it."""
    with path.open("rb") as file:
        state = _regular(os.fstat(file.fileno()))
        return _stamp(state), file.read(MAX_FILE_BYTES)


def _regular(state: os.stat_result) -> os.stat_result:
    if not stat.S_ISREG(state.st_mode) or state.st_size > MAX_FILE_BYTES:
        raise ValueError("no small regular file")
    return state


def _decoded(data: bytes) -> str | None:
    mark, encoding = next(((mark, name) for mark, name in _UTF if data.startswith(mark)), (b"", "utf-8"))
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError:  # a ValueError, not an OSError
        return None
    return None if "\0" in text else text.replace("\r\n", "\n").replace("\r", "\n")


def _why_not(data: bytes) -> str:
    return "it holds no text" if b"\0" in data else "it is not UTF-8 text"

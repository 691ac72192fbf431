"""What a URI names: one identity for all its spellings, and a path where there is one.

Clients spell the same file in many ways, and some leave characters bare that ought to be escaped. The spelling that
came is what goes back; the identity is for our own tables only.
"""

from __future__ import annotations

import os
import posixpath
import re
from base64 import urlsafe_b64decode
from functools import lru_cache
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)  # one letter alone is a drive
_DRIVE = re.compile(rb"/*([A-Za-z])[:|](?=[/\\]|$)")
_WINDOWS = os.name == "nt"
_CELL_SCHEME = "vscode-notebook-cell"
_NOTEBOOK_SCHEME = re.compile(r"[A-Za-z]\d+s([\w-]+={0,2})")  # in a cell's fragment: its number, then base64


class _Parts(NamedTuple):
    """The decoded parts of a URI."""

    scheme: str
    host: bytes
    path: bytes
    query: bytes | None = None
    fragment: bytes | None = None


@lru_cache(maxsize=4096)
def identity(uri: str, windows: bool = _WINDOWS) -> str:
    """Return the key of a resource: a URI too, but the same one for every spelling."""
    scheme, host, path, query, fragment = _split(uri, windows)
    key = f"{scheme}:" if scheme else ""
    key += f"//{_quote(host)}{_quote(path)}" if host or path.startswith(b"/") else _quote(path)
    for mark, part in (("?", query), ("#", fragment)):
        if part is not None:
            key += mark + _quote(part)
    return key


def to_path(uri: str) -> Path | None:
    """Return the path of a file on this machine; None for everything else, which must never be looked for on disk."""
    path = pure_path(uri, _WINDOWS)
    return None if path is None else Path(path)


def pure_path(uri: str, windows: bool) -> PurePath | None:
    """Return the absolute path that a `file:` URI has under the rules of Windows or of the others, or None."""
    scheme, host, raw, *_ = _split(uri, windows)
    if scheme != "file" or b"\0" in raw or host in (b".", b"?"):
        return None
    if not windows:
        return PurePosixPath(os.fsdecode(raw)) if raw.startswith(b"/") and not host else None
    text = raw.decode("utf-8", "replace")
    drive = _DRIVE.match(raw)
    share = f"//{host.decode('utf-8', 'replace')}{text}" if host else text
    path = PureWindowsPath(text.lstrip("/") if drive else share)
    return path if path.is_absolute() else None


@lru_cache(maxsize=4096)
def notebook_of(cell_uri: str) -> str | None:
    """Return the URI of the notebook that a VS Code cell belongs to; None for what is not such a cell."""
    scheme, rest = _scheme(cell_uri)
    if scheme != _CELL_SCHEME:
        return None
    place, mark, fragment = rest.rpartition("#")
    place = place if mark else rest
    slashes = "//" if place.startswith("/") and not place.startswith("//") else ""
    return f"{_scheme_in(fragment)}:{slashes}{place}"


def _split(uri: str, windows: bool) -> _Parts:
    scheme, rest = _scheme(uri)
    if scheme == "file":
        return _split_file(rest, windows)
    rest, mark, fragment = rest.partition("#")
    rest, question, query = rest.partition("?")
    host, path = _host(rest)
    return _Parts(
        scheme,
        host.lower(),
        _lower_drive(path),
        _decode(query) if question else None,
        _decode(fragment) if mark else None,
    )


def _split_file(rest: str, windows: bool) -> _Parts:
    """Split a file's URI; a bare `?` or `#` is part of the name, as files have neither query nor fragment."""
    host, path = _host(rest)
    if _DRIVE.match(host):  # file://c:/x, a slash too few
        host, path = b"", host + path
    if not host and _DRIVE.match(path):
        path = _lower_drive(path).replace(b"\\", b"/")
    elif not host and windows and path.startswith(b"//"):  # file:////server/share, the host in the path
        host, _, share = path.lstrip(b"/").partition(b"/")
        path = b"/" + share
    return _Parts("file", b"" if host.lower() == b"localhost" else host.lower(), _tidy(path))


def _tidy(path: bytes) -> bytes:
    """Take out what does not change where a path leads: doubled slashes and dots."""
    root = b"/" if path.startswith(b"/") else b""
    return root + posixpath.normpath(path).lstrip(b"/") if path else path


def _scheme(uri: str) -> tuple[str, str]:
    found = _SCHEME.fullmatch(uri)
    return (found[1].lower(), found[2]) if found else ("", uri)


def _host(rest: str) -> tuple[bytes, bytes]:
    if not rest.startswith("//"):
        return b"", _decode(rest)
    host, slash, path = rest[2:].partition("/")
    return _decode(host), _decode(slash + path)


def _lower_drive(path: bytes) -> bytes:
    drive = _DRIVE.match(path)
    return b"/" + drive[1].lower() + b":" + path[drive.end() :] if drive else path


def _scheme_in(fragment: str) -> str:
    """Return the notebook's own scheme, which VS Code writes into the fragment of its cells; else that of files."""
    found = _NOTEBOOK_SCHEME.fullmatch(_decode(fragment).decode("utf-8", "replace"))
    if found is None:
        return "file"
    code = found[1].rstrip("=")
    try:
        scheme = urlsafe_b64decode(code + "=" * (-len(code) % 4)).decode("ascii")
    except ValueError:
        return "file"
    return scheme if _SCHEME.fullmatch(scheme + ":") else "file"


def _decode(text: str) -> bytes:
    """Undo percent-encoding; a percent sign that encodes nothing stands for itself."""
    return unquote_to_bytes(text.encode("utf-8", "surrogatepass"))


def _quote(part: bytes) -> str:
    return quote_from_bytes(part, safe="/:@")

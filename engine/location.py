"""`PATH:LINE:COL` to a document and an offset. Lines end as editors end them: at a line feed, CRLF, or lone CR."""

from __future__ import annotations

import re
from pathlib import Path

from engine.errors import RequestError

_LINE_BREAK = re.compile(r"\r\n|\n|\r")


def read_text(path: Path) -> str:
    """Return a file's text without a byte-order mark, its line breaks untouched."""
    try:
        return path.read_bytes().decode("utf-8").removeprefix("\ufeff")
    except FileNotFoundError:
        raise RequestError(f"{path} does not exist; give the path of a text file") from None
    except IsADirectoryError:
        raise RequestError(f"{path} is a folder; give the path of a text file") from None
    except UnicodeDecodeError:
        raise RequestError(f"{path} is not UTF-8 text; convert it or choose another file") from None
    except OSError as error:
        raise RequestError(f"{path} cannot be read ({error.strerror}); check its permissions") from None


def parse_location(location: str) -> tuple[Path, int, int]:
    """Split PATH:LINE:COL (1-based) from the right, so that a drive letter's colon stays in the path."""
    parts = location.rsplit(":", 2)
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and int(part) for part in parts[1:]):
        raise RequestError(f"{location!r} is no PATH:LINE:COL; both numbers count from 1, as in src/app.py:12:5")
    return Path(parts[0]), int(parts[1]), int(parts[2])


def offset_of(text: str, line: int, column: int, path: Path) -> int:
    """Return the code-point offset of a 1-based line and column; the column after the last character is allowed."""
    breaks = list(_LINE_BREAK.finditer(text))
    if line > len(breaks) + 1:
        raise RequestError(f"{path} has {len(breaks) + 1} lines, line {line} does not exist; give a smaller one")
    start = breaks[line - 2].end() if line > 1 else 0
    end = breaks[line - 1].start() if line <= len(breaks) else len(text)
    if column > end - start + 1:
        raise RequestError(
            f"line {line} of {path} has {end - start} characters, so columns reach {end - start + 1}, not {column}"
        )
    return start + column - 1

"""Columns as the client counts them, and code points as Python counts them.

Only single lines, or parts of lines, come through here; what a line is, `pieces.py` knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Encoding = Literal["utf-8", "utf-16", "utf-32"]
"""The unit of a client's columns: bytes, 16-bit units or code points."""

_KNOWN: tuple[Encoding, ...] = ("utf-8", "utf-16", "utf-32")


def choose_encoding(offered: Iterable[object] | None) -> Encoding:
    """Return the first encoding on the client's list that we know; without one, UTF-16, as the protocol wants."""
    for wanted in offered or ():
        for known in _KNOWN:
            if wanted == known:
                return known
    return "utf-16"


def width(text: str, encoding: Encoding) -> int:
    """Return the number of columns that a piece of a line takes."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    if encoding == "utf-16":
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return len(text.encode("utf-8", "surrogatepass"))


def to_offset(line: str, column: int, encoding: Encoding) -> int:
    """Return the offset in code points of a column, within the line; a column inside a character goes to its start."""
    if column <= 0:
        return 0
    if encoding == "utf-32" or line.isascii():
        return min(column, len(line))
    head = line[:column]  # no character is narrower than one column
    try:
        return _offset_16(head, column) if encoding == "utf-16" else _offset_8(head, column)
    except UnicodeEncodeError:  # half a surrogate pair: legal in JSON, not in any encoding
        return _offset_by_walking(head, column, encoding)


def _offset_16(head: str, column: int) -> int:
    units = head.encode("utf-16-le")
    if len(units) == 2 * len(head):
        return len(head)
    return len(units[: 2 * column].decode("utf-16-le", "ignore"))  # the half character at the end goes


def _offset_8(head: str, column: int) -> int:
    return len(head.encode()[:column].decode("utf-8", "ignore"))


def _offset_by_walking(head: str, column: int, encoding: Encoding) -> int:
    for offset, character in enumerate(head):
        column -= width(character, encoding)
        if column < 0:
            return offset
    return len(head)

"""Where text, and tokens, may be cut: never inside a user-perceived character or a CRLF."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

LONGEST_CHARACTER = 64  # code points: a cut is not moved farther, however many marks are piled on one letter


def safe_cut(text: str, at: int) -> int:
    """Move a cut forward until it does not fall inside a user-perceived character or a CRLF."""
    last = min(len(text), at + LONGEST_CHARACTER)
    while 0 < at < last and _joins(text[at - 1], text[at]):
        at += 1
    return at


def _joins(left: str, right: str) -> bool:
    if left == "\r":
        return right == "\n"
    joiner, skin_tones = "\u200d", range(0x1F3FB, 0x1F400)
    if joiner in (left, right):
        return True
    return unicodedata.category(right).startswith("M") or ord(right) in skin_tones


def _cuts_character(ids: Sequence[int], at: int, table: Sequence[bytes]) -> bool:
    """Whether a cut before the token at `at` falls inside a character or a CRLF."""
    if not 0 < at < len(ids):
        return False
    before, after = (b"".join(table[i] for i in part) for part in (ids[max(0, at - 4) : at], ids[at : at + 4]))
    if after[:1] and after[0] & 0xC0 == 0x80:
        return True
    left, right = before.decode("utf-8", "ignore"), after.decode("utf-8", "ignore")
    return bool(left and right) and _joins(left[-1], right[0])


def keep_end(ids: Sequence[int], most: int, table: Sequence[bytes]) -> list[int]:
    """Drop leading tokens beyond `most`, in coarse steps, without leaving half a character in front."""
    if len(ids) <= most:
        return list(ids)
    step = max(most // 8, 1)
    start = -(-(len(ids) - most) // step) * step
    while _cuts_character(ids, start, table):
        start += 1
    return list(ids[start:])


def keep_start(ids: Sequence[int], most: int, table: Sequence[bytes]) -> list[int]:
    """Drop trailing tokens beyond `most` without leaving half a character at the end."""
    end = min(max(most, 0), len(ids))
    while _cuts_character(ids, end, table):
        end -= 1
    return list(ids[:end])


def whole_lines(ids: Sequence[int], table: Sequence[bytes]) -> list[int]:
    """Drop trailing tokens up to the last that ends a line."""
    end = len(ids)
    while end and not table[ids[end - 1]].endswith(b"\n"):
        end -= 1
    return list(ids[:end])

"""Which part of a document a prompt shows, and where its prefix ends.

Anchor and window are functions of the text and the cursor alone, in coarse steps: the anchor is the last line whose
number divides by `anchor_lines`, a window's start lies on a grid of half a budget. So nothing has to be remembered or
invalidated, and most keystrokes leave both where they were. Budgets are counted in characters here, which is cheap.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.cuts import safe_cut

CHARS_PER_TOKEN = 3  # code averages 3.3 with the vocabularies in use; fewer means the window fits more often


@dataclass(frozen=True, slots=True)
class Window:
    """Offsets into a document: text[start:anchor] is prefix, text[anchor:cursor] typed, text[cursor:end] suffix."""

    start: int
    anchor: int
    cursor: int
    end: int


def place_window(text: str, cursor: int, prefix_tokens: int, suffix_tokens: int, anchor_lines: int) -> Window:
    """Choose which part of a document to show, by characters, on a coarse grid; cuts fall between lines if possible."""
    prefix_chars, suffix_chars = prefix_tokens * CHARS_PER_TOKEN, suffix_tokens * CHARS_PER_TOKEN
    anchor = find_anchor(text, cursor, prefix_chars // 2, anchor_lines) if anchor_lines else cursor
    start = 0
    if anchor > prefix_chars:
        step = max(prefix_chars // 2, 1)
        start = -(-(anchor - prefix_chars) // step) * step
        start = _line_start_after(text, start, limit=min(anchor, start + step // 2))
    end = min(len(text), cursor + suffix_chars)
    if end < len(text):
        line_end = text.rfind("\n", cursor + suffix_chars // 2, end)
        end = line_end + 1 if line_end >= 0 else safe_cut(text, end)
    return Window(start, anchor, cursor, end)


def find_anchor(text: str, cursor: int, most: int, anchor_lines: int) -> int:
    """Return the line start that divides prefix from typed text: coarse, and at most `most` characters back."""
    line_start = text.rfind("\n", 0, cursor) + 1
    anchor = line_start
    for _ in range(text.count("\n", 0, cursor) % anchor_lines):
        anchor = text.rfind("\n", 0, anchor - 1) + 1
    if cursor - anchor > most:
        anchor = line_start
    if cursor - anchor > most:  # one very long line
        anchor = min(cursor, safe_cut(text, line_start + (cursor - line_start) // most * most))
    return anchor


def _line_start_after(text: str, at: int, limit: int) -> int:
    line = text.find("\n", at - 1, limit)
    return line + 1 if line >= 0 else safe_cut(text, at)

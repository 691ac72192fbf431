"""Which part of a long document is looked at, and where it may be cut.

Pure arithmetic on plain offsets: it knows neither documents nor what the excerpt is for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from unicodedata import category, combining

_FLAGS = re.compile("[\U0001f1e6-\U0001f1ff]*")
_JOINER = "\u200d"
# Characters that belong to the one before them although their category does not say so: joiners, the Thai and Lao vowel
# AM, Hangul vowels and finals, Katakana voice marks, skin tones, and the tags that spell regional flags.
_TRAILING = re.compile("[\u200c\u200d\u0e33\u0eb3\u1160-\u11ff\uff9e\uff9f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
_VIRAMA = 9  # the combining class of the signs that tie two consonants together
_LONGEST = 256  # more code points than any character has
_LOOK_BACK = 64


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The surroundings of a cursor, with line feeds only and no byte-order mark.

    `cursor` counts code points into `text`; `line` and `column` say where it stands in the whole document, in code
    points too.
    """

    text: str
    cursor: int
    line: int
    column: int


def cut(read: Callable[[int, int], str], cursor: int, size: int, radius: int) -> tuple[str, int]:
    """Return the text around a cursor and the cursor's offset in it.

    There are at most `radius` characters to each side, and mostly three quarters of that when there could be more.
    Typing moves the text's start once in an eighth of the radius and its end not at all, for the start counts in steps
    from the document's start and the end from its end. Both lie at line starts, except in over-long lines.
    """
    step = max(1, radius // 8)
    low = _goal(cursor, radius, step)
    high = size - _goal(size - cursor, radius, step)
    base = max(0, low - _LOOK_BACK)
    text = read(base, min(size, high + 1))
    window = _Window(text, whole=base == 0)
    start = window.start(low - base, cursor - base, step) if low else 0
    end = window.end(high - base, cursor - base, step) if high < size else size - base
    return text[start:end], cursor - base - start


def _goal(distance: int, radius: int, step: int) -> int:
    """Return how much of a distance to leave out, in whole steps."""
    left_out = max(0, distance - max(radius, 0))
    return min(distance, -(-left_out // step) * step)


class _Window:
    """Some text with places to cut at; `whole` when it begins where the document does.

    Line starts are looked for within one step, which never reaches the cursor from the goals above.
    """

    def __init__(self, text: str, whole: bool) -> None:
        self._text = text
        # Of flags that begin before the window nobody knows which letters pair up.
        self._blind = 0 if whole else _flags(text)

    def start(self, low: int, cursor: int, step: int) -> int:
        line_end = self._text.find("\n", low - 1, low - 1 + step)
        if line_end >= 0:
            return line_end + 1
        low = min(max(low, self._blind), cursor)
        limit = min(low + _LONGEST, cursor)
        while low < limit and self._splits(low):
            low += 1
        return low

    def end(self, high: int, cursor: int, step: int) -> int:
        line_end = self._text.rfind("\n", high - step, high)
        if line_end >= 0:
            return line_end + 1
        limit = max(high - _LONGEST, cursor)
        while high > limit and self._splits(high):
            high -= 1
        return high if high > self._blind else cursor

    def _splits(self, index: int) -> bool:
        """Whether a cut here would go through what a person sees as one character."""
        before, after = self._text[index - 1], self._text[index]
        if before == "\n" or after == "\n":
            return False
        if before == _JOINER or combining(before) == _VIRAMA:
            return True
        if category(after) in ("Mn", "Mc", "Me") or _TRAILING.match(after):
            return True
        return _flags(after) > 0 and self._flags_before(index) % 2 == 1

    def _flags_before(self, index: int) -> int:
        start = index
        while start > 0 and _flags(self._text[start - 1]):
            start -= 1
        return index - start


def _flags(text: str) -> int:
    """Return how many flag letters a text begins with."""
    found = _FLAGS.match(text)
    return found.end() if found else 0

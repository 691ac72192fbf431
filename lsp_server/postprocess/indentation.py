"""How lines are indented: their width, and the habit of the lines around a place. Knows nothing of answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from lsp_server.place import Place

TAB = 4  # how wide a tab counts when it is compared with spaces
NEAR = 100  # lines of the file that are asked on each side

_TAB_LANGUAGES = frozenset({"go", "makefile"})


@dataclass(frozen=True, slots=True)
class Habit:
    """How a file indents: with tabs, or with so many spaces per level (0 if it cannot be told)."""

    tabs: bool
    unit: int = 0

    def spell(self, width: int) -> str:
        """Return indentation of a width in spaces; what does not fill a tab stays as spaces."""
        return "\t" * (width // TAB) + " " * (width % TAB) if self.tabs else " " * width


def indent_of(line: str) -> str:
    """Return the spaces and tabs that a line starts with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def width_of(line: str) -> int:
    """Return how wide a line is indented."""
    indent = indent_of(line)
    return len(indent) + (TAB - 1) * indent.count("\t")


def lines_above(place: Place) -> Iterator[str]:
    """Yield the non-blank lines above the cursor's, nearest first."""
    end = len(place.before) - len(place.line_before) - 1
    for _ in range(NEAR):
        if end < 0:
            return
        start = place.before.rfind("\n", 0, end) + 1
        line = place.before[start:end]
        if line.strip():
            yield line
        end = start - 1


def lines_below(place: Place) -> Iterator[str]:
    """Yield the non-blank lines below the cursor's, nearest first."""
    at = place.after.find("\n") + 1
    for _ in range(NEAR):
        if not at:
            return
        end = place.after.find("\n", at)
        line = place.after[at:] if end < 0 else place.after[at:end]
        if line.strip():
            yield line
        at = end + 1


@lru_cache(maxsize=1)
def habit_near(place: Place) -> Habit | None:
    """Return how the lines around a place indent, the nearest first asked; None if none of them is indented."""
    above, below, own = list(lines_above(place)), list(lines_below(place)), place.line_before
    indents = (indent_of(line) for line in (own, *above, *below))
    nearest = next((indent for indent in indents if _is_plain(indent)), "")
    if not nearest:
        return Habit(True) if place.language in _TAB_LANGUAGES else None
    if nearest[0] == "\t":
        return Habit(True)
    return Habit(False, _unit([*reversed(above), *([own] if own.strip() else []), *below]))


def _is_plain(indent: str) -> bool:
    """Whether indentation shows a habit: it is all tabs or all spaces, and no single space."""
    return len(set(indent)) == 1 and indent != " "


def _unit(lines: Iterable[str]) -> int:
    """Return by how many spaces lines go deeper, most often."""
    widths = [len(indent_of(line)) for line in lines if "\t" not in indent_of(line) and not _is_comment_tail(line)]
    steps = Counter(b - a for a, b in pairwise(widths) if 2 <= b - a <= 8)
    if steps:
        return max(steps, key=lambda step: (steps[step], -step))
    return min((width for width in widths if 2 <= width <= 8), default=0)


def _is_comment_tail(line: str) -> bool:
    """Whether a line goes on with a block comment, whose asterisks stand one column off."""
    return line.lstrip().startswith("*")

"""Filters that fit an answer's first line to the cursor's line, and its indentation to the habit of the file."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from lsp_server.place import Place
from lsp_server.postprocess.answer import Answer
from lsp_server.postprocess.balance import surroundings
from lsp_server.postprocess.brackets import PROSE
from lsp_server.postprocess.indentation import TAB, Habit, habit_near, indent_of, lines_above, lines_below, width_of

_BY_INDENT = frozenset({"python", "nim", "gdscript", "starlark", "bazel", "cython", "coffeescript"})
_FIRM = _BY_INDENT | {"yaml"}  # indentation is syntax: a wrong one is a fault, not a matter of taste
_OPENS = (":", "{", "[", "(", "=>", "->")
_BLANK_START = re.compile(r"(?:[ \t]*\n)+")
_BLANK_LINE = re.compile(r"\n[ \t]+(?=\n)")
_MOST_BLANK = 2
_ANY = 1_000  # an indentation that nothing reaches


class _Bounds(NamedTuple):
    """How wide the cursor's line may be indented."""

    low: int
    high: int
    grid: int  # lines around are indented by multiples of it


def blank_lines(place: Place, answer: Answer) -> Answer | None:
    """Prevent blank lines above the suggestion that nobody wants, and white space on blank lines within it."""
    left, text = place.line_before, answer.text
    found = _BLANK_START.match(text)
    if found:
        rest = text[found.end() :]
        fits = left and not left.strip() and width_of(rest) >= width_of(left)
        breaks = min(found.group().count("\n"), _breaks_allowed(place))
        text = _beyond(left, rest) if fits else "\n" * breaks + rest
    return answer.with_text(text if place.language in PROSE else _BLANK_LINE.sub("\n", text))


def _beyond(left: str, line: str) -> str:
    """Return a line without the part of its indentation that stands left of the cursor already."""
    indent = indent_of(line)
    own = indent[len(left) :] if indent.startswith(left) else " " * (width_of(line) - width_of(left))
    return own + line[len(indent) :]


def _breaks_allowed(place: Place) -> int:
    """How many line breaks may come first: two blank lines, those above the cursor counted."""
    if place.line_before.strip():
        return 1 + _MOST_BLANK
    above = place.before[: len(place.before) - len(place.line_before)]
    if not above.strip():
        return 0
    tail = above[len(above.rstrip()) :]
    return max(bool(place.line_before), 1 + _MOST_BLANK - tail.count("\n"))


def first_line_once(place: Place, answer: Answer) -> Answer | None:
    """Prevent the first line from being indented twice, by a stray space, or too little for its block."""
    left, text = place.line_before, answer.text
    lead = indent_of(text)
    body = text[len(lead) :]
    skipped = left.strip() or place.language in PROSE or body.startswith(("\n", "*"))
    if skipped or not body or surroundings(place).above.in_long_text:
        return answer
    if left and place.language in _BY_INDENT and not place.before.strip():
        return None  # whatever comes first in a file may not be indented
    habit, width = habit_near(place), width_of(left + lead)
    wanted = _wanted_width(place, lead, _bounds(place, habit, text))
    if wanted == width:
        return answer
    spelt = (habit or Habit("\t" in lead)).spell(max(0, wanted - width_of(left)))
    return answer.with_text(spelt + (_shifted(body, width, wanted, habit) if wanted > width else body))


def _bounds(place: Place, habit: Habit | None, text: str) -> _Bounds:
    known = habit.unit or TAB * habit.tabs if habit else 0
    unit, grid = known or TAB, known or 2
    above, below = next(lines_above(place), None), next(lines_below(place), "")
    if place.line_after.strip():
        below = place.line_after  # it will be below, and no further left than it is now
    if above is None:
        return _Bounds(0, width_of(below), grid)
    if _is_free(place) or _ends_string(above):
        return _Bounds(0, _ANY, grid)
    base, opens = width_of(above), above.rstrip().endswith(_OPENS)
    item = 2 if place.language == "yaml" and above.lstrip().startswith("- ") else 0
    high = max(base + item + (unit if opens else 0), width_of(below))
    inner = 0 if _opens_block(text, width_of(below)) else width_of(below)  # what the line below needs above itself
    low = inner if inner <= base else 0
    if opens and above.rstrip().endswith(":"):
        low = inner if inner > base else base + unit
    return _Bounds(min(low, high) if place.language in _BY_INDENT else 0, high, grid)


def _is_free(place: Place) -> bool:
    """Whether the cursor's line goes on inside brackets, where lines are aligned as one likes."""
    inner = surroundings(place).above.stack[-1:]
    if inner == ("{",):
        return place.language in _BY_INDENT
    return inner == ("(",) or (inner == ("[",) and "json" not in place.language)


def _opens_block(text: str, width: int) -> bool:
    """Whether a line of that width, below the text, may belong to a block that the text opens."""
    return any(line.rstrip().endswith(":") and width_of(line) < width for line in text.split("\n"))


def _ends_string(line: str) -> bool:
    """Whether a line ends a string of several lines, and so stands anywhere."""
    bare = line.lstrip()
    return any(bare.startswith(mark) and line.count(mark) % 2 for mark in ('"""', "'''", "`"))


def _wanted_width(place: Place, lead: str, bounds: _Bounds) -> int:
    left = place.line_before
    width, own = width_of(left + lead), width_of(lead)
    if width < bounds.low:
        return bounds.low
    if width > bounds.high:
        if left and width_of(left) <= own <= bounds.high:
            return own
        above = next(lines_above(place), "").rstrip()
        if place.language in _FIRM or not above or above.endswith((*_OPENS, ";", "}")):
            return max(width_of(left), bounds.high)
    return width - _stray(place, lead, width, bounds.grid)


def _stray(place: Place, lead: str, width: int, grid: int) -> int:
    """How many spaces are too many where the lines around are indented by whole units."""
    around = (place.line_before, next(lines_above(place), ""))
    even = not any(width_of(line) % grid for line in around)
    return width % grid if lead.endswith(" ") and even and not _is_free(place) else 0


def _shifted(body: str, width: int, wanted: int, habit: Habit | None) -> str:
    """Move the lines that go with a first line that was moved, up to the first blank one."""
    lines = body.split("\n")
    size = next((n for n, line in enumerate(lines) if not line.strip()), len(lines))
    block = lines[1:size]
    if not block or min(map(width_of, block)) < width or min(map(width_of, block)) >= wanted:
        return body
    moved = [(habit or Habit(False)).spell(width_of(line) + wanted - width) + line.lstrip(" \t") for line in block]
    return "\n".join([lines[0], *moved, *lines[size:]])


def unit_of_file(place: Place, answer: Answer) -> Answer | None:
    """Prevent tabs in a file of spaces, spaces in a file of tabs, and four columns per level where two are usual."""
    habit = habit_near(place)
    if habit is None or place.language in PROSE:
        return answer
    first, *others = answer.text.split("\n")
    lines = [first, *others]
    start = 1 if place.line_before.strip() else 0
    if habit.tabs:
        unit = _spaces_per_tab(place, lines[start:])
        lines[start:] = [_with_tabs(line, unit) for line in lines[start:]]
    else:
        lines[start:] = [_with_spaces(line, habit.unit or TAB) for line in lines[start:]]
        lines = _rescaled(place, lines, habit.unit)
    return answer.with_text("\n".join(lines))


def _with_spaces(line: str, unit: int) -> str:
    indent = indent_of(line)
    return indent.replace("\t", " " * unit) + line[len(indent) :]


def _with_tabs(line: str, unit: int) -> str:
    """Spell indentation with tabs; a single space is nothing but a slip, more than that aligns something."""
    indent = indent_of(line)
    body = line[len(indent) :]
    if " " not in indent or not body:
        return line
    tabs, rest = divmod(indent.count(" "), unit)
    stray = rest == 1 and not body.startswith("*")
    return "\t" * (indent.count("\t") + tabs) + ("" if stray else " " * rest) + body


def _spaces_per_tab(place: Place, lines: list[str]) -> int:
    """How many spaces the model took for a tab: what puts its lines nearest to the cursor's level."""
    sizes = [len(indent_of(line)) for line in lines if line.strip() and set(indent_of(line)) == {" "}]
    sizes = [size for size in sizes if size > 1]
    level = indent_of(place.line_before).count("\t")
    fitting = [unit for unit in (4, 2, 8, 3) if not any(size % unit for size in sizes)]
    near = [unit for unit in fitting if sizes and abs(sizes[0] // unit - level) <= 1]
    return (near or fitting or [TAB])[0]


def _rescaled(place: Place, lines: list[str], unit: int) -> list[str]:
    """Bring the answer's own step per level to the file's, if it has one and keeps to it."""
    head = place.line_before + lines[0]
    steps = _steps([head, *lines[1:]])
    if not unit or not steps or steps == {unit}:
        return lines
    for step in (4, 2, 8, 3):
        for base, own in ((width_of(head), width_of(head)), (width_of(head), width_of(head) // unit * step)):
            scaled = [_scaled(line, own, step, base, unit) for line in lines[1:]]
            if step != unit and _fits_step(lines[1:], own, step) and _steps([head, *scaled]) == {unit}:
                return [lines[0], *scaled]
    return lines


def _fits_step(lines: list[str], own: int, step: int) -> bool:
    """Whether lines are indented by whole steps from where the model took the cursor's line to be."""
    return all((width_of(line) - own) % step == 0 for line in lines if line.strip() and width_of(line) > own)


def _scaled(line: str, own: int, step: int, base: int, unit: int) -> str:
    """Spell a line's distance from `own`, in steps, as a distance from `base` in units."""
    beyond = width_of(line) - own
    return " " * (base + beyond // step * unit) + line.lstrip(" ") if line.strip() and beyond >= 0 else line


def _steps(lines: list[str]) -> set[int]:
    """Return by how much lines go deeper where the line above opens a block."""
    found, filled = set(), [line for line in lines if line.strip()]
    for one, other in pairwise(filled):
        base = width_of(one) + (2 if one.lstrip().startswith("- ") else 0)
        if one.rstrip().endswith((":", "{", "[")) and width_of(other) > base:
            found.add(width_of(other) - base)
    return found

"""How well brackets and quotes pair once an answer is accepted, and the filter that keeps them in pairs."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from lsp_server.place import Place
from lsp_server.postprocess.answer import Answer
from lsp_server.postprocess.brackets import CLOSERS, PAIRS, PROSE, Scan, scan
from lsp_server.postprocess.indentation import width_of

REACH = 20_000  # characters that are read on each side of the cursor

_MOST = 12  # brackets that are put right; more is no code

_RUN = re.compile(r"[)\]}\"'`;]*")  # what editors put right of the cursor by themselves
_TOP_LEVEL = re.compile(
    r"^(?:(?:async )?def|class|func|fn|function|export|pub|impl|const|import|from) \w", re.MULTILINE
)
_PARTS = re.compile(r"\"{3}|'{3}|.")
_LOOSE = PROSE | {"shellscript"}  # a closer may stand alone, as in '1)' or a case of a shell script


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands around the cursor, read once per place."""

    above: Scan  # before the cursor's line
    left: Scan  # from the start of the cursor's line to the cursor
    below: str  # following lines up to the one that closes what the cursor's line opens; '' if none does
    strays: int  # closers on the cursor's line and `below` that belong to lines above
    owed: int  # brackets opened above the cursor's line that nothing below closes
    open: int  # what the cursor's line leaves open as it is


@lru_cache(maxsize=1)
def surroundings(place: Place) -> Surroundings:
    """Read the text around a place."""
    above = scan(_text_above(place), place.language)
    start = Scan(above.stack[-1:]) if above.in_long_text else Scan()
    left = scan(place.line_before, place.language, start)
    below = _closing_lines(place) if left.stack else ""
    end = scan(place.line_before + place.line_after + below, place.language, start)
    owed = _owed(place, above, left) - len(end.stack)
    return Surroundings(above, left, below, len(end.strays), max(0, owed), _weight(end))


def _weight(end: Scan) -> int:
    """Count what is open; a string that swallows what follows is worse than a bracket."""
    return sum(1 if item in PAIRS else 2 for item in end.stack if item != "#")


def imbalance(place: Place, text: str, replaces: int = 0) -> int:
    """Count the brackets and quotes without a partner once `text` is accepted; none inside a long string or comment."""
    around = surroundings(place)
    if around.above.in_long_text:
        return 0
    line = place.line_before + text + place.line_after[replaces:] + around.below
    end = scan(line, place.language)
    return _weight(end) + max(0, len(end.strays) - around.strays - around.owed)


def closers_once(place: Place, answer: Answer) -> Answer | None:
    """Prevent a bracket, quote or semicolon from standing twice where the editor closed it already."""
    around = surroundings(place)
    if around.above.in_long_text or around.left.stack[-1:] in (("#",), ("/*",), ("<!--",)):
        return answer
    found = _RUN.match(place.line_after)
    run = found.group() if found else ""
    ends = [0, *(part.end() for part in _PARTS.finditer(run))]
    faults, count = min((imbalance(place, answer.text, end), end) for end in ends)
    if count and place.line_after[count:].strip() and (end := _rewrites_rest(place, answer.text, count)) is not None:
        return answer.cut(end)
    if faults > around.open:
        return _repaired(place, answer, run, count)
    return _replacing(answer, run, count)


def _rewrites_rest(place: Place, text: str, count: int) -> int | None:
    """Where the answer closes what the editor closed and goes on as the rest of the line does, to write it anew."""
    left, rest = surroundings(place).left, place.line_after[count:].lstrip()
    for found in _RUN.finditer(text):
        state = scan(text[: found.end()], place.language, left)
        if found.group() and len(state.stack) < len(left.stack):
            return found.start() if text[found.end() :].lstrip().startswith(rest[0]) else None
    return None


def _replacing(answer: Answer, run: str, count: int) -> Answer:
    """Replace as much of the run, and a semicolon that the answer brings itself."""
    if answer.text.rstrip().endswith(";") and run[count : count + 1] == ";" and (count or run == ";"):
        count += 1
    # Editors show only what keeps the replaced text, in its order.
    rest = iter(answer.text)
    kept = all(char in rest for char in run[:count])
    return replace(answer, replaces=count if kept else 0)


def _repaired(place: Place, answer: Answer, run: str, count: int) -> Answer | None:
    """Drop the closers too many at the answer's end; where the editor keeps pairs, close what the answer left open."""
    trimmed = _without_strays(place, answer.text)
    if trimmed != answer.text:
        return answer.with_text(trimmed) if trimmed.strip() else None
    if run and not surroundings(place).open:
        if answer.finished:
            return _closed(place, answer, run, count)
        if count:
            return _balanced_lines(place, answer)
    return _replacing(answer, run, count)


def _without_strays(place: Place, text: str) -> str:
    """Cut closers off the end as long as that leaves fewer of them without a partner."""
    for _ in range(0 if place.language in _LOOSE else _MOST):
        bare = text.rstrip(";, \t\n")
        if not bare.endswith(CLOSERS) or imbalance(place, bare[:-1]) >= imbalance(place, text):
            break
        text = bare[:-1].rstrip()
    return text


def _closed(place: Place, answer: Answer, run: str, count: int) -> Answer:
    """Append the closers of what the answer opened last, if they make it whole."""
    missing = list(scan(answer.text, place.language, surroundings(place).left).stack)
    text = answer.text
    while missing and missing[-1] in PAIRS and len(missing) <= _MOST:
        text += PAIRS[missing.pop()]
        for replaced in range(count + 1):
            if imbalance(place, text, replaced) == 0:
                return _replacing(answer.with_text(text), run, replaced)
    return _replacing(answer, run, count)


def _balanced_lines(place: Place, answer: Answer) -> Answer | None:
    """Keep the lines up to the last one after which the pairs are right: what follows is still being written."""
    lines = answer.text.split("\n")
    for size in range(len(lines) - 1, 0, -1):
        text = "\n".join(lines[:size])
        if text.strip() and imbalance(place, text) == 0:
            return replace(answer, text=text, replaces=0)
    return None


def _text_above(place: Place) -> str:
    """Return the text before the cursor's line; of a long one what follows a line that surely stands in no string."""
    text = place.before[: len(place.before) - len(place.line_before)]
    if len(text) <= REACH:
        return text
    found = _TOP_LEVEL.search(text, len(text) - REACH)
    return text[found.start() if found else len(text) - REACH :]


def _closing_lines(place: Place) -> str:
    """Return the lines below as far as the one that closes, at its indentation, what the cursor's line opens."""
    base, size = width_of(place.line_before), len(place.line_after)
    at = size
    while 0 <= at < min(len(place.after), size + REACH):
        end = place.after.find("\n", at + 1)
        end = len(place.after) if end < 0 else end
        line = place.after[at + 1 : end]
        if line.strip() and width_of(line) <= base:
            closes = width_of(line) == base and line.lstrip().startswith(CLOSERS)
            return place.after[size:end] if closes else ""
        at = end
    return ""


def _owed(place: Place, above: Scan, left: Scan) -> int:
    """Count brackets open at the cursor that nothing below closes; none if the file is too long to tell."""
    if above.in_long_text or len(place.after) > REACH or place.language in _LOOSE:
        return 0
    below = scan(place.after, place.language, Scan(left.stack[-1:] if left.in_text else ()))
    opened = [item for item in (*above.stack, *left.stack) if item in PAIRS]
    return len(opened) - len(below.strays)

"""Filters against an answer that goes on with the text right of the cursor or below it."""

from __future__ import annotations

import re
from itertools import islice

from lsp_server.place import Place
from lsp_server.postprocess.answer import Answer, letters_and_digits, lines_with_offsets, squeezed
from lsp_server.postprocess.balance import imbalance
from lsp_server.postprocess.indentation import lines_above, lines_below, width_of

_EVIDENCE = 8  # letters and digits that must reappear before the lines after them count for nothing
_LINE_EVIDENCE = 6  # the same within the cursor's line
_FEW = 3  # below that a line is punctuation, and only the same indentation makes it the same line
_MOST = 40  # lines below that are compared

_ONLY_CLOSERS = re.compile(r"[)\]}\"'`;\s]*")
_WORD = re.compile(r"\w+")


def rest_of_line(place: Place, answer: Answer) -> Answer | None:
    """Prevent the text right of the cursor on its line from standing there twice."""
    rest = place.line_after
    if _ONLY_CLOSERS.fullmatch(rest):  # pairs decide about these
        return answer
    if _rewrites_word(place, answer.text):
        return None
    cut = _whole_rest(place, answer.text, rest)
    if cut is None:
        cut = _start_of_rest(place, answer.text, rest)
    if cut is None:
        return answer
    return _joined(answer, cut, rest)


def _joined(answer: Answer, cut: int, rest: str) -> Answer | None:
    text = answer.text[:cut]
    if rest[:1] in " \t":
        text = text.rstrip(" \t")
    return answer.with_text(text) if text.strip() else None


def _rewrites_word(place: Place, text: str) -> bool:
    """Whether the cursor stands inside a word and the answer writes the same or another end of that word and line."""
    left, rest = place.before[-1:], place.line_after
    if not (_is_word(left) and _is_word(rest[:1])):
        return False
    own, there = _WORD.match(text), _WORD.match(rest)
    if own and there and own.group() == there.group():
        return True
    line, tail = squeezed(text.partition("\n")[0]), squeezed(rest)
    same = _common_end(line, tail)
    return same < len(tail) and letters_and_digits(line[len(line) - same :]) * 2 >= max(8, letters_and_digits(tail))


def _whole_rest(place: Place, text: str, rest: str) -> int | None:
    """Where the first line begins that ends with, or plainly contains, all that stands right of the cursor."""
    wanted = squeezed(rest)
    evident, lines = letters_and_digits(wanted) >= _LINE_EVIDENCE, lines_with_offsets(text)
    for start, line in lines if evident else dict.fromkeys([lines[0], lines[-1]]):
        have = squeezed(line)
        at = len(have) - len(wanted) if have.endswith(wanted) else -1
        if at < 0 and evident:
            at = have.find(wanted)
        if at >= 0 and _fits(place, text, cut := start + _offset(line, at)):
            return cut
    return None


def _start_of_rest(place: Place, text: str, rest: str) -> int | None:
    """Where the answer's end begins to be the start of what stands right of the cursor."""
    line = text.rpartition("\n")[2]
    base = len(text) - len(line)
    have, wanted = squeezed(line), squeezed(rest)
    for size in range(min(len(have), len(wanted)), 0, -1):
        piece = wanted[:size]
        if have.endswith(piece) and not _ONLY_CLOSERS.fullmatch(piece) and not _is_operator(piece, rest):
            cut = base + _offset(line, len(have) - size)
            if _word_agrees(text, rest, cut) and _fits(place, text, cut):
                return cut
    return None


def _is_operator(piece: str, rest: str) -> bool:
    """Whether a repeated character may be the second of an operator such as '==', cut in two by the cursor."""
    return len(piece) == 1 and piece == rest[0] and piece in "=/&|+-*<>:.?"


def _word_agrees(text: str, rest: str, cut: int) -> bool:
    """Whether a repeat that begins inside a word of the answer may be one: not if a word of the rest ends with it."""
    inside = cut > 0 and _is_word(text[cut - 1]) and _is_word(text[cut : cut + 1])
    return not inside or not rest[:1].isspace()


def _fits(place: Place, text: str, cut: int) -> bool:
    return imbalance(place, text[:cut]) <= imbalance(place, text)


def _offset(line: str, count: int) -> int:
    """Where the character that follows `count` characters, white space left out, stands in a line."""
    spots = (at for at, char in enumerate(line) if not char.isspace())
    return next(islice(spots, count, None), len(line))


def _common_end(one: str, other: str) -> int:
    size = 0
    while size < min(len(one), len(other)) and one[-1 - size] == other[-1 - size]:
        size += 1
    return size


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def following_lines(place: Place, answer: Answer) -> Answer | None:
    """Prevent lines that stand below the cursor from being written a second time above themselves."""
    targets = list(islice(lines_below(place), _MOST))
    left = place.line_before
    lines = [(start, line) for start, line in lines_with_offsets(answer.text) if line.strip()]
    full = [left + line if start == 0 else line for start, line in lines]
    if left.strip() and len(full) == 1:
        full[0] += place.line_after
    for index, (start, _) in enumerate(lines):
        if _repeats(place, full[index:], targets) and not _typed(left, start, full[index]):
            return answer.cut(len(answer.text[:start].rstrip()))
    return answer


def _typed(left: str, start: int, line: str) -> bool:
    """Whether most of a line was typed by hand: then it is wanted, and only the rest of it is suggested."""
    return start == 0 and bool(left.strip()) and letters_and_digits(line) < _EVIDENCE


def _repeats(place: Place, lines: list[str], targets: list[str]) -> bool:
    """Whether lines are those below, as far as they go or long enough to be sure."""
    size = 0
    while size < min(len(lines), len(targets)) and _same(lines[size], targets[size]):
        size += 1
    rest = lines[size:]
    if size and not rest:
        return not _is_row(place, lines)
    if len(rest) == 1 and size < len(targets) and _begins(rest[0], targets[size]):
        return bool(size) or letters_and_digits(rest[0]) >= _LINE_EVIDENCE
    return size > 0 and sum(_weight(place, line) for line in lines[:size]) >= _EVIDENCE


def _weight(place: Place, line: str) -> float:
    """How much a line says; one that the file holds twice says half of it."""
    bare, said = line.strip(), letters_and_digits(line)
    return said / 2 if place.before.count(bare) + place.after.count(bare) > 1 else said


def _same(line: str, target: str) -> bool:
    one, other = squeezed(line), squeezed(target)
    if letters_and_digits(other) < _FEW and width_of(line) != width_of(target):
        return False
    return one == other


def _begins(line: str, target: str) -> bool:
    return len(squeezed(line)) > 1 and squeezed(target).startswith(squeezed(line))


def _is_row(place: Place, lines: list[str]) -> bool:
    """Whether a line is a row of a table: numbers that stand the same above the cursor and below it."""
    row = squeezed(lines[0])
    above = next(lines_above(place), "") if not place.line_before.strip() else place.line_before
    plain = not any(map(str.isalpha, row)) and any(map(str.isdigit, row))
    return len(lines) == 1 and plain and squeezed(above).startswith(row[:-1])

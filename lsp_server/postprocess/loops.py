"""Filters against a model that runs in circles."""

from __future__ import annotations

import re

from lsp_server.place import Place
from lsp_server.postprocess.answer import Answer, lines_with_offsets

_TIMES = 3  # a third time is a loop
_LONGEST = 8  # lines of a group
_LETTERS = 6  # fewer per round are rows of zeros, of null, or closing brackets

# Within a line: so many letters per round, and what counts as too many rounds.
_ROUNDS = (
    (6, re.compile(r"(.{8,60}?)\1{3,}")),
    (2, re.compile(r"(.{2,7}?)\1{11,}")),
    (1, re.compile(r"([^\W\d_])\1{39,}")),
)
_MOST = 4_000  # characters of a line that are read


def no_loop_in_line(_: Place, answer: Answer) -> Answer | None:
    """Prevent a line in which the model repeats a few words without end from being shown, and all after it."""
    for start, line in lines_with_offsets(answer.text):
        if _runs_on(line[:_MOST]):
            return answer.cut(start)
    return answer


def _runs_on(line: str) -> bool:
    return any(
        sum(map(str.isalpha, found.group(1))) >= letters
        for letters, rounds in _ROUNDS
        for found in rounds.finditer(line)
    )


def no_loop_of_lines(place: Place, answer: Answer) -> Answer | None:
    """Prevent the same lines from being shown three times and more: what follows their first time goes."""
    lines = [(start, line) for start, line in lines_with_offsets(answer.text) if line.strip()]
    texts = [(line if start else place.line_before + line).rstrip() for start, line in lines]
    for first in range(1, len(texts)):
        for size in range(1, min(_LONGEST, first) + 1):
            if _loops(texts, first, size) and not _is_usual(place, texts[first - size : first]):
                start, line = lines[first - 1]
                return answer.cut(start + len(line))
    return answer


def _loops(lines: list[str], first: int, size: int) -> bool:
    """Whether the `size` lines that end before `first` come again at once, and again."""
    once = lines[first - size : first]
    rounds = lines[first : first + (_TIMES - 1) * size]
    return rounds == once * (_TIMES - 1) and sum(map(str.isalpha, "".join(once))) >= _LETTERS


def _is_usual(place: Place, lines: list[str]) -> bool:
    """Whether the file itself holds the same lines as often, one after the other."""
    wanted = "".join("".join(line.split()) for line in lines) * _TIMES
    return any(wanted in "".join(text.split()) for text in (place.before, place.after))

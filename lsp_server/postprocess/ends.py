"""Filters for the answer's own end: white space, what runs into the text behind it, and what would not be seen."""

from __future__ import annotations

import re

from lsp_server.place import Place
from lsp_server.postprocess.answer import Answer
from lsp_server.postprocess.balance import surroundings
from lsp_server.postprocess.brackets import CLOSERS, PAIRS, PROSE, scan
from lsp_server.postprocess.comments import without_comment
from lsp_server.postprocess.indentation import indent_of

_COMMENT = re.compile(r"#|//|--")
_RUN = ")]}\"'`;, "
_ENDS = (*CLOSERS, '"', "'", ";", ":")


def tidy_end(place: Place, answer: Answer) -> Answer | None:
    """Prevent white space at the end of a suggestion, but for what separates it from text right of the cursor."""
    rest = place.line_after[answer.replaces :]
    bare = answer.text.rstrip()
    if not rest.strip():
        return answer.cut(len(bare))
    tail = answer.text[len(bare) :]
    breaks = min(2, tail.count("\n"))
    if breaks:
        code = without_comment(rest, place.language)
        inside = "\n" not in bare and place.line_before.strip() and not code.strip(_RUN)
        tail = "" if inside else "\n" * breaks + tail.rpartition("\n")[2]
    elif rest[0].isspace():
        tail = ""
    return answer.with_text(bare + tail) if bare else None


def no_comment_over_code(place: Place, answer: Answer) -> Answer | None:
    """Prevent a comment at the answer's end from swallowing the code right of the cursor."""
    left = surroundings(place).left
    if left.in_text or not place.line_after[answer.replaces :].strip():
        return answer
    if scan(answer.text, place.language, left).stack[-1:] != ("#",):
        return answer
    if not place.line_before.strip():
        return answer.with_text(f"{answer.text}\n{place.line_before}")
    start = answer.text.rfind("\n") + 1
    marks = (found.start() for found in _COMMENT.finditer(answer.text, start))
    ends = (at for at in marks if scan(answer.text[: at + 2], place.language, left).stack[-1:] == ("#",))
    return answer.cut(next(ends, len(answer.text)))


def line_of_its_own(place: Place, answer: Answer) -> Answer | None:
    """Prevent finished lines from running into the text right of the cursor, which then has its own line."""
    left, rest, text = place.line_before, place.line_after[answer.replaces :], answer.text
    if not rest.strip() or not text.rpartition("\n")[2].strip():
        return answer
    if text.startswith("\n") and _before_closer(place, answer):
        return answer.with_text(f"{text}\n{indent_of(left)}")
    if not left.strip() and place.language not in PROSE and _is_statement(text) and _is_word(rest.lstrip()[0]):
        return answer.with_text(f"{text}\n{left}")
    return answer


def _is_statement(text: str) -> bool:
    """Whether a text hardly goes on in the word that follows it."""
    return text.endswith(_ENDS) or (_is_word(text[-1]) and len(text.split()) > 1)


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _before_closer(place: Place, answer: Answer) -> bool:
    """Whether the bracket that ends the line left of the cursor is closed right of it, and not by the answer."""
    opened = surroundings(place).left
    if answer.replaces or place.line_before.rstrip()[-1:] not in PAIRS:
        return False
    depth = len(scan(answer.text, place.language, opened).stack)
    return place.line_after.startswith(PAIRS[place.line_before.rstrip()[-1]]) and depth >= len(opened.stack)


def something_new(place: Place, answer: Answer) -> Answer | None:
    """Prevent a suggestion of nothing but white space, or of what stands there already."""
    there = place.after[: answer.replaces]
    return answer if answer.text.strip() and answer.text != there else None

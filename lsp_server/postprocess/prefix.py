"""Filters against an answer that starts with what stands left of the cursor already."""

from __future__ import annotations

import re
from itertools import islice

from lsp_server.place import Place
from lsp_server.postprocess.answer import Answer, letters_and_digits, lines_with_offsets, squeezed
from lsp_server.postprocess.balance import imbalance, surroundings
from lsp_server.postprocess.indentation import lines_above

_NEAR = 12  # lines above that are compared
_LONGEST_NAME = 200  # characters; behind an endless word of data a search from each letter would take minutes
_OPENS = (":", "{", "(", "[", "=>", "->", "do", "then")

_CHAIN = re.compile(r"(?:[^\W\d]\w*\.)+(?:[^\W\d]\w*)?$")
_LAST_WORD = re.compile(r"[^\W\d]\w*$")
_FIRST_WORD = re.compile(r"[^\W\d]\w*")
_WORDS = re.compile(r"[^\W\d]\w*")
_OWN = ("self.", "this.", "cls.", "super.")
_TOKENS = re.compile(r"\w+|[^\w\s]")
_COMMENT = re.compile(r"\s*(?:#|//|--|/\*|;)")


def lines_above_again(place: Place, answer: Answer) -> Answer | None:
    """Prevent an answer that starts over with the lines above the cursor from being inserted below them."""
    if place.line_before.strip() and not answer.text.startswith("\n"):
        return answer
    above = list(islice(lines_above(place), _NEAR))[::-1]
    if place.line_before.strip():
        above.append(place.line_before)
    lines = [(start, line) for start, line in lines_with_offsets(answer.text) if line.strip()]
    for size in range(min(len(above), len(lines)), 0, -1):
        if _starts_over(above[-size:], [line for _, line in lines[:size]]):
            rest = answer.text[lines[size][0] :] if size < len(lines) else ""
            return answer.with_text("\n" + rest if place.line_before.strip() else rest) if rest else None
    return answer


def _starts_over(above: list[str], lines: list[str]) -> bool:
    """Whether lines repeat those above: several of them, or the head of a block, which cannot stand twice."""
    same = all(squeezed(one) == squeezed(other) for one, other in zip(above, lines, strict=True))
    sure = len(lines) > 1 or lines[0].rstrip().endswith(_OPENS)
    return same and sure and letters_and_digits("".join(lines)) >= 6


def typed_again(place: Place, answer: Answer) -> Answer | None:
    """Prevent the words that the user has just typed from standing there twice."""
    left, text = place.line_before, answer.text
    core, start = left.strip(), text.lstrip(" \t")
    if not core:
        return answer
    if start.startswith(core) and _is_repeat(place, core, start):
        rest = start[len(core) :]
        return answer.with_text(rest.lstrip(" \t") if left[-1:].isspace() else rest)
    for pattern in (_CHAIN, _LAST_WORD):
        found = pattern.search(left[-_LONGEST_NAME:])
        if found and text.startswith(found.group()) and _is_doubled(place, found.group(), text):
            return answer.with_text(text[len(found.group()) :])
    return _one_space(left, answer)


def _is_repeat(place: Place, core: str, start: str) -> bool:
    """Whether an answer that starts as the cursor's line does repeats it, rather than going on in the same words."""
    if not letters_and_digits(core) or core.startswith("<") or f"{core} {core}" in place.before + place.after:
        return False
    if imbalance(place, ""):  # 'fib(' may well go on with 'fib(n)', if what is open is closed in the end
        once, twice = imbalance(place, start[len(core) :]), imbalance(place, start)
        return once < twice or (once == twice and surroundings(place).left.in_text and _says_much(core))
    if core.endswith(("(", "[", "{")):
        return False
    head = core.partition(",")[0]
    if core.endswith((",", "+", "-", "|", "&", "or", "and")):
        return len(_WORDS.findall(head)) > 1
    return (
        core.endswith(("=", ":"))
        or _says_much(head)
        or (len(core) > 2 and core.isidentifier() and _apart(place, start))
    )


def _says_much(core: str) -> bool:
    """Whether a line's beginning is more than a name or two characters, so that it hardly stands twice by chance."""
    words = _WORDS.findall(core)
    return len(words) > 1 or (len(_TOKENS.findall(core)) > 2 and max(map(len, words), default=0) > 2)


def _apart(place: Place, start: str) -> bool:
    """Whether a single typed word and the answer's first word would make no word of the file."""
    return _is_new_word(place, place.line_before.split()[-1], start) or place.line_before[-1:].isspace()


def _is_doubled(place: Place, typed: str, text: str) -> bool:
    """Whether an answer that starts with the typed word or chain of names repeats it; 'datetime.datetime' does not."""
    if typed.endswith("."):
        return typed.count(".") > 1 or typed in _OWN
    return "." in typed or _is_new_word(place, typed, text)


def _is_new_word(place: Place, typed: str, text: str) -> bool:
    """Whether `typed` and the answer's first word together are unknown, and the answer's word alone is likelier."""
    found = _FIRST_WORD.match(text)
    word = found.group() if found else ""
    last = typed.rpartition(".")[2]
    known = set(_WORDS.findall(place.before[: len(place.before) - len(last)] + "\n" + place.after))
    return last + word not in known and (len(typed) > 2 or (word in known and word != typed))


def _one_space(left: str, answer: Answer) -> Answer:
    """Drop the space before the answer's first word where the user typed it already."""
    doubled = left[-1:] == " " and left[-2:-1] not in ("", " ", "\t") and answer.text[:1] == " "
    if doubled and answer.text[1:2] not in ("", " ", "\t", "\n") and not _COMMENT.match(answer.text):
        return answer.with_text(answer.text[1:])
    return answer

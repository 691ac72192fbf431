"""When no suggestion is wanted: rules asked before the model is, and rules for its answer.

What is switched off, secret or quarantined is refused elsewhere, whoever asks. Nothing here knows documents or clocks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from lsp_server.place import Place, Suggestion
from lsp_server.postprocess.comments import without_comment

MOST_RIGHT = 8  # characters of code right of the cursor up to which one can still read a suggestion between
LONGEST_LINE = 2_000
HELD = 20  # times the same key
_ENDING = frozenset(")]}>\"'`;,:. \t")
_BLOCK = re.compile(r"(?:[(\[{:]|=>|->|\b(?:do|then|else|begin))$")
_PROSE = frozenset(["", "markdown", "plaintext", "restructuredtext", "latex", "tex"])
_HYPHENATED = frozenset(["css", "scss", "less", "html", "xml", "lisp", "clojure", "scheme", "racket"])


@dataclass(frozen=True, slots=True)
class Trigger:
    """What asked. With `popup` the place stands behind the item selected in a completion popup, as if it were taken.

    `inline` is False for the classic `textDocument/completion`, whose answers are rows of a popup.
    """

    automatic: bool
    popup: bool = False
    inline: bool = True


def held_back(place: Place, trigger: Trigger) -> str | None:
    """Return why a request gets no suggestion, in plain words, or None if it may have one.

    These reasons guess what a person wants, so they give way to one who asks; but the popup's item, once it is put
    against the rest of a word, leaves no room for either.
    """
    if trigger.popup and _is_word(place.after[:1], place.language):
        return "the popup's item stands in the middle of a word"
    if not trigger.automatic:
        return None
    return next((reason for rule, reason in _AUTOMATIC if rule(place)), None)


def worth_showing(place: Place, suggestion: Suggestion, trigger: Trigger) -> bool:
    """Whether an answer would show something: neither blank nor what stands there already, nor out of range."""
    text = suggestion.text
    if not text.strip() or text == place.after[: suggestion.replaces]:
        return False
    if trigger.popup and suggestion.replaces:
        return False  # the client takes the popup's own range only
    return trigger.inline or bool(text.partition("\n")[0].strip())  # a popup's row shows the first line


def _no_text(place: Place) -> bool:
    return not place.before.strip() and not place.after.strip()


def _nothing_before(place: Place) -> bool:
    return not place.before.strip()


def _long_line(place: Place) -> bool:
    return len(place.line_before) + len(place.line_after) > LONGEST_LINE


def _held_key(place: Place) -> bool:
    last = place.before[-HELD:]
    if last != last[:1] * HELD:
        return False
    line = place.line_before
    # Blanks that begin a line may be indentation, which reaches no further than the line above.
    return bool(line.strip()) or len(line) >= len(_line_above(place)) + HELD


def _blank_lines(place: Place) -> bool:
    near = place.before[-LONGEST_LINE:]
    return near[len(near.rstrip()) :].count("\n") >= HELD


def _inside_word(place: Place) -> bool:
    return all(_is_word(char, place.language) for char in (place.before[-1:], place.after[:1]))


def _is_word(char: str, language: str) -> bool:
    if not char or char in "_$":
        return bool(char)
    return char.isalnum() or unicodedata.category(char)[0] == "M" or (char == "-" and language in _HYPHENATED)


def _before_code(place: Place) -> bool:
    """Whether Tab would move code: left of the cursor is only indentation."""
    right = place.line_after.strip()
    if not right or place.line_before.strip():
        return False
    # Enter behind an opener or a comma may have taken the closers along: there the next element is due.
    return not (_ENDING.issuperset(right) and place.before.rstrip().endswith(("(", "[", "{", ",")))


def _tab_would_indent(place: Place) -> bool:
    """Whether the line is blank, below the head of a block and no deeper: first comes Tab, then the suggestion."""
    if place.line_before.strip() or place.line_after.strip() or place.language in _PROSE:
        return False
    above = _line_above(place)
    indent = len(above) - len(above.lstrip())
    return place.column <= indent and bool(_BLOCK.search(without_comment(above, place.language).rstrip()))


def _line_above(place: Place) -> str:
    """Return the nearest line above that is not blank."""
    return place.before[: len(place.before) - place.column].rstrip().rpartition("\n")[2]


def _much_right(place: Place) -> bool:
    code = without_comment(place.line_after, place.language)
    return sum(char not in _ENDING for char in code) > MOST_RIGHT


_AUTOMATIC: tuple[tuple[Callable[[Place], bool], str], ...] = (
    (_no_text, "the document is empty"),
    (_nothing_before, "nothing stands before the cursor"),
    (_long_line, f"the line is longer than {LONGEST_LINE:,} characters"),
    (_held_key, "the same key was pressed again and again"),
    (_blank_lines, "the cursor is below many blank lines"),
    (_inside_word, "the cursor is inside a word"),
    (_before_code, "the cursor is in the indentation of existing code"),
    (_tab_would_indent, "the line is not indented yet"),
    (_much_right, "there is much text right of the cursor"),
)

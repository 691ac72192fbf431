"""Rule: the block ends."""

from __future__ import annotations

import re

from engine.stops.measure import BREAK, CLOSERS, indent_width
from engine.stops.state import Facts, Line, Seen, StopState, ending

_WORD = re.compile(r"[A-Za-z_]+")
_CONTINUE = frozenset(["else", "elif", "elsif", "except", "finally", "catch", "rescue", "ensure", "end"])
_DEFINE = re.compile("def|class|async|function|fn|func|export|pub|public|struct|enum|interface|trait|impl")


def block_ends(facts: Facts, lines: tuple[Line, ...]) -> bool | None:
    """Whether the block ends before the last of `lines`; None while that line's first word is still growing."""
    line, typed = lines[-1], bool(facts.left.strip())
    if facts.mode != "block" or (len(lines) == 1 and typed):
        return False
    # On a blank line the first generated line may be deeper than the cursor: then that is the block.
    base, width = max(indent_width(facts.left), indent_width(lines[0].text)), indent_width(line.text)
    if line.open and line.text.lstrip().startswith(CLOSERS):
        return False
    if width != base or line.open or len(lines) == 1:
        return width < base
    if typed and indent_width(lines[1].text) > base:  # the cursor's line opened a block, and this line is after it
        return _starts_unit(line, any_word=True)
    if base == 0 and line.gap and (len(lines) > 2 or lines[0].end > 0):
        # Top level has no dedent. One blank line separates statements that belong together as often as not, so
        # it counts after an indented body or before a definition only; two always do.
        above = lines[-2].text
        body = above[0].isspace() or above.startswith(CLOSERS)
        return _starts_unit(line, any_word=body or line.gap > 1)
    return False


def _starts_unit(line: Line, any_word: bool) -> bool | None:
    """Whether a line starts something new rather than going on with the block above, as 'else' does."""
    text = line.text.lstrip()
    found = _WORD.match(text)
    word = found.group() if found else ""
    if word == text and not line.whole:
        return None
    if word in _CONTINUE or text.startswith("{"):
        return False
    return any_word or bool(_DEFINE.fullmatch(word)) or text.startswith("@")


def block_end(facts: Facts, seen: Seen, line: Line, generated: str) -> StopState:
    """End before `line`, and before a short repeat that ends exactly there as the text below does."""
    for match in seen.matches:
        beyond = facts.targets[len(seen.lines) - match.line :]
        tidy = match.open <= facts.open or not line.open
        if tidy and (not beyond or indent_width(beyond[0]) <= indent_width(line.text)):
            return ending(match.cut, "suffix")
    end = len(generated[: max(0, line.origin)].rstrip())
    if end and facts.rest and not facts.left:  # the text right of the cursor is a whole line: keep it one
        found = BREAK.search(generated, end)
        end = found.end() if found else end
    return ending(end, "block")


def closes_block(facts: Facts, seen: Seen) -> bool:
    """Whether the last line closes the last bracket of the block that the cursor's line opened."""
    if facts.mode != "block" or len(seen.lines) < 2 or not facts.left.strip():
        return False
    text, second = seen.lines[-1].text, seen.lines[1]
    return (
        (second.open > 0 or second.text.lstrip().startswith("{"))
        and text.lstrip().startswith(CLOSERS)
        and indent_width(text) <= indent_width(facts.left)
        and not seen.open
        and not text.endswith(":")  # '):' ends a Python signature; its body follows
    )

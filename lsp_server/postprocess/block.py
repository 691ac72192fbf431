"""The filter that ends an answer where the cursor's block ends."""

from __future__ import annotations

import re

from lsp_server.place import Place
from lsp_server.postprocess.answer import Answer, lines_with_offsets
from lsp_server.postprocess.balance import imbalance, surroundings
from lsp_server.postprocess.brackets import CLOSERS, PROSE, Scan, scan
from lsp_server.postprocess.indentation import width_of

_GOES_ON = re.compile(
    r"\s*(?:(?:else|elif|elsif|except|finally|catch|rescue|ensure|end|while|then)\b|[.?:&|+\-*/=<>,;{)\]}])"
)
_DIRECTIVES = frozenset({"c", "cpp", "csharp", "objective-c", "objective-cpp", "cuda-cpp"})


def inside_block(place: Place, answer: Answer) -> Answer | None:
    """Prevent code that belongs behind the end of the cursor's block from being put inside it."""
    around = surroundings(place)
    if place.language in PROSE or around.left.in_long_text or around.above.in_long_text:
        return answer
    end = _block_end(place, answer.text, around.left)
    return answer if end is None else answer.cut(end)


def _block_end(place: Place, text: str, state: Scan) -> int | None:
    """Where the block ends within the text, if it does."""
    typed, base = bool(place.line_before.strip()), _base(place, text)
    deeper: bool | None = None  # until the cursor's line has a next one, which alone tells whether it opened a block
    for start, line in lines_with_offsets(text):
        after = scan(line + "\n", place.language, state)
        judged = start and line.strip() and not state.in_long_text
        if judged and not state.stack and _is_outside(place, text, start, line, base, typed and bool(deeper)):
            return len(text[:start].rstrip())
        if judged and typed and _closes_tag(line, base, bool(deeper)):
            return start + len(line.rstrip())
        if judged and typed and _closes(line, state, after, base) and not _goes_on(text, start + len(line)):
            return start + len(line.rstrip())
        if judged and deeper is None:
            deeper = width_of(line) > base
        state = after
    return None


def _base(place: Place, text: str) -> int:
    """How wide the lines of the block are indented."""
    left = place.line_before
    if left.strip():
        return width_of(left)
    first = next((line for line in (left + text).split("\n") if line.strip()), "")
    return max(width_of(left), width_of(first))


def _is_outside(place: Place, text: str, start: int, line: str, base: int, opened: bool) -> bool:
    """Whether a line is no part of the block: further left than it, or after a block that the cursor's line opened."""
    width = width_of(line)
    if line.startswith("#") and place.language in _DIRECTIVES:
        return False
    if line.lstrip().startswith(CLOSERS) and (width < base or opened):
        return imbalance(place, text[: start + len(line)]) > imbalance(place, text[:start])
    return width < base or (opened and width == base and not _GOES_ON.match(line))


def _closes_tag(line: str, base: int, deeper: bool) -> bool:
    """Whether a line closes the element that the cursor's line opened."""
    return deeper and line.lstrip().startswith("</") and width_of(line) == base


def _closes(line: str, state: Scan, after: Scan, base: int) -> bool:
    """Whether a line closes all brackets that were opened since the cursor's line began."""
    closes = bool(state.stack) and not after.stack and line.lstrip().startswith(CLOSERS)
    return closes and width_of(line) <= base and not line.rstrip().endswith((":", ","))


def _goes_on(text: str, end: int) -> bool:
    """Whether the next line with text goes on with the statement, as 'else' does."""
    return bool(_GOES_ON.match(text, end))

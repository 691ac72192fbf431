"""From the model's raw answer to what is shown: an ordered list of small filters.

Each looks for one kind of fault, by itself: the engine may have cut it already, or be another engine. They run again
until nothing changes, so what they return is what they would leave alone. Pure: no model, no protocol, no settings.
"""

from __future__ import annotations

from dataclasses import replace

from lsp_server.place import Place, Suggestion
from lsp_server.postprocess.answer import Answer, Filter
from lsp_server.postprocess.balance import REACH, closers_once
from lsp_server.postprocess.block import inside_block
from lsp_server.postprocess.characters import no_control_tokens, plain_characters
from lsp_server.postprocess.ends import line_of_its_own, no_comment_over_code, something_new, tidy_end
from lsp_server.postprocess.indents import blank_lines, first_line_once, unit_of_file
from lsp_server.postprocess.loops import no_loop_in_line, no_loop_of_lines
from lsp_server.postprocess.prefix import lines_above_again, typed_again
from lsp_server.postprocess.suffix import following_lines, rest_of_line

__all__ = ["FILTERS", "Answer", "Filter", "finished_lines", "postprocess"]

FILTERS: tuple[Filter, ...] = (
    plain_characters,
    no_control_tokens,
    no_loop_in_line,
    no_loop_of_lines,
    lines_above_again,
    typed_again,
    blank_lines,
    first_line_once,
    unit_of_file,
    rest_of_line,
    following_lines,
    inside_block,
    no_comment_over_code,
    closers_once,
    tidy_end,
    line_of_its_own,
    something_new,
)

_WHOLE = (no_control_tokens,)  # asks all the text there is whether it holds such tokens itself
_NEAR = REACH + 2_000  # characters on each side that the others look at, for they are asked often
_ROUNDS = 8


def postprocess(place: Place, text: str, *, finished: bool) -> Suggestion | None:
    """Return what to show of an answer, None if nothing.

    `finished` is false where the model would have gone on: only whole lines count then, and nothing is closed.
    """
    text = text if finished else finished_lines(text)
    near = replace(place, before=place.before[-_NEAR:], after=place.after[:_NEAR])
    for _ in range(_ROUNDS):
        answer = _filtered(place, near, Answer(text, finished=finished))
        if answer is None:
            return None
        if answer.text == text:
            return Suggestion(answer.text, answer.replaces)
        text = answer.text
    return None  # filters that disagree: show nothing rather than either


def finished_lines(text: str) -> str:
    """Return the lines that will not grow any more, without the last line break."""
    # A carriage return at the very end may be half a line break; either way its line is finished.
    return text[: max(text.rfind("\n"), text.rfind("\r"), 0)]


def _filtered(place: Place, near: Place, answer: Answer) -> Answer | None:
    rest: Answer | None = answer
    for each in FILTERS:
        if rest is None or not rest.text.strip():
            return None
        rest = each(place if each in _WHOLE else near, rest)
    return rest

"""A client's change events, checked: what comes out of here can be applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lsprotocol import types

Changes = Sequence["types.TextDocumentContentChangeEvent"]
Position = tuple[int, int]


class MalformedChangeError(ValueError):
    """A change event that says nothing one could do."""


@dataclass(frozen=True, slots=True)
class Edit:
    """New text for a range, or for the whole document when there is none. Positions are the client's."""

    text: str
    range: tuple[Position, Position] | None


def read_edits(changes: Changes) -> list[Edit]:
    """Return what a batch of change events says, without what a later full text makes void."""
    try:
        edits = [_edit(change) for change in changes]
    except (AttributeError, TypeError) as error:
        raise MalformedChangeError("a change event that cannot be read") from error
    full = [index for index, edit in enumerate(edits) if edit.range is None]
    return edits[full[-1] :] if full else edits


def is_number(value: object) -> bool:
    """Whether a value is a whole number; a truth value is not."""
    return isinstance(value, int) and not isinstance(value, bool)


def _edit(change: types.TextDocumentContentChangeEvent) -> Edit:
    if not isinstance(change.text, str):  # the types promise it, the wire does not
        raise MalformedChangeError("a change event without text")
    span = getattr(change, "range", None)
    return Edit(change.text, None if span is None else (_position(span.start), _position(span.end)))


def _position(position: types.Position) -> Position:
    line, character = position.line, position.character
    if not (is_number(line) and is_number(character)):
        raise MalformedChangeError("a change event without a usable range")
    return line, character

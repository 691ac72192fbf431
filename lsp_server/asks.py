"""One question of a client, how we see it, its answer, and the ticket by which a newer question makes it void."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from lsprotocol import types

from lsp_server.documents.store import Document
from lsp_server.documents.uris import identity
from lsp_server.items import Target
from lsp_server.place import Place, Suggestion
from lsp_server.privacy.secrets import masked

RADIUS = 50_000  # characters each side of the cursor that the engine sees of the document itself


@dataclass(frozen=True, slots=True)
class Ask:
    """Where a client wants a completion, in its own columns; `inline` is False for the classic popup.

    `popup` is the item that is selected in an open popup, with the range that it would replace.
    """

    uri: str
    line: int
    column: int
    automatic: bool = True
    inline: bool = True
    popup: types.SelectedCompletionInfo | None = None


@dataclass(frozen=True, slots=True)
class View:
    """A question in our own terms, secrets masked. `place` is at the cursor, or behind a popup's choice as if taken."""

    ask: Ask
    place: Place
    target: Target
    document: Document | None = None
    version: int = 0

    @classmethod
    def of(cls, document: Document, ask: Ask) -> View:
        """See an open document at a position that it has."""
        excerpt = document.excerpt(ask.line, ask.column, RADIUS)
        text = masked(excerpt.text)
        before, after = text[: excerpt.cursor], text[excerpt.cursor :]
        place = Place(document.key, document.language, before, after, excerpt.line, excerpt.column)
        target = Target(document.uri, document.line_break, partial(document.client_column, excerpt.line))
        if ask.popup is not None:
            place = _behind(place, ask.popup, document)
        return cls(ask, place, target, document, document.version)

    @classmethod
    def empty(cls, ask: Ask) -> View:
        """See nothing: there is no such document, or no such position."""
        nowhere = Place(identity(ask.uri), "", "", "", 0, 0)
        return cls(ask, nowhere, Target(ask.uri))


def _behind(cursor: Place, popup: types.SelectedCompletionInfo, document: Document) -> Place:
    """Return the place as if the person had taken the popup's choice."""
    start, end = (document.excerpt(at.line, at.character, 0).column for at in (popup.range.start, popup.range.end))
    kept, replaced = min(start, cursor.column), max(0, end - cursor.column)
    before = cursor.before[: len(cursor.before) - cursor.column + kept] + popup.text
    return replace(cursor, before=before, after=cursor.after[replaced:], column=kept + len(popup.text))


@dataclass(frozen=True, slots=True)
class Answer:
    """What is shown: suggestions for a place, best first."""

    view: View
    suggestions: tuple[Suggestion, ...]


class Ticket:
    """The right to answer: void once a newer question for the document, or a change of it, has come."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.void = False
        self.version: int | None = None  # of the document, once the question was understood

    def cancel(self) -> None:
        """Take the right away and wake who waits."""
        self.void = True
        self.event.set()

    async def news(self, seconds: float | None) -> None:
        """Wait until something happens, at most some seconds."""
        self.event.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.event.wait(), seconds)

    async def sleep(self, seconds: float) -> bool:
        """Wait; whether the ticket is still good afterwards."""
        if seconds > 0 and not self.void:
            await self.news(seconds)
        return not self.void

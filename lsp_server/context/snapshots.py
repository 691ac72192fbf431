"""The open documents as they are at one moment, taken on their own thread for use on another."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lsp_server.context.lru import Lru
from lsp_server.context.open_texts import OpenDocument, OpenTexts, View, identifiers

MAX_CELLS = 32
MAX_DOCUMENT = 400_000  # characters of an open document
_CONSIDERED = 32  # open documents whose relevance is judged
_REFRESH = 2.0  # seconds between looks at what a document under edit imports and is about


class Store(Protocol):
    """What is used of the document store."""

    def recent(self) -> Sequence[OpenDocument]:
        """Return the open documents, the most recent first."""


class Cells(Protocol):
    """What is used of the notebooks."""

    def siblings(self, uri: str) -> tuple[Sequence[OpenDocument], Sequence[OpenDocument]]:
        """Return the cells before and after a cell."""


@dataclass(slots=True)
class Own:
    """The document under edit. The text may be seconds old: to make a whole text costs too much at every key."""

    document: OpenDocument
    uri: str
    key: str
    language: str
    text: str
    taken: float = field(default_factory=time.monotonic)
    alike: dict[str, tuple[frozenset[str], float]] = field(default_factory=dict)  # how much it shares with others
    _words: frozenset[str] | None = None

    @property
    def words(self) -> frozenset[str]:
        """The identifiers it uses."""
        if self._words is None:
            self._words = identifiers(self.text)
        return self._words


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The open documents that matter for one request, as they are now."""

    own: Own
    cells: tuple[View, ...]
    others: tuple[View, ...]
    too_long: tuple[str, ...]
    open: tuple[str, ...]  # URIs of all open documents


class Snapshots:
    """Takes snapshots; texts that are known already are not made again."""

    def __init__(self, store: Store, cells: Cells, texts: OpenTexts) -> None:
        self._store = store
        self._cells = cells
        self._texts = texts
        self._own: Lru[str, Own] = Lru(16)

    def take(self, document: OpenDocument) -> Snapshot:
        """Return what matters for a request in this document."""
        before, after = self._cells.siblings(document.uri)
        cells = [*reversed(before), *after]
        keys = {cell.key for cell in cells} | {document.key}
        recent = self._store.recent()
        others = [other for other in recent if other.key not in keys][:_CONSIDERED]
        return Snapshot(
            self._own_now(document),
            self._views(cells[:MAX_CELLS]),
            self._views(others),
            tuple(other.uri for other in others if other.size > MAX_DOCUMENT),
            tuple(other.uri for other in recent),
        )

    def forget(self, key: str) -> None:
        """Drop what is known of a document."""
        self._own.pop(key)

    def _own_now(self, document: OpenDocument) -> Own:
        own = self._own.get(document.key)
        if own is None or own.document is not document or time.monotonic() - own.taken >= _REFRESH:
            text = document.full_text() if document.size <= MAX_DOCUMENT else ""
            own = Own(document, document.uri, document.key, document.language, text)
            self._own.put(document.key, own)
        return own

    def _views(self, documents: Iterable[OpenDocument]) -> tuple[View, ...]:
        return tuple(self._texts.view(document) for document in documents if document.size <= MAX_DOCUMENT)

"""Masked texts of open documents, made once for each version, and how much two of them have in common."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from lsp_server.context.lru import Lru
from lsp_server.privacy.secrets import masked

_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]{2,}")
_MAX_SCANNED = 100_000  # characters of a text whose words are taken


class OpenDocument(Protocol):
    """What is used of an open document."""

    @property
    def uri(self) -> str:
        """The URI as the client spells it."""

    @property
    def key(self) -> str:
        """The identity."""

    @property
    def language(self) -> str:
        """The language's name."""

    @property
    def version(self) -> int:
        """The client's version."""

    @property
    def size(self) -> int:
        """The length of the full text."""

    def full_text(self) -> str:
        """Return the whole text, line feeds only."""


@dataclass(frozen=True, slots=True)
class OpenText:
    """A masked text and its identifiers. `document` tells a reopened document of the same version from the old one."""

    document: OpenDocument
    version: int
    text: str
    words: frozenset[str]


@dataclass(frozen=True, slots=True)
class View:
    """A document at one moment: its text as it was, or what is known of it already."""

    document: OpenDocument
    uri: str
    key: str
    language: str
    version: int
    content: str | OpenText


class OpenTexts:
    """Remembers the texts of so many documents. Take views where documents change, texts in any thread."""

    def __init__(self, size: int = 64) -> None:
        self._texts: Lru[str, OpenText] = Lru(size)

    def view(self, document: OpenDocument) -> View:
        """Return the document as it is now."""
        known = self._known(document)
        content = known or document.full_text()
        return View(document, document.uri, document.key, document.language, document.version, content)

    def text(self, view: View) -> OpenText:
        """Return the masked text of a view."""
        if isinstance(view.content, OpenText):
            return view.content
        text = masked(view.content)
        made = OpenText(view.document, view.version, text, identifiers(text))
        self._texts.put(view.key, made)
        return made

    def forget(self, key: str) -> None:
        """Drop a document's text."""
        self._texts.pop(key)

    def _known(self, document: OpenDocument) -> OpenText | None:
        known = self._texts.get(document.key)
        return known if known and known.document is document and known.version == document.version else None


def identifiers(text: str) -> frozenset[str]:
    """Return the names in the beginning of a text."""
    return frozenset(_WORD.findall(text[:_MAX_SCANNED]))


def shared(own: frozenset[str], other: frozenset[str]) -> float:
    """Return which share of the smaller text's identifiers the other has too."""
    smaller = min(len(own), len(other))
    return len(own & other) / smaller if smaller else 0.0

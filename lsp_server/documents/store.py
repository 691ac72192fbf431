"""The open documents, exactly as the client has them.

Nothing is read from disk here, and nothing of pygls's own text synchronisation is used: see `pieces.py`.
"""

from __future__ import annotations

import logging
from enum import Enum

from lsp_server.documents.edits import Changes, Edit, MalformedChangeError, is_number, read_edits
from lsp_server.documents.excerpts import Excerpt, cut
from lsp_server.documents.pieces import Pieces
from lsp_server.documents.positions import Encoding
from lsp_server.documents.uris import identity

log = logging.getLogger(__name__)


class Document:
    """One open document.

    `key` is its identity, the same for every spelling of `uri`. It is `doubtful` when a change could not be applied
    as the client meant it: its text may then differ from the client's, and only a full text makes it certain again.
    """

    def __init__(self, uri: str, language: str, version: int, text: str, encoding: Encoding) -> None:
        self.uri = uri
        self.key = identity(uri)
        self.language = str(language.value) if isinstance(language, Enum) else language
        self.version = version
        self.doubtful = False
        self._encoding: Encoding = encoding
        self._pieces = Pieces(text, encoding)
        self._text: str | None = None
        self._full: str | None = None

    @property
    def text(self) -> str:
        """The whole text as the client has it."""
        if self._text is None:
            self._text = self._pieces.text
        return self._text

    @property
    def line_break(self) -> str:
        """The line break that most lines have; a line feed where there is none."""
        return self._pieces.line_break

    @property
    def line_count(self) -> int:
        """The number of lines, at least one."""
        return self._pieces.line_count

    @property
    def size(self) -> int:
        """The length of `full_text()`, known without making it."""
        return self._pieces.size

    def full_text(self) -> str:
        """Return the whole text with line feeds only and without a byte-order mark."""
        if self._full is None:
            self._full = self._pieces.plain_text(0, self._pieces.size)
        return self._full

    def line(self, number: int) -> str:
        """Return a line without its line break, as the client has it; empty where there is no such line."""
        return self._pieces.line(number)

    def has_position(self, line: int, column: int) -> bool:
        """Whether the client's position exists; a request may arrive before the change that it was made after."""
        return self._pieces.has(line, column)

    def excerpt(self, line: int, column: int, radius: int) -> Excerpt:
        """Return what stands around a client's position, `radius` characters to each side at most.

        It is a part of `full_text()`, cut where `excerpts.cut` says. A position that does not exist is clamped.
        """
        spot = self._pieces.spot(line, column)
        offset = self._pieces.plain_offset(spot)
        text, cursor = cut(self._pieces.plain_text, offset, self.size, radius)
        row = min(max(line, 0), self.line_count - 1)
        return Excerpt(text, cursor, row, offset - self._pieces.line_offset(row))

    def client_column(self, line: int, column: int) -> int:
        """Return the client's column for one in an excerpt's code points, within the line."""
        return self._pieces.client_column(line, column)

    def change(self, version: int, changes: Changes) -> None:
        """Apply a batch of the client's changes in order, or none of it and be doubtful."""
        if not is_number(version) or version <= self.version:
            self.doubt(f"version {version} after {self.version}")
            return
        self.version = version
        try:
            self._apply(read_edits(changes))
        except MalformedChangeError as error:
            self.doubt(str(error))

    def _apply(self, edits: list[Edit]) -> None:
        if edits and edits[0].range is None:
            self.doubtful = False
        if self.doubtful:
            return
        for edit in edits:
            self._edit(edit)

    def _edit(self, edit: Edit) -> None:
        self._text = self._full = None
        if edit.range is None:
            self._pieces = Pieces(edit.text, self._encoding)
            return
        start = end = self._pieces.spot(*edit.range[0])
        if edit.range[1] != edit.range[0]:
            end = self._pieces.spot(*edit.range[1])
        self._pieces.replace(start, end, edit.text)

    def doubt(self, reason: str) -> None:
        """Mark the text as perhaps not the client's. It is said once: such faults come back at every key."""
        log.log(logging.DEBUG if self.doubtful else logging.WARNING, "%s: change refused: %s", self.uri, reason)
        self.doubtful = True


class DocumentStore:
    """The open documents by identity. A change of `encoding` holds for documents opened after it."""

    def __init__(self, encoding: Encoding = "utf-16") -> None:
        self.encoding: Encoding = encoding
        self._documents: dict[str, Document] = {}  # in the order of opening
        self._recent: dict[str, Document] = {}  # the most recent last

    def open(self, uri: str, language: str, version: int, text: str) -> Document:
        """Take a document in; one that is open already, under any spelling, is replaced."""
        document = Document(uri, language, version, text, self.encoding)
        self._documents[document.key] = document
        self._use(document)
        return document

    def change(self, uri: str, version: int, changes: Changes) -> Document | None:
        """Apply the client's changes and return the document, which may be doubtful now; None if it is not open."""
        document = self.get(uri)
        if document is None:
            log.info("%s: change of a document that is not open", uri)
            return None
        document.change(version, changes)
        self._use(document)
        return document

    def close(self, uri: str) -> Document | None:
        """Forget a document and return it; None if it was not open."""
        key = identity(uri)
        self._recent.pop(key, None)
        return self._documents.pop(key, None)

    def get(self, uri: str) -> Document | None:
        """Return an open document by any spelling of its URI."""
        return self._documents.get(identity(uri))

    def touch(self, uri: str) -> None:
        """Mark a document as used just now."""
        document = self.get(uri)
        if document is not None:
            self._use(document)

    def recent(self) -> list[Document]:
        """Return the open documents, the most recently opened, changed or touched first."""
        return list(reversed(self._recent.values()))

    def in_opening_order(self) -> list[Document]:
        """Return the open documents, the first opened first."""
        return list(self._documents.values())

    def _use(self, document: Document) -> None:
        self._recent.pop(document.key, None)
        self._recent[document.key] = document

"""A client's notebook notifications, checked: what comes out of here can be applied."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from lsprotocol import types

from lsp_server.documents.edits import Changes, is_number
from lsp_server.documents.uris import identity


class MalformedNotebookError(ValueError):
    """A notification that cannot be read."""


class CellText(NamedTuple):
    """A cell's document as it is opened."""

    uri: str
    language: str
    version: int
    text: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell's place in the order; `key` is the identity of its document."""

    uri: str
    key: str


@dataclass(frozen=True, slots=True)
class Splice:
    """Cells that take the place of `removed` others, and the documents that come and go with them."""

    start: int
    removed: int
    cells: list[Cell]
    opened: list[CellText]
    closed: list[str]


@dataclass(frozen=True, slots=True)
class NotebookChange:
    """What one notification changes: the list of cells, their texts. What cells are or were run to is nothing to us."""

    version: int
    splice: Splice | None
    edits: list[tuple[str, int, Changes]]


def read_opened(params: types.DidOpenNotebookDocumentParams) -> tuple[str, int, list[Cell], list[CellText]]:
    """Return the URI and the version of a notebook, its cells and their texts."""
    try:
        book = params.notebook_document
        return _text(book.uri), _number(book.version), _cells(book.cells), _opened(params.cell_text_documents)
    except (AttributeError, TypeError) as error:
        raise MalformedNotebookError("a notebook that cannot be read") from error


def read_changed(params: types.DidChangeNotebookDocumentParams) -> NotebookChange:
    """Return what a notification changes."""
    try:
        version, changes = _number(params.notebook_document.version), params.change.cells
        if changes is None:
            return NotebookChange(version, None, [])
        splice = None if changes.structure is None else _splice(changes.structure)
        edits = [
            (_text(change.document.uri), change.document.version, change.changes)
            for change in changes.text_content or ()
        ]
        _cells(changes.data or ())  # nothing of it is kept, but where one part cannot be read none is trusted
        return NotebookChange(version, splice, edits)
    except (AttributeError, TypeError) as error:
        raise MalformedNotebookError("a change that cannot be read") from error


def read_uri(params: types.DidChangeNotebookDocumentParams | types.DidCloseNotebookDocumentParams) -> str:
    """Return the URI of the notebook that a notification is about."""
    try:
        return _text(params.notebook_document.uri)
    except AttributeError as error:
        raise MalformedNotebookError("no URI") from error


def read_closed(params: types.DidCloseNotebookDocumentParams) -> list[str]:
    """Return the URIs of the cells that are closed with their notebook, as far as the notification names them."""
    try:
        return _uris(params.cell_text_documents)
    except (AttributeError, TypeError, MalformedNotebookError):
        return []


def _splice(structure: types.NotebookDocumentCellChangeStructure) -> Splice:
    array = structure.array
    return Splice(
        _number(array.start),
        _number(array.delete_count),
        _cells(array.cells or ()),
        _opened(structure.did_open or ()),
        _uris(structure.did_close or ()),
    )


def _cells(cells: Iterable[types.NotebookCell]) -> list[Cell]:
    return [Cell(cell.document, identity(_text(cell.document))) for cell in cells]


def _opened(items: Iterable[types.TextDocumentItem]) -> list[CellText]:
    return [
        CellText(_text(item.uri), _text(item.language_id), _number(item.version), _text(item.text)) for item in items
    ]


def _uris(documents: Iterable[types.TextDocumentIdentifier]) -> list[str]:
    return [_text(document.uri) for document in documents]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise MalformedNotebookError("something that should be text is not")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or not is_number(value):
        raise MalformedNotebookError("something that should be a number is not")
    return value

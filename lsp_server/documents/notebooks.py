"""Notebooks: which cells belong together, and in which order.

The texts of cells are documents of the store like all others; only their order is kept here. Clients without
notebook synchronisation open cells as plain documents; the URIs of VS Code's cells still tell which notebook they are
of, and the order of opening stands in for their order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from lsprotocol import types

from lsp_server.documents.notebook_events import (
    Cell,
    CellText,
    MalformedNotebookError,
    NotebookChange,
    Splice,
    read_changed,
    read_closed,
    read_opened,
    read_uri,
)
from lsp_server.documents.store import Document, DocumentStore
from lsp_server.documents.uris import identity, notebook_of

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Notebook:
    """`doubtful` when the order of its cells may differ from the client's: then no cell has neighbours."""

    uri: str
    version: int
    cells: list[Cell]
    doubtful: bool = False

    def cell(self, key: str) -> Cell | None:
        return next((cell for cell in self.cells if cell.key == key), None)


class Notebooks:
    """The open notebooks, following the client's notifications; none of them, however malformed, raises."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store
        self._notebooks: dict[str, _Notebook] = {}

    def opened(self, params: types.DidOpenNotebookDocumentParams) -> None:
        """Take in a notebook and its cells; one that is open already is replaced."""
        try:
            uri, version, cells, texts = read_opened(params)
        except MalformedNotebookError as error:
            log.warning("a notebook is not opened: %s", error)
            return
        self._forget(uri)
        self._notebooks[identity(uri)] = _Notebook(uri, version, cells)
        self._open(texts)

    def changed(self, params: types.DidChangeNotebookDocumentParams) -> None:
        """Follow a change of the list of cells or of their texts.

        The notebook's version counts for the list; each text has its own.
        """
        try:
            notebook = self._notebooks.get(identity(read_uri(params)))
        except MalformedNotebookError as error:
            log.warning("a change of a notebook is refused: %s", error)
            return
        if notebook is None:
            log.info("change of a notebook that is not open")
            return
        try:
            self._change(notebook, read_changed(params))
        except MalformedNotebookError as error:
            self._doubt(notebook, str(error))
            self._doubt_texts(notebook)

    def closed(self, params: types.DidCloseNotebookDocumentParams) -> None:
        """Forget a notebook and all its cells."""
        try:
            self._forget(read_uri(params))
        except MalformedNotebookError as error:
            log.warning("the end of a notebook cannot be read: %s", error)
        self._close(read_closed(params))

    def siblings(self, uri: str) -> tuple[list[Document], list[Document]]:
        """Return the cells before and after a cell, in the notebook's order, markup cells too."""
        cells = self._cells_around(uri)
        keys = [cell.key for cell in cells]
        key = identity(uri)
        if key not in keys:
            return [], []
        place = keys.index(key)
        return cells[:place], cells[place + 1 :]

    def _cells_around(self, uri: str) -> list[Document]:
        """Return the documents of a cell's notebook in order, itself among them."""
        notebook = self._holder(identity(uri))
        if notebook is None:
            return self._cells_by_uri(uri)
        if notebook.doubtful:
            return []
        documents = (self._store.get(cell.uri) for cell in notebook.cells)
        return [document for document in documents if document is not None]

    def _cells_by_uri(self, uri: str) -> list[Document]:
        home = _home(uri)
        if home is None or home in self._notebooks:
            return []
        return [document for document in self._store.in_opening_order() if _home(document.uri) == home]

    def _holder(self, key: str) -> _Notebook | None:
        return next((notebook for notebook in self._notebooks.values() if notebook.cell(key)), None)

    def _change(self, notebook: _Notebook, change: NotebookChange) -> None:
        if change.splice is not None:
            self._restructure(notebook, change.version, change.splice)
        notebook.version = max(change.version, notebook.version)
        for uri, version, edits in change.edits:
            self._store.change(uri, version, edits)

    def _restructure(self, notebook: _Notebook, version: int, splice: Splice) -> None:
        if version <= notebook.version:
            self._doubt(notebook, f"version {version} after {notebook.version}")
            return
        end = splice.start + splice.removed
        cells = notebook.cells[: splice.start] + splice.cells + notebook.cells[end:]
        fits = 0 <= splice.start <= end <= len(notebook.cells) and len({cell.key for cell in cells}) == len(cells)
        if not fits:
            self._doubt(notebook, "a place that does not fit the list of cells")
        if notebook.doubtful:  # documents come and go whatever the order; they stay known until the notebook is closed
            cells = notebook.cells + [cell for cell in splice.cells if not notebook.cell(cell.key)]
        kept = {cell.key for cell in cells}
        self._close([cell.uri for cell in notebook.cells if cell.key not in kept])
        self._close(splice.closed)
        notebook.cells = cells
        self._open(splice.opened)

    def _doubt(self, notebook: _Notebook, reason: str) -> None:
        log.warning("%s: change of the cells refused: %s", notebook.uri, reason)
        notebook.doubtful = True

    def _doubt_texts(self, notebook: _Notebook) -> None:
        """An unreadable change may have been one of any cell's text."""
        for cell in notebook.cells:
            document = self._store.get(cell.uri)
            if document is not None:
                document.doubt("its notebook's change cannot be read")

    def _forget(self, uri: str) -> None:
        notebook = self._notebooks.pop(identity(uri), None)
        if notebook is not None:
            self._close(cell.uri for cell in notebook.cells)

    def _open(self, texts: Iterable[CellText]) -> None:
        for text in texts:
            self._store.open(*text)

    def _close(self, uris: Iterable[str]) -> None:
        for uri in uris:
            self._store.close(uri)


def _home(uri: str) -> str | None:
    """Return the identity of the notebook that a cell's URI names."""
    notebook = notebook_of(uri)
    return None if notebook is None else identity(notebook)

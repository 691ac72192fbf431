"""Notebooks: the order of cells through every change, and texts that follow their own versions."""

from __future__ import annotations

import logging
import random
from types import SimpleNamespace

import pytest
from lsprotocol import types

from lsp_server.documents.notebooks import Notebooks
from lsp_server.documents.store import DocumentStore

BOOK = "file:///w/n.ipynb"
CODE, MARKUP = types.NotebookCellKind.Code, types.NotebookCellKind.Markup


def uri(name):
    return f"vscode-notebook-cell:/w/n.ipynb#{name}"


def cell(name, kind=CODE):
    return types.NotebookCell(kind, uri(name), execution_summary=types.ExecutionSummary(1, success=True))


def item(name, language="python"):
    return types.TextDocumentItem(uri(name), language, 1, f"text of {name}")


def identifier(name):
    return types.TextDocumentIdentifier(uri(name))


def insertion(text):
    start = types.Position(0, 0)
    return types.TextDocumentContentChangePartial(types.Range(start, start), text)


def opening(names, book=BOOK):
    document = types.NotebookDocument(book, "jupyter-notebook", 1, [cell(name) for name in names])
    return types.DidOpenNotebookDocumentParams(document, [item(name) for name in names])


def changing(version, book=BOOK, **cells):
    event = types.NotebookDocumentChangeEvent(cells=types.NotebookDocumentCellChanges(**cells))
    return types.DidChangeNotebookDocumentParams(types.VersionedNotebookDocumentIdentifier(version, book), event)


def splice(version, start, removed, names=(), opened=(), closed=()):
    array = types.NotebookCellArrayChange(start, removed, [cell(name) for name in names])
    structure = types.NotebookDocumentCellChangeStructure(
        array, [item(name) for name in opened], [identifier(name) for name in closed]
    )
    return changing(version, structure=structure)


def typing(version, name, text_version, text):
    document = types.VersionedTextDocumentIdentifier(text_version, uri(name))
    return changing(version, text_content=[types.NotebookDocumentCellContentChanges(document, [insertion(text)])])


def notebooks(names="abc"):
    store = DocumentStore()
    books = Notebooks(store)
    books.opened(opening(names))
    return store, books


def names(documents):
    return "".join(document.uri.partition("#")[2] for document in documents)


def around(books, name):
    before, after = books.siblings(uri(name))
    return names(before), names(after)


def everything(store):
    return sorted(names(store.recent()))


def test_cells_are_documents_in_order():
    """B54: each cell is a document of its own and knows those before and after it; the notebook itself is none."""
    store, books = notebooks()
    assert [around(books, name) for name in "abc"] == [("", "bc"), ("a", "c"), ("ab", "")]
    assert store.get(uri("b")).text == "text of b"
    assert store.get(BOOK) is None


def test_cells_are_inserted_and_deleted():
    """B54: inserted cells take their place; deleted ones vanish, from the store too."""
    store, books = notebooks()
    books.changed(splice(2, 1, 0, "d", opened="d"))
    assert around(books, "d") == ("a", "bc")
    books.changed(splice(3, 0, 2, closed="ad"))
    assert around(books, "b") == ("", "c")
    assert everything(store) == ["b", "c"]
    assert around(books, "a") == ("", "")


def test_cells_are_reordered():
    """B54: a move replaces cells by themselves in another order; their texts stay, edits and all."""
    store, books = notebooks("abcd")
    books.changed(typing(1, "b", 2, "new "))
    moved = store.get(uri("b"))
    books.changed(splice(2, 0, 3, "bca"))
    assert around(books, "c") == ("b", "ad")
    assert store.get(uri("b")) is moved
    assert moved.text == "new text of b"
    assert everything(store) == ["a", "b", "c", "d"]


def test_a_cell_that_the_notebook_does_not_list_has_no_neighbours():
    """B54: of a notebook that is synchronised only the listed cells are neighbours, whatever else is opened."""
    store, books = notebooks()
    store.open(uri("d"), "python", 1, "")
    assert around(books, "d") == ("", "")
    assert around(books, "c") == ("ab", "")


def test_deleted_cells_vanish_even_when_the_client_does_not_close_them():
    """B54: what is no longer in the list of cells is no context for anything."""
    store, books = notebooks()
    books.changed(splice(2, 1, 1))
    assert everything(store) == ["a", "c"]


def test_a_cell_of_another_language_is_opened_anew():
    """B54: changing a cell's language closes and opens it in one notification, and it stays."""
    store, books = notebooks()
    array = types.NotebookCellArrayChange(1, 1, [cell("b", MARKUP)])
    structure = types.NotebookDocumentCellChangeStructure(array, [item("b", "markdown")], [identifier("b")])
    books.changed(changing(2, structure=structure))
    assert store.get(uri("b")).language == "markdown"
    assert around(books, "b") == ("a", "c")


def test_what_cells_are_is_nothing_to_us():
    """B54: a cell's kind and what it was executed to may change in place; order and texts stay, the version counts."""
    store, books = notebooks()
    books.changed(changing(2, data=[cell("b", MARKUP), cell("unknown")]))
    assert around(books, "b") == ("a", "c")
    assert everything(store) == ["a", "b", "c"]
    books.changed(splice(2, 0, 1))  # not newer than that
    assert around(books, "b") == ("", "")


def test_texts_have_their_own_versions():
    """B09, B54: a text change need not raise the notebook's version; an old one makes only its own cell doubtful."""
    store, books = notebooks()
    books.changed(typing(1, "a", 2, "1"))
    books.changed(typing(1, "a", 3, "2"))
    assert store.get(uri("a")).text == "21text of a"
    books.changed(typing(5, "a", 3, "3"))
    books.changed(typing(4, "b", 2, "4"))
    assert [store.get(uri(name)).doubtful for name in "abc"] == [True, False, False]
    assert store.get(uri("a")).text == "21text of a"
    assert store.get(uri("b")).text == "4text of b"
    assert around(books, "b") == ("a", "c")


@pytest.mark.parametrize(
    "change",
    [splice(1, 0, 1, closed="a"), splice(0, 0, 0, "d", opened="d")],
    ids=["same version", "older version"],
)
def test_old_structure_is_refused(change, caplog):
    """B09, B54: an old or repeated change of the list changes nothing; its order is unknown until it is reopened."""
    store, books = notebooks()
    books.changed(change)
    assert everything(store) == ["a", "b", "c"]
    assert [around(books, name) for name in "abc"] == [("", "")] * 3
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert not store.get(uri("a")).doubtful
    books.opened(opening("abc"))
    assert around(books, "b") == ("a", "c")


@pytest.mark.parametrize(
    "change",
    [splice(2, 4, 0, "d", opened="d"), splice(2, 2, 2, "d", opened="d"), splice(2, 0, 0, "db", opened="d")],
    ids=["starts past the end", "removes too much", "cell twice"],
)
def test_structure_that_does_not_fit_makes_the_order_doubtful(change):
    """B54: a change that fits another list of cells than ours leaves no neighbours, but cells still come and go."""
    store, books = notebooks()
    books.changed(change)
    assert around(books, "b") == ("", "")
    assert "d" in everything(store)
    books.changed(splice(3, 0, 1, closed="a"))
    assert "a" not in everything(store)
    books.changed(typing(3, "d", 2, "new "))
    assert store.get(uri("d")).text == "new text of d"
    books.closed(types.DidCloseNotebookDocumentParams(types.NotebookDocumentIdentifier(BOOK), []))
    assert everything(store) == []


def test_closing_a_notebook_closes_its_cells():
    """B54: after the notebook is closed none of its cells is left, named in the notification or not."""
    store, books = notebooks()
    store.open("file:///w/a.py", "python", 1, "other")
    params = types.DidCloseNotebookDocumentParams(types.NotebookDocumentIdentifier("file:///w/%6E.ipynb"), [])
    books.closed(params)
    assert [document.uri for document in store.recent()] == ["file:///w/a.py"]
    books.closed(params)
    books.changed(typing(2, "a", 2, "x"))
    assert around(books, "b") == ("", "")


def test_reopening_a_notebook_replaces_it():
    """B54: a notebook opened again has the cells it was opened with, and no others."""
    store, books = notebooks("abc")
    books.opened(opening("bd", "file:/w/n.ipynb"))
    assert everything(store) == ["b", "d"]
    assert around(books, "d") == ("b", "")


def test_notebooks_do_not_mix():
    """B54: cells of another notebook are no neighbours."""
    store, books = notebooks("ab")
    other = [types.NotebookCell(CODE, f"untitled:cell{number}") for number in range(2)]
    document = types.NotebookDocument("untitled:Book-1", "jupyter-notebook", 1, other)
    texts = [types.TextDocumentItem(cell.document, "python", 1, "") for cell in other]
    books.opened(types.DidOpenNotebookDocumentParams(document, texts))
    assert around(books, "a") == ("", "b")
    assert [found.uri for found in books.siblings("untitled:cell0")[1]] == ["untitled:cell1"]
    assert store.get("untitled:Book-1") is None


def test_cells_opened_as_plain_documents():
    """B54: without notebook synchronisation the cells of one notebook are neighbours in the order of opening."""
    store = DocumentStore()
    books = Notebooks(store)
    store.open(uri("W0"), "python", 1, "import numpy as np")
    store.open("vscode-notebook-cell:/w/other.ipynb#W0", "python", 1, "other")
    store.open(BOOK, "json", 1, "{}")
    store.open(uri("W1"), "markdown", 1, "# Title")
    store.open("vscode-notebook-cell:/w/%6E.ipynb#W2", "python", 1, "np.")
    store.touch(uri("W0"))
    assert around(books, "W1") == ("W0", "W2")
    assert around(books, "W2") == ("W0W1", "")
    store.close(uri("W1"))
    assert around(books, "W2") == ("W0", "")
    assert around(books, "W1") == ("", "")
    assert books.siblings(BOOK) == ([], [])


def test_random_changes_keep_the_order():
    """B54: after any run of insertions, deletions and moves the order is that of a plain list."""
    rng = random.Random(54)
    store, books = notebooks("")
    order, next_name = [], 0
    for version in range(2, 400):
        start = rng.randint(0, len(order))
        end = min(len(order), start + rng.randint(0, 3))
        old = order[start:end]
        kept = rng.sample(old, rng.randint(0, len(old)))
        new = [f"<{number}>" for number in range(next_name, next_name + rng.randint(0, 2))]
        next_name += len(new)
        cells = rng.sample(kept + new, len(kept + new))
        order[start:end] = cells
        books.changed(splice(version, start, end - start, cells, new, [name for name in old if name not in kept]))
        assert {document.uri for document in store.recent()} == set(map(uri, order))
        for place, name in enumerate(order):
            assert around(books, name) == ("".join(order[:place]), "".join(order[place + 1 :]))


def test_malformed_notifications_never_raise():
    """B54: nothing that can be sent raises; what cannot be read makes the notebook and its cells doubtful."""
    version = SimpleNamespace(uri=BOOK, version=2)
    bad_changes = [
        None,
        SimpleNamespace(cells=7),
        SimpleNamespace(cells=SimpleNamespace(structure=7, data=None, text_content=None)),
        SimpleNamespace(cells=SimpleNamespace(structure=None, data=[None], text_content=None)),
        SimpleNamespace(cells=SimpleNamespace(structure=None, data=None, text_content=[7])),
        SimpleNamespace(
            cells=SimpleNamespace(
                structure=SimpleNamespace(
                    array=SimpleNamespace(start="0", delete_count=0, cells=[]), did_open=None, did_close=None
                ),
                data=None,
                text_content=None,
            )
        ),
    ]
    for change in bad_changes:
        store, books = notebooks()
        books.changed(SimpleNamespace(notebook_document=version, change=change))
        assert around(books, "b") == ("", "")
        assert all(document.doubtful for document in store.recent())
        assert everything(store) == ["a", "b", "c"]
    store, books = notebooks()
    for params in (None, SimpleNamespace(notebook_document=SimpleNamespace(uri=None)), SimpleNamespace()):
        books.opened(params)
        books.changed(params)
        books.closed(params)
    for cells, texts in [(None, []), ([cell("x")], [None]), ([SimpleNamespace(document=7, kind=CODE)], [])]:
        book = SimpleNamespace(uri=BOOK, version=1, cells=cells)
        books.opened(SimpleNamespace(notebook_document=book, cell_text_documents=texts))
    assert around(books, "b") == ("a", "c")


def test_a_change_with_bad_edits_makes_only_that_cell_doubtful():
    """B09, B54: edits are judged by the cell's document."""
    store, books = notebooks()
    document = SimpleNamespace(uri=uri("b"), version=2)
    edits = [SimpleNamespace(document=document, changes=[None])]
    cells = SimpleNamespace(structure=None, data=None, text_content=edits)
    books.changed(
        SimpleNamespace(notebook_document=SimpleNamespace(uri=BOOK, version=2), change=SimpleNamespace(cells=cells))
    )
    assert [store.get(uri(name)).doubtful for name in "abc"] == [False, True, False]
    assert around(books, "b") == ("a", "c")


def test_changes_of_metadata_alone():
    """B54: a notebook's own metadata changes nothing but its version."""
    _, books = notebooks()
    identity = types.VersionedNotebookDocumentIdentifier(2, BOOK)
    books.changed(types.DidChangeNotebookDocumentParams(identity, types.NotebookDocumentChangeEvent(metadata={})))
    assert around(books, "b") == ("a", "c")
    books.changed(splice(3, 0, 1, closed="a"))
    assert around(books, "b") == ("", "c")

"""What goes over the wire for a suggestion: ranges in the client's columns, breaks of the document, the popup's row."""

from __future__ import annotations

import pytest
from lsprotocol import types

from lsp_server.documents.positions import width
from lsp_server.items import Target, completion_item, inline_item
from lsp_server.place import Place, Suggestion


def place(before: str, after: str = "", language: str = "python") -> Place:
    line = before.rpartition("\n")[2]
    return Place("doc", language, before, after, before.count("\n"), len(line))


def target(at: Place, encoding="utf-16", line_break: str = "\n") -> Target:
    line = at.line_before + at.line_after
    return Target("file:///a.py", line_break, lambda column: width(line[:column], encoding))


def span(line: int, start: int, end: int) -> types.Range:
    return types.Range(types.Position(line, start), types.Position(line, end))


def test_the_range_begins_with_the_word():
    """The typed part of the word is in the range and in the text, so that one more letter still matches (B22)."""
    at = place("x = 1\nfoob")
    item = inline_item(at, Suggestion("ar"), target(at))
    assert (item.insert_text, item.filter_text, item.range) == ("foobar", "foobar", span(1, 0, 4))


def test_the_range_ends_with_what_is_replaced():
    """Closers that the editor has put right of the cursor and the text replaces are in the range alone (B27, B35)."""
    at = place("foo(", ", b)")
    assert inline_item(at, Suggestion("a"), target(at)).range == span(0, 4, 4)
    at = place("foo(", ")")
    assert inline_item(at, Suggestion("a)", replaces=1), target(at)).range == span(0, 4, 5)


@pytest.mark.parametrize(("encoding", "start", "end"), [("utf-8", 15, 18), ("utf-16", 13, 15), ("utf-32", 12, 14)])
def test_columns_are_the_clients(encoding, start, end):
    """An emoji and an accented letter left of the cursor count in the negotiated unit (B03)."""
    at = place('print("🙂" + né')
    assert inline_item(at, Suggestion("e"), target(at, encoding)).range == span(0, start, end)


def test_line_breaks_are_the_documents():
    """Inserted breaks match a CRLF file (B07)."""
    at = place("def f():\n    ")
    item = inline_item(at, Suggestion("a = 1\n    return a"), target(at, line_break="\r\n"))
    assert item.insert_text == "a = 1\r\n    return a"


def test_a_popups_choice_keeps_its_range():
    """With a selected popup item the text begins with it and the range is the popup's own (B27)."""
    at = place("text.format")  # as if the choice had been taken
    popup = types.SelectedCompletionInfo(span(0, 5, 6), "format")
    item = inline_item(at, Suggestion("(x)"), target(at), popup)
    assert (item.insert_text, item.range) == ("format(x)", span(0, 5, 6))
    assert item.command.arguments == [{"uri": "file:///a.py", "characters": 3}]


def test_a_row_of_the_popup():
    """The row comes first as it is, filters by the typed word, and shows the whole block in a fence that holds."""
    at = place("def f():\n    ret", language="python")
    row = completion_item(at, Suggestion('urn """\n```\n"""'), target(at))
    assert row.label == 'return """ …'
    assert (row.filter_text, row.preselect, row.sort_text) == ("ret", True, "\0")
    assert row.insert_text_mode is types.InsertTextMode.AsIs
    assert row.insert_text_format is types.InsertTextFormat.PlainText
    assert row.text_edit == types.TextEdit(span(1, 4, 7), 'return """\n```\n"""')
    assert row.documentation.value.startswith("````python\nreturn")
    assert row.documentation.value.endswith("\n````")


def test_a_long_row_is_cut():
    """A label longer than a popup's row ends in a mark of omission."""
    at = place("")
    row = completion_item(at, Suggestion("x" * 200), target(at))
    assert len(row.label) == 80
    assert row.label.endswith("…")

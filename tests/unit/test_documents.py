"""The mirror of the client's documents: edits, positions, versions, excerpts, recordings of real work."""

from __future__ import annotations

import gzip
import json
import logging
from itertools import accumulate
from types import SimpleNamespace

import pytest
from lsprotocol import types

from lsp_server.documents.store import DocumentStore

URI = "file:///w/a.py"
UNITS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


def insert(line, column, text):
    return edit(line, column, line, column, text)


def edit(line, column, end_line, end_column, text=""):
    span = types.Range(types.Position(line, column), types.Position(end_line, end_column))
    return types.TextDocumentContentChangePartial(span, text)


def whole(text):
    return types.TextDocumentContentChangeWholeDocument(text)


def opened(text, encoding="utf-16"):
    store = DocumentStore(encoding)
    return store, store.open(URI, "python", 1, text)


def units(text, encoding):
    codec, size = UNITS[encoding]
    return len(text.encode(codec)) // size


def sides(excerpt):
    return excerpt.text[: excerpt.cursor], excerpt.text[excerpt.cursor :]


# Positions


def test_edits_after_an_emoji():
    """B01: columns after an emoji count it as the client does."""
    store, document = opened('face = "🦊"')
    store.change(URI, 2, [insert(0, 11, ".")])
    store.change(URI, 3, [insert(0, 10, "x")])
    assert document.text == 'face = "🦊x".'
    assert sides(document.excerpt(0, 10, 100)) == ('face = "🦊', 'x".')


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 2), ("utf-16", 1), ("utf-32", 1)])
def test_edits_after_an_accent_in_each_encoding(encoding, column):
    """B02: an edit lands where the client means it in the encoding agreed upon."""
    store, document = opened("öbc", encoding)
    store.change(URI, 2, [insert(0, column, "a")])
    assert document.text == "öabc"
    assert document.excerpt(0, units("öabc", encoding), 100).cursor == 4


@pytest.mark.parametrize("encoding", UNITS)
@pytest.mark.parametrize("text", ['print("Київ — né', "x\n\ufeff🦊\r\né", "\ufeffnаïve 🦊 = 1\nb"])
def test_columns_go_back_to_the_client(text, encoding):
    """B03, B13: an excerpt's column is turned back into the column that the client asked at, within the line."""
    _, document = opened(text, encoding)
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n")):
        for offset in range(line.startswith("\ufeff") and number == 0, len(line) + 1):
            column = units(line[:offset], encoding)
            assert document.client_column(number, document.excerpt(number, column, 100).column) == column
        assert document.client_column(number, 10**9) == units(line, encoding)
    assert document.client_column(-1, -1) == units("\ufeff", encoding) * text.startswith("\ufeff")
    assert document.client_column(10**9, 10**9) == units(text.split("\n")[-1], encoding)


@pytest.mark.parametrize("mark", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_only_the_protocols_line_breaks_end_a_line(mark):
    r"""B04: what Python's `splitlines` takes for a line break, and the protocol does not, ends no line."""
    store, document = opened(f"a = 1\n{mark}b = 2\nc = 3\n")
    store.change(URI, 2, [insert(2, 0, "# ")])
    assert document.text == f"a = 1\n{mark}b = 2\n# c = 3\n"
    assert document.line_count == 4
    assert document.line(1) == f"{mark}b = 2"


@pytest.mark.parametrize(
    ("span", "left"),
    [
        ((0, 5, 0, 6), "hello\nworld\n"),
        ((0, 5, 0, 999), "hello\nworld\n"),
        ((0, 999, 1, 0), "helloworld\n"),
        ((0, 4, 0, 2**31 - 1), "hell\nworld\n"),
        ((1, 5, 1, 6), "hello\nworld\n"),
        ((2, 7, 9, 0), "hello\nworld\n"),
        ((1, 2, 2**31 - 1, 2**31 - 1), "hello\nwo"),
        ((1, 2, 0, 3), "helrld\n"),
        ((9, 9, 0, 1), "h"),
    ],
)
@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
def test_positions_are_clamped(span, left, line_break):
    """B06: a column past the end is the line's end, before its line break; a line past the end is the text's end."""
    store, document = opened("hello\nworld\n".replace("\n", line_break))
    store.change(URI, 2, [edit(*span)])
    assert document.text == left.replace("\n", line_break)
    assert not document.doubtful


def test_no_position_raises():
    """B06: negative and huge numbers are answered like the nearest position."""
    _, document = opened("a\n\nbc")
    for line in (-(2**70), -1, 0, 2, 3, 2**70):
        for column in (-(2**70), -1, 0, 2**70):
            before, after = sides(document.excerpt(line, column, 10))
            assert before + after == "a\n\nbc"
            assert document.line(line) == {0: "a", 2: "bc"}.get(line, "")
    assert sides(document.excerpt(-5, 7, 10)) == ("", "a\n\nbc")
    assert sides(document.excerpt(2**70, 0, 10)) == ("a\n\nbc", "")
    assert document.excerpt(2**70, 0, 10).line == 2


def test_a_position_that_does_not_exist_yet():
    """B10: a request may come before the change that its position needs; one can tell, and nothing raises."""
    store, document = opened("foo\r\n🦊")
    assert document.has_position(0, 3)
    assert document.has_position(1, 2)
    assert not any(
        document.has_position(*place) for place in [(0, 4), (1, 3), (2, 0), (-1, 0), (0, -1), (2**70, 2**70)]
    )
    assert sides(document.excerpt(0, 4, 10)) == ("foo", "\n🦊")
    store.change(URI, 2, [insert(0, 3, ".")])
    assert document.has_position(0, 4)


@pytest.mark.parametrize("encoding", UNITS)
def test_a_position_inside_a_character_is_its_start(encoding):
    """B12: no position goes through a character."""
    store, document = opened("a🦊b", encoding)
    store.change(URI, 2, [insert(0, 2, "|"), insert(0, 2 if encoding == "utf-32" else 3, "|")])
    assert document.text.replace("|", "") == "a🦊b"
    assert document.text.index("|") in (1, 2)


# Line breaks


def test_a_crlf_document_reads_like_its_lf_twin():
    """B07: excerpts of a CRLF file are those of its LF twin, and its own line break is known."""
    text = "def f(x):\n    \n\nprint(f(1))\n"
    _, document = opened(text.replace("\n", "\r\n"))
    _, twin = opened(text)
    assert (document.line_break, twin.line_break) == ("\r\n", "\n")
    for radius in (0, 1, 5, 10, 1000):
        for line, column in [(0, 0), (1, 4), (1, 99), (3, 2), (4, 0)]:
            assert document.excerpt(line, column, radius) == twin.excerpt(line, column, radius)
    assert document.full_text() == twin.full_text() == twin.text
    assert document.size == twin.size == len(text)


@pytest.mark.parametrize(
    ("text", "line_break"),
    [("", "\n"), ("a", "\n"), ("a\rb\rc\n", "\r"), ("a\r\nb\nc\nd", "\n"), ("a\r\nb\r\nc\n", "\r\n"), ("\n\r", "\n")],
)
def test_the_line_break_most_lines_have(text, line_break):
    """B07: a document of mixed line breaks is given the one that prevails."""
    assert opened(text)[1].line_break == line_break


def test_line_breaks_that_meet_and_part():
    r"""B04, B12: a `\r` and a `\n` that an edit brings together are one line break; parted, they are two."""
    store, document = opened("a\rb\nc")
    store.change(URI, 2, [edit(1, 0, 1, 1)])
    assert (document.text, document.line_count, document.line_break) == ("a\r\nc", 2, "\r\n")
    store.change(URI, 3, [insert(0, 1, "\r")])
    assert (document.text, document.line_count) == ("a\r\r\nc", 3)
    store.change(URI, 4, [edit(0, 1, 2, 0, "\r"), insert(1, 0, "x\n")])
    assert (document.text, document.line_count) == ("a\rx\nc", 3)
    store.change(URI, 5, [insert(1, 0, "\n")])
    assert (document.text, document.line_count, document.line(1)) == ("a\r\nx\nc", 3, "x")


def test_halves_of_a_character_that_meet():
    """B16: an emoji whose halves come in two edits is one character; a half alone is never handed on."""
    store, document = opened("ab")
    store.change(URI, 2, [insert(0, 1, "\ud83e")])
    assert document.full_text() == "a\ufffdb"
    assert document.excerpt(0, 2, 10).text == "a\ufffdb"
    store.change(URI, 3, [insert(0, 2, "\udd8a")])
    assert document.full_text() == "a🦊b"
    assert document.has_position(0, 4)
    assert not document.has_position(0, 5)


def test_a_byte_order_mark_is_not_text():
    """B13: a leading mark counts in positions as the client counts it, and never shows in what is read."""
    store, document = opened("\ufeffimport os\n")
    assert document.full_text() == "import os\n"
    assert (document.size, document.line(0)) == (10, "\ufeffimport os")
    for column, before in [(0, ""), (1, ""), (3, "im"), (99, "import os")]:
        excerpt = document.excerpt(0, column, 100)
        assert sides(excerpt) == (before, "import os\n"[len(before) :])
        assert excerpt.column == len(before)
    store.change(URI, 2, [insert(0, 10, ", re")])
    assert document.full_text() == "import os, re\n"
    store.change(URI, 3, [insert(0, 0, "#")])
    assert document.full_text() == "#\ufeffimport os, re\n"
    store.change(URI, 4, [edit(0, 0, 0, 1)])
    assert document.full_text() == "import os, re\n"


# Versions


def test_old_and_repeated_versions_are_refused(caplog):
    """B09: an older or repeated version changes nothing but makes the document doubtful, which is logged once."""
    store, document = opened("x = 1\n")
    store.change(URI, 3, [insert(0, 5, "3")])
    assert (document.text, document.version, document.doubtful) == ("x = 13\n", 3, False)
    for version in (2, 3, -1):
        assert store.change(URI, version, [insert(0, 5, "2")]) is document
        assert (document.text, document.version, document.doubtful) == ("x = 13\n", 3, True)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_full_text_ends_doubt():
    """B09: edits do not end doubt, nor does an old full text; a newer one does, and edits after it count again."""
    store, document = opened("x = 1\n")
    store.change(URI, 1, [])
    store.change(URI, 5, [insert(0, 0, "#")])
    assert (document.text, document.version, document.doubtful) == ("x = 1\n", 5, True)
    for version in (4, 5):
        store.change(URI, version, [whole("old")])
        assert (document.text, document.doubtful) == ("x = 1\n", True)
    store.change(URI, 6, [insert(7, 7, "lost"), whole("lost"), whole("y\n"), insert(0, 1, "!")])
    assert (document.text, document.version, document.doubtful) == ("y!\n", 6, False)
    store.change(URI, 9, [insert(0, 0, "?")])
    assert document.text == "?y!\n"


def test_reopening_ends_doubt():
    """B09: a document that is opened again is as the client says, whatever its version was."""
    store, document = opened("x = 1\n")
    store.change(URI, 0, [])
    assert document.doubtful
    again = store.open("file:///w/%61.py", "python", 0, "y\n")
    assert (again.text, again.doubtful, again.version) == ("y\n", False, 0)
    assert store.recent() == [again]
    assert store.change(URI, 1, [insert(0, 0, "z")]).text == "zy\n"


POSITION = SimpleNamespace(line=0, character=0)
MALFORMED = {
    "not a list": None,
    "no event": [None],
    "no text": [SimpleNamespace(range=None)],
    "text is no text": [SimpleNamespace(range=None, text=7)],
    "no end": [SimpleNamespace(range=SimpleNamespace(start=POSITION), text="")],
    "half a range": [SimpleNamespace(range=SimpleNamespace(start=POSITION, end=None), text="")],
    "line is text": [
        SimpleNamespace(range=SimpleNamespace(start=SimpleNamespace(line="0", character=0), end=POSITION), text="")
    ],
    "line is a truth value": [
        SimpleNamespace(range=SimpleNamespace(start=POSITION, end=SimpleNamespace(line=True, character=0)), text="")
    ],
    "column is a fraction": [
        SimpleNamespace(range=SimpleNamespace(start=POSITION, end=SimpleNamespace(line=0, character=0.5)), text="")
    ],
}


@pytest.mark.parametrize("changes", MALFORMED.values(), ids=MALFORMED)
def test_malformed_changes_make_a_document_doubtful(changes):
    """B09: a change that cannot be read never raises, nor is any other of its batch applied."""
    store, document = opened("x = 1\n")
    batch = changes if changes is None else [insert(0, 0, "a"), *changes, insert(0, 0, "b")]
    store.change(URI, 2, batch)
    assert (document.text, document.version, document.doubtful) == ("x = 1\n", 2, True)
    store.change(URI, 3, [whole("y")])
    assert (document.text, document.doubtful) == ("y", False)


@pytest.mark.parametrize("version", [None, "2", 2.5, True])
def test_versions_that_are_no_numbers_are_refused(version):
    """B09: what cannot be compared cannot be newer."""
    store, document = opened("x")
    store.change(URI, version, [insert(0, 0, "a")])
    assert (document.text, document.version, document.doubtful) == ("x", 1, True)


def test_negative_positions_are_clamped_in_changes():
    """B06: a client that counts below zero is taken at its word's nearest sense."""
    store, document = opened("abc\ndef")
    negative = SimpleNamespace(line=-1, character=-7)
    end = SimpleNamespace(line=0, character=1)
    store.change(URI, 2, [SimpleNamespace(range=SimpleNamespace(start=negative, end=end), text="X")])
    assert (document.text, document.doubtful) == ("Xbc\ndef", False)


# The store


def test_an_unknown_document(caplog):
    """B28: changes and closings of what is not open are noted and change nothing."""
    caplog.set_level(logging.INFO)
    store = DocumentStore()
    assert store.change(URI, 2, [whole("secret")]) is None
    assert store.close(URI) is None
    assert store.get(URI) is None
    store.touch(URI)
    assert store.recent() == []
    assert "secret" not in caplog.text
    assert URI in caplog.text


def test_texts_are_never_logged(caplog):
    """Refusing a change logs the document and the reason, never what was in it."""
    caplog.set_level(logging.DEBUG)
    store, _ = opened("secret-1\n")
    store.change(URI, 1, [insert(0, 0, "secret-2")])
    store.change(URI, 2, [SimpleNamespace(text=b"secret-3")])
    assert len(caplog.records) == 2
    assert "secret" not in caplog.text


def test_documents_by_recency():
    """The document opened, changed or touched last comes first; closed ones are gone; the order of opening is kept."""
    store = DocumentStore()
    uris = [f"file:///w/{name}.py" for name in "abcd"]
    documents = [store.open(uri, "python", 1, "") for uri in uris]
    a, b, c, d = documents
    assert store.recent() == [d, c, b, a]
    store.touch(uris[1])
    store.change(uris[0], 2, [whole("a")])
    assert store.recent() == [a, b, d, c]
    assert store.close(uris[1]) is b
    assert store.recent() == [a, d, c]
    assert store.in_opening_order() == [a, c, d]


def test_every_spelling_finds_the_document():
    """B55: a document is found by any spelling of its URI, and keeps the one that it was opened with."""
    store = DocumentStore()
    document = store.open("file:///w/a%20b.py", types.LanguageKind.Python, 1, "x")
    assert (document.uri, document.language) == ("file:///w/a%20b.py", "python")
    assert store.get("file:///w/a b.py") is document
    assert store.change("file:///w/a b.py", 2, [whole("y")]) is document
    assert store.get("file:///w/a%2520b.py") is None
    assert store.close("file:/w/a b.py") is document
    assert store.recent() == []


def test_untitled_documents_are_served_from_what_was_opened(tmp_path, monkeypatch):
    """B53: an unsaved buffer never becomes the file of that name in the working folder, open or closed."""
    (tmp_path / "Untitled-1").write_text("SECRET")
    monkeypatch.chdir(tmp_path)
    store = DocumentStore()
    document = store.open("untitled:Untitled-1", "python", 1, "x")
    assert (document.text, document.uri) == ("x", "untitled:Untitled-1")
    store.close("untitled:Untitled-1")
    assert store.get("untitled:Untitled-1") is None


def test_the_encoding_counts_for_documents_opened_after_it_was_agreed():
    """B02: the encoding is known after `initialize`, before the first document."""
    store = DocumentStore()
    store.encoding = "utf-8"
    assert store.open(URI, "python", 1, "öbc").has_position(0, 4)


def test_texts_are_made_once_for_a_version():
    """Asking for the text again without a change in between costs nothing."""
    store, document = opened("a\r\n" * 9)
    full, text = document.full_text(), document.text
    assert document.full_text() is full
    assert document.text is text
    store.change(URI, 2, [insert(0, 0, "b")])
    assert (document.full_text(), document.text) == ("b" + full, "b" + text)


# Excerpts

CLUSTERS = ["λ", "(", "μ", "👩\u200d👩\u200d👧", "e\u0301\u0323", "🇫🇷", "🇩🇪", "🇯🇵", "☎\ufe0f", "✊🏿"]
CLUSTERS += ["1\ufe0f\u20e3", "क्ष", "한", "\u1112\u1161\u11ab", "🏴\U000e0067\U000e0062\U000e007f"]
CLUSTERS += ["กำ", "ｶﾞ", " ", "中", "x"]


@pytest.mark.parametrize(
    "clusters", [CLUSTERS, ["🇫🇷"] * 40, ["x", "👩\u200d👩\u200d👧"] * 10, ["e" + "\u0301" * 50] * 3]
)
def test_cuts_never_go_through_a_character(clusters):
    """B12: at any radius an over-long line is cut between what a person sees as characters."""
    line = "".join(clusters)
    edges = [0, *accumulate(map(len, clusters))]
    _, document = opened(line, "utf-32")
    for radius in range(41):
        for cursor in edges:
            excerpt = document.excerpt(0, cursor, radius)
            start = cursor - excerpt.cursor
            assert line[start : start + len(excerpt.text)] == excerpt.text
            assert {start, start + len(excerpt.text)} <= set(edges)
            assert excerpt.cursor <= radius
            assert len(excerpt.text) - excerpt.cursor <= radius
            assert (excerpt.line, excerpt.column) == (0, cursor)


def test_a_very_long_line_of_flags_is_cut_between_flags():
    """B12: where flags begin out of sight nobody knows which letters pair up, so the cut goes past them."""
    line = "x" + "🇫🇷" * 3000 + "y" * 500
    _, document = opened(line, "utf-32")
    for cursor in range(6001, 6101):
        before, _ = sides(document.excerpt(0, cursor, 400))
        assert before == "y" * (cursor - 6001)
    for cursor in range(3, 1001, 2):
        excerpt = document.excerpt(0, cursor, 400)
        assert len(excerpt.text[excerpt.cursor :]) % 2 == 0
    _, document = opened("x" + "🇫🇷" * 3000 + "\u0301" + "y" * 500, "utf-32")
    for cursor in range(5001, 6001, 2):
        _, after = sides(document.excerpt(0, cursor, 400))
        assert not after or after.startswith("🇫🇷" * ((6001 - cursor) // 2) + "\u0301")


def test_small_radii_around_greek_and_crlf():
    """B12: context limits of 1 to 40 around Greek letters and CRLF never give half of anything."""
    text = 'a = 1\r\nplt.xlabel("λ (μm)")\r\nb = 2\r\n'
    _, document = opened(text)
    plain = text.replace("\r\n", "\n")
    for radius in range(1, 41):
        for line, content in enumerate(plain.split("\n")):
            for column in range(len(content) + 3):
                excerpt = document.excerpt(line, column, radius)
                start = plain.index(content, 1 if line == 3 else 0) + min(column, len(content)) - excerpt.cursor
                assert line == 3 or plain[start:].startswith(excerpt.text)
                assert "\r" not in excerpt.text


def test_a_document_within_the_radius_is_not_cut():
    """What fits is left whole, to the last character."""
    text = "a\n" * 50
    _, document = opened(text)
    assert document.excerpt(25, 0, 50).text == text
    assert document.excerpt(25, 0, 49).text != text
    assert sides(document.excerpt(25, 0, 0)) == ("", "")
    assert sides(document.excerpt(25, 0, -3)) == ("", "")


def test_excerpts_begin_and_end_at_line_starts():
    """B12: a document of ordinary lines is cut where lines begin, and most of the radius is used."""
    lines = [f"value_{number} = {number}\n" for number in range(5000)]
    _, document = opened("".join(lines))
    for line in (1500, 2000, 2503):
        before, after = sides(document.excerpt(line, 4, 2000))
        assert before.splitlines(keepends=True)[:-1] == lines[line - before.count("\n") : line]
        assert (lines[line][:4] + after).splitlines(keepends=True) == lines[line : line + after.count("\n")]
        assert 1500 <= len(before) <= 2000
        assert 1500 <= len(after) <= 2000


@pytest.mark.parametrize("text", ["value = 1\n" * 1000, "value = 1 " * 1000], ids=["lines", "one line"])
def test_typing_moves_excerpts_in_coarse_steps(text):
    """While somebody types 1,000 characters, the excerpt's start moves a few times and its end never."""
    store, document = opened(text)
    line, column = (500, 0) if "\n" in text else (0, 5000)
    starts, ends = set(), set()
    for count in range(1000):
        store.change(URI, count + 2, [insert(line, column + count, "x")])
        excerpt = document.excerpt(line, column + count + 1, 800)
        starts.add(5001 + count - excerpt.cursor)
        ends.add(excerpt.text[excerpt.cursor :])
    assert 8 <= len(starts) <= 12
    assert len(ends) == 1


@pytest.mark.parametrize("text", ["value = 1\n" * 1000, "value = 1 " * 1000], ids=["lines", "one line"])
def test_moving_the_cursor_moves_excerpts_in_coarse_steps(text):
    """Walking through 1,000 characters moves the excerpt's start and its end a few times each."""
    _, document = opened(text)
    starts, ends = set(), set()
    for offset in range(5000, 6000):
        excerpt = document.excerpt(*(divmod(offset, 10) if "\n" in text else (0, offset)), 800)
        starts.add(offset - excerpt.cursor)
        ends.add(offset - excerpt.cursor + len(excerpt.text))
    assert 8 <= len(starts) <= 12
    assert 8 <= len(ends) <= 12


# Large documents


@pytest.mark.parametrize("encoding", UNITS)
def test_large_documents_stay_exact(encoding):
    """B66: typing in the middle of 300,000 lines and at the end of a line of 1 MB is exact."""
    lines = [f"value_{number:06d} = {number % 97}" for number in range(300_000)]
    store, document = opened("\r\n".join(lines), encoding)
    for count in range(50):
        store.change(URI, count + 2, [insert(150_000, 5 + count, "x")])
    lines[150_000] = "value" + "x" * 50 + "_150000 = 38"
    assert document.line(150_000) == lines[150_000]
    assert document.text == "\r\n".join(lines)
    line = "ж🦊é" * 300_000
    document = store.open(URI, "python", 1, line)
    width = units(line, encoding)
    for count in range(50):
        store.change(URI, count + 2, [insert(0, width + count, "x")])
    assert document.has_position(0, width + 50)
    assert not document.has_position(0, width + 51)
    assert document.text == line + "x" * 50
    assert document.excerpt(0, width + 50, 100).column == 900_050


# Recordings


class Recorder:
    """The client of a recording: it knows the text as one plain string, and positions by counting in it."""

    def __init__(self, text, encodings=tuple(UNITS)):
        self.text = text
        self.version = 1
        self.mirrors = [(encoding, *opened(text, encoding)) for encoding in encodings]

    def positions(self, offset):
        """Return the position of an offset in each encoding; no recording has a lone carriage return."""
        start = self.text.rfind("\n", 0, offset) + 1
        line, head = self.text.count("\n", 0, offset), self.text[start:offset]
        if head.isascii():
            return [types.Position(line, len(head))] * len(self.mirrors)
        return [types.Position(line, units(head, encoding)) for encoding, _, _ in self.mirrors]

    def apply(self, patches):
        batches = [[] for _ in self.mirrors]
        for start, end, text in patches:
            first = self.positions(start)
            last = first if start == end else self.positions(end)
            for batch, *places in zip(batches, first, last, strict=True):
                batch.append(types.TextDocumentContentChangePartial(types.Range(*places), text))
            self.text = self.text[:start] + text + self.text[end:]
        self.version += 1
        for batch, (_, store, _) in zip(batches, self.mirrors, strict=True):
            store.change(URI, self.version, batch)

    def check(self):
        for _, _, document in self.mirrors:
            assert document.text == self.text
            assert not document.doubtful


@pytest.mark.parametrize("name", ["rustcode", "sveltecomponent", "json-crdt-patch"])
def test_typing_traces_are_mirrored_exactly(data, name):
    """B01, B04: whole files being written, key by key, end as they did for their author, in each encoding."""
    trace = json.loads(gzip.decompress((data / "typing-traces" / f"{name}.json.gz").read_bytes()))
    recorder = Recorder(trace["startContent"])
    for count, transaction in enumerate(trace["txns"]):
        recorder.apply((start, start + gone, text) for start, gone, text in transaction["patches"])
        if count % 2000 == 0:
            recorder.check()
    recorder.check()
    assert recorder.text == trace["endContent"]
    for _, _, document in recorder.mirrors:
        assert [document.line(number) for number in range(document.line_count)] == recorder.text.split("\n")


def replay(log):
    """Send a session's events; a change's edits refer to the text before it, so the last in the text goes first."""
    recorders = {}
    changes = 0
    for event in log:
        if event["kind"] == "setContent":
            recorders[event["id"]] = Recorder(event["content"])
        elif event["kind"] == "changed":
            changes += 1
            recorders[event["id"]].apply(sorted(event["edit"], reverse=True))
            recorders[event["id"]].check()
    return changes


def test_the_recorded_session_is_mirrored_exactly(data):
    """B07, B09: every state of every document of recorded work with an editor, some of it CRLF, is the editor's."""
    folder = data / "vscode-edit-session"
    session = gzip.decompress((folder / "session.jsonl.gz").read_bytes()).splitlines()
    assert replay(map(json.loads, session)) > 2000
    small = gzip.decompress((folder / "small-recordings.jsonl.gz").read_bytes()).splitlines()
    assert sum(replay(json.loads(recording)["log"]) for recording in small) > 100

"""Random edits against an oracle that keeps one plain string and counts characters one by one."""

from __future__ import annotations

import random
import re
from types import SimpleNamespace

import pytest

from lsp_server.documents import excerpts, pieces, sums
from lsp_server.documents.store import DocumentStore

URI = "untitled:fuzz"
BATCHES = 14_000  # of 2.5 edits at the mean, for each of three encodings: more than 100,000 edits
LONGEST = 200

WORDS = [
    "a",
    "b",
    " ",
    "\t",
    "x = 1",
    "\n",
    "\n",
    "\r",
    "\r",
    "\r\n",
    "\r\n",
    "\n\r",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x85",
    "\u2028",
]
WORDS += [
    "\ufeff",
    "é",
    "e\u0301",
    "中",
    "\u0bcd",
    "🦊",
    "🦊🦊",
    "👩\u200d👩\u200d👧",
    "🇫🇷",
    "✊🏿",
    "\U0010ffff",
    "\x00",
    "a\nb\r\nc\rd",
]
HALVES = ["\ud83e", "\udd8a", "\ud83e", "\udd8a"]
WIDTHS = {
    "utf-8": lambda character: len(character.encode("utf-8", "surrogatepass")),
    "utf-16": lambda character: 1 + (ord(character) > 0xFFFF),
    "utf-32": lambda character: 1,
}


class Oracle:
    """A text as one string; every answer is worked out anew from it."""

    def __init__(self, text, encoding):
        self.width = WIDTHS[encoding]
        self.set(text)

    def set(self, text):
        self.text = re.sub("[\ud800-\udbff][\udc00-\udfff]", join_halves, text)
        self.lines = re.split("\r\n|\n|\r", self.text)
        self.starts = [0, *(found.end() for found in re.finditer("\r\n|\n|\r", self.text))]

    def offset(self, line, column):
        if line < 0:
            return 0
        if line >= len(self.lines):
            return len(self.text)
        offset = self.starts[line]
        for character in self.lines[line]:
            column -= self.width(character)
            if column < 0:
                break
            offset += 1
        return offset

    def columns(self, line):
        return sum(map(self.width, self.lines[line]))

    def replace(self, start, end, text):
        first, last = sorted((self.offset(*start), self.offset(*end)))
        self.set(self.text[:first] + text + self.text[last:])

    def plain(self, end=None):
        text = self.text[:end].replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
        return re.sub("[\ud800-\udfff]", "\ufffd", text)

    def line_break(self):
        found = re.findall("\r\n|\n|\r", self.text)
        return max(("\n", "\r\n", "\r"), key=found.count)


def join_halves(pair):
    high, low = pair.group()
    return chr(0x10000 + ((ord(high) - 0xD800) << 10) + ord(low) - 0xDC00)


def random_text(rng, words, most):
    return "".join(rng.choice(words) for _ in range(rng.randint(0, most)))


def random_position(rng, oracle):
    """Mostly a place that exists, sometimes one just past a line or the text, sometimes an absurd one."""
    kind = rng.random()
    if kind < 0.03:
        return rng.choice([(-1, 3), (2**31, 0), (0, 2**31), (2**70, 2**70), (0, -5), (-(2**70), 0)])
    line = rng.randint(0, len(oracle.lines) - (kind < 0.9))
    widest = oracle.columns(line) if line < len(oracle.lines) else 0
    return line, rng.randint(0, widest + (kind > 0.8) * 3)


def random_change(rng, oracle, words):
    """Return a change of both sorts, after it was made in the oracle."""
    if rng.random() < 0.01 or len(oracle.text) > LONGEST:
        text = random_text(rng, words, 40)
        oracle.set(text)
        return SimpleNamespace(range=None, text=text)
    start = random_position(rng, oracle)
    end = start if rng.random() < 0.5 else random_position(rng, oracle)
    text = random_text(rng, words, 4)
    oracle.replace(start, end, text)
    return SimpleNamespace(range=SimpleNamespace(start=position(*start), end=position(*end)), text=text)


def position(line, column):
    return SimpleNamespace(line=line, character=column)


def check(rng, document, oracle):
    """Compare everything that a document says about its structure with the oracle."""
    assert document.line_count == len(oracle.lines)
    assert [document.line(number) for number in range(-1, len(oracle.lines) + 1)] == ["", *oracle.lines, ""]
    assert document.full_text() == oracle.plain()
    assert document.size == len(oracle.plain())
    assert document.line_break == oracle.line_break()
    for _ in range(2):
        check_position(rng, document, oracle)


def check_position(rng, document, oracle):
    line, column = random_position(rng, oracle)
    exists = 0 <= line < len(oracle.lines) and 0 <= column <= oracle.columns(line)
    assert document.has_position(line, column) == exists
    offset = oracle.offset(line, column)
    cursor = len(oracle.plain(offset))
    radius = rng.choice([0, 1, 2, 3, 5, 9, 40, 1000])
    excerpt = document.excerpt(line, column, radius)
    start = cursor - excerpt.cursor
    assert oracle.plain()[start : start + len(excerpt.text)] == excerpt.text
    assert excerpt.cursor <= radius
    assert radius < 1000 or excerpt.text == oracle.plain()
    row = min(max(line, 0), len(oracle.lines) - 1)
    assert excerpt.line == row
    assert excerpt.column == cursor - len(oracle.plain(oracle.starts[row]))
    assert document.client_column(row, excerpt.column) == column_of(oracle, row, offset)


def column_of(oracle, row, offset):
    """Return the column of an offset; a byte-order mark is not in excerpts, so none of their columns is before it."""
    if offset == 0 and oracle.text.startswith("\ufeff"):
        offset = 1
    return sum(map(oracle.width, oracle.text[oracle.starts[row] : offset]))


@pytest.mark.parametrize("encoding", WIDTHS)
def test_random_edits_agree_with_a_plain_string(encoding, monkeypatch):
    """B01-B06, B12, B13: after each of 100,000 random edits, in three encodings, the mirror is what a string would be.

    Pieces are made tiny, so that a small text has many of them and every edit meets their edges.
    """
    rng = random.Random(f"edits in {encoding}")
    words = WORDS + HALVES if encoding == "utf-16" else WORDS  # only clients that count in UTF-16 can part a character
    monkeypatch.setattr(sums, "_STRETCH", 3)
    oracle = Oracle("", encoding)
    edits = version = 0
    for batch in range(BATCHES):
        if batch % 500 == 0:
            monkeypatch.setattr(pieces, "_PIECE", rng.choice([1, 2, 3, 7, 30]))
            monkeypatch.setattr(excerpts, "_LOOK_BACK", rng.choice([1, 5, 64]))
            store = DocumentStore(encoding)
            oracle.set(random_text(rng, words, 60))
            document = store.open(URI, "python", 0, oracle.text)
            version = 0
        changes = [random_change(rng, oracle, words) for _ in range(rng.choice([1, 1, 1, 2, 3, 7]))]
        version += rng.randint(1, 3)
        store.change(URI, version, changes)
        edits += len(changes)
        assert document.text == oracle.text
        if batch % 6 == 0:
            check(rng, document, oracle)
    assert not document.doubtful
    assert edits > 100_000 / 3

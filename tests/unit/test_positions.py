"""Columns in each encoding, and the choice of one."""

from __future__ import annotations

from itertools import accumulate

import pytest
from lsprotocol import types

from lsp_server.documents.positions import choose_encoding, to_offset, width

LINES = [
    "",
    "plain",
    "öbc",
    "face = 🦊x",
    'print("Київ — né',
    "👩\u200d👩\u200d👧🇫🇷 e\u0301",
    "\x0b\u2028\x85\ufeff",
    "日本🦊" * 9,
]
WIDTHS = {
    "utf-8": lambda character: len(character.encode()),
    "utf-16": lambda character: 2 if ord(character) > 0xFFFF else 1,
    "utf-32": lambda character: 1,
}


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["utf-8"], "utf-8"),
        (["utf-32", "utf-16"], "utf-32"),
        (["utf-16", "utf-8"], "utf-16"),
        ([types.PositionEncodingKind.Utf8, "utf-16"], "utf-8"),
        (["utf-7", "latin-1", "utf-32"], "utf-32"),
        (["utf-7"], "utf-16"),
        ([7, None], "utf-16"),
        ([], "utf-16"),
        (None, "utf-16"),
    ],
)
def test_the_clients_first_known_encoding_is_chosen(offered, chosen):
    """B02: the first encoding on the client's list that is known wins; without one it is UTF-16."""
    assert choose_encoding(offered) == chosen


@pytest.mark.parametrize("encoding", WIDTHS)
@pytest.mark.parametrize("line", LINES)
def test_each_column_is_the_last_character_that_starts_at_it_or_before(line, encoding):
    """B01, B02: every column, also one inside a character or past the end, has the offset a count by hand gives."""
    starts = [0, *accumulate(WIDTHS[encoding](character) for character in line)]
    assert width(line, encoding) == starts[-1]
    for column in range(-2, starts[-1] + 3):
        expected = max((offset for offset, start in enumerate(starts) if start <= column), default=0)
        assert to_offset(line, column, encoding) == expected
    for offset, start in enumerate(starts):
        assert width(line[:offset], encoding) == start
        assert to_offset(line, start, encoding) == offset


@pytest.mark.parametrize("encoding", WIDTHS)
def test_absurd_numbers_are_clamped(encoding):
    """B06: no number raises."""
    for line in LINES:
        assert to_offset(line, 2**70, encoding) == len(line)
        assert to_offset(line, -(2**70), encoding) == 0


def test_half_a_surrogate_pair_is_a_character_of_its_own():
    """JSON can carry a lone half, which no encoding can: columns around it still count."""
    line = "a\ud83eb🦊c"
    assert [to_offset(line, column, "utf-16") for column in range(7)] == [0, 1, 2, 3, 3, 4, 5]
    assert [to_offset(line, column, "utf-8") for column in (0, 1, 3, 4, 5, 9, 10)] == [0, 1, 1, 2, 3, 4, 5]
    assert width(line[:5], "utf-16") == 6
    halves = "\ud83e\udd8a"
    assert [to_offset(halves, column, "utf-16") for column in range(3)] == [0, 1, 2]

r"""The text of one document, cut into pieces so that an edit costs the same at any size.

A piece is a few thousand characters, whatever the lines do: a file of many lines and a file of one line are the same
thing here. Pieces never end between `\r` and `\n`, so line breaks can be counted in each by itself.

Two kinds of coordinates meet here. A spot (piece, offset in it) is a place in the text as the client has it. A plain
offset is one into the text as the engine wants it: line feeds only, no byte-order mark.
"""

from __future__ import annotations

import re
from itertools import accumulate

from lsp_server.documents.positions import Encoding, to_offset, width
from lsp_server.documents.sums import Sums

Spot = tuple[int, int]

_BREAK = re.compile(r"(\r\n?|\n)")  # nothing else ends a line in the protocol
_SURROGATE = re.compile("[\ud800-\udfff]")
_BOM = "\ufeff"
_PIECE = 1024
_REMEMBERED = 4


def plain(text: str) -> str:
    """Return text with line feeds only and without halves of surrogate pairs, which no tokenizer can read."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _SURROGATE.sub("\ufffd", text) if _has_surrogates(text) else text


class Pieces:
    """A text and where its lines are; every position is clamped as the protocol says, none raises."""

    def __init__(self, text: str, encoding: Encoding) -> None:
        self._encoding = encoding
        self._pieces: list[str] = []
        self._breaks = Sums()
        self._columns = Sums()
        self._plain = Sums()
        self._endings = {"\n": 0, "\r\n": 0, "\r": 0}
        self._located: dict[str, list[int]] = {}
        self._put(0, 0, _cut(_joined(text)))

    @property
    def text(self) -> str:
        """The text as the client has it."""
        return "".join(self._pieces)

    @property
    def size(self) -> int:
        """The number of plain characters."""
        return self._plain.total

    @property
    def line_count(self) -> int:
        """The number of lines, at least one."""
        return self._breaks.total + 1

    @property
    def line_break(self) -> str:
        """The line break that most lines have."""
        return max(self._endings, key=self._endings.__getitem__)

    def line(self, number: int) -> str:
        """Return a line without its line break, as the client has it; empty where there is no such line."""
        if not 0 <= number < self.line_count:
            return ""
        (first, start), (last, end) = self._line_start(number), self._line_end(number)
        if first == last:
            return self._pieces[first][start:end]
        return self._pieces[first][start:] + "".join(self._pieces[first + 1 : last]) + self._pieces[last][:end]

    def has(self, line: int, column: int) -> bool:
        """Whether there is such a line and it is at least that wide."""
        if not 0 <= line < self.line_count or column < 0:
            return False
        return column <= self._column(self._line_end(line)) - self._column(self._line_start(line))

    def spot(self, line: int, column: int) -> Spot:
        """Return the place of a client's position, which may be anywhere."""
        if line < 0:
            return 0, 0
        end = self._line_end(min(line, self.line_count - 1))
        if line >= self.line_count:
            return end
        goal = self._column(self._line_start(line)) + max(column, 0)
        if goal >= self._column(end):
            return end
        piece = self._columns.find(goal)
        return piece, to_offset(self._pieces[piece], goal - self._columns.before(piece), self._encoding)

    def plain_offset(self, spot: Spot) -> int:
        """Return the plain offset of a place."""
        piece, end = spot
        head = self._pieces[piece][:end]
        return self._plain.before(piece) + _plain_size(head, first=piece == 0)

    def line_offset(self, line: int) -> int:
        """Return the plain offset of the start of a line that exists."""
        return self.plain_offset(self._line_start(line))

    def client_column(self, line: int, offset: int) -> int:
        """Return the client's column of an offset in plain characters from the start of a line, both clamped."""
        line = min(max(line, 0), self.line_count - 1)
        start = piece, place = self._line_start(line)
        place += max(offset, 0) + (line == 0 and self._pieces[0].startswith(_BOM))
        while place > len(self._pieces[piece]) and piece + 1 < len(self._pieces):
            place -= len(self._pieces[piece])
            piece += 1
        return self._column(min((piece, place), self._line_end(line))) - self._column(start)

    def plain_text(self, start: int, end: int) -> str:
        """Return a part of the plain text."""
        first, last = self._plain.find(start), self._plain.find(end)
        base = self._plain.before(first)
        text = "".join(self._pieces[first : last + 1])
        return plain(text.removeprefix(_BOM) if first == 0 else text)[start - base : end - base]

    def replace(self, start: Spot, end: Spot, text: str) -> None:
        """Put text in the place of what stands between two places, in any order."""
        start, end = min(start, end), max(start, end)
        first, last = start[0], end[0] + 1
        text = self._pieces[first][: start[1]] + text + self._pieces[last - 1][end[1] :]
        # Where the edit touches its neighbour, a `\r` and a `\n` may have met.
        if start[1] == 0 and first > 0:
            first -= 1
            text = self._pieces[first] + text
        if last < len(self._pieces) and end[1] == len(self._pieces[last - 1]):
            text += self._pieces[last]
            last += 1
        self._put(first, last, _cut(_joined(text)))

    def _put(self, first: int, last: int, pieces: list[str]) -> None:
        endings = [_endings(piece) for piece in pieces]
        self._count(endings, 1)
        self._count([_endings(piece) for piece in self._pieces[first:last]], -1)
        self._breaks.replace(first, last, [sum(counts) for counts in endings])
        self._columns.replace(first, last, [width(piece, self._encoding) for piece in pieces])
        sizes = [_plain_size(piece, first=first + index == 0) for index, piece in enumerate(pieces)]
        self._plain.replace(first, last, sizes)
        self._pieces[first:last] = pieces

    def _count(self, endings: list[tuple[int, int, int]], sign: int) -> None:
        for counts in endings:
            for line_break, count in zip(self._endings, counts, strict=True):
                self._endings[line_break] += sign * count

    def _column(self, spot: Spot) -> int:
        """Columns from the start of the text, each line break counted as its characters."""
        piece, end = spot
        return self._columns.before(piece) + width(self._pieces[piece][:end], self._encoding)

    def _line_start(self, line: int) -> Spot:
        if line == 0:
            return 0, 0
        piece, _, end = self._break(line)
        return piece, end

    def _line_end(self, line: int) -> Spot:
        if line == self._breaks.total:
            return len(self._pieces) - 1, len(self._pieces[-1])
        piece, start, _ = self._break(line + 1)
        return piece, start

    def _break(self, number: int) -> tuple[int, int, int]:
        """Return the piece, start and end of a line break, the first being number 1."""
        index = self._breaks.find(number)
        nth = 2 * (number - self._breaks.before(index) - 1)
        start, end = self._breaks_in(self._pieces[index])[nth : nth + 2]
        return index, start, end

    def _breaks_in(self, piece: str) -> list[int]:
        """Return start and end of one line break after the other, and the piece's length.

        One edit asks for the same few pieces several times.
        """
        found = self._located.get(piece)
        if found is None:
            if len(self._located) >= _REMEMBERED:
                self._located.clear()
            found = self._located[piece] = list(accumulate(map(len, _BREAK.split(piece))))
        return found


def _cut(text: str) -> list[str]:
    if len(text) <= 2 * _PIECE:
        return [text]
    pieces = []
    start = 0
    while start < len(text):
        end = start + _PIECE
        end += text[end - 1 : end + 1] == "\r\n"
        pieces.append(text[start:end])
        start = end
    return pieces


def _joined(text: str) -> str:
    """Make one character of two halves of a surrogate pair that have met."""
    if not _has_surrogates(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _has_surrogates(text: str) -> bool:
    return not text.isascii() and _SURROGATE.search(text) is not None


def _count_pairs(piece: str) -> int:
    return piece.count("\r\n") if "\r" in piece else 0  # most files have none, and one character is found faster


def _endings(piece: str) -> tuple[int, int, int]:
    r"""Return the number of line breaks that are `\n`, `\r\n` and `\r`."""
    pairs = _count_pairs(piece)
    return piece.count("\n") - pairs, pairs, piece.count("\r") - pairs


def _plain_size(head: str, first: bool) -> int:
    return len(head) - _count_pairs(head) - (first and head.startswith(_BOM))

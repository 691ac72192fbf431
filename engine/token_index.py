"""The tokens of texts that change under the user's hands, each kept current at the cost of the changed part.

A text is cut into blocks that are encoded on their own: no token spans a block border. Must not know who searches
the tokens, or which tokenizer makes them. For one thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from engine.lookup import Tokens

_CUT_FROM, _CUT_BY, _LONGEST = 2_000, 3_000, 4_000  # characters: where to look for a border; a block's bound
_BORDER = re.compile(r"\n(?=[ \t]*\S)")  # not before a blank line: tokenizers join line breaks


@dataclass(frozen=True, slots=True)
class _Block:
    """A piece of text, never empty, and its tokens."""

    text: str
    tokens: Tokens


_Blocks = tuple[_Block, ...]


@dataclass(frozen=True)
class _Entry:
    """The blocks concatenate to the indexed part, which is `text[start : len(text) - after]`."""

    version: int
    text: str
    start: int
    after: int
    blocks: _Blocks

    @cached_property
    def tokens(self) -> Tokens:
        """All blocks' tokens, joined when first asked for."""
        return _joined([block.tokens for block in self.blocks])


class TokenIndex:
    """Tokens by path. `encode` gives the token ids of a piece of text and must not add special tokens.

    Of a text longer than `max_chars` only a part is indexed.
    """

    def __init__(self, encode: Callable[[str], Sequence[int]], max_chars: int = 2_000_000) -> None:
        self._encode = encode
        self._max_chars = max_chars
        self._entries: dict[str, _Entry] = {}

    def update(self, path: str, version: int, text: str, focus: int = 0) -> None:
        """Make `text` the text of `path`; encodes only what changed. `version` alone is never trusted.

        `focus` is the offset around which a text that is too long is indexed.
        """
        old = self._entries.get(path)
        start, after = self._part(text, focus, old)
        if old and (old.version, old.start, old.after) == (version, start, after) and old.text == text:
            return
        blocks = self._blocks(text[start : len(text) - after], old.blocks if old else ())
        self._entries[path] = _Entry(version, text, start, after, blocks)

    def tokens(self, path: str) -> Tokens:
        """Return the tokens of the text of `path`; none if the path is unknown."""
        entry = self._entries.get(path)
        return entry.tokens if entry else _joined([])

    def split(self, path: str, char_offset: int) -> tuple[Tokens, Tokens]:
        """Return the tokens before and after an offset in the text, encoding only the block it falls in again."""
        entry = self._entries.get(path)
        if entry is None:
            return _joined([]), _joined([])
        at = max(char_offset - entry.start, 0)
        for index, block in enumerate(entry.blocks):
            if at < len(block.text):
                left, right = self._encoded(block.text[:at]), self._encoded(block.text[at:])
                arrays = [block.tokens for block in entry.blocks]
                return _joined([*arrays[:index], left]), _joined([right, *arrays[index + 1 :]])
            at -= len(block.text)
        return entry.tokens, _joined([])

    def forget(self, path: str) -> None:
        """Drop everything of `path`."""
        self._entries.pop(path, None)

    def keep_only(self, paths: Collection[str]) -> None:
        """Drop every path that is not among `paths`."""
        self._entries = {path: entry for path, entry in self._entries.items() if path in paths}

    def _encoded(self, text: str) -> Tokens:
        return np.array(self._encode(text) if text else (), dtype=np.int32)

    def _part(self, text: str, focus: int, old: _Entry | None) -> tuple[int, int]:
        """Decide how many characters at the start and at the end are not indexed.

        Moves only when it must, because a moved part is encoded anew: it begins at three quarters of the bound.
        """
        if len(text) <= self._max_chars:
            return 0, 0
        if old and len(text) - old.start - old.after <= self._max_chars:
            margin = self._max_chars // 8
            low = old.start + margin if old.start else 0
            high = len(text) - old.after - margin if old.after else len(text)
            if low <= focus <= high:
                return old.start, old.after
        size = self._max_chars * 3 // 4
        start = min(max(focus - size // 2, 0), len(text) - size)
        return start, len(text) - start - size

    def _blocks(self, text: str, old: _Blocks) -> _Blocks:
        """Cut `text` into blocks, among them those of `old` that did not change."""
        leading, low = _leading(text, old)
        trailing, high = _trailing(text, low, old, leading)
        middle = tuple(_Block(piece, self._encoded(piece)) for piece in _pieces(text[low:high]))
        return old[:leading] + middle + old[trailing:]


def _leading(text: str, old: _Blocks) -> tuple[int, int]:
    """Count the blocks that `text` still begins with; also where they end."""
    end = 0
    for count, block in enumerate(old):
        grown = count == len(old) - 1 and end + len(block.text) < len(text)  # its last line may go on now
        if grown or not text.startswith(block.text, end):
            return count, end
        end += len(block.text)
    return len(old), end


def _trailing(text: str, low: int, old: _Blocks, leading: int) -> tuple[int, int]:
    """Return the index of the first block that `text` still ends with, behind `low`, and where it starts."""
    first, start = len(old), len(text)
    for index in range(len(old) - 1, leading - 1, -1):
        if not text.endswith(old[index].text, low, start):
            break
        first, start = index, start - len(old[index].text)
    if first < len(old) and start and text[start - 1] != "\n":  # its first line may have been joined to another
        return first + 1, start + len(old[first].text)
    return first, start


def _pieces(text: str) -> Iterator[str]:
    """Cut at the starts of lines, or anywhere in a line that is too long."""
    start = 0
    while len(text) - start > _LONGEST:
        border = _BORDER.search(text, start + _CUT_FROM, start + _CUT_BY)
        end = border.end() if border else start + _CUT_FROM
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _joined(arrays: Sequence[Tokens]) -> Tokens:
    return np.concatenate((np.empty(0, dtype=np.int32), *arrays))

"""Holes whose text already stands elsewhere in the open buffers: what an editor meets when code is repeated or moved.

Four kinds, all cut by rule from real texts, nothing written for the purpose:

lines     a whole line of a document that stands, letter for letter, on another line of it or in an open buffer
blocks    three lines that stand elsewhere, letter for letter or with a few names changed
moved     eight lines of a document whose earlier version is still open, as after moving code to another file
recorded  what the person of the recorded session really inserted, when that text stood in an open document already

Documents are the exercism solutions with their other files as buffers, and the recorded session's documents as it ends
with each other as buffers. The hole begins after the first line's indentation and ends before the last line break.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from engine.bench.recording import Document, Edit, Workspace, edits_of, read_events
from engine.core import Buffer
from engine.holes import Hole, exercism

LINE_LETTERS = 16  # letters and digits in a line worth the name
BLOCK = 3  # lines in a block
BLOCK_LETTERS = 40
MOVED = 8  # lines in a moved block
EDGE = 4  # lines left before and after it
KEPT_WORDS = 0.75  # of a renamed block's words, at least this share stands unchanged
RECORDED_LETTERS = 20

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Page:
    """A document to cut holes from, and what is open beside it."""

    name: str
    path: str
    language: str
    text: str
    buffers: tuple[Buffer, ...]


_Key = Callable[[Sequence[str]], str]


class _Place(NamedTuple):
    source: int  # 0 is the page itself
    line: int


def line_holes(data: Path) -> list[Hole]:
    """Cut whole lines that stand elsewhere."""
    return [hole for page in pages(data) for hole in repeated_lines(page)]


def block_holes(data: Path) -> list[Hole]:
    """Cut blocks that stand elsewhere, some with names changed."""
    return [hole for page in pages(data) for hole in repeated_blocks(page)]


def moved_holes(data: Path) -> list[Hole]:
    """Cut a longer block from each document, whose earlier version is one more open buffer."""
    return [hole for page in pages(data) for hole in moved_block(page)]


def pages(data: Path) -> Iterator[Page]:
    """Yield each exercism solution once, then the recorded documents as the session ends."""
    seen: set[str] = set()
    for hole in exercism(data):
        text = hole.before + hole.wanted + hole.after
        if text not in seen:
            seen.add(text)
            yield Page(hole.name, hole.path, hole.language, text, hole.buffers)
    workspace = Workspace()
    for event in read_events(data):
        workspace.apply(event)
    for number, document in workspace.documents.items():
        yield Page("session", document.path, document.language, document.text, workspace.others(number))


def repeated_lines(page: Page) -> Iterator[Hole]:
    """Yield a hole for each line that stands elsewhere, once for each such text."""
    places = _places(_sources(page), 1, lambda lines: lines[0].strip())
    done: set[str] = set()
    for at, line in enumerate(page.text.split("\n")):
        text = line.strip()
        if _letters(text) >= LINE_LETTERS and text not in done and len(places.get(text, ())) > 1:
            done.add(text)
            yield _cut(page, at, 1, "line")


def repeated_blocks(page: Page) -> Iterator[Hole]:
    """Yield holes for blocks that stand elsewhere, none touching another; those letter for letter have precedence."""
    sources = _sources(page)
    places = _places(sources, BLOCK, _shape)
    kept = {at: _kept_words(sources, at, places) for at in range(len(sources[0]) - BLOCK + 1)}
    kinds: dict[int, str] = {}
    for kind, least in (("block", 1.0), ("renamed block", KEPT_WORDS)):
        for at, share in kept.items():
            if share >= least and not any(abs(at - other) < BLOCK for other in kinds):
                kinds[at] = kind
    yield from (_cut(page, at, BLOCK, kind) for at, kind in sorted(kinds.items()))


def moved_block(page: Page) -> Iterator[Hole]:
    """Yield a hole of eight lines from the middle of a document, if it is long enough."""
    lines = page.text.split("\n")
    middle = (len(lines) - MOVED) // 2
    starts = sorted(range(EDGE, len(lines) - MOVED - EDGE), key=lambda at: abs(at - middle))
    at = next((at for at in starts if lines[at].strip() and lines[at + MOVED - 1].strip()), None)
    if at is not None:
        earlier = Buffer(f"earlier/{page.path}", 1, page.text)
        yield _cut(replace(page, buffers=(earlier, *page.buffers)), at, MOVED, "moved block")


def _kept_words(sources: list[list[str]], at: int, places: dict[str, list[_Place]]) -> float:
    """Share of a block's words that stand in the best of its other places; 0 for what is no block worth the name."""
    block = sources[0][at : at + BLOCK]
    if not (block[0].strip() and block[-1].strip()) or _letters("".join(block)) < BLOCK_LETTERS:
        return 0.0
    words = _WORD.findall("\n".join(block))
    kept = 0.0
    for place in places[_shape(block)]:
        if place.source == 0 and abs(place.line - at) < BLOCK:
            continue
        others = _WORD.findall("\n".join(sources[place.source][place.line : place.line + BLOCK]))
        kept = max(kept, sum(a == b for a, b in zip(words, others, strict=True)) / len(words))
    return kept


def _sources(page: Page) -> list[list[str]]:
    """Return the lines of the page, then of its buffers."""
    return [page.text.split("\n"), *(buffer.text.split("\n") for buffer in page.buffers if buffer.path != page.path)]


def _places(sources: list[list[str]], length: int, key: _Key) -> dict[str, list[_Place]]:
    places: dict[str, list[_Place]] = {}
    for source, lines in enumerate(sources):
        for at in range(len(lines) - length + 1):
            places.setdefault(key(lines[at : at + length]), []).append(_Place(source, at))
    return places


def _shape(lines: Sequence[str]) -> str:
    """What is left of lines when every word is the same word, and indentation does not count."""
    return "\n".join(_WORD.sub("w", line.strip()) for line in lines)


def _letters(text: str) -> int:
    return sum(c.isalnum() for c in text)


def _cut(page: Page, at: int, count: int, kind: str) -> Hole:
    lines = page.text.split("\n")
    block = "\n".join(lines[at : at + count])
    before = "".join(f"{line}\n" for line in lines[:at])
    indent = len(block) - len(block.lstrip(" \t"))
    start, end = len(before) + indent, len(before) + len(block.rstrip("\r"))
    name = f"{page.name}/{page.path}:{at + 1} {kind}"
    return Hole(name, page.path, page.language, page.text[:start], page.text[start:end], page.text[end:], page.buffers)


def recorded_holes(data: Path) -> list[Hole]:
    """Return what the recorded person inserted although it stood in an open document already."""
    workspace = Workspace()
    holes: list[Hole] = []
    for event in read_events(data):
        if event.kind == "changed":
            number = event.fields["id"]
            document = workspace.documents[number]
            holes += _insertions(document, workspace.others(number), edits_of(event), f"session/{event.at / 1e3:.0f}s")
        workspace.apply(event)
    return holes


def _insertions(document: Document, buffers: tuple[Buffer, ...], edits: Iterable[Edit], name: str) -> Iterator[Hole]:
    for edit in edits:
        if not document.text.isascii() or _letters(edit.text) < RECORDED_LETTERS:
            continue  # the recording is ASCII; elsewhere its offsets would have to be turned into code points
        before, after = document.text[: edit.start], document.text[edit.end :]
        wanted = edit.text.rstrip()
        after = edit.text[len(wanted) :] + after
        if any(wanted.strip() in text for text in (before, after, *(b.text for b in buffers))):
            yield Hole(name, document.path, document.language, before, wanted, after, buffers)

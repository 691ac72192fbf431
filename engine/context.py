"""Which parts of other open buffers go into the prompt.

Buffers are cut into chunks of lines; chunks that share most identifiers with the code around the cursor are taken
(Jaccard similarity, the measure several editors' completion clients settled on). The choice is kept while it stays
true, because every change of it costs a prefill.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from engine.core import Buffer, CompletionRequest

CHUNK_LINES = 24
AROUND = 2000  # characters each side of the cursor that say what the code is about
MAX_SCANNED = 200_000  # characters of one buffer considered
REMEMBERED = 32
_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]{2,}")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive lines of another buffer."""

    path: str
    text: str


class ChunkChooser:
    """Chooses chunks and sticks with them while buffers and window allow; an empty choice is made again."""

    def __init__(self) -> None:
        self._chosen: OrderedDict[str, tuple[int, int, tuple[Chunk, ...]]] = OrderedDict()

    def choose(self, request: CompletionRequest, window_start: int, chars: int) -> tuple[Chunk, ...]:
        """Return chunks of at most `chars` characters in all, least similar first: the best stands next to the code."""
        others = {buffer.path: buffer for buffer in request.buffers if buffer.path != request.path}
        if not others or chars <= 0:
            return ()
        known = self._chosen.get(request.path)
        if known and known[2] and known[:2] == (window_start, len(others)) and _still_true(known[2], others):
            return known[2]
        chosen = _best_chunks(request, others, chars)
        self._chosen[request.path] = (window_start, len(others), chosen)
        self._chosen.move_to_end(request.path)
        while len(self._chosen) > REMEMBERED:
            self._chosen.popitem(last=False)
        return chosen

    def forget(self, path: str) -> None:
        """Forget every choice made for a document or from it."""
        kept = {p: v for p, v in self._chosen.items() if p != path and all(c.path != path for c in v[2])}
        self._chosen = OrderedDict(kept)


def _still_true(chunks: tuple[Chunk, ...], others: dict[str, Buffer]) -> bool:
    return all(chunk.path in others and chunk.text in others[chunk.path].text for chunk in chunks)


def _best_chunks(request: CompletionRequest, others: dict[str, Buffer], chars: int) -> tuple[Chunk, ...]:
    near = request.text[max(0, request.cursor - AROUND) : request.cursor + AROUND]
    wanted = set(_WORD.findall(near))
    scored = [
        (_similarity(wanted, chunk.text), -recency, -place, chunk)
        for recency, buffer in enumerate(others.values())
        for place, chunk in enumerate(_chunks(buffer))
    ]
    scored.sort(key=lambda entry: entry[:3], reverse=True)
    taken: list[Chunk] = []
    for score, _, _, chunk in scored:
        cost = len(chunk.text) + len(chunk.path) + 8
        if score > 0 and cost <= chars:
            taken.append(chunk)
            chars -= cost
    return tuple(reversed(taken))


def _chunks(buffer: Buffer) -> Iterator[Chunk]:
    lines = buffer.text[:MAX_SCANNED].splitlines(keepends=True)
    for at in range(0, len(lines), CHUNK_LINES):
        text = "".join(lines[at : at + CHUNK_LINES])
        if text.strip():
            yield Chunk(buffer.path, text)


def _similarity(wanted: set[str], text: str) -> float:
    words = set(_WORD.findall(text))
    union = len(wanted | words)
    return len(wanted & words) / union if union else 0.0

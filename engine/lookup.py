"""Prompt lookup: where has the end of the context stood before, and what followed it there.

Works on token arrays alone. Must not know texts, models, or where the arrays come from. Nothing is indexed or
remembered between calls, so nothing can be stale: a closed document is gone once its array is no longer passed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.int32]
CorpusKind = Literal["prompt", "before", "after", "buffer", "past"]
"""prompt: what the target reads, generated tokens included. before, after: the current file around the cursor.
buffer: another document. past: an earlier completion."""

_STRETCH = 65_536  # tokens scanned at a time: they fit the CPU's cache, and a find cuts short the search farther off
_FEW = 32  # places: up to here comparing whole windows at once beats going back token by token
_NOWHERE = np.empty(0, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class Corpus:
    """One searchable token array.

    A smaller `rank` is nearer to the cursor or more recent. `nearest` names the end of `tokens` next to the cursor.
    """

    tokens: Tokens
    kind: CorpusKind
    rank: int
    nearest: Literal["end", "start"] = "end"


@dataclass(frozen=True, slots=True)
class Match:
    """What followed an occurrence of the context's last `length` tokens. `continuation` is never empty."""

    continuation: tuple[int, ...]
    length: int
    kind: CorpusKind


@dataclass(frozen=True, slots=True)
class _Place:
    """An occurrence of the context's last `length` tokens; the token after it is `corpus.tokens[follower]`."""

    corpus: Corpus
    follower: int
    length: int

    @property
    def order(self) -> tuple[int, int, int]:
        """The best place has the smallest: longest, then nearest corpus, then nearest within it."""
        backwards = self.corpus.nearest == "end"
        distance = len(self.corpus.tokens) - self.follower if backwards else self.follower
        return -self.length, self.corpus.rank, distance


def find(
    context: Tokens,
    corpora: Sequence[Corpus],
    *,
    min_match: int = 1,
    max_match: int = 32,
    limit: int = 16,
    first_allowed: npt.NDArray[np.bool_] | None = None,
) -> Match | None:
    """Copy up to `limit` tokens from the place that matches the end of `context` longest; among equals the nearest.

    `first_allowed` is a mask over the vocabulary: places whose next token it forbids do not count. A place needs a
    next token, so the context never matches itself at the end of a corpus.
    """
    tail = np.asarray(context[-max_match:], dtype=np.int32)[::-1]  # last token first
    best: _Place | None = None
    need = max(min_match, 1)
    for corpus, span in _stretches(corpora):
        if best:
            need = best.length + (corpus is best.corpus or corpus.rank > best.corpus.rank)
        if need > tail.size:
            continue
        followers = _followers(tail, need, corpus.tokens, span, first_allowed)
        place = _longest(tail, corpus, followers)
        if place and place.length >= need and (best is None or place.order < best.order):
            best = place
    return Match(_continuation(tail, best, limit), best.length, best.corpus.kind) if best else None


def _stretches(corpora: Sequence[Corpus]) -> Iterator[tuple[Corpus, range]]:
    """Cut all corpora into ranges of token positions, nearest to the cursor first."""
    for corpus in sorted(corpora, key=lambda corpus: corpus.rank):
        size = len(corpus.tokens)
        lows = range(0, size, _STRETCH)
        for low in reversed(lows) if corpus.nearest == "end" else lows:
            yield corpus, range(low, min(low + _STRETCH, size))


def _followers(
    tail: Tokens, need: int, tokens: Tokens, span: range, first_allowed: npt.NDArray[np.bool_] | None
) -> npt.NDArray[np.intp]:
    """Find the positions in `span` that follow a place which may match longest, ascending.

    All such places if at least `need` tokens match there; more than `_FEW` only if they match equally long.
    """
    low, high = max(span.start, need), span.stop
    rare = int(tail[:need].argmax())  # vocabularies number frequent tokens first
    hit = _equal(tail, rare, tokens, low, high)
    hit &= _equal(tail, need - 1, tokens, low, high)  # where the best so far broke off
    if first_allowed is not None:
        hit[hit] = first_allowed[tokens[low:high][hit]]
    if not hit.any():
        return _NOWHERE
    for back in range(tail.size):
        if np.count_nonzero(hit) <= _FEW:
            break
        start = max(low, back + 1)
        longer = hit[start - low :] & _equal(tail, back, tokens, start, high)
        if not longer.any():
            break
        hit, low = longer, start
    return np.flatnonzero(hit) + low


def _equal(tail: Tokens, back: int, tokens: Tokens, low: int, high: int) -> npt.NDArray[np.bool_]:
    """Tell for each position in [low, high) whether the token `back` + 1 before it is the tail's."""
    equal: npt.NDArray[np.bool_] = tokens[low - 1 - back : max(high - 1 - back, 0)] == tail[back]
    return equal


def _longest(tail: Tokens, corpus: Corpus, followers: npt.NDArray[np.intp]) -> _Place | None:
    """Compare the places before `followers` with the whole tail; the nearest of the longest wins."""
    if not followers.size:
        return None
    nearest = followers[: -_FEW - 1 : -1] if corpus.nearest == "end" else followers[:_FEW]
    windows = nearest[:, None] - 1 - np.arange(tail.size)  # [places, tail]
    equal = (corpus.tokens.take(windows, mode="clip") == tail) & (windows >= 0)
    lengths = np.logical_and.accumulate(equal, axis=1).sum(axis=1)
    longest = int(lengths.argmax())
    return _Place(corpus, int(nearest[longest]), int(lengths[longest]))


def _continuation(tail: Tokens, place: _Place, limit: int) -> tuple[int, ...]:
    """Copy from the place on; a repetition that reaches the end of the context is carried on past it."""
    tokens, length = place.corpus.tokens, place.length
    copied = tokens[place.follower : place.follower + limit]
    repeats = copied.size <= length  # the match overlaps what follows it
    if copied.size < limit and repeats and np.array_equal(tokens[: -length - 1 : -1], tail[:length]):
        copied = np.resize(copied, limit)
    return tuple(copied.tolist())


class PastCompletions:
    """The latest completions of each document, within a bound on their number and on all their tokens."""

    def __init__(self, per_path: int = 8, max_tokens: int = 20_000) -> None:
        self._per_path = per_path
        self._max_tokens = max_tokens
        self._by_path: dict[str, deque[Tokens]] = {}  # the path that was added to last comes last

    def add(self, path: str, tokens: Sequence[int] | Tokens) -> None:
        """Remember a completion. Begin `tokens` with the end of its prompt, or its own start can never match."""
        kept = self._by_path.pop(path, None) or deque(maxlen=self._per_path)
        kept.append(np.array(tokens, dtype=np.int32))
        self._by_path[path] = kept
        while self._size() > self._max_tokens:
            self._drop_oldest()

    def corpora(self, paths: Iterable[str], first_rank: int = 0) -> list[Corpus]:
        """List what is remembered of `paths`, in their order, each path's latest first, ranked from `first_rank` on."""
        arrays = [tokens for path in paths for tokens in reversed(self._by_path.get(path, ()))]
        return [Corpus(tokens, "past", rank) for rank, tokens in enumerate(arrays, first_rank)]

    def forget(self, path: str) -> None:
        """Drop everything of `path`."""
        self._by_path.pop(path, None)

    def _size(self) -> int:
        return sum(tokens.size for kept in self._by_path.values() for tokens in kept)

    def _drop_oldest(self) -> None:
        path, kept = next(iter(self._by_path.items()))
        kept.popleft()
        if not kept:
            del self._by_path[path]

"""Completions made up of words, for tests of what is shown about a completion: no model, no torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engine.core import CompletionSummary, DecodeStats, Draft, FinishReason, Round, Source


@dataclass(frozen=True)
class Step:
    """A round in words: `own` is the target's token behind the accepted ones, None where it ended the text."""

    draft: Sequence[bytes] = ()
    accepted: int = 0
    own: bytes | None = b""
    source: Source = "lookup"
    draft_ms: float = 1.0
    verify_ms: float | None = None


class Sample:
    """A summary of rounds, and how its token ids are decoded."""

    def __init__(self, *steps: Step, text: str | None = None, tokens: int | None = None, reason: FinishReason = "stop"):
        self._table: list[bytes] = []
        rounds = tuple(self._round(step) for step in steps)
        emitted = tuple(token for step in rounds for token in step.emitted)[:tokens]
        draft, verify = sum(step.draft_ms for step in rounds), sum(step.verify_ms for step in rounds[1:])
        prefill = rounds[0].verify_ms if rounds else 0.0
        ms = {"load": 9.0, "prefill": prefill, "draft": draft, "verify": verify, "overhead": 2.0 * len(rounds)}
        ms |= {"first_token": prefill + 3, "total": prefill + draft + verify + 2.0 * len(rounds)}
        stats = DecodeStats(325, 25, 300, len(rounds), {}, {}, sum(len(step.emitted) for step in rounds), ms)
        shown = self.decode(emitted) if text is None else text
        self.summary = CompletionSummary(shown, emitted, (1, 2, 3), reason, stats, rounds)

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(self._table[i] for i in ids).decode("utf-8", "replace")

    def _id(self, word: bytes) -> int:
        if word not in self._table:
            self._table.append(word)
        return self._table.index(word)

    def _round(self, step: Step) -> Round:
        ids = tuple(self._id(word) for word in step.draft)
        own = () if step.own is None else (self._id(step.own),)
        rows = len(ids) + 1
        verify_ms = 30.0 + 2.0 * rows if step.verify_ms is None else step.verify_ms
        emitted = (*ids[: step.accepted], *own)
        draft = Draft(ids, (step.source,) * len(ids))
        return Round(draft, step.accepted, emitted, rows, step.draft_ms, verify_ms)


def words(text: str) -> list[bytes]:
    """Cut a text into tokens, each with the blanks before it."""
    return [word.encode() for word in re.findall(r"\s*\S+|\s+$", text)]

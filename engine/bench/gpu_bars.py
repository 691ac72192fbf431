"""The figures a card must reach, and whether it did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.bench.gpu_passes import Curve
from engine.bench.gpu_speed import OURS, PEER, Rate

JUDGED = 0.8  # acceptance at which speculation is judged


@dataclass(frozen=True, slots=True)
class Bar:
    """One figure and its limit. `judged` is False where the figure is not a card's."""

    name: str
    figure: float | None
    limit: float
    at_least: bool
    judged: bool

    @property
    def met(self) -> bool | None:
        """Whether the figure is on the right side of its limit; None where nothing can be said."""
        if self.figure is None or not self.judged:
            return None
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit

    @property
    def verdict(self) -> str:
        """Say it in a word or two."""
        if self.figure is None:
            return "not measured"
        return {True: "met", False: "missed", None: "not judged: no card"}[self.met]

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "name": self.name,
            "figure": None if self.figure is None else round(self.figure, 4),
            "limit": self.limit,
            "bound": "at least" if self.at_least else "at most",
            "verdict": self.verdict,
        }


def find_rate(rates: Sequence[Rate], who: str, mode: str, acceptance: float | None = None) -> Rate | None:
    """Return a contestant's figures, None where it did not run."""
    return next((r for r in rates if (r.who, r.mode, r.acceptance) == (who, mode, acceptance) and r.samples), None)


def best_peer(rates: Sequence[Rate], acceptance: float) -> Rate | None:
    """Return transformers' fastest mode at an acceptance; plain decoding counts at all."""
    found = [r for r in rates if r.who == PEER and r.acceptance in (None, acceptance) and r.tokens_per_second]
    return max(found, key=lambda r: r.tokens_per_second or 0.0, default=None)


def bars(
    curve: Curve | None, bandwidth: float, overhead: float | None, rates: Sequence[Rate], judged: bool
) -> list[Bar]:
    """Return all bars; `curve` is the target's in 4 bits, `overhead` a share of a one-row pass."""
    ours = find_rate(rates, OURS, "drafted", JUDGED)
    plain, peer = find_rate(rates, OURS, "plain"), best_peer(rates, JUDGED)
    return [
        Bar(
            "7B nf4, one row: share of the bandwidth floor",
            curve.share(bandwidth) if curve else None,
            0.55,
            True,
            judged,
        ),
        Bar("7B nf4: v(5), against one row", curve.against_one(5) if curve else None, 1.2, False, judged),
        Bar("overhead of a round, share of a pass", overhead, 0.10, False, judged),
        Bar(f"drafted at acceptance {JUDGED} against our plain", _ratio(ours, plain), 2.2, True, judged),
        Bar(f"drafted at acceptance {JUDGED} against transformers' best mode", _ratio(ours, peer), 5.0, True, judged),
    ]


def _ratio(one: Rate | None, other: Rate | None) -> float | None:
    if one is None or other is None or not one.tokens_per_second or not other.tokens_per_second:
        return None
    return one.tokens_per_second / other.tokens_per_second

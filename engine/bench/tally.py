"""From runs to figures: what each contestant did on a data set, and how two of them compare hole by hole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from engine.bench.figures import Spread, spread_of
from engine.bench.measure import DataSet
from engine.bench.run import HoleRuns, Run


@dataclass(slots=True)
class Tally:
    """One contestant on one data set.

    Times are medians over the repeats of each hole; `ratio` is against the data set's first contestant, hole by hole.
    """

    suite: str
    data: str
    contestant: str
    holes: int = 0
    timed: int = 0
    tokens: float = 0.0
    ms: float = 0.0
    passes: int = 0
    all_tokens: int = 0
    exact: int = 0
    same: int = 0
    ratio: Spread | None = None
    drafted: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    reused_tokens: int = 0
    computed_tokens: int = 0

    @property
    def tokens_per_second(self) -> float:
        """Over the whole data set, the prompt's pass left out."""
        return self.tokens / self.ms * 1e3 if self.ms else 0.0

    @property
    def mean_acceptance_length(self) -> float | None:
        """Tokens per target pass, the prompt's pass left out; None where passes are not known."""
        return self.all_tokens / self.passes if self.passes else None

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        length = self.mean_acceptance_length
        return {
            "suite": self.suite,
            "data": self.data,
            "contestant": self.contestant,
            "holes": self.holes,
            "timed_holes": self.timed,
            "decode_tokens_per_second": round(self.tokens_per_second, 3),
            "ratio_to_first": self.ratio.as_json() if self.ratio else None,
            "mean_acceptance_length": None if length is None else round(length, 4),
            "drafted": dict(self.drafted),
            "accepted": dict(self.accepted),
            "exact": self.exact,
            "same_as_plain": self.same,
            "prompt_tokens": self.prompt_tokens,
            "reused_tokens": self.reused_tokens,
            "computed_tokens": self.computed_tokens,
        }


def tallies(suite: str, data: DataSet) -> list[Tally]:
    """Sum a data set up, one tally a contestant."""
    return [_tally(suite, data, name) for name in data.contestants]


def _tally(suite: str, data: DataSet, name: str) -> Tally:
    tally = Tally(suite, data.name, name)
    for hole in data.holes:
        if runs := hole.runs.get(name):
            _count(tally, hole, runs)
    tally.ratio = ratio(data, name, data.contestants[0])
    return tally


def _count(tally: Tally, hole: HoleRuns, runs: Sequence[Run]) -> None:
    tally.holes += 1
    tally.exact += hole.exact(runs[0])
    tally.same += all(hole.same(run) for run in runs)
    timed = [run for run in runs if run.rate is not None]
    if timed:
        tally.timed += 1
        tally.tokens += median(run.tokens for run in timed)
        tally.ms += median(run.ms for run in timed)
    for run in runs:
        tally.passes += run.passes
        tally.all_tokens += run.tokens if run.passes else 0
        tally.drafted.update(run.drafted)
        tally.accepted.update(run.accepted)
        tally.prompt_tokens += run.prompt_tokens
        tally.reused_tokens += run.reused_tokens
        tally.computed_tokens += run.computed_tokens


def ratio(data: DataSet, one: str, other: str) -> Spread | None:
    """Return how many times faster `one` decoded than `other`, over the holes that both were timed on."""
    pairs = [(_rate(hole, one), _rate(hole, other)) for hole in data.holes]
    return spread_of([a / b for a, b in pairs if a is not None and b is not None])


def _rate(hole: HoleRuns, name: str) -> float | None:
    rates = [run.rate for run in hole.runs.get(name, ()) if run.rate is not None]
    return median(rates) if rates else None


def fastest(found: Sequence[Tally]) -> Tally | None:
    """Return the tally with the highest rate over its whole data set, None where nobody was timed."""
    timed = [tally for tally in found if tally.timed]
    return max(timed, key=lambda tally: tally.tokens_per_second) if timed else None


@dataclass(frozen=True, slots=True)
class Versus:
    """How one contestant compares with the best of some others on a data set."""

    suite: str
    data: str
    ours: str
    others: str
    best: str
    ratio: Spread

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        return {
            "suite": self.suite,
            "data": self.data,
            "ours": self.ours,
            "against": self.others,
            "best": self.best,
            "ratio": self.ratio.as_json(),
        }


def versus_best(suite: str, data: DataSet, ours: str, label: str, others: Sequence[str]) -> Versus | None:
    """Compare `ours` with the fastest of `others`, known together as `label`."""
    best = fastest([_tally(suite, data, name) for name in others])
    found = ratio(data, ours, best.contestant) if best else None
    return Versus(suite, data.name, ours, label, best.contestant, found) if best and found else None

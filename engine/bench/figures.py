"""Medians, quartiles and percentiles of what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles of `count` values."""

    middle: float
    low: float
    high: float
    count: int

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return {
            "median": round(self.middle, 4),
            "q1": round(self.low, 4),
            "q3": round(self.high, 4),
            "holes": self.count,
        }

    def __str__(self) -> str:
        return f"{self.middle:.2f} ({self.low:.2f}-{self.high:.2f})"


def spread_of(values: Sequence[float]) -> Spread | None:
    """Return median and quartiles, None of nothing."""
    if not values:
        return None
    low, _, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else (values[0],) * 3
    return Spread(median(values), low, high, len(values))


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the smallest value that at least `share` of the values do not exceed, None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def p50_p95(values: Sequence[float]) -> dict[str, Any]:
    """Return both percentiles as plain data, with how many values they stand on."""
    both = {"p50": percentile(values, 0.5), "p95": percentile(values, 0.95)}
    return {name: None if v is None else round(v, 3) for name, v in both.items()} | {"count": len(values)}

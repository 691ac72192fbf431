"""What passes cost on this machine: milliseconds by rows, for the target and for the draft model.

The shape of a curve is measured when a model is loaded (see calibration) and hardly changes; how fast the machine is
just now changes by the second and is the same for both models, so it is kept apart, as one factor. Before anything was
measured the unit is a one-row pass of the target.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

FEW = 16  # unread tokens that a model's next pass takes along as rows; more are read before, as a prompt is
ROW_PRIOR = 0.06  # a further row costs this share of a one-row pass until measured
DRAFT_PRIOR = 0.4  # a draft pass's share of a target pass until measured
SHAPE_MEMORY = 0.98  # weight of the past in a curve's points, once there is one
FIRST_PASSES = 8  # how many passes a point counts for at first, be it measured at load or read off the curve
BENT = 1.25  # no pass bends the curve by more than this factor: a sudden change is the machine's pace
PACE_MEMORY = 0.7  # and in the machine's pace
ODD = 2.0  # no pass counts for more than this many times what was expected, nor for less than its inverse


class RowCosts:
    """Milliseconds of one model's pass by its rows, straight between the row counts that were measured."""

    def __init__(self, points: Mapping[int, float] | None = None) -> None:
        self.points = dict(sorted((points or {}).items()))
        self._seen: Counter[int] = Counter()

    def of(self, rows: float) -> float:
        """Return the expected milliseconds of a pass; at least one point must be known."""
        known = list(self.points)
        above = next((at for at, point in enumerate(known) if point >= rows), len(known))
        if above == 0:
            return self._beyond(known[0], rows)
        if above == len(known):
            return self._onwards(rows)
        low, high = known[above - 1], known[above]
        share = (rows - low) / (high - low)
        return self.points[low] * (1 - share) + self.points[high] * share

    def _beyond(self, nearest: int, rows: float) -> float:
        return self.points[nearest] * (1 + ROW_PRIOR * (rows - 1)) / (1 + ROW_PRIOR * (nearest - 1))

    def _onwards(self, rows: float) -> float:
        """Go on as between the last two points: the last stretch is the steepest of a pass."""
        *_, last = self.points
        if len(self.points) == 1:
            return self._beyond(last, rows)
        before = list(self.points)[-2]
        slope = max(0.0, (self.points[last] - self.points[before]) / (last - before))
        return self.points[last] + slope * (rows - last)

    def observe(self, rows: int, ms: float) -> None:
        """Take in one pass, already divided by the machine's pace."""
        known = self.of(rows) if self.points else ms
        self._seen[rows] += 1
        weight = max(1 / (FIRST_PASSES + self._seen[rows]), 1 - SHAPE_MEMORY)
        self.points[rows] = known + weight * (ms - known)
        self.points = dict(sorted(self.points.items()))


@dataclass(slots=True)
class Costs:
    """Both models' curves, the machine's present pace, and what a round costs beside its passes."""

    target: RowCosts = field(default_factory=RowCosts)
    draft: RowCosts = field(default_factory=RowCosts)
    overhead: float = 0.0
    pace: float = 1.0

    def verify(self, rows: float) -> float:
        """Expected milliseconds of a target pass, 1.0 for one row when nothing was measured yet."""
        if not self.target.points:
            return 1.0 + ROW_PRIOR * (rows - 1)
        return self.pace * self.target.of(rows)

    def write(self, rows: float) -> float:
        """Expected milliseconds of a pass of the draft model."""
        if not self.draft.points:
            return DRAFT_PRIOR * self.verify(1) * (1.0 + ROW_PRIOR * (rows - 1))
        return self.pace * self.draft.of(rows)

    def observe_target(self, rows: int, ms: float) -> None:
        """Take in one measured target pass."""
        self._observe(self.target, rows, ms)

    def observe_draft(self, rows: int, ms: float) -> None:
        """Take in one measured pass of the draft model."""
        self._observe(self.draft, rows, ms)

    def observe_overhead(self, ms: float) -> None:
        """Take in what a round cost beside its passes."""
        self.overhead = ms if not self.overhead else PACE_MEMORY * self.overhead + (1 - PACE_MEMORY) * ms

    def _observe(self, curve: RowCosts, rows: int, ms: float) -> None:
        if curve.points:
            expected = self.pace * curve.of(rows)
            ratio = min(max(ms / expected, 1 / ODD), ODD)
            self.pace *= PACE_MEMORY + (1 - PACE_MEMORY) * ratio
            ms = expected * min(max(ratio, 1 / BENT), BENT)
        curve.observe(rows, ms / self.pace)

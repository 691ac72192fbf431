"""Running totals over a long list of numbers that changes in one place at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

_STRETCH = 256


class Sums:
    """Numbers, none negative, and the totals before each of them.

    Totals are worked out only as far as somebody asked: edits close to each other, in either direction, never pay for
    the length of the list.
    """

    def __init__(self) -> None:
        self.total = 0
        self._values: list[int] = []
        self._totals = [0]  # _totals[i] is the sum of _values[:i]; may end early

    def replace(self, start: int, end: int, values: Sequence[int]) -> None:
        """Put other numbers in the place of those from `start` up to `end`."""
        old = self._values[start:end]
        if old == values:
            return
        self.total += sum(values) - sum(old)
        self._values[start:end] = values
        del self._totals[start + 1 :]

    def before(self, index: int) -> int:
        """Return the sum of the numbers before an index."""
        while len(self._totals) <= index:
            self._extend()
        return self._totals[index]

    def find(self, goal: int) -> int:
        """Return the first index with which the sum reaches the goal, or the total where the goal is above it."""
        goal = min(goal, self.total)
        while self._totals[-1] < goal:
            self._extend()
        return max(0, bisect_left(self._totals, goal) - 1)

    def _extend(self) -> None:
        known = len(self._totals) - 1
        more = accumulate(self._values[known : known + _STRETCH], initial=self._totals.pop())
        self._totals.extend(more)

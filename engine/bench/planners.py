"""Planners that do not weigh: one fixed choice at every step, to measure what weighing gains."""

from __future__ import annotations

from collections.abc import Sequence

from engine.planner import Planner

CERTAIN = 1e9  # tokens per millisecond; nothing else promises as much


class FixedLookup(Planner):
    """Verifies every match, `length` tokens of it."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def lookup_length(self, match_length: int, kind: str, available: int) -> tuple[int, float]:
        """Take the fixed length of whatever was found."""
        return min(self.length, available), CERTAIN if available else 0.0


class FixedModel(Planner):
    """Lets the draft model write `length` tokens before every pass."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def model_length(self, most: int, behind: int = 0) -> tuple[int, float]:
        """Take the fixed length, whatever the draft model has to read first."""
        return min(self.length, most), CERTAIN

    def worth_extending(self, confidence: Sequence[float]) -> bool:
        """Go on until the fixed length, however sure the draft model is."""
        return len(confidence) < self.length

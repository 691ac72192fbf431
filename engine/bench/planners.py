"""Planners that do not weigh: one fixed choice at every step, to measure what weighing gains."""

from __future__ import annotations

from collections.abc import Sequence

from engine.acceptance import Evidence
from engine.core import Option
from engine.planner import Planner

CERTAIN = 1e9  # tokens a millisecond; nothing else promises as much


class FixedLookup(Planner):
    """Verifies every match, `length` tokens of it."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def cut(self, name: str, chain: Sequence[Evidence], spent: float = 0.0) -> Option:
        """Take the fixed length of whatever was found."""
        return Option(name, min(self.length, len(chain)), CERTAIN, 1.0)


class FixedModel(Planner):
    """Lets the draft model write `length` tokens before every pass."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def cut(self, name: str, chain: Sequence[Evidence], spent: float = 0.0) -> Option:
        """Take the fixed length of what was written."""
        return Option(name, min(self.length, len(chain)), CERTAIN, 1.0)

    def hope(self, checked: Sequence[Evidence], room: int, behind: int) -> Option:
        """Ask the draft model, whatever it has to read first."""
        return Option("model", min(self.length, room), 2 * CERTAIN, 1.0)

    def another(self, chain: Sequence[Evidence], spent: float) -> bool:
        """Go on until the fixed length, however sure the draft model is."""
        return len(chain) < self.length

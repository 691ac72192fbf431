"""Stand-ins with the real interfaces: a drafter that is right, wrong or random, a planner that drafts all it can."""

from __future__ import annotations

import random
from collections.abc import Sequence

from engine.drafters import DraftContext, Extend, Proposal
from engine.planner import Planner


class EagerPlanner(Planner):
    """Verifies everything proposed, whatever it costs: tests of exactness want drafts, not speed."""

    def lookup_length(self, match_length: int, kind: str, available: int) -> tuple[int, float]:
        return available, 1e9 if available else 0.0

    def model_length(self, most: int, behind: int = 0) -> tuple[int, float]:
        return most, 1e9

    def worth_extending(self, confidence: Sequence[float]) -> bool:
        return True


class ScriptedDrafter:
    """Proposes `length` tokens by a rule: right (what the target will say), wrong, or random lengths of both."""

    name = "lookup"

    def __init__(self, rule: str, length: int, truth: Sequence[int], seed: int = 0) -> None:
        self.rule, self.length, self.truth = rule, length, list(truth)
        self._random = random.Random(seed)

    def propose(self, context: DraftContext, limit: int, extend: Extend) -> Proposal:
        length = self._random.randint(0, self.length) if self.rule == "random" else self.length
        ids = self.truth[context.generated : context.generated + length]
        if self.rule == "wrong":
            ids = [i ^ 1 for i in ids]
        if self.rule == "random" and ids:
            spoilt = self._random.randrange(len(ids) + 1)
            ids = [*ids[:spoilt], *(i ^ 1 for i in ids[spoilt:])]
        return Proposal(tuple(ids[:limit]), "prompt", 4)

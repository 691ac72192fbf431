"""Stand-ins with the real interfaces: a drafter that is right, wrong or random, a planner that drafts all it can."""

from __future__ import annotations

import random
from collections.abc import Sequence

from engine.acceptance import Evidence, copied
from engine.core import Option
from engine.drafters import DraftContext, Drafter, ModelDrafter, Proposal
from engine.healing import Healer
from engine.planner import Planner
from engine.proposer import Proposer


class EagerPlanner(Planner):
    """Verifies everything proposed, whatever it costs: tests of exactness want drafts, not speed."""

    def cut(self, name: str, chain: Sequence[Evidence], spent: float = 0.0) -> Option:
        return Option(name, len(chain), 1e9, 1.0)

    def hope(self, checked: Sequence[Evidence], room: int, behind: int) -> Option:
        return Option("model", room, 2e9, 1.0)

    def another(self, chain: Sequence[Evidence], spent: float) -> bool:
        return True

    def checks(self, chain: Sequence[Evidence]) -> int:
        return len(chain)


class ScriptedDrafter:
    """Proposes `length` tokens by a rule: right (what the target will say), wrong, or random lengths of both."""

    def __init__(self, rule: str, length: int, truth: Sequence[int], seed: int = 0) -> None:
        self.rule, self.length, self.truth = rule, length, list(truth)
        self._random = random.Random(seed)

    def propose(self, context: DraftContext, limit: int) -> Proposal:
        length = self._random.randint(0, self.length) if self.rule == "random" else self.length
        ids = self.truth[context.generated : context.generated + length]
        if self.rule == "wrong":
            ids = [i ^ 1 for i in ids]
        if self.rule == "random" and ids:
            spoilt = self._random.randrange(len(ids) + 1)
            ids = [*ids[:spoilt], *(i ^ 1 for i in ids[spoilt:])]
        ids = ids[:limit]
        return Proposal(tuple(ids), (copied("prompt", 4),) * len(ids))


def proposer_of(drafters: Sequence[Drafter | ModelDrafter], planner: Planner, healer: Healer) -> Proposer:
    """Put at most one drafter of each kind to work."""
    lookup = next((d for d in drafters if not isinstance(d, ModelDrafter)), None)
    model = next((d for d in drafters if isinstance(d, ModelDrafter)), None)
    return Proposer(lookup, model, planner, healer)

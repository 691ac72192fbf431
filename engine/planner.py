"""What to propose at each step: the option with the most expected tokens per millisecond.

Speculation pays E[tokens] / (draft cost + v(rows)) (Leviathan et al., arXiv:2211.17192, with a pass whose
cost depends on its rows). v(rows), the draft model's cost and the acceptance rates are kept current from real passes;
before the first pass they are priors. The choice changes speed only, never text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

MEMORY = 0.8  # weight of the past in a running cost
ROW_PRIOR = 0.04  # a further row costs this share of a one-row pass until measured
READ_SHARE = 0.07  # a token the draft model reads in a prefill costs this share of a step
DRAFT_PRIOR = 0.35  # a draft step's share of a target pass until measured
PRIOR_WEIGHT = 2.0  # how many observed tokens a prior acceptance counts for
FORGET = 0.98  # acceptance counts fade, so that a change of text shows
FADE = 0.99  # per step in which the evidence was there and not used
LOOKUP_PRIOR = {1: 0.45, 2: 0.6, 4: 0.75, 8: 0.85, 16: 0.93}  # acceptance by match length, from that length on
MODEL_PRIOR = 0.75


@dataclass(slots=True)
class CostCurve:
    """Milliseconds of a target pass by rows, and of a draft step."""

    passes: dict[int, float] = field(default_factory=dict)
    draft_step: float | None = None

    def observe_pass(self, rows: int, ms: float) -> None:
        """Take in one measured target pass."""
        known = self.passes.get(rows)
        # An outlier is a busy machine, not a dearer pass: no observation counts for more than twice what was known.
        self.passes[rows] = ms if known is None else MEMORY * known + (1 - MEMORY) * min(ms, 2 * known)

    def observe_draft(self, steps: int, ms: float) -> None:
        """Take in one measured run of the draft model."""
        if steps:
            step = ms / steps
            known = self.draft_step
            self.draft_step = step if known is None else MEMORY * known + (1 - MEMORY) * min(step, 2 * known)

    def verify(self, rows: int) -> float:
        """Expected milliseconds of a pass over `rows` rows, 1.0 for one row when nothing was measured yet."""
        if not self.passes:
            return 1.0 + ROW_PRIOR * (rows - 1)
        below = max((r for r in self.passes if r <= rows), default=None)
        above = min((r for r in self.passes if r >= rows), default=None)
        if below is not None and above is not None and below != above:
            share = (rows - below) / (above - below)
            return self.passes[below] * (1 - share) + self.passes[above] * share
        known = below if below is not None else above
        assert known is not None
        base = self.passes[known] / (1 + ROW_PRIOR * (known - 1))
        return base * (1 + ROW_PRIOR * (rows - 1))

    def draft(self, steps: int) -> float:
        """Expected milliseconds of `steps` draft-model steps."""
        step = self.draft_step if self.draft_step is not None else DRAFT_PRIOR * self.verify(1)
        return steps * step


@dataclass(slots=True)
class Acceptance:
    """Running acceptance per drafted token, by kind of evidence."""

    counts: dict[str, tuple[float, float]] = field(default_factory=dict)  # accepted, judged

    def rate(self, key: str, prior: float) -> float:
        """Estimated probability that a token with this evidence is accepted, given that those before it were."""
        accepted, judged = self.counts.get(key, (0.0, 0.0))
        return (accepted + prior * PRIOR_WEIGHT) / (judged + PRIOR_WEIGHT)

    def observe(self, key: str, accepted: int, drafted: int) -> None:
        """Take in one verified draft: tokens after the first mistake were never judged."""
        old_accepted, old_judged = self.counts.get(key, (0.0, 0.0))
        judged = accepted + (accepted < drafted)
        self.counts[key] = (old_accepted * FORGET + accepted, old_judged * FORGET + judged)

    def fade(self, key: str) -> None:
        """Believe a little less in what was seen: evidence that is no longer used must get another try some day."""
        accepted, judged = self.counts.get(key, (0.0, 0.0))
        self.counts[key] = (accepted * FADE, judged * FADE)


class Planner:
    """Weighs options. Text in no form comes near it."""

    def __init__(self) -> None:
        self.costs = CostCurve()
        self.acceptance = Acceptance()

    def lookup_length(self, match_length: int, kind: str, available: int) -> tuple[int, float]:
        """Return how many of `available` looked-up tokens to verify, and the expected tokens per millisecond."""
        key, prior = _lookup_key(match_length, kind)
        length, speed = self._best_length(self.acceptance.rate(key, prior), available, draft_cost=0.0)
        if available and not length:
            self.acceptance.fade(key)
        return length, speed

    def model_length(self, most: int, behind: int = 0) -> tuple[int, float]:
        """Return how many tokens the draft model should write, and the expected tokens per millisecond.

        `behind` tokens it would have to read first are charged to this step, once a step's cost is known: the first
        time it is tried at any price, or nothing would ever be known.
        """
        rate = self.acceptance.rate("model", MODEL_PRIOR)
        reading = behind * READ_SHARE * self.costs.draft(1) if self.costs.draft_step is not None else 0.0
        length, speed = self._best_length(rate, most, self.costs.draft(1), reading)
        if not length:
            self.acceptance.fade("model")
        return length, speed

    def _best_length(self, rate: float, most: int, draft_cost: float, fixed_cost: float = 0.0) -> tuple[int, float]:
        best, best_speed, expected, survive = 0, 1.0 / self.costs.verify(1), 1.0, 1.0
        for length in range(1, most + 1):
            survive *= rate
            expected += survive
            cost = fixed_cost + draft_cost * length + self.costs.verify(length + 1)
            if expected / cost > best_speed:
                best, best_speed = length, expected / cost
        return best, best_speed

    def worth_extending(self, confidence: Sequence[float]) -> bool:
        """Whether one more draft-model token raises the expected tokens per millisecond, given those written."""
        rate = self.acceptance.rate("model", MODEL_PRIOR)
        survive, expected = 1.0, 1.0
        for probability in confidence:
            survive *= (probability + rate) / 2
            expected += survive
        length = len(confidence)
        cost = self.costs.draft(length) + self.costs.verify(length + 1)
        more = self.costs.draft(1) + self.costs.verify(length + 2) - self.costs.verify(length + 1)
        return survive * rate / max(more, 1e-9) > expected / cost

    def observe(self, source: str, kind: str, match_length: int, accepted: int, drafted: int) -> None:
        """Take in one verified draft."""
        key = "model" if source == "model" else _lookup_key(match_length, kind)[0]
        self.acceptance.observe(key, accepted, drafted)


def _lookup_key(match_length: int, kind: str) -> tuple[str, float]:
    floor = max((n for n in LOOKUP_PRIOR if n <= match_length), default=1)
    return f"lookup/{kind}/{floor}", LOOKUP_PRIOR[floor]

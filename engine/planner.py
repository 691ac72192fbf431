"""What to propose at each step: the option with the most expected tokens per millisecond.

Speculation pays E[tokens] / (overhead + draft cost + v(rows)) (Leviathan et al., arXiv:2211.17192, with a pass whose
cost depends on its rows). Costs and acceptance are kept current from real passes. The choice changes speed only, never
text.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.acceptance import ANY_WRITTEN, Acceptance, Evidence
from engine.core import Option
from engine.costs import FEW, Costs

READ_SHARE = 0.07  # a token the draft model reads in a prefill costs this share of a one-row pass of it
LEAST_GAIN = 1.02  # an option must promise this many times what a plain step does: estimates err
ASKING_GAIN = 1.05  # and the draft model, of which nothing is seen yet, this many times what can be had without it
MOST_STEPS = 8  # of the draft model before one pass of the target


class Planner:
    """Weighs options. Text in no form comes near it."""

    def __init__(self, costs: Costs | None = None) -> None:
        self.costs = costs or Costs()
        self.acceptance = Acceptance()

    def plain(self) -> Option:
        """Return what a pass without a draft promises."""
        return Option("none", 0, 1.0, self.costs.overhead + self.costs.verify(1))

    def cut(self, name: str, chain: Sequence[Evidence], spent: float = 0.0) -> Option:
        """Return the best beginning of a chain of proposed tokens; `spent` milliseconds it has cost already."""
        fixed = self.costs.overhead + spent
        best = Option(name, 0, 1.0, fixed + self.costs.verify(1))
        expected, survive = 1.0, 1.0
        for length, evidence in enumerate(chain, 1):
            survive *= self.acceptance.rate(evidence)
            expected += survive
            option = Option(name, length, expected, fixed + self.costs.verify(length + 1))
            if option.speed > best.speed * (LEAST_GAIN if not best.length else 1.0):
                best = option
        return best

    def hope(self, checked: Sequence[Evidence], room: int, behind: int) -> Option:
        """Return what the draft model promises before it is asked.

        Its first pass checks the copied tokens `checked` along the way, each further one writes a token. `behind`
        tokens it would have to read first are charged to this step, once the cost of a pass of it is known: the first
        time it is tried at any price, or nothing would ever be known.
        """
        rate = self.acceptance.rate(ANY_WRITTEN)
        known = bool(self.costs.draft.points)
        along = behind if known and behind <= FEW else 0
        cost = self.costs.overhead + self.costs.write(1 + len(checked) + along)
        if known and behind > FEW:
            cost += behind * READ_SHARE * self.costs.write(1)
        length = 1.0 + self._survivors(checked)
        best = Option("model", 0, 1.0, self.costs.overhead + self.costs.verify(1))
        for _ in range(MOST_STEPS):
            if length > room:
                break
            option = Option("model", round(length), _sum_of_powers(rate, length), cost + self.costs.verify(length + 1))
            if option.speed > best.speed:
                best = option
            length += 1.0
            cost += self.costs.write(1)
        return best

    def passed_over(self) -> None:
        """The draft model could have been asked and was not."""
        self.acceptance.fade(ANY_WRITTEN)

    def another(self, chain: Sequence[Evidence], spent: float) -> bool:
        """Whether one more pass of the draft model raises the expected tokens per millisecond, given those written."""
        if not chain:
            return True  # `hope` has decided that
        so_far = self.cut("model", chain, spent)
        survive, expected = 1.0, 1.0
        for evidence in chain:
            survive *= self.acceptance.rate(evidence)
            expected += survive
        gain = survive * self.acceptance.rate(ANY_WRITTEN)
        cost = self.costs.overhead + spent + self.costs.write(1) + self.costs.verify(len(chain) + 2)
        return (expected + gain) / cost > so_far.speed

    def checks(self, chain: Sequence[Evidence]) -> int:
        """Return how many copied tokens the draft model should check in its next pass.

        One more pays while the pass it may save is worth more than the row it costs.
        """
        survive, count = 1.0, 0
        for evidence in chain:
            survive *= self.acceptance.rate(evidence)
            row = self.costs.write(count + 2) - self.costs.write(count + 1)
            if survive * self.costs.write(1) <= row:
                break
            count += 1
        return count

    def _survivors(self, chain: Sequence[Evidence]) -> float:
        survive, total = 1.0, 0.0
        for evidence in chain:
            survive *= self.acceptance.rate(evidence)
            total += survive
        return total


def _sum_of_powers(rate: float, length: float) -> float:
    """1 + rate + ... + rate^length, for a length that need not be whole."""
    if rate >= 1.0:
        return 1.0 + length
    return float((1.0 - rate ** (length + 1.0)) / (1.0 - rate))

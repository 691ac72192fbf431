"""What is proposed at a step: nothing, a copy, what the draft model writes, or that and a copy behind it.

The planner weighs, this file asks: copying is free and asked first; the draft model is asked when it promises more.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from engine.core import Option
from engine.drafters import NOTHING, DraftContext, Drafter, ModelDrafter, Proposal
from engine.healing import Healer
from engine.planner import ASKING_GAIN, Planner


@dataclass(frozen=True, slots=True)
class Plan:
    """The tokens to verify, everything that was proposed on the way, and what was weighed against what.

    `seen` are the whole proposals: the text will judge them, also where they were not verified.
    """

    proposal: Proposal = NOTHING
    seen: tuple[Proposal, ...] = ()
    options: tuple[Option, ...] = ()


class Proposer:
    """Asks the drafters there are, led by the planner."""

    def __init__(self, lookup: Drafter | None, model: ModelDrafter | None, planner: Planner, healer: Healer) -> None:
        self._lookup, self._model, self._planner, self._healer = lookup, model, planner, healer

    def propose(self, context: DraftContext, room: int) -> Plan:
        """Take what promises most tokens per millisecond, of at most `room` tokens."""
        began = time.perf_counter()
        copy = self._copied(context, room)
        self._planner.costs.observe_overhead((time.perf_counter() - began) * 1e3)
        options = [self._planner.plain(), self._planner.cut("lookup", copy.evidence)]
        if self._model is None or room < 1:
            return _chosen(copy, options[1], (copy,), options)
        checked = copy.evidence[: self._planner.checks(copy.evidence)]
        hope = self._planner.hope(checked, room, self._model.behind(context.ids))
        options.append(hope)
        if not hope.length or hope.speed <= ASKING_GAIN * max(option.speed for option in options[:2]):
            self._planner.passed_over()
            return _chosen(copy, options[1], (copy,), options)
        return self._with_model(self._model, context, room, copy, options)

    def _with_model(
        self, model: ModelDrafter, context: DraftContext, room: int, copy: Proposal, options: list[Option]
    ) -> Plan:
        model.catch_up(context.ids, context.cancel)
        began = time.perf_counter()
        wrote = model.propose(context, room, options[-1].length, self._planner.another, self._guess)
        for rows, ms in wrote.passes:
            self._planner.costs.observe_draft(rows, ms)
        spent = (time.perf_counter() - began) * 1e3
        whole = wrote.followed_by(self._behind(context, wrote, room))
        option = self._planner.cut("model", whole.evidence, spent)
        copying = self._planner.cut("lookup", copy.evidence, spent)
        if copying.speed > option.speed:
            return _chosen(copy, copying, (copy, wrote), [*options, option])
        return _chosen(whole, option, (copy, wrote), [*options, option])

    def _copied(self, context: DraftContext, room: int) -> Proposal:
        return self._lookup.propose(context, room) if self._lookup is not None and room > 0 else NOTHING

    def _guess(self, context: DraftContext, most: int) -> Sequence[int]:
        copy = self._copied(context, most)
        return copy.ids[: self._planner.checks(copy.evidence)]

    def _behind(self, context: DraftContext, wrote: Proposal, room: int) -> Proposal:
        """Copy on from where the draft model stopped: more rows cost less than more of its passes."""
        if not wrote.ids:
            return NOTHING
        return self._copied(context.after(wrote.ids, self._healer), room - len(wrote.ids))


def _chosen(proposal: Proposal, option: Option, seen: tuple[Proposal, ...], options: Sequence[Option]) -> Plan:
    return Plan(proposal.cut(option.length), seen, tuple(options))

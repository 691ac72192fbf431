"""What makes a run's figures worthless or doubtful, said in plain sentences."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from engine.acceptance import ANY_WRITTEN
from engine.bench.contestant import EngineContestant
from engine.bench.measure import DataSet
from engine.bench.tally import Tally
from engine.costs import Costs


def idle_drafters(contestants: Sequence[EngineContestant]) -> tuple[list[str], list[str]]:
    """Return failures and warnings about drafters that were switched on and drafted nothing in the whole run.

    A draft model that the planner weighed, and left out for its cost, is a finding; one it never weighed, and a lookup
    that found nothing in texts that repeat themselves, are faults.
    """
    failures: list[str] = []
    warnings: list[str] = []
    for contestant in contestants:
        for source in contestant.variant.drafters:
            if contestant.drafted[source]:
                continue
            excuse = _excuse(contestant, source)
            subject = f"{contestant.name}: {source} is switched on and drafted nothing"
            if excuse:
                warnings.append(f"{subject}; {excuse}")
            else:
                failures.append(f"{subject} in the whole run; the figures of {contestant.name} mean nothing")
    return failures, warnings


def _excuse(contestant: EngineContestant, source: str) -> str:
    if source == "model" and ANY_WRITTEN.key in contestant.engine.planner.acceptance.counts:
        return f"the planner left it out for its cost ({costs_in_words(contestant.engine.planner.costs)})"
    if source == "lookup" and contestant.sampling.temperature:
        return "in text drawn at random there is little to find"
    return ""


def costs_in_words(costs: Costs) -> str:
    """Say what the planner knows of a step of the draft model and of a pass of the target."""
    step = f"a draft step {costs.write(1):.1f} ms"
    return f"{step}, a pass {costs.verify(1):.1f} ms at 1 row and {costs.verify(8):.1f} ms at 8"


def changed_texts(found: Sequence[Tally], ours: Collection[str], exact: bool) -> tuple[list[str], list[str]]:
    """Return failures, or warnings where the network is not `exact`, about texts that drafts changed."""
    lines = [
        f"{t.suite}, {t.data}: {t.contestant} wrote the text of the target alone on {t.same} of {t.holes} holes only"
        for t in found
        if t.contestant in ours and t.same < t.holes
    ]
    return (lines, []) if exact else ([], lines)


def dead_data_sets(found: Sequence[tuple[str, DataSet]]) -> list[str]:
    """Return failures about data sets on which somebody finished no hole at all."""
    return [
        f"{suite}, {data.name}: {name} failed on every hole ({data.failures[0].reason})"
        for suite, data in found
        for name in data.contestants
        if data.failures and not any(hole.runs.get(name) for hole in data.holes)
    ]

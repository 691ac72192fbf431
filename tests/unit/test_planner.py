"""The planner drafts where drafts pay and stops where they do not."""

from __future__ import annotations

import pytest

from engine.planner import Acceptance, CostCurve, Planner


def taught(passes: dict[int, float], draft_step: float = 40.0) -> Planner:
    planner = Planner()
    for rows, ms in passes.items():
        planner.costs.observe_pass(rows, ms)
    planner.costs.observe_draft(1, draft_step)
    return planner


def test_drafts_that_always_fail_are_given_up():
    """After a run of rejected drafts the chosen length is zero, for lookup and for the draft model (B86)."""
    planner = taught({1: 100, 8: 140})
    for _ in range(40):
        planner.observe("lookup", "buffer", 2, accepted=0, drafted=4)
        planner.observe("model", "model", 0, accepted=0, drafted=2)
    assert planner.lookup_length(2, "buffer", 16)[0] == 0
    assert planner.model_length(8)[0] == 0
    assert not planner.worth_extending([])


def test_drafts_that_were_given_up_get_another_try():
    """After some hundred steps without it, a source of drafts is tried again."""
    planner = taught({1: 100, 8: 140})
    for _ in range(40):
        planner.observe("lookup", "buffer", 2, accepted=0, drafted=4)
    waited = next(n for n in range(2000) if planner.lookup_length(2, "buffer", 16)[0])
    assert 20 < waited < 1000


def test_drafts_that_always_hold_grow_to_what_is_offered():
    """With perfect acceptance and a flat cost curve everything offered is verified."""
    planner = taught({1: 100, 16: 110})
    for _ in range(40):
        planner.observe("lookup", "after", 20, accepted=16, drafted=16)
    assert planner.lookup_length(20, "after", 16)[0] == 16


def test_evidence_of_one_kind_says_nothing_about_another():
    """Short matches that fail leave the trust in long matches as it was."""
    planner = taught({1: 100, 8: 120})
    before = planner.lookup_length(16, "after", 8)
    for _ in range(40):
        planner.observe("lookup", "after", 1, accepted=0, drafted=3)
    assert planner.lookup_length(16, "after", 8) == before


def test_a_dear_draft_model_is_left_out():
    """A draft step as dear as a pass is never taken, a cheap one is."""
    assert taught({1: 100, 4: 110}, draft_step=100).model_length(8)[0] == 0
    assert taught({1: 100, 4: 110}, draft_step=5).model_length(8)[0] > 2


def test_a_draft_model_that_is_far_behind_is_left_behind():
    """What it would have to read first is charged, except the first time, when its cost is not known yet."""
    assert taught({1: 100, 4: 110}, draft_step=5).model_length(8, behind=3)[0] > 0
    assert taught({1: 100, 4: 110}, draft_step=5).model_length(8, behind=2000)[0] == 0
    assert Planner().model_length(8, behind=2000)[0] > 0


def test_steep_rows_shorten_the_draft():
    """The dearer a further row, the shorter the draft."""
    lengths = [taught({1: 100, 16: ms}).lookup_length(4, "buffer", 15)[0] for ms in (110, 400, 1600)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]


def test_low_confidence_ends_the_draft_model_early():
    """After tokens the draft model is unsure of, one more is not worth its cost."""
    planner = taught({1: 100, 4: 110}, draft_step=20)
    assert planner.worth_extending([0.99])
    assert not planner.worth_extending([0.2, 0.1, 0.1])


def test_costs_between_measured_rows_are_interpolated():
    """Between two measured row counts the curve is straight; beyond them it goes on from the nearest."""
    curve = CostCurve()
    assert curve.verify(1) == pytest.approx(1.0)
    curve.observe_pass(1, 100)
    curve.observe_pass(5, 140)
    assert curve.verify(3) == pytest.approx(120)
    assert curve.verify(9) > 140


def test_one_outlier_does_not_rule_the_curve():
    """A pass ten times slower than known raises the estimate by a fifth at most."""
    curve = CostCurve()
    curve.observe_pass(1, 100)
    curve.observe_pass(1, 1000)
    assert curve.verify(1) <= 120


def test_tokens_after_the_first_mistake_are_not_judged():
    """Two of eight accepted count as two successes and one failure."""
    acceptance = Acceptance()
    acceptance.observe("k", accepted=2, drafted=8)
    assert acceptance.counts["k"] == (2, 3)
    acceptance.observe("all", accepted=4, drafted=4)
    assert acceptance.counts["all"] == (4, 4)

"""The planner drafts where drafts pay and stops where they do not."""

from __future__ import annotations

import pytest

from engine.acceptance import ANY_WRITTEN, Acceptance, Evidence, copied, written
from engine.costs import Costs, RowCosts
from engine.planner import Planner


def taught(passes: dict[int, float], draft: float = 40.0) -> Planner:
    return Planner(Costs(RowCosts(passes), RowCosts({1: draft, 8: 1.1 * draft})))


def judged(planner: Planner, evidence: Evidence, kept: bool, times: int = 60) -> Planner:
    for _ in range(times):
        planner.acceptance.judge([evidence], int(kept), 1)
    return planner


def test_copies_that_always_fail_are_given_up():
    """After a run of rejected copies nothing of them is verified any more (B86)."""
    planner = judged(taught({1: 100, 8: 140}), copied("buffer", 2), kept=False)
    assert planner.cut("lookup", [copied("buffer", 2)] * 4).length == 0


def test_a_draft_model_that_always_fails_is_given_up_and_tried_again_some_day():
    """After a run of rejected tokens the draft model is not asked; after some hundred steps without it, it is (B86)."""
    planner = judged(taught({1: 100, 8: 140}), written(0.9), kept=False)
    assert planner.hope([], 8, 0).length == 0
    waited = 0
    while not planner.hope([], 8, 0).length and waited < 2000:
        planner.passed_over()
        waited += 1
    assert 20 < waited < 1000


def test_copies_that_always_hold_grow_to_what_is_offered():
    """With perfect acceptance and a flat cost curve everything offered is verified."""
    planner = judged(taught({1: 100, 16: 110}), copied("after", 32), kept=True)
    assert planner.cut("lookup", [copied("after", 32)] * 16).length == 16


def test_evidence_of_one_kind_says_nothing_about_another():
    """Short matches that fail leave the trust in long matches as it was."""
    planner = taught({1: 100, 8: 120})
    chain = [copied("after", 16)] * 8
    before = planner.cut("lookup", chain)
    assert judged(planner, copied("after", 1), kept=False).cut("lookup", chain) == before


def test_a_completion_that_copies_in_vain_stops_copying_from_everywhere_until_the_next_begins():
    """Ten failed short copies from one place make short copies from another not worth a row, in this one only."""
    planner = taught({1: 100, 8: 200})
    chain = [copied("after", 2 + at) for at in range(3)]
    assert planner.cut("lookup", chain).length > 0
    judged(planner, copied("buffer", 2), kept=False, times=10)
    assert planner.cut("lookup", chain).length == 0
    planner.acceptance.begin()
    assert planner.cut("lookup", chain).length > 0


def test_a_copy_is_trusted_more_the_longer_it_has_held():
    """The tenth token of a copy counts as one after nine more matched tokens than the first."""
    rates = [Acceptance().rate(copied("buffer", 1 + at)) for at in range(32)]
    assert rates == sorted(rates) and rates[-1] > rates[0] + 0.3


def test_a_dear_draft_model_is_left_out():
    """A draft pass as dear as a target pass is never taken, a cheap one is."""
    assert taught({1: 100, 4: 110}, draft=100).hope([], 8, 0).length == 0
    assert taught({1: 100, 4: 110}, draft=5).hope([], 8, 0).length > 2


def test_a_draft_model_that_is_far_behind_is_left_behind():
    """What it would have to read first is charged, except the first time, when its cost is not known yet."""
    assert taught({1: 100, 4: 110}, draft=5).hope([], 8, behind=3).length > 0
    assert taught({1: 100, 4: 110}, draft=5).hope([], 8, behind=4000).length == 0
    assert Planner().hope([], 8, behind=4000).length > 0


def test_what_the_draft_model_can_check_raises_its_promise():
    """With copied tokens to check, its first pass is worth several tokens."""
    planner = taught({1: 100, 8: 130}, draft=50)
    alone = planner.hope([], 8, 0)
    assert planner.hope([copied("buffer", 12)] * 4, 8, 0).speed > alone.speed


def test_more_is_checked_the_better_the_copy():
    """The draft model reads along what is likely, and little of what is not."""
    planner = taught({1: 100, 8: 130}, draft=50)
    likely = judged(planner, copied("after", 32), kept=True)
    unlikely = judged(planner, copied("past", 1), kept=False)
    assert likely.checks([copied("after", 32)] * 6) == 6
    assert unlikely.checks([copied("past", 1)] * 6) <= 1


def test_steep_rows_shorten_the_draft():
    """The dearer a further row, the shorter the draft."""
    chain = [copied("buffer", 4 + at) for at in range(15)]
    lengths = [taught({1: 100, 16: ms}).cut("lookup", chain).length for ms in (110, 400, 1600)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]


def test_low_confidence_ends_the_draft_model_early():
    """After tokens the draft model is unsure of, one more is not worth its cost."""
    planner = taught({1: 100, 4: 110}, draft=20)
    assert planner.another([], 0.0)
    assert planner.another([written(0.999)], 20.0)
    assert not planner.another([written(0.2), written(0.1), written(0.1)], 60.0)


def test_milliseconds_spent_count_against_what_they_bought():
    """The same chain promises less the more it has cost."""
    planner = taught({1: 100, 4: 110})
    chain = [written(0.99)] * 3
    assert planner.cut("model", chain, 20.0).speed > planner.cut("model", chain, 200.0).speed


def test_costs_between_measured_rows_are_interpolated():
    """Between two measured row counts the curve is straight; beyond them it goes on as steep as at its end."""
    curve = RowCosts({1: 100, 5: 140, 9: 220})
    assert [curve.of(rows) for rows in (1, 3, 5, 7, 9, 11)] == pytest.approx([100, 120, 140, 180, 220, 260])
    assert Costs().verify(1) == pytest.approx(1.0)
    assert Costs().write(1) < 1.0


def test_a_busy_machine_changes_the_pace_not_the_choice():
    """When every pass takes twice as long, both models' costs follow, those not observed too; what pays stays."""
    planner = taught({1: 100, 8: 140}, draft=40)
    chain = [copied("buffer", 4 + at) for at in range(8)]

    def gains() -> list[float]:
        plain = planner.plain().speed
        return [planner.cut("lookup", chain).speed / plain, planner.hope([], 8, 0).speed / plain]

    before = gains()
    for _ in range(40):
        planner.costs.observe_target(1, 200.0)
    assert planner.costs.verify(8) == pytest.approx(280, rel=0.1)
    assert planner.costs.write(1) == pytest.approx(80, rel=0.1)
    assert gains() == pytest.approx(before, rel=0.06)


def test_passes_mend_a_curve_that_was_measured_wrong():
    """Rows that looked free when the model was loaded show their cost within some thirty passes, those between too."""
    costs = Costs(RowCosts({1: 100, 4: 100, 8: 140}))
    for _ in range(15):
        costs.observe_target(1, 100)
        costs.observe_target(4, 120)
    assert costs.verify(4) / costs.verify(1) == pytest.approx(1.14, abs=0.06)
    costs.observe_target(3, 130)
    assert costs.verify(3) <= costs.verify(4)


def test_one_outlier_does_not_rule_the_curve():
    """A pass ten times slower than known raises the estimate by a third at most."""
    costs = Costs(RowCosts({1: 100, 8: 140}))
    costs.observe_target(1, 1000)
    assert costs.verify(1) <= 135
    assert costs.verify(8) <= 185


def test_tokens_after_the_first_mistake_are_not_judged():
    """Two kept of eight count as two successes and one failure; beyond the known text nothing is judged."""
    acceptance = Acceptance()
    acceptance.judge([Evidence("lookup", f"k{at}", 0.5, "k") for at in range(8)], kept=2, known=3)
    assert acceptance.counts == {"k0": (1, 1), "k1": (1, 1), "k2": (0, 1)}
    acceptance.judge([Evidence("lookup", "all", 0.5, "k")] * 4, kept=4, known=4)
    assert acceptance.counts["all"][1] == pytest.approx(4, rel=0.05)
    acceptance.judge([Evidence("lookup", "cut", 0.5, "k")] * 4, kept=2, known=2)
    assert acceptance.counts["cut"][0] == acceptance.counts["cut"][1]


def test_what_the_draft_model_writes_is_counted_twice_over():
    """A written token is judged in its class of confidence and for the model as a whole."""
    acceptance = Acceptance()
    acceptance.judge([written(0.9)], 1, 1)
    assert acceptance.counts[written(0.9).key] == acceptance.counts[ANY_WRITTEN.key] == (1, 1)

"""Our engine as a contestant: what is timed, what is counted, what a repeat may not know."""

from __future__ import annotations

import pytest

from engine.acceptance import copied, written
from engine.bench.contestant import _run_of, engine_contestants, opener
from engine.bench.planners import FixedLookup, FixedModel
from engine.bench.variants import compared, product, prompt_forms
from engine.config import Limits
from engine.core import Buffer, CompletionSummary, DecodeStats, Draft, Round
from engine.holes import Hole
from tests.bench_data import SOLUTION, TEST, two_models

LIMITS = Limits(16, "free")
MIDDLE = SOLUTION.index("sum(prices)") + 5  # inside a word: healing takes it back


@pytest.fixture(scope="module")
def contestants(tiny, tiny_draft, tmp_path_factory):
    models, config = two_models(tiny, tiny_draft, tmp_path_factory.mktemp("models"))
    return engine_contestants(models, config, compared("drafters", True), LIMITS)


@pytest.fixture
def hole():
    text, at = SOLUTION, MIDDLE
    return Hole("h", "shop.py", "python", text[:at], text[at : at + 9], text[at + 9 :], (Buffer("t.py", 1, TEST),))


def summary(rounds: list[tuple[int, int]], ids: int, reason: str) -> CompletionSummary:
    """`rounds` are (accepted, emitted)."""
    made = [Round(Draft((1,) * a, ("lookup",) * a), a, (1,) * e, a + 1, 0.0, 1.0) for a, e in rounds]
    stats = DecodeStats(ms={"prefill": 5.0}, drafted={"lookup": 3}, accepted={"lookup": 2})
    return CompletionSummary("", (1,) * ids, (), reason, stats, tuple(made))


def test_the_first_pass_and_what_it_emitted_are_left_out():
    """Tokens and passes count from the second round on; tokens that a stop rule cut do not count."""
    run = _run_of(summary([(2, 3), (1, 2), (4, 5)], 8, "block"), 12.0)
    assert (run.tokens, run.passes, run.ms, run.prefill_ms) == (5, 2, 12.0, 5.0)
    assert _run_of(summary([(2, 3)], 3, "length"), 0.0).rate is None


def test_an_end_token_is_a_token_whose_pass_was_paid_for():
    """Peers count it, so ours is counted too."""
    assert _run_of(summary([(0, 1), (0, 1), (0, 0)], 2, "stop"), 9.0).tokens == 2
    assert _run_of(summary([(0, 1), (0, 1)], 2, "length"), 9.0).tokens == 1


def test_time_runs_from_the_end_of_the_first_pass_to_the_end_of_the_last(contestants, hole):
    """Everything between the rounds is timed, nothing before: more than the passes alone, less than the whole."""
    plain = contestants[0]
    opened, _ = plain._complete(hole)
    later = sum(step.verify_ms + step.draft_ms for step in opened.rounds[1:])
    assert 0 < later <= plain.engine.decode_ms <= opened.stats.ms["total"] - opened.rounds[0].verify_ms


def test_what_healing_took_back_is_spelt_by_the_first_tokens(contestants, hole):
    """The opening tells which tokens of the reference spell what the prompt lacks, and no more."""
    plain = opener(contestants)
    opening = plain.open(hole)
    owed = plain.engine.plan(hole.request(LIMITS)).owed
    assert owed and opening.spelt == opening.run.ids[: len(opening.spelt)]
    spelt = [plain._token_bytes[i] for i in opening.spelt]
    assert b"".join(spelt).startswith(owed) and not b"".join(spelt[:-1]).startswith(owed)
    assert opening.prompt == plain.engine.plan(hole.request(LIMITS)).ids


def test_a_repeat_finds_the_prompt_but_not_the_first_answer(contestants, hole):
    """Earlier completions of the hole are forgotten, or the second run would copy the first; the cache stays."""
    opening = contestants[0].open(hole)
    for contestant in contestants:
        run = contestant.run(hole, opening)
        assert run.computed_tokens == 1 and run.reused_tokens == run.prompt_tokens - 1
        assert contestant.engine._past.corpora([hole.path], 0) == []
    contestants[0].forget(hole.path)
    assert contestants[1].open(hole).run.reused_tokens == 0


def test_engines_keep_what_their_planner_learns(contestants, hole):
    """The planner a variant was given is the one its decoder asks."""
    lookup = next(c for c in contestants if c.name == "lookup")
    lookup.run(hole, lookup.open(hole))
    assert lookup.engine.planner.costs.target.points and lookup.engine._model is None
    assert lookup.drafted["lookup"] > 0


def test_fixed_planners_do_not_weigh():
    """A fixed lookup takes what is there up to its length, a fixed draft model goes on to it."""
    assert [FixedLookup(8).cut("lookup", [copied("prompt", 1)] * n).length for n in (20, 3, 0)] == [8, 3, 0]
    model = FixedModel(2)
    assert model.hope([], 9, behind=500).length == 2 and model.hope([], 1, 0).length == 1
    assert model.hope([], 9, 0).speed > model.cut("lookup", [copied("prompt", 32)] * 9).speed
    assert [model.another([written(0.01)] * n, 0.0) for n in range(4)] == [True, True, False, False]


def test_variants_without_a_draft_model_leave_it_out():
    """With one model there is nothing to draft with but lookup, and the product is lookup or the planner over it."""
    assert [v.name for v in compared("drafters", False)] == ["none", "lookup"]
    fixed = compared("fixed", False)
    assert [v.name for v in fixed] == ["none", "planner", "lookup 4", "lookup 8", "lookup 16"]
    assert product(["none", "lookup"]) == "lookup" and product([v.name for v in fixed]) == "planner"
    assert product(["none", "lookup", "model", "both"]) == "both"
    assert {v.drafters for v in prompt_forms()} == {("lookup",)}

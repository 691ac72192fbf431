"""From runs to figures: rates, ratios with spread, percentiles."""

from __future__ import annotations

import pytest

from engine.bench.figures import p50_p95, percentile, spread_of
from engine.bench.measure import DataSet
from engine.bench.run import HoleRuns, Opening, Run
from engine.bench.tally import fastest, ratio, tallies, versus_best


def hole(name: str, wanted: str = "ab", **runs: list[Run]) -> HoleRuns:
    reference = Run((1, 2), "ab", 1, 10.0, 1)
    return HoleRuns(name, wanted, Opening(reference, (7,)), runs)


def timed(tokens: int, ms: float, ids: tuple[int, ...] = (1, 2), text: str = "ab", **more) -> Run:
    return Run(ids, text, tokens, ms, **({"passes": tokens} | more))


def test_quartiles_and_percentiles_are_those_of_the_values():
    """Median and quartiles count the ends in; a percentile is a value that was really seen."""
    spread = spread_of([4.0, 1.0, 2.0, 3.0])
    assert (spread.low, spread.middle, spread.high, spread.count) == (1.75, 2.5, 3.25, 4)
    assert spread_of([5.0]).low == spread_of([5.0]).high == 5.0
    assert spread_of([]) is None and percentile([], 0.5) is None
    values = [float(n) for n in range(1, 101)]
    assert percentile(values, 0.5) == 50.0 and percentile(values, 0.95) == 95.0 and percentile(values, 1.0) == 100.0
    assert percentile([3.0], 0.95) == 3.0
    assert p50_p95([]) == {"p50": None, "p95": None, "count": 0}


def test_a_ratio_is_taken_hole_by_hole_from_medians_of_repeats():
    """A slow hole must not outweigh a fast one, nor one slow repeat the others."""
    one = hole("1", a=[timed(10, 100.0), timed(10, 100.0), timed(10, 900.0)], b=[timed(10, 50.0)])
    two = hole("2", a=[timed(10, 1000.0)], b=[timed(10, 250.0)])
    data = DataSet("d", ["a", "b"], [one, two])
    spread = ratio(data, "b", "a")
    assert spread.middle == pytest.approx(3.0) and spread.count == 2
    assert tallies("s", data)[1].tokens_per_second == pytest.approx(20 / 0.3)


def test_a_hole_too_short_to_time_counts_for_its_text_only():
    """Where nothing was decoded after the first pass there is no rate, but there is a text to compare."""
    data = DataSet("d", ["a"], [hole("1", a=[timed(0, 0.0)]), hole("2", a=[timed(4, 40.0)])])
    (tally,) = tallies("s", data)
    assert (tally.holes, tally.timed, tally.tokens) == (2, 1, 4)


def test_texts_are_compared_with_the_truth_and_with_the_target_alone():
    """Exact is about the text but for outer white space, same is about every token of every repeat."""
    runs = [timed(4, 40.0), timed(4, 40.0, ids=(1, 3))]
    data = DataSet("d", ["a"], [hole("1", wanted="  ab\n", a=runs), hole("2", wanted="no", a=runs[:1])])
    (tally,) = tallies("s", data)
    assert (tally.exact, tally.same) == (1, 1)


def test_counts_are_summed_over_all_repeats_by_source():
    """Drafted and accepted tokens are told per source; the mean acceptance length is tokens per pass."""
    run = timed(6, 40.0, passes=3, drafted={"lookup": 5, "model": 2}, accepted={"lookup": 3, "model": 0})
    (tally,) = tallies("s", DataSet("d", ["a"], [hole("1", a=[run, run])]))
    assert tally.drafted == {"lookup": 10, "model": 4} and tally.accepted == {"lookup": 6, "model": 0}
    assert tally.mean_acceptance_length == 2.0


def test_the_best_of_others_is_the_fastest_over_the_whole_data_set():
    """Ours is set against the mode that decoded the whole data set fastest, with the spread over holes."""
    data = DataSet(
        "d",
        ["ours", "slow", "fast"],
        [hole(str(n), ours=[timed(10, 10.0)], slow=[timed(10, 50.0)], fast=[timed(10, 20.0)]) for n in range(3)],
    )
    found = versus_best("s", data, "ours", "others", ["slow", "fast"])
    assert (found.best, found.ratio.middle) == ("fast", 2.0)
    assert versus_best("s", data, "ours", "others", ["absent"]) is None
    assert fastest([]) is None

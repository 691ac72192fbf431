"""Sizes of passes from made-up curves of cards, and how far passes reach."""

from __future__ import annotations

import pytest

from engine.gpu.buckets import (
    ROWS,
    choose_exact_rows,
    choose_rows,
    ends_of,
    fitting,
    reach_for,
    rounded_up,
)


def card(edge: int, slope: float = 0.005, step: float = 1.8) -> dict[int, float]:
    """A card whose fused kernels end at `edge` rows: nearly flat before, dearer by `step` after."""
    return {rows: (1 + slope * rows) * (1.0 if rows <= edge else step) for rows in ROWS}


H200, RTX4090, RTX3090 = card(5), card(8), card(16)


@pytest.mark.parametrize(("curve", "edge"), [(H200, 5), (RTX4090, 8), (RTX3090, 16)])
def test_the_last_size_before_the_kernels_end_is_kept(curve, edge):
    """The edge is a size of its own, between it and one row few others, and exact mode takes it for all passes."""
    sizes = choose_rows(curve)
    assert {1, edge, ROWS[-1]} <= set(sizes)
    assert len([size for size in sizes if size < edge]) <= 3
    assert choose_exact_rows(curve) == edge


def test_a_size_that_saves_nothing_is_not_kept():
    """On a flat curve one row and the largest remain; on a steep one all."""
    assert choose_rows(dict.fromkeys(ROWS, 1.0)) == (1, 32)
    assert choose_rows({rows: float(rows) for rows in ROWS}) == ROWS
    assert choose_rows({1: 1.0, 4: 1.2, 8: 1.23}) == (1, 8)
    assert choose_rows({1: 1.0, 4: 1.2, 8: 1.23}, worth=1.02) == (1, 4, 8)


def test_a_noisy_curve_keeps_one_row_and_the_largest():
    """A size measured dearer than a larger one is not kept, however odd that is."""
    assert choose_rows({1: 1.1, 2: 1.0, 4: 2.0, 8: 1.5}) == (1, 2, 8)


def test_exact_mode_weighs_rows_against_tokens():
    """Free rows are all taken, rows that cost a pass each are not; what is likelier to be accepted wants more."""
    assert choose_exact_rows(dict.fromkeys(ROWS, 1.0)) == ROWS[-1]
    assert choose_exact_rows({rows: float(rows) for rows in ROWS}) == 1
    steep = {rows: 1 + 0.1 * rows for rows in ROWS}
    assert choose_exact_rows(steep, 0.5) < choose_exact_rows(steep, 0.95)


def test_what_does_not_fit_a_size_takes_the_next():
    assert [fitting((1, 5, 8), rows) for rows in (1, 2, 5, 6, 8)] == [1, 5, 5, 8, 8]


def test_passes_reach_in_steps_up_to_what_is_there():
    """Short texts share one reach; longer ones take the next step; none looks beyond the buffers."""
    assert [reach_for(length, 9216, 2) for length in (1, 1024, 1025, 5000)] == [1024, 1024, 2048, 8192]
    assert [reach_for(length, 9216, 4) for length in (1025, 4097, 9000)] == [4096, 9216, 9216]
    assert reach_for(100, 512, 2) == 512
    assert [rounded_up(length) for length in (1, 256, 257)] == [256, 256, 512]


def test_both_ends_of_a_size_cost_the_same():
    assert ends_of({8: 3.0, 1: 1.0, 4: 2.0}) == {1: 1.0, 2: 2.0, 4: 2.0, 5: 3.0, 8: 3.0}

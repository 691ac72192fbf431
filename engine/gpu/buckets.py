"""Which sizes passes are padded to: rows by what they cost on this card, keys by doubling.

A recorded graph serves one size only, so every pass is padded to a size there is a graph for. Pure arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32)
"""Row counts that are tried; the last is the longest pass that is recorded."""
DEFAULT_ROWS = (1, 2, 4, 8, 16, 32)
WORTH = 1.05  # a size of its own must save this much against the next larger one
LIKELY = 0.8  # acceptance for which the exact mode's one size is chosen
LEAST_REACH = 1024  # keys; below, all passes reach equally far
UNIT = 256  # capacities are multiples of it


def choose_rows(curve: Mapping[int, float], worth: float = WORTH) -> tuple[int, ...]:
    """Pick from a measured curve {rows: ms} the sizes to keep: one row, the largest, and each that saves enough.

    Where a kernel ends the curve has a step, and the last size before it is kept by this rule.
    """
    sizes = sorted(curve)
    kept = [sizes[-1]]
    for rows in reversed(sizes[:-1]):
        if rows == sizes[0] or curve[kept[-1]] > worth * curve[rows]:
            kept.append(rows)
    return tuple(reversed(kept))


def choose_exact_rows(curve: Mapping[int, float], acceptance: float = LIKELY) -> int:
    """Pick the one size all passes of the exact mode have: the most expected tokens per millisecond.

    `rows` - 1 drafted tokens give 1 + a + ... + a^(rows - 1) tokens (Leviathan et al., arXiv:2211.17192).
    """

    def speed(rows: int) -> float:
        return float((1 - acceptance**rows) / (1 - acceptance)) / curve[rows]

    return max(sorted(curve), key=speed)


def fitting(sizes: Sequence[int], wanted: int) -> int:
    """Return the smallest of the ascending `sizes` that holds `wanted`; the largest must."""
    return next(size for size in sizes if size >= wanted)


def reach_for(length: int, capacity: int, step: int) -> int:
    """Return how many keys a pass looks at that needs `length` of them: a step's power, or all there are."""
    reach = LEAST_REACH
    while reach < length:
        reach *= step
    return min(reach, capacity)


def ends_of(costs: Mapping[int, float]) -> dict[int, float]:
    """Return the costs of the first and last number of rows that each size serves: a curve straight between them."""
    points = {}
    first = 1
    for rows, ms in sorted(costs.items()):
        points[first] = points[rows] = ms
        first = rows + 1
    return points


def rounded_up(length: int, unit: int = UNIT) -> int:
    """Return `length` rounded up to whole units."""
    return -(-length // unit) * unit

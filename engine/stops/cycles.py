"""Rule: the model runs in circles."""

from __future__ import annotations

from engine.stops.measure import plain
from engine.stops.repeats import agrees
from engine.stops.state import CYCLES, Line, Seen, StopState, ending

_REPEATS = 4  # occurrences that make a runaway
_CYCLE_LETTERS = 6  # fewer are rows of zeros, of null, or closing brackets


def advance_runs(seen: Seen, line: Line) -> tuple[int, ...]:
    """Count on, for each length of a cycle, how many last lines repeat the one a cycle above."""
    lines = seen.lines
    return tuple(
        run + 1 if len(lines) >= cycle and agrees(line, plain(lines[-cycle].text)) else 0
        for cycle, run in zip(CYCLES, seen.runs, strict=True)
    )


def runaway(seen: Seen) -> StopState | None:
    """End after the first cycle once it came often enough, unless it is too plain to mean anything."""
    for cycle, run in zip(CYCLES, seen.runs, strict=True):
        letters = sum(map(str.isalpha, "".join(line.text for line in seen.lines[-cycle:])))
        if run >= cycle * (_REPEATS - 1) and letters >= _CYCLE_LETTERS:
            return ending(seen.lines[-1 - run].end, "block")
    return None

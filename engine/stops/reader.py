"""Reads a completion line by line and asks every rule at its place."""

from __future__ import annotations

from functools import lru_cache

from engine.core import FinishReason
from engine.stops.blocks import block_end, block_ends, closes_block
from engine.stops.cycles import advance_runs, runaway
from engine.stops.measure import BREAK, alnum, depth_after
from engine.stops.repeats import advance, converged
from engine.stops.state import Facts, Line, Seen, StopContext, StopState, ending
from engine.stops.surroundings import REST_EVIDENCE, facts_of


def scan(context: StopContext, generated: str) -> StopState:
    """Judge the text generated so far; `shown` never falls as the text grows and never exceeds a later cut."""
    seen = _read(context, generated)
    return seen.ended or StopState(_held(seen, len(generated.rstrip())))


def finish(context: StopContext, generated: str, reason: FinishReason) -> int:
    """Where to cut when generation ended for an outside `reason`.

    A certain repeat of the text right of the cursor goes in any case, one in progress only if the model did not
    end by itself; nothing else is touched.
    """
    final = _read(context, generated + "\n").ended  # the last line will not grow any more
    if final and final.end is not None and final.reason == "suffix":
        return final.end
    seen = _read(context, generated)
    if seen.ended and seen.ended.end is not None:
        return seen.ended.end
    if reason != "stop" and seen.matches:
        cut = seen.matches[0].cut
        if alnum(generated[cut:]) >= REST_EVIDENCE:
            return cut
    return len(generated) if generated.strip() else 0


def _read(context: StopContext, generated: str) -> Seen:
    start = 1 + max(generated.rfind("\n"), generated.rfind("\r"))
    seen = _read_whole(context, generated[:start])
    return seen if seen.ended else _step(facts_of(context), seen, generated, (start, len(generated)), whole=False)


@lru_cache(maxsize=4)  # hit by every token but the first of a line
def _read_whole(context: StopContext, generated: str) -> Seen:
    facts, seen, start = facts_of(context), Seen(), 0
    for found in BREAK.finditer(generated):
        seen = _step(facts, seen, generated, (start, found.start()), whole=True)
        if seen.ended:
            break
        start = found.end()
    return seen


def _step(facts: Facts, seen: Seen, generated: str, span: tuple[int, int], whole: bool) -> Seen:
    """Read one more line, its line break included if `whole`; every rule is asked here."""
    prefix = "" if span[0] else facts.left
    text = (prefix + generated[slice(*span)]).rstrip()
    if not text:
        ended = ending(0, "line") if whole and facts.mode == "line" else None
        return seen._replace(gap=seen.gap + 1, ended=ended)
    line = Line(text, span[0] - len(prefix), whole, seen.gap, seen.open)
    lines = (*seen.lines, line)
    ends = block_ends(facts, lines)
    if ends:
        return seen._replace(ended=block_end(facts, seen, line, generated))
    if ends is None:
        return seen._replace(unsure=True)
    after = Seen(
        lines,
        advance(facts, seen, line, generated),
        advance_runs(seen, line),
        open=depth_after(seen.open, text, facts.hash),
    )
    return after._replace(ended=_line_end(facts, after)) if whole else after


def _line_end(facts: Facts, seen: Seen) -> StopState | None:
    """Apply the rules that fire at a line break, strongest evidence first."""
    match = converged(facts, seen)
    if match:
        return ending(match.cut, "suffix")
    if facts.mode == "line":
        return ending(seen.lines[-1].end, "line")
    if closes_block(facts, seen):
        # Closed by the very lines that stand right of the cursor: they are a repeat, however short.
        return ending(seen.matches[0].cut, "suffix") if seen.matches else ending(seen.lines[-1].end, "block")
    return runaway(seen)


def _held(seen: Seen, size: int) -> int:
    """How much of the text no rule can cut any more. `size` leaves out trailing whitespace."""
    last = len(seen.lines) - 1
    cuts = [match.cut for match in seen.matches[:1]]
    cuts += [seen.lines[last - run].end for run in seen.runs if run]
    cuts += [seen.lines[last].end] if seen.unsure else []
    return min([size, *cuts])

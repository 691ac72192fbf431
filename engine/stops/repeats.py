"""Rule: the text right of the cursor is written again."""

from __future__ import annotations

from engine.stops.measure import BREAK, CLOSERS, depth_after, plain
from engine.stops.state import Facts, Line, Match, Seen


def advance(facts: Facts, seen: Seen, line: Line, generated: str) -> tuple[Match, ...]:
    """Keep the matches that `line` carries on and add the one it starts."""
    targets, index = facts.targets, len(seen.lines)
    if not targets:
        return ()
    kept = tuple(
        match
        for match in seen.matches
        if index - match.line < len(targets) and agrees(line, targets[index - match.line])
    )
    cut = _cut_in_line(facts, line) if facts.rest else _cut_above(facts, seen, line, generated)
    if cut is None:
        return kept
    head = line.text[: max(0, cut - line.origin)] if facts.rest else ""
    depth = depth_after(line.open, head, facts.hash)
    return (*kept, Match(index, cut if generated[:cut].strip() else 0, depth))


def agrees(line: Line, target: str) -> bool:
    """Whether a line is `target`, or may become it while it is being written."""
    text = plain(line.text)
    return text == target if line.whole else target.startswith(text)


def _cut_in_line(facts: Facts, line: Line) -> int | None:
    """Where `line` begins to repeat the rest of the cursor's line up to its end, if it does."""
    rest = facts.rest
    text = line.text.rstrip(";,") if rest.lstrip().startswith(CLOSERS) else line.text
    first = max(0, -line.origin, len(text) - len(rest))  # what the user typed is no repeat
    starts = range(first, len(text))
    if line.whole:
        starts = starts[: 1 if text.endswith(rest) else 0]
    at = next((at for at in starts if rest.startswith(text[at:]) and _fits(facts, text[:at])), None)
    return None if at is None else line.origin + at


def _fits(facts: Facts, head: str) -> bool:
    """Whether the rest of the cursor's line may stand right of `head`: indented as there, or after other text."""
    left = facts.left
    return bool(head.strip() or left.strip()) or head == left or facts.rest.startswith(CLOSERS)


def _cut_above(facts: Facts, seen: Seen, line: Line, generated: str) -> int | None:
    """Where to cut if `line` repeats the first non-blank line below the cursor, if it does."""
    if not agrees(line, facts.targets[0]) or (line.origin < 0 and facts.left.strip()):
        return None
    start, floor = max(0, line.origin), seen.lines[-1].end if seen.lines else 0
    spots = [found.start() for found in BREAK.finditer(generated, floor, start)]
    # As many line breaks as `after` itself brings go with the repeat; what the model wrote beyond stays.
    cut = spots[-facts.breaks :][0] if spots else start
    return len(generated[:cut].rstrip(" \t"))


def converged(facts: Facts, seen: Seen) -> Match | None:
    """Find the first match that has become certain with the last line."""
    for match in seen.matches:
        length = len(seen.lines) - match.line
        tidy = match.open <= facts.open
        closed = length > 1 and not seen.open
        if (facts.shortcut and tidy) or (length >= facts.need and (facts.sure or tidy or closed)):
            return match
    return None

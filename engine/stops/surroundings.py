"""What stands around the cursor, read once for a completion."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from engine.stops.measure import BREAK, CLOSERS, HASH_LANGUAGES, alnum, brackets, depth_after, plain
from engine.stops.state import Facts, StopContext

EVIDENCE = 8  # letters and digits of the text right of the cursor that must reappear before we call it a repeat
REST_EVIDENCE = 6  # the same, where the repeat begins inside the cursor's own line


@lru_cache(maxsize=4)
def facts_of(context: StopContext) -> Facts:
    """Prepare what a context says."""
    left = BREAK.split(context.before)[-1]
    rest, *below = (plain(line.rstrip()) for line in BREAK.split(context.after))
    following = [line for line in below if line]
    inside = bool(rest and left.strip())
    targets = [rest, *following] if rest else following
    copies = Counter(line.strip() for line in BREAK.split(context.before + context.after))
    need, sure = _needed(targets, copies, inside)
    uses_hash = context.language in HASH_LANGUAGES
    return Facts(
        mode=context.mode,
        left=left,
        rest=rest,
        targets=tuple(targets[: need + 1]),
        breaks=0 if rest else 1 + next((i for i, line in enumerate(below) if line), 0),
        need=need,
        sure=sure,
        shortcut=inside or bool(targets and targets[0].lstrip().startswith(CLOSERS)),
        open=max(depth_after(0, left, uses_hash), -brackets(rest, uses_hash)[0] if alnum(rest) else 0),
        hash=uses_hash,
    )


def _needed(targets: list[str], copies: Counter[str], inside: bool) -> tuple[int, bool]:
    """How many targets must reappear, and whether that is sure; a line the file holds twice counts half."""
    total = 0.0
    for count, target in enumerate(targets, 1):
        total += alnum(target) / (2 if copies[target.strip()] > 1 else 1)
        if total >= (REST_EVIDENCE if inside and count == 1 else EVIDENCE):
            return count, True
    return len(targets), False

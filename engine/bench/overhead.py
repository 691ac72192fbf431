"""Text in which drafts fail: random identifiers, to see what speculation costs where it cannot pay.

The completion is drawn at random too, by a seed: the likeliest continuation of random text is a copy of it, which
lookup would draft perfectly. Same seed, same text, whoever drafts.
"""

from __future__ import annotations

import random
from string import ascii_lowercase, digits

from engine.holes import Hole

TEMPERATURE = 1.5  # at 1 the small model still copies a fifth of the time
LINES = 24  # on each side of the hole


def random_holes(count: int, seed: int) -> list[Hole]:
    """Return `count` documents of assignments among identifiers that occur once, each with a line taken out."""
    rng = random.Random(seed)  # noqa: S311  (repeatable text, no secret)
    return [_hole(rng, number) for number in range(count)]


def _hole(rng: random.Random, number: int) -> Hole:
    lines = [_line(rng) for _ in range(2 * LINES + 1)]
    before = "".join(lines[:LINES])
    wanted = lines[LINES].rstrip("\n")
    after = "\n" + "".join(lines[LINES + 1 :])
    return Hole(f"random/{number}", f"random_{number}.py", "python", before, wanted, after)


def _line(rng: random.Random) -> str:
    return f"{_name(rng)} = {_name(rng)}({_name(rng)}, {rng.randrange(10**6)}) {rng.choice('+-*/%&|^')} {_name(rng)}\n"


def _name(rng: random.Random) -> str:
    return rng.choice(ascii_lowercase) + "".join(rng.choices(ascii_lowercase + digits, k=rng.randint(5, 11)))

"""Which holes a suite completes: data sets by name, read when their turn comes."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

from engine.bench import edit
from engine.bench.overhead import random_holes
from engine.bench.settings import Settings
from engine.errors import ConfigError
from engine.holes import Hole, crosscode, exercism, humaneval, spread

Read = Callable[[], list[Hole]]

NO_DATA = "it needs the evaluation data; name their folder with --data"
_FROM_DATA: dict[str, dict[str, Callable[[Path], list[Hole]]]] = {
    "infill": {
        "HumanEval multi-line": partial(humaneval, kind="MultiLine"),
        "HumanEval random span": partial(humaneval, kind="RandomSpan"),
    },
    "buffers": {"exercism with buffers": exercism, "CrossCodeEval": crosscode},
    "edit": {
        "repeated lines": edit.line_holes,
        "repeated blocks": edit.block_holes,
        "moved blocks": edit.moved_holes,
        "recorded edits": edit.recorded_holes,
    },
    "prompt": {"HumanEval random span": partial(humaneval, kind="RandomSpanLight")},
}


def data_sets(suite: str, settings: Settings) -> dict[str, Read]:
    """Return a suite's data sets; reading one raises ConfigError where its data are missing."""
    if suite == "overhead":
        return {"random identifiers": lambda: random_holes(settings.count, settings.seed)}
    if settings.data is None:
        raise ConfigError(NO_DATA)
    pick = evenly if suite == "prompt" else chosen
    return {name: partial(pick, partial(read, settings.data), settings) for name, read in _FROM_DATA[suite].items()}


def evenly(read: Read, settings: Settings) -> list[Hole]:
    """Take holes evenly over the data set, as earlier runs of the suite `prompt` did."""
    return spread(read(), settings.count)


def chosen(read: Read, settings: Settings) -> list[Hole]:
    """Draw holes by the seed, in the data set's order."""
    holes = read()
    if settings.count >= len(holes):
        return holes
    rng = random.Random(settings.seed)  # noqa: S311  (a repeatable choice, no secret)
    return [holes[at] for at in sorted(rng.sample(range(len(holes)), settings.count))]

"""What a benchmark run is asked to do. Importing this file must stay cheap: no torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from engine.errors import ConfigError

WITH_PEERS = ("infill", "buffers", "edit")
GENERATION = (*WITH_PEERS, "overhead")
"""Suites that complete holes and compare contestants' speed."""
SUITES = (*GENERATION, "session", "passes", "prompt")
ON_CARD = ("gpu", "exact")
"""Suites of their own kind: they measure a card, on models they make or load themselves."""
DEFAULT = ("infill", "buffers", "edit")

Compare = Literal["drafters", "fixed"]
"""drafters: none, lookup, draft model, both. fixed: the planner against fixed drafters and lengths."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One run. `count` holes of each data set, each `repeats` times; `minutes` bounds the replay of the session."""

    suites: tuple[str, ...] = DEFAULT
    data: Path | None = None
    count: int = 20
    repeats: int = 3
    seed: int = 0
    max_tokens: int = 48
    compare: Compare = "drafters"
    peers: bool = False
    minutes: float = 5.0

    def __post_init__(self) -> None:
        for name in self.suites:
            if name not in (*SUITES, *ON_CARD):
                raise ConfigError(f"suite is {name!r}; use {', '.join(SUITES)}, all, {' or '.join(ON_CARD)}")
        if self.on_card and not set(self.suites) <= set(ON_CARD):
            raise ConfigError(
                f"{' and '.join(ON_CARD)} go with no other suite; ask for the others in a run of their own"
            )
        for name in ("count", "repeats", "max_tokens", "minutes"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; set it above 0")
        if self.compare not in get_args(Compare):
            raise ConfigError(f"compare is {self.compare!r}; set it to one of {', '.join(get_args(Compare))}")

    @property
    def on_card(self) -> bool:
        """Whether suites are asked for that measure a card."""
        return bool(set(self.suites) & set(ON_CARD))

    def as_json(self) -> dict[str, Any]:
        """Return the settings as plain data; where the data lie is nobody's business."""
        return asdict(self) | {"data": self.data is not None, "suites": list(self.suites)}


def parse_suites(values: Iterable[str]) -> tuple[str, ...]:
    """Read suite names given one by one or as comma lists, each once; `all` stands for all but those of a card."""
    names = [name.strip() for value in values for name in value.split(",") if name.strip()]
    named = [known for name in names for known in (SUITES if name == "all" else (name,))]
    return tuple(dict.fromkeys(named)) or DEFAULT

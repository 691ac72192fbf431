"""What one contestant did once on one hole: plain values, the same for our engine and for its peers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Run:
    """One completion.

    `tokens` were decoded in `ms` milliseconds and `passes` target passes; all three leave the first pass out, which
    reads the prompt. An end token counts as a token. `passes` is 0 where a peer does not tell.
    """

    ids: tuple[int, ...]
    text: str
    tokens: int
    ms: float
    passes: int = 0
    drafted: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    accepted: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    prompt_tokens: int = 0
    reused_tokens: int = 0
    computed_tokens: int = 0
    prefill_ms: float = 0.0

    @property
    def rate(self) -> float | None:
        """Decoded tokens per second, None where nothing was decoded after the first pass."""
        return self.tokens / self.ms * 1e3 if self.tokens > 0 and self.ms > 0 else None

    def as_json(self) -> dict[str, Any]:
        """Return the counts and times as plain data, without the text."""
        return {
            "tokens": self.tokens,
            "ms": round(self.ms, 3),
            "passes": self.passes,
            "drafted": dict(self.drafted),
            "accepted": dict(self.accepted),
            "reused_tokens": self.reused_tokens,
            "computed_tokens": self.computed_tokens,
        }


@dataclass(frozen=True, slots=True)
class Opening:
    """How a hole was opened: an untimed run without drafts reads the prompt for all and writes the reference text.

    `spelt` are the first tokens of that text, those that spell what token healing took back from the prompt.
    """

    run: Run
    prompt: tuple[int, ...]
    spelt: tuple[int, ...] = ()


@dataclass(slots=True)
class HoleRuns:
    """All runs on one hole, by contestant."""

    name: str
    wanted: str
    opening: Opening
    runs: dict[str, list[Run]] = field(default_factory=dict)

    def exact(self, run: Run) -> bool:
        """Whether a run wrote what stood there; white space at the ends does not count."""
        return run.text.strip() == self.wanted.strip()

    def same(self, run: Run) -> bool:
        """Whether a run wrote token for token what the target alone writes."""
        return run.ids == self.opening.run.ids

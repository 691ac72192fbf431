"""What a draft costs: the whole loop of the draft model in one recording, by tokens written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

from engine.bench.gpu_budget import Deadline
from engine.bench.gpu_passes import timed
from engine.gpu.buckets import fitting
from engine.gpu.model import GpuModel

REPEATS = 5


@dataclass(slots=True)
class Drafting:
    """Milliseconds of writing so many tokens after one read token."""

    model: str
    dtype: str
    how: str
    ms: dict[int, float] = field(default_factory=dict)

    @property
    def per_token(self) -> float | None:
        """Milliseconds a token of the longest draft measured."""
        return self.ms[max(self.ms)] / max(self.ms) if self.ms else None

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        each = self.per_token
        return {
            "model": self.model,
            "dtype": self.dtype,
            "how": self.how,
            "ms_by_tokens": {str(count): round(ms, 4) for count, ms in self.ms.items()},
            "ms_per_token": None if each is None else round(each, 4),
        }


def measure_drafting(into: Drafting, model: GpuModel, counts: Iterable[int], prompt: int, deadline: Deadline) -> None:
    """Time drafts of each length into `into`, the wait for their tokens included."""
    cache = model.new_cache()
    ids = [1] * prompt
    for count in counts:
        if deadline.over:
            return
        draft = partial(model.write, ids, cache, count)
        draft()  # records
        into.ms[count] = median(timed(draft, model.device) for _ in range(REPEATS)) * 1e3


def best_length(acceptance: float, target: dict[int, float], buckets: Sequence[int], draft: dict[int, float]) -> int:
    """Return the draft length with the most expected tokens per millisecond; at least 1, so that drafts are made.

    `target` and `draft` are milliseconds by rows and by tokens; an empty `draft` costs nothing.
    """

    def speed(length: int) -> float:
        tokens = sum(acceptance**at for at in range(length + 1))
        return tokens / (target[fitting(buckets, length + 1)] + draft.get(length, 0.0))

    lengths = [n for n in draft or range(1, 17) if n < buckets[-1]]
    return max(lengths, key=speed)

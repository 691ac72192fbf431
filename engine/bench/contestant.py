"""Who takes part: an engine in one variant, timed from the end of its first pass to the end of its last.

`MeasuredEngine` reaches into the engine it extends for two things a benchmark needs and a product does not: the time at
which each round ended, and forgetting completions while keeping the cache.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Protocol

from engine.bench.run import Opening, Run
from engine.bench.variants import PLAIN, Variant
from engine.config import EngineConfig, Limits, SamplingParams
from engine.core import CompletionSummary, Round
from engine.decoder import DecodeJob, SpeculativeDecoder
from engine.engine import Engine
from engine.holes import Hole
from engine.models import LoadedModels
from engine.planner import Planner


class Contestant(Protocol):
    """Somebody who can complete a hole that was opened."""

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    def run(self, hole: Hole, opening: Opening) -> Run:
        """Complete the hole once."""
        ...

    def forget(self, path: str) -> None:
        """Drop what is known of a document: the next hole may be cut from it."""
        ...


class _ClockedDecoder(SpeculativeDecoder):
    """A decoder that notes when each round ended."""

    def __init__(self, decoder: SpeculativeDecoder) -> None:
        vars(self).update(vars(decoder))  # the same parts, whatever they are
        self.stamps: list[float] = []

    def decode(self, job: DecodeJob) -> Iterator[Round]:
        self.stamps = []
        for step in super().decode(job):
            self.stamps.append(time.perf_counter())
            yield step


class MeasuredEngine(Engine):
    """An engine in one variant. Engines that share caches read a prompt once between them."""

    def __init__(
        self, models: LoadedModels, config: EngineConfig, variant: Variant, sharing: Engine | None = None
    ) -> None:
        self.planner = variant.planner() if variant.planner else Planner(deepcopy(models.costs))
        config = replace(config, drafters=variant.drafters)
        super().__init__(models, config, variant.style, sharing, self.planner)
        self._decoder = self._clocked = _ClockedDecoder(self._decoder)

    @property
    def decode_ms(self) -> float:
        """Milliseconds from the end of the last completion's first round to the end of its last."""
        stamps = self._clocked.stamps
        return (stamps[-1] - stamps[0]) * 1e3 if stamps else 0.0

    def forget_completions(self, path: str) -> None:
        """Drop earlier completions of a document, so that a repeat cannot copy the first answer; the cache stays."""
        self._past.forget(path)


class EngineContestant:
    """Our engine in one variant."""

    def __init__(
        self,
        variant: Variant,
        engine: MeasuredEngine,
        limits: Limits,
        token_bytes: Sequence[bytes],
        sampling: SamplingParams,
    ) -> None:
        self.variant, self.engine, self.sampling = variant, engine, sampling
        self._limits, self._token_bytes = limits, token_bytes
        self.drafted: Counter[str] = Counter()

    @property
    def name(self) -> str:
        """The variant's name."""
        return self.variant.name

    def open(self, hole: Hole) -> Opening:
        """Read the prompt into the cache and write the reference text."""
        request = hole.request(self._limits, self.sampling)
        owed = len(self.engine.plan(request).owed)
        summary, run = self._complete(hole)
        spelt, length = 0, 0
        while length < owed and spelt < len(summary.token_ids):
            length += len(self._token_bytes[summary.token_ids[spelt]])
            spelt += 1
        return Opening(run, summary.prompt_token_ids, summary.token_ids[:spelt])

    def run(self, hole: Hole, opening: Opening) -> Run:
        """Complete the hole; `opening` left the prompt in the cache."""
        return self._complete(hole)[1]

    def forget(self, path: str) -> None:
        """Drop everything known of a document."""
        self.engine.forget(path)

    def _complete(self, hole: Hole) -> tuple[CompletionSummary, Run]:
        request = hole.request(self._limits, self.sampling)
        self.engine.catch_up(request)  # as the language server does while nothing else is to do
        *_, last = self.engine.complete(request)
        assert last.summary is not None
        self.engine.forget_completions(hole.path)
        run = _run_of(last.summary, self.engine.decode_ms)
        self.drafted.update(run.drafted)
        return last.summary, run


def _run_of(summary: CompletionSummary, ms: float) -> Run:
    stats, rounds = summary.stats, summary.rounds
    ended = summary.finish_reason == "stop"  # the end token is a token, and its pass was paid for
    later = len(summary.token_ids) - len(rounds[0].emitted) + ended if len(rounds) > 1 else 0
    return Run(
        ids=summary.token_ids,
        text=summary.text,
        tokens=max(later, 0),
        ms=ms,
        passes=max(len(rounds) - 1, 0),
        drafted=dict(stats.drafted),
        accepted=dict(stats.accepted),
        prompt_tokens=stats.prompt_tokens,
        reused_tokens=stats.reused_tokens,
        computed_tokens=stats.computed_tokens,
        prefill_ms=stats.ms["prefill"],
    )


def engine_contestants(
    models: LoadedModels,
    config: EngineConfig,
    variants: Sequence[Variant],
    limits: Limits,
    sampling: SamplingParams | None = None,
) -> list[EngineContestant]:
    """Make one contestant a variant; all share the caches of the first."""
    token_bytes = models.target.tokenizer.token_bytes
    made: list[EngineContestant] = []
    for variant in variants:
        engine = MeasuredEngine(models, config, variant, made[0].engine if made else None)
        made.append(EngineContestant(variant, engine, limits, token_bytes, sampling or SamplingParams()))
    return made


def opener(contestants: Sequence[EngineContestant]) -> EngineContestant:
    """Return who opens holes: the variant without drafts, or the first where there is none."""
    return next((c for c in contestants if c.name == PLAIN), contestants[0])

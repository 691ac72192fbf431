"""Tokens a second of our decoding loop and of transformers on one scripted text, in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any, Protocol

import numpy as np

from engine.bench.gpu_budget import Deadline, first_line
from engine.bench.gpu_peer import TransformersPair
from engine.bench.gpu_script import Script, ScriptedDrafter, ScriptedTarget
from engine.bench.planners import FixedLookup
from engine.config import SamplingParams
from engine.core import CancelToken, Round
from engine.decoder import DecodeJob, SpeculativeDecoder
from engine.gpu.model import GpuModel
from engine.healing import Healer
from engine.model import ModelRunner
from engine.proposer import Proposer
from engine.verifier import Verifier

ACCEPTANCES = (0.0, 0.6, 0.8, 1.0)
OURS = "foretype"
PEER = "transformers"


@dataclass(frozen=True, slots=True)
class Sample:
    """One run, the step that reads the prompt left out. `rounds_ms` are ours alone, as are `drafted` and `accepted`."""

    tokens: int
    ms: float
    rounds_ms: tuple[float, ...] = ()
    drafted: int = 0
    accepted: int = 0


@dataclass(slots=True)
class Rate:
    """Everything one contestant did. `acceptance` None: no drafts; `length` 0: not a fixed one."""

    who: str
    mode: str
    acceptance: float | None = None
    length: int = 0
    samples: list[Sample] = field(default_factory=list)

    @property
    def tokens_per_second(self) -> float | None:
        """The median over the runs."""
        rates = [sample.tokens / sample.ms * 1e3 for sample in self.samples if sample.ms]
        return median(rates) if rates else None

    @property
    def round_ms(self) -> float | None:
        """Median milliseconds from the end of one round to the end of the next."""
        times = [ms for sample in self.samples for ms in sample.rounds_ms]
        return median(times) if times else None

    @property
    def accepted_share(self) -> float | None:
        """Accepted tokens of those drafted, by count."""
        drafted = sum(sample.drafted for sample in self.samples)
        return sum(sample.accepted for sample in self.samples) / drafted if drafted else None

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        figures = {
            "tokens_per_second": self.tokens_per_second,
            "round_ms": self.round_ms,
            "accepted_of_drafted": self.accepted_share,
        }
        rounded = {name: None if value is None else round(value, 4) for name, value in figures.items()}
        who = {"who": self.who, "mode": self.mode, "acceptance": self.acceptance, "draft_length": self.length}
        return who | rounded | {"runs": [[sample.tokens, round(sample.ms, 3)] for sample in self.samples]}


class Contestant(Protocol):
    """Somebody who can write the script's text."""

    rate: Rate

    def run(self, tokens: int) -> Sample:
        """Write so many tokens once."""
        ...


class Ours:
    """The product's own loop with a scripted drafter of one length, or with none."""

    def __init__(self, rate: Rate, target: GpuModel, script: Script, draft: GpuModel | None = None) -> None:
        self.rate, self._script = rate, script
        ids = [*script.prompt, *script.text]
        healer, planner = Healer([]), FixedLookup(rate.length)
        runner = ModelRunner(ScriptedTarget(target, ids, target.device))
        drafter = None
        if rate.acceptance is not None:
            spoilt = script.spoilt(rate.acceptance)
            drafter = ScriptedDrafter(len(script.prompt), spoilt, rate.length, draft)
        verifier = Verifier(runner, healer, target.vocab_size)
        proposer = Proposer(drafter, None, planner, healer)
        self._decoder = SpeculativeDecoder(runner, verifier, healer, proposer, planner, rate.length)

    def run(self, tokens: int) -> Sample:
        """Decode; the script's own text must come out."""
        prompt = self._script.prompt
        job = DecodeJob(
            prompt, np.asarray(prompt, dtype=np.int32), b"", SamplingParams(), tokens, frozenset(), CancelToken()
        )
        rounds: list[Round] = []
        stamps: list[float] = []
        for step in self._decoder.decode(job):
            stamps.append(time.perf_counter())
            rounds.append(step)
        assert [token for step in rounds for token in step.emitted] == self._script.text[:tokens]
        return _sample(rounds[1:], stamps)


def _sample(later: Sequence[Round], stamps: Sequence[float]) -> Sample:
    gaps = tuple((b - a) * 1e3 for a, b in pairwise(stamps))
    drafted = sum(len(step.draft) for step in later)
    tokens = sum(len(step.emitted) for step in later)
    return Sample(tokens, sum(gaps), gaps, drafted, sum(step.accepted for step in later))


class Theirs:
    """transformers in one mode."""

    def __init__(self, rate: Rate, write: Callable[[int], tuple[int, float]]) -> None:
        self.rate, self._write = rate, write

    def run(self, tokens: int) -> Sample:
        """Generate; the pair itself compares the text with the script's."""
        return Sample(*self._write(tokens))


def our_contestants(
    who: str, target: GpuModel, draft: GpuModel | None, script: Script, lengths: dict[str, dict[float, int]]
) -> list[Contestant]:
    """Return plain decoding and, by mode and acceptance, drafts of the given lengths.

    Mode `drafted` pays for the draft model's loop, mode `copied` pays nothing, as prompt lookup does.
    """
    rates = [Rate(who, mode, a, n) for mode, by_acceptance in lengths.items() for a, n in by_acceptance.items()]
    drafting = [Ours(rate, target, script, draft if rate.mode == "drafted" else None) for rate in rates]
    return [Ours(Rate(who, "plain"), target, script), *drafting]


def peer_contestants(pair: TransformersPair, script: Script) -> list[Contestant]:
    """Return transformers' three modes, those that draft at every acceptance."""
    text = script.text

    def assisted(acceptance: float) -> Callable[[int], tuple[int, float]]:
        return lambda tokens: pair.assisted(script.prompt, text, tokens, script.spoilt(acceptance))

    def lookup(acceptance: float) -> Callable[[int], tuple[int, float]]:
        return lambda tokens: pair.lookup(script.prompt_with(acceptance), text, tokens)

    made: list[Contestant] = [Theirs(Rate(PEER, "plain"), lambda n: pair.plain(script.prompt, text, n))]
    for acceptance in ACCEPTANCES:
        made.append(Theirs(Rate(PEER, "assisted", acceptance), assisted(acceptance)))
        made.append(Theirs(Rate(PEER, "prompt lookup", acceptance), lookup(acceptance)))
    return made


def race(contestants: Sequence[Contestant], tokens: int, repeats: int, deadline: Deadline) -> list[str]:
    """Let all write in turn, once untimed and short, then `repeats` times; return what went wrong, in sentences.

    Who fails in the first takes no further part. Time may run out between two runs.
    """
    notes: list[str] = []
    running = [c for c in contestants if _ran(c, max(8, tokens // 4), notes) is not None]
    for repeat in range(repeats):
        for contestant in (*running[repeat:], *running[:repeat]):
            if deadline.over:
                return [*notes, f"speed: time ran out in turn {repeat + 1} of {repeats}"]
            if sample := _ran(contestant, tokens, notes):
                contestant.rate.samples.append(sample)
    return notes


def _ran(contestant: Contestant, tokens: int, notes: list[str]) -> Sample | None:
    try:
        return contestant.run(tokens)
    except Exception as error:  # whatever another engine raises, the others are still worth measuring
        rate = contestant.rate
        at = "" if rate.acceptance is None else f" at {rate.acceptance}"
        notes.append(f"{rate.who}, {rate.mode}{at} left out: {first_line(error)}")
        return None

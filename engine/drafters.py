"""Who proposes the next tokens: prompt lookup over everything open, or a small draft model.

A drafter is told the sequence so far and how far to go; it knows nothing of costs, and nothing it says can change
the text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.acceptance import Evidence, copied, written
from engine.config import SamplingParams
from engine.core import CancelToken
from engine.costs import FEW
from engine.healing import Healer
from engine.lookup import Corpus, find
from engine.model import ModelRunner
from engine.sampling import probabilities, race_noise
from engine.verifier import constrain

Tokens = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class DraftContext:
    """What a drafter may look at: the model's sequence, what of it was generated, and what healing still wants spelt.

    `local` ends like `ids` but holds the document's own tokens before the cursor instead of a prompt's.
    """

    ids: Sequence[int]
    local: Tokens
    generated: int
    owed: bytes
    params: SamplingParams
    cancel: CancelToken | None = None

    def after(self, drafted: Sequence[int], healer: Healer) -> DraftContext:
        """Return the context as it is once `drafted` stands behind it."""
        return replace(
            self,
            ids=[*self.ids, *drafted],
            local=np.concatenate([self.local, np.asarray(drafted, dtype=np.int32)]),
            generated=self.generated + len(drafted),
            owed=healer.along(self.owed, drafted)[-1],
        )


@dataclass(frozen=True, slots=True)
class Proposal:
    """Proposed tokens and the evidence for each. `passes` are the draft model's: rows and milliseconds."""

    ids: tuple[int, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    passes: tuple[tuple[int, float], ...] = ()

    def cut(self, length: int) -> Proposal:
        """Return the first `length` tokens."""
        return Proposal(self.ids[:length], self.evidence[:length], self.passes)

    def followed_by(self, other: Proposal) -> Proposal:
        """Return this proposal with another behind it."""
        return Proposal(self.ids + other.ids, self.evidence + other.evidence, self.passes + other.passes)


NOTHING = Proposal()


class Drafter(Protocol):
    """Proposes a continuation of at most `limit` tokens, at no cost worth counting."""

    def propose(self, context: DraftContext, limit: int) -> Proposal:
        """Return a proposal, empty when there is nothing to say."""
        ...


class LookupDrafter:
    """Copies what followed the longest earlier occurrence of the last tokens.

    Saxena, "Prompt Lookup Decoding" (2023), over all open text instead of the prompt alone, longest match first.
    """

    def __init__(self, healer: Healer) -> None:
        self._healer = healer
        self.corpora: Sequence[Corpus] = ()

    def propose(self, context: DraftContext, limit: int) -> Proposal:
        """Return the continuation of the best match."""
        mask = self._healer.allowed(context.owed) if context.owed else None
        here = Corpus(context.local, "prompt", rank=-1, nearest="end")
        match = find(context.local, [here, *self.corpora], limit=limit, first_allowed=mask)
        if match is None:
            return NOTHING
        spelt = len(self._healer.along(context.owed, match.continuation)) - 1
        ids = match.continuation[:spelt]
        return Proposal(ids, tuple(copied(match.kind, match.length + at) for at in range(len(ids))))


Extend = Callable[[Sequence[Evidence], float], bool]
"""Asked with the evidence so far and the milliseconds spent: is one more pass of the draft model worth its cost?"""
Guess = Callable[[DraftContext, int], Sequence[int]]
"""Asked for at most so many tokens that may follow: the draft model checks them in the pass that writes the next."""


class ModelDrafter:
    """Lets a small model of the same vocabulary write ahead, itself sped up by lookup.

    Each of its passes checks a few copied tokens and adds one of its own, as the target does ("Blazedit", Ugare et al.,
    2025, stacks drafters the same way). What it writes does not depend on what it was given to check. When sampling it
    runs the same race with the same noise as the target will, so it tends to guess the same winner.
    """

    def __init__(self, runner: ModelRunner, healer: Healer, vocab: int) -> None:
        self.runner, self._healer, self._vocab = runner, healer, vocab

    def behind(self, ids: Sequence[int]) -> int:
        """How many tokens its cache lacks before it can draft after `ids`."""
        return len(ids) - 1 - self.runner.reusable(ids)

    def catch_up(self, ids: Sequence[int], cancel: CancelToken | None) -> None:
        """Read a prompt it does not know, so that the first step costs what a step costs; a few tokens ride along."""
        if self.behind(ids) > FEW:
            self.runner.logits(ids[:-1], 1, cancel)

    def propose(self, context: DraftContext, limit: int, promised: int, extend: Extend, guess: Guess) -> Proposal:
        """Write until `limit`, or until `extend` says that another pass is not worth it.

        A network that can write several tokens in one go writes the `promised` number, where it has a free choice.
        """
        if self.runner.writes and not context.owed and context.params.temperature == 0.0:
            return self._at_once(context, min(limit, promised))
        done, spent = NOTHING, 0.0
        while len(done.ids) < limit and extend(done.evidence, spent):
            now = context.after(done.ids, self._healer)
            checked = self._spellable(guess(now, limit - len(done.ids) - 1), now.owed)
            rows = self.behind(now.ids) + 1 + len(checked)
            began = time.perf_counter()
            step = self._step(now, checked)
            ms = (time.perf_counter() - began) * 1e3
            spent += ms
            done = done.followed_by(replace(step, passes=((rows, ms),)))
            if len(step.ids) == 0:
                break
        return done

    def _at_once(self, context: DraftContext, count: int) -> Proposal:
        began = time.perf_counter()
        ids, confidence = self.runner.write(context.ids, count)
        each = (time.perf_counter() - began) * 1e3 / len(ids)
        return Proposal(tuple(ids), tuple(written(c) for c in confidence), ((1, each),) * len(ids))

    def _spellable(self, ids: Sequence[int], owed: bytes) -> Sequence[int]:
        return ids[: len(self._healer.along(owed, ids)) - 1]

    @torch.inference_mode()
    def _step(self, context: DraftContext, checked: Sequence[int]) -> Proposal:
        """One pass: the copied tokens it would have written itself, and its own next token."""
        rows = len(checked) + 1
        logits = self.runner.logits([*context.ids, *checked], rows, context.cancel)[:, : self._vocab]
        states = self._healer.along(context.owed, checked)
        constrain(logits, states, self._healer)
        tokens, confidence = _choose(logits, context)
        kept = 0
        while kept < len(checked) and tokens[kept] == checked[kept]:
            kept += 1
        if self._healer.after(states[kept], tokens[kept]) is None:
            tokens = tokens[:kept]
        ids = tokens[: kept + 1]
        evidence = tuple(written(confidence[at], agreed=at < kept) for at in range(len(ids)))
        return Proposal(tuple(ids), evidence)


def _choose(logits: Tensor, context: DraftContext) -> tuple[list[int], list[float]]:
    """Return the token of each row of [rows, vocab] and its probability."""
    params = context.params
    if params.temperature == 0.0:
        probs = torch.softmax(logits, dim=-1)
        best = probs.max(dim=-1)
        return best.indices.tolist(), best.values.tolist()
    probs = probabilities(logits, params)
    noise = [race_noise(params.seed, context.generated + at, logits.shape[1]) for at in range(len(logits))]
    tokens = (probs / torch.stack(noise).to(probs.device)).argmax(dim=-1)
    return tokens.tolist(), probs.gather(1, tokens[:, None])[:, 0].tolist()

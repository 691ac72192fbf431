"""Who proposes the next tokens: prompt lookup over everything open, or a small draft model.

A drafter is told the sequence so far and how far to go; it knows nothing of costs, and nothing it says can change
the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from engine.config import SamplingParams
from engine.core import CancelToken, Source
from engine.healing import Healer
from engine.lookup import Corpus, find
from engine.model import ModelRunner
from engine.sampling import probabilities, race_noise
from engine.verifier import constrain

Tokens = npt.NDArray[np.int32]
FEW = 16  # tokens that a draft step reads along for about its own cost


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


@dataclass(frozen=True, slots=True)
class Proposal:
    """Proposed tokens and the evidence for them.

    `match_length` (lookup) is how many tokens before the cursor matched; `confidence` (model) is the draft model's own
    probability of each token.
    """

    ids: tuple[int, ...] = ()
    kind: str = ""
    match_length: int = 0
    confidence: tuple[float, ...] = ()


Extend = Callable[[Sequence[float]], bool]
"""Asked with the confidences so far: is one more token worth its cost?"""


class Drafter(Protocol):
    """Proposes a continuation of at most `limit` tokens."""

    name: Source

    def propose(self, context: DraftContext, limit: int, extend: Extend) -> Proposal:
        """Return a proposal, empty when there is nothing to say."""
        ...


class LookupDrafter:
    """Copies what followed the longest earlier occurrence of the last tokens.

    Saxena, "Prompt Lookup Decoding" (2023), over all open text instead of the prompt alone, longest match first.
    """

    name: Source = "lookup"

    def __init__(self, healer: Healer) -> None:
        self._healer = healer
        self.corpora: Sequence[Corpus] = ()

    def propose(self, context: DraftContext, limit: int, extend: Extend) -> Proposal:
        """Return the continuation of the best match; `extend` is not asked, copying costs nothing."""
        mask = self._healer.allowed(context.owed) if context.owed else None
        here = Corpus(context.local, "prompt", rank=-1, nearest="end")
        match = find(context.local, [here, *self.corpora], limit=limit, first_allowed=mask)
        if match is None:
            return Proposal()
        spelt = len(self._healer.along(context.owed, match.continuation)) - 1
        return Proposal(match.continuation[:spelt], match.kind, match.length)


class ModelDrafter:
    """Lets a small model of the same vocabulary write ahead, token by token.

    When sampling it runs the same race with the same noise as the target will, so it tends to guess the same winner.
    """

    name: Source = "model"

    def __init__(self, runner: ModelRunner, healer: Healer, vocab: int) -> None:
        self.runner, self._healer, self._vocab = runner, healer, vocab

    def behind(self, ids: Sequence[int]) -> int:
        """How many tokens its cache lacks before it can draft after `ids`."""
        return len(ids) - 1 - self.runner.reusable(ids)

    def catch_up(self, context: DraftContext) -> None:
        """Read a prompt it does not know, so that the first step costs what a step costs; a few tokens ride along."""
        if self.behind(context.ids) > FEW:
            self.runner.logits(context.ids[:-1], 1, context.cancel)

    def propose(self, context: DraftContext, limit: int, extend: Extend) -> Proposal:
        """Write until `limit`, or until `extend` says the next token is not worth it."""
        ids: list[int] = []
        confidence: list[float] = []
        owed = context.owed
        while len(ids) < limit and extend(confidence):
            token, probability = self._next(context, ids, owed)
            following = self._healer.after(owed, token)
            if following is None:
                break
            owed = following
            ids.append(token)
            confidence.append(probability)
        return Proposal(tuple(ids), "model", 0, tuple(confidence))

    @torch.inference_mode()
    def _next(self, context: DraftContext, drafted: Sequence[int], owed: bytes) -> tuple[int, float]:
        logits = self.runner.logits([*context.ids, *drafted], 1, context.cancel)[:, : self._vocab]
        constrain(logits, [owed], self._healer)
        params = context.params
        if params.temperature == 0.0:
            token = int(logits[0].argmax())
            return token, float(torch.softmax(logits[0], dim=-1)[token])
        probs = probabilities(logits, params)[0]
        noise = race_noise(params.seed, context.generated + len(drafted), len(probs))
        token = int((probs / noise.to(probs.device)).argmax())
        return token, float(probs[token])

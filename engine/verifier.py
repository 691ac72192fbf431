"""One target pass over a draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config import SamplingParams
from engine.core import CancelToken
from engine.healing import Healer
from engine.model import ModelRunner
from engine.sampling import rejection_sample


@dataclass(frozen=True, slots=True)
class Verification:
    """How many draft tokens the target kept, and what it emits: those and one token of its own."""

    accepted: int
    emitted: tuple[int, ...]


class Verifier:
    """Checks drafts against a target model."""

    def __init__(self, target: ModelRunner, healer: Healer, vocab: int) -> None:
        """`vocab` is the tokenizer's size: logits beyond it belong to padding and are never chosen."""
        self._target, self._healer, self._vocab = target, healer, vocab

    @torch.inference_mode()
    def verify(
        self,
        ids: Sequence[int],
        draft: Sequence[int],
        owed: bytes,
        params: SamplingParams,
        position: int,
        cancel: CancelToken | None = None,
    ) -> Verification:
        """Score `draft` after `ids` in one pass. `owed` are the bytes token healing still wants spelt."""
        states = self._healer.along(owed, draft)
        kept = list(draft[: len(states) - 1])  # a draft that breaks the spelling cannot be accepted beyond that point
        logits = self._target.logits([*ids, *kept], last=len(kept) + 1, cancel=cancel)[:, : self._vocab]
        constrain(logits, states, self._healer)
        accepted, emitted = rejection_sample(logits, kept, params, position)
        return Verification(accepted, emitted)


def constrain(logits: Tensor, owed: Sequence[bytes], healer: Healer) -> None:
    """Forbid, in place, what would not spell the bytes owed before each row."""
    for row, state in enumerate(owed):
        if state:
            logits[row, ~torch.from_numpy(healer.allowed(state))[: logits.shape[1]].to(logits.device)] = float("-inf")

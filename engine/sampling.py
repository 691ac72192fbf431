"""How the target chooses tokens, and how much of a draft survives its choice.

Greedy takes the largest logit. Sampling is an exponential race: with independent e_i ~ Exp(1), argmax p_i / e_i has
the distribution p. The race's noise depends on the seed and the token's position only, never on the draft. So the
target's choice at a position is a function of the text so far, and a draft token survives exactly when it is that
choice: rejection sampling with the acceptance test and the residual draw made by one and the same noise ("drafter-
invariant speculative decoding": Daliri, Musco, Suresh, arXiv:2408.07978). Lookup drafts and model drafts take the same
path; the draft model races with the same noise, so it usually guesses the same winner. The sampled text has the
target's distribution, and for a seed it is the same text with every drafter and with none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from engine.config import SamplingParams

REMEMBERED = 12  # positions: the draft model races there before the target does
_MIX = 0x9E3779B97F4A7C15  # spreads neighbouring positions over the seed space


def probabilities(logits: Tensor, params: SamplingParams) -> Tensor:
    """Softmax of logits [rows, vocab] at a temperature above 0, after top-k, then top-p. Returns [rows, vocab]."""
    probs = torch.softmax(logits / params.temperature, dim=-1)
    if 0 < params.top_k < probs.shape[-1]:
        smallest = probs.topk(params.top_k, dim=-1).values[:, -1:]
        probs = probs.masked_fill(probs < smallest, 0.0)
    if params.top_p < 1.0:
        ordered, order = probs.sort(dim=-1, descending=True)
        before = ordered.cumsum(dim=-1) - ordered
        total = ordered.sum(dim=-1, keepdim=True)
        ordered = ordered.masked_fill(before >= params.top_p * total, 0.0)
        probs = torch.zeros_like(probs).scatter_(-1, order, ordered)
    return probs / probs.sum(dim=-1, keepdim=True)


@lru_cache(maxsize=REMEMBERED)
def race_noise(seed: int, position: int, size: int) -> Tensor:
    """Exp(1) noise [size] for the token generated at `position`, the same wherever and whenever it is asked for.

    For 152,000 ids numpy takes 1.6 to 2.2 ms where torch takes 4.8.
    """
    generator = np.random.Generator(np.random.SFC64((seed + position * _MIX) % 2**63))
    return torch.from_numpy(np.maximum(generator.standard_exponential(size, dtype=np.float32), 1e-30))


def choose(logits: Tensor, params: SamplingParams, position: int) -> list[int]:
    """Return the token each row of logits [rows, vocab] chooses; row i is the token generated at `position` + i."""
    if params.temperature == 0.0:
        return list(logits.argmax(dim=-1).tolist())  # one wait for the device, not one a row
    probs = probabilities(logits, params)
    noise = torch.stack([race_noise(params.seed, position + i, logits.shape[1]) for i in range(len(logits))])
    return list((probs / noise.to(probs.device)).argmax(dim=-1).tolist())


def rejection_sample(
    logits: Tensor, draft: Sequence[int], params: SamplingParams, position: int
) -> tuple[int, tuple[int, ...]]:
    """Judge a draft by the target's logits [len(draft) + 1, vocab].

    Returns how many draft tokens are kept, and the emitted tokens: those and one more, the recovered token where the
    draft failed or the bonus token where it did not.
    """
    chosen = choose(logits, params, position)
    accepted = 0
    while accepted < len(draft) and chosen[accepted] == draft[accepted]:
        accepted += 1
    return accepted, tuple(chosen[: accepted + 1])

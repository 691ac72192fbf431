"""Sampling keeps the target's distribution, drafts or not, and a seed fixes the text."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import chisquare

from engine.config import SamplingParams
from engine.sampling import choose, probabilities, race_noise, rejection_sample

DRAWS = 4_000
TARGET = torch.tensor([2.0, 1.0, 0.0, -1.0, 0.5, -math.inf, 1.5, -2.0, 0.2, -0.5])  # token 5 has no mass


def draft_token(kind: str, seed: int, params: SamplingParams) -> int:
    """A draft for position 0: a fixed token, or one the draft model's own race picks, with noise shared or not."""
    if kind.startswith("lookup"):
        return int(kind.removeprefix("lookup"))
    draft = torch.full((10,), 1.0) if kind != "model-far" else torch.tensor([0.0] * 5 + [3.0] + [0.0] * 4)
    probs = probabilities(draft[None], params)[0]
    noise = race_noise(seed if kind == "model-shared" else seed + 10**9, 0, 10)
    return int((probs / noise).argmax())


@pytest.mark.parametrize("params", [SamplingParams(temperature=0.7), SamplingParams(temperature=1.0, top_p=0.9)])
@pytest.mark.parametrize("kind", ["none", "lookup0", "lookup3", "lookup5", "model-shared", "model-own", "model-far"])
def test_emitted_tokens_follow_the_target(kind, params):
    """First and second emitted token pass a chi-square test against the target alone, for every kind of draft (B85)."""
    second = TARGET.flip(0)
    want = [probabilities(TARGET[None], params)[0], probabilities(second[None], params)[0]]
    counts = [torch.zeros(10), torch.zeros(10)]
    logits = torch.stack([TARGET, second])
    for seed in range(DRAWS):
        chosen = SamplingParams(params.temperature, params.top_p, params.top_k, seed)
        draft = [] if kind == "none" else [draft_token(kind, seed, params)]
        _, emitted = rejection_sample(logits[: len(draft) + 1], draft, chosen, 0)
        for place, token in enumerate(emitted):
            counts[place][token] += 1
    for got, probs in zip(counts, want, strict=True):
        assert got[probs == 0].sum() == 0
        if got.sum() > 500:
            seen = probs > 0
            want_counts = probs[seen].double() / probs[seen].double().sum() * got.double().sum()
            assert chisquare(got[seen].double(), want_counts).pvalue > 1e-4


def test_a_shared_race_accepts_more_than_independent_sampling():
    """The draft model's race with the target's noise is accepted more often than with noise of its own."""
    params = SamplingParams(temperature=1.0)
    kept = {"model-shared": 0, "model-own": 0}
    for kind in kept:
        for seed in range(3000):
            chosen = SamplingParams(temperature=1.0, seed=seed)
            accepted, _ = rejection_sample(torch.stack([TARGET, TARGET]), [draft_token(kind, seed, params)], chosen, 0)
            kept[kind] += accepted
    assert kept["model-shared"] > 1.3 * kept["model-own"]


def test_greedy_takes_the_largest_logit_whatever_the_filters_say():
    """Temperature 0 ignores top-p, top-k and seed."""
    for params in (SamplingParams(), SamplingParams(0.0, 0.1, 1, 99)):
        assert choose(torch.stack([TARGET, TARGET.flip(0)]), params, 7) == [0, 9]


def test_a_position_has_the_same_noise_in_any_pass():
    """Choosing positions 3, 4 and 5 in one pass equals choosing them one by one."""
    params = SamplingParams(temperature=1.0, seed=4)
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    assert choose(logits, params, 3) == [choose(logits[i : i + 1], params, 3 + i)[0] for i in range(3)]


def test_top_k_and_top_p_keep_the_likeliest():
    """Top-k keeps k tokens, top-p the fewest that reach p, and what is kept sums to one."""
    probs = probabilities(TARGET[None], SamplingParams(temperature=1.0, top_k=3))[0]
    assert probs.nonzero().flatten().tolist() == [0, 1, 6]
    probs = probabilities(TARGET[None], SamplingParams(temperature=1.0, top_p=0.5))[0]
    assert probs.nonzero().flatten().tolist() == [0, 6]
    assert probs.sum().item() == pytest.approx(1.0)


def test_an_accepted_draft_earns_a_bonus_token():
    """A draft that is all right yields one more token than was drafted, a wrong one stops at its first mistake."""
    logits = torch.eye(4)[[1, 2, 3]] * 5
    assert rejection_sample(logits, [1, 2], SamplingParams(), 0) == (2, (1, 2, 3))
    assert rejection_sample(logits, [1, 0], SamplingParams(), 0) == (1, (1, 2))
    assert rejection_sample(logits[:1], [], SamplingParams(), 0) == (0, (1,))

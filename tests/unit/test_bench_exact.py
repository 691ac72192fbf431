"""The suite `exact`: what it compares, and that it notices what it is there to notice."""

from __future__ import annotations

import pytest
import torch

from engine.bench.exact import LENGTHS, Agreement, compare
from engine.bench.exact_run import PROMPT, PROMPTS, compare_modes, modes_of, other_bits, source_prompts
from engine.bench.gpu_budget import Deadline
from engine.bench.gpu_report import GpuReport
from engine.bench.gpu_scale import qwen
from engine.bench.settings import Settings
from engine.gpu.build import random_model
from engine.gpu.model import GpuModel, GpuOptions

SHAPE = qwen(1, 64, 128, 4, 2, 128)
TOKENS = 20


def exact_model() -> GpuModel:
    return random_model(SHAPE, "float32", "cpu", GpuOptions(exact=True, rows=(8,)))


class Disturbed:
    """A network whose longer passes raise one token's logit by `amount`."""

    row_exact = False

    def __init__(self, amount: float, token: int = 7) -> None:
        self.inner = exact_model()
        self.amount, self.token = amount, token
        self.vocab_size, self.max_length = SHAPE.vocab, SHAPE.max_length
        self.new_cache = self.inner.new_cache

    def forward(self, ids, cache, last):
        logits = self.inner.forward(ids, cache, last)
        if last > 1:
            logits[:, self.token] += self.amount
        return logits


@pytest.fixture(scope="module")
def prompt():
    return [3, 1, 4, 1, 5, 9, 2, 6]


def compared(network, prompt, mode="fast", vocab=SHAPE.vocab) -> Agreement:
    found = Agreement("m", mode)
    compare(found, network, prompt, TOKENS, vocab, Deadline(60))
    return found


def test_every_token_is_compared_at_every_draft_length(prompt):
    """All plain rows but the prompt's own are verified once for each length, and an exact network agrees in all."""
    found = compared(exact_model(), prompt)
    assert found.rows == len(LENGTHS) * (TOKENS - 1) and len(found.gaps) == found.rows
    assert (found.other_bits, found.missed, found.mismatch_rate) == (0, [], 0.0)


def test_other_bits_that_change_no_token_are_told_from_other_tokens(prompt):
    """A small disturbance shows in the bits alone; a large one in the tokens, with gaps of the plain logits."""
    small = compared(Disturbed(1e-6 * 4), prompt)
    assert small.other_bits > 0 and small.missed == [] and 0 < small.largest < 1e-4
    large = compared(Disturbed(5.0), prompt)
    assert large.mismatch_rate > 0.5 and large.largest == pytest.approx(5.0, abs=1e-4)
    quiet = compared(Disturbed(0.0), prompt)
    assert set(large.missed) <= set(quiet.gaps), "gaps come from the target alone"
    assert large.as_json()["largest_gap_at_a_mismatch"] == max(large.missed)


def test_a_cache_that_keeps_a_rejected_token_is_noticed(prompt):
    """The wrong token at each draft's end must leave no trace: a rollback that forgets nothing shows."""
    network = Disturbed(0.0)
    cache_of = network.inner.new_cache

    def sticky():
        cache = cache_of()
        cache.truncate = lambda length: None
        return cache

    network.new_cache = sticky
    assert compared(network, prompt).other_bits > 0


def test_padding_is_never_chosen(prompt):
    """Ids from the vocabulary's size on count neither as tokens nor as differences."""
    found = compared(Disturbed(5.0, token=100), prompt, vocab=90)
    assert found.other_bits == 0 and found.rows > 0


def test_other_bits_in_exact_mode_are_a_failure(prompt):
    """The report fails with a sentence for an exact network that is not; a fast one only tells its rate."""

    class Pretender(Disturbed):
        row_exact = True

    report = GpuReport(Settings(suites=("exact",)), {}, "", False)
    compare_modes(report, "p", Pretender(1.0), [prompt], SHAPE.vocab)
    compare_modes(report, "d", Disturbed(1.0), [prompt], SHAPE.vocab)
    assert [a.mode for a in report.agreements] == ["exact", "fast"]
    assert any(line.startswith("p: verification gave other bits than plain decoding in") for line in report.failures)
    assert not any(line.startswith("d") for line in report.failures)
    assert other_bits([Agreement("m", "exact", rows=4)]) == []


def test_a_network_of_a_card_has_both_modes_on_the_same_weights():
    """Both modes share one network; the exact one pads every pass to one size."""
    model = random_model(SHAPE, "float32", "cpu")
    modes = modes_of(model)
    assert list(modes) == ["exact", "fast"]
    for mode, made in modes.items():
        assert isinstance(made, GpuModel) and made.network is model.network and made.row_exact == (mode == "exact")
    assert len(modes["exact"].rows) == 1 < len(modes["fast"].rows)


def test_prompts_are_different_pieces_of_our_source():
    """Each prompt is full and begins elsewhere."""
    prompts = source_prompts(lambda text: list(text.encode()))
    assert [len(prompt) for prompt in prompts] == [PROMPT] * PROMPTS
    assert len({tuple(prompt) for prompt in prompts}) == PROMPTS and torch.tensor(prompts).shape == (PROMPTS, PROMPT)

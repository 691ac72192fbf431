"""Exact mode on the CPU: the same bits with drafts and without, since every deciding pass has one size and one reach.

That a kernel of fixed size treats all its rows alike is the processor's part; these tests try it out first.
"""

from __future__ import annotations

import random

import pytest
import torch

from engine.config import SamplingParams
from engine.core import CancelToken
from engine.decoder import DecodeJob, SpeculativeDecoder
from engine.gpu.model import PIECE, GpuOptions
from engine.healing import Healer
from engine.loader import load
from engine.model import ModelRunner
from engine.verifier import Verifier
from tests.fakes import EagerPlanner, ScriptedDrafter, proposer_of
from tests.gpu_models import card_model, module_of
from tests.tiny_models import quietly, qwen2, random_ids

ROWS = 8
EXACT = GpuOptions(exact=True, rows=(ROWS,), capacity=2048)


@pytest.fixture(scope="module")
def module():
    module = module_of(qwen2(max_position_embeddings=2048))
    torch.set_num_threads(1)
    weight = module.model.layers[0].mlp.up_proj.weight
    x = torch.randn(ROWS, weight.shape[1])
    rolled = torch.nn.functional.linear(x.roll(1, 0), weight)
    if not torch.equal(rolled, torch.nn.functional.linear(x, weight).roll(1, 0)):
        pytest.skip("this processor's products treat rows of one size differently")
    return module


def test_a_row_has_the_same_bits_alone_and_among_others(module):
    """Single tokens, drafts of any length, and drafts longer than a pass give bit-equal logits."""
    model, ids, rng = card_model(module, options=EXACT), random_ids(140), random.Random(2)
    assert model.row_exact
    cache = model.new_cache()
    model.prefill(ids[:60], cache)
    single = torch.cat([model.forward([token], cache, 1) for token in ids[60:]])
    for _ in range(3):
        cache.truncate(60)
        parts, at = [], 60
        while at < len(ids):
            rows = min(rng.randrange(1, 21), len(ids) - at)
            parts.append(model.forward(ids[at : at + rows], cache, rows))
            at += rows
        assert torch.equal(torch.cat(parts), single)


def test_all_passes_have_one_size_and_one_reach(module):
    """Near the end of a bucket of keys, too, no pass reaches elsewhere than another; short prompts do as they."""
    model = card_model(module, options=EXACT)
    cache = model.new_cache()
    model.prefill(random_ids(2 * ROWS), cache)
    assert model.passes.pool.keys == {("pass", ROWS, 2048)}
    for _ in range(2):
        model.prefill(random_ids(500), cache)
    for rows in (1, 3, 8, 17, 1):
        model.forward([5] * rows, cache, rows)
    assert model.passes.pool.keys == {("pass", ROWS, 2048)}


@pytest.mark.parametrize("length", [5, 2 * ROWS + 1, PIECE, PIECE + 1, PIECE + 3, 2 * PIECE + 2])
def test_a_prompt_has_the_same_bits_whatever_is_drafted_behind_it(module, length):
    """The first pass over a prompt carries drafts or none: the bits behind the prompt do not depend on that."""
    ids = random_ids(length + 9)
    bits = []
    for drafted in range(0, 9, 2):
        runner = ModelRunner(card_model(module, options=EXACT))
        logits = runner.logits(ids[: length + drafted], last=drafted + 1)
        bits.append(logits[0])
        assert runner.cache.ids == ids[: length + drafted]
    assert all(torch.equal(other, bits[0]) for other in bits)


def test_drafts_leave_every_bit_of_a_text_alone(module, tiny, tmp_path):
    """Logits gathered while decoding with right, wrong and random drafts are those of decoding without, bit for bit."""
    tokenizer = load(str(tiny), "float32", tmp_path / "models", quietly).tokenizer
    prompt = random_ids(70)
    plain = _texts_and_logits(module, tokenizer, prompt, [])
    for rule in ("right", "wrong", "random"):
        drafted = _texts_and_logits(module, tokenizer, prompt, [ScriptedDrafter(rule, 6, list(plain[0]), seed=1)])
        assert drafted[0] == plain[0]
        assert all(torch.equal(plain[1][at], logits) for at, logits in drafted[1].items())
        assert drafted[1].keys() == plain[1].keys()


def _texts_and_logits(module, tokenizer, prompt, drafters):
    """Decode 40 tokens; return them and, by position, the logits each was chosen from."""
    runner = ModelRunner(card_model(module, options=EXACT))
    seen: dict[int, torch.Tensor] = {}
    inner = runner.logits

    def logits(ids, last=1, cancel=None):
        rows = inner(ids, last, cancel)
        for at, row in enumerate(rows):
            seen[len(ids) - last + at] = row.clone()
        return rows

    runner.logits = logits
    healer, planner = Healer(tokenizer.token_bytes), EagerPlanner()
    verifier = Verifier(runner, healer, tokenizer.size)
    decoder = SpeculativeDecoder(runner, verifier, healer, proposer_of(drafters, planner, healer), planner, 16)
    job = DecodeJob(prompt, torch.tensor(prompt).int().numpy(), b"", SamplingParams(), 40, (), CancelToken())
    tokens = tuple(token for step in decoder.decode(job) for token in step.emitted)
    kept = range(len(prompt) - 1, len(prompt) - 1 + len(tokens))
    return tokens, {at: seen[at] for at in kept}


def test_costs_say_that_long_drafts_take_several_passes(module):
    """Beyond its one size a pass costs two, three and more times as much, up to the longest draft there is."""
    costs = card_model(module, options=EXACT).row_costs()
    assert list(costs) == [1, 8, 9, 16, 17, 24, 25, 32]
    assert costs[1] == costs[8]
    assert costs[32] == pytest.approx(4 * costs[1])

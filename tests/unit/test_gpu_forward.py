"""The card's forward pass, on the CPU in float32: transformers' logits, however a text came into the cache."""

from __future__ import annotations

import random

import pytest
import torch

from engine.errors import RequestError
from engine.gpu.attention import blockwise, fused, prompt
from engine.gpu.buckets import ROWS
from engine.gpu.model import GpuOptions
from engine.gpu.passes import MOST_WRITTEN
from engine.gpu.shape import ModelShape
from engine.gpu.step import Rotation, Step
from engine.model import ModelRunner
from tests.gpu_models import OPTIONS, STEPS, card_model, module_of, plain
from tests.tiny_models import SIZES, llama, mistral, qwen2, random_ids

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
    "rope_theta": 10_000.0,
}
FAMILIES = {
    "qwen2": qwen2,
    "tied": lambda: qwen2(tie_word_embeddings=True),
    "llama": lambda: llama(num_key_value_heads=4),
    "one kv head": lambda: llama(num_key_value_heads=1),
    "wide heads": lambda: llama(head_dim=32),
    "llama3 rope": lambda: llama(rope_parameters=LLAMA3),
    "mistral": mistral,
}


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.fixture(scope="module")
def module():
    return module_of()


@pytest.mark.parametrize("family", FAMILIES)
def test_any_portions_give_the_logits_of_transformers(family):
    """A prompt read in chunks, then passes of many row counts: every logit is the one of a pass without a cache."""
    module = module_of(FAMILIES[family]())
    ids, model = random_ids(240), card_model(module)
    want, cache, rng, at = plain(module, ids), model.new_cache(), random.Random(5), 100
    model.prefill(ids[:70], cache)
    model.prefill(ids[70:at], cache)
    while at < len(ids):
        rows = min(rng.choice((1, 2, 3, 5, 8, 13)), len(ids) - at)
        close(model.forward(ids[at : at + rows], cache, rows), want[at : at + rows])
        at += rows
    assert cache.ids == ids


def test_rolled_back_and_refilled_caches_agree_with_fresh_ones(module):
    """Whatever was drafted and dropped before, and whatever a pass was padded with, leaves no trace."""
    rng, runner, ids = random.Random(11), ModelRunner(card_model(module)), random_ids(30)
    for _ in range(40):
        keep = rng.randrange(len(ids))
        ids = [*ids[:keep], *random_ids(rng.randrange(1, 30), rng.randrange(10**6))][:200]
        last = rng.randrange(1, min(9, len(ids)) + 1)
        close(runner.logits(ids, last), plain(module, ids)[-last:])
        assert runner.cache.ids == ids


def test_growing_keeps_what_is_there_and_drops_what_was_recorded(module):
    """Beyond the first capacity the buffers move; logits stay right and no old recording is used."""
    model = card_model(module)
    ids, cache = random_ids(600), model.new_cache()
    want = plain(module, ids)
    model.prefill(ids[:250], cache)
    model.forward(ids[250:252], cache, 1)
    assert model.capacity == 256 and model.passes.pool.keys == {("pass", 2, 256)}
    for at in range(252, 600, 4):
        close(model.forward(ids[at : at + 4], cache, 4), want[at : at + 4])
    assert model.capacity == 1024
    assert model.passes.pool.keys == {("pass", 4, 1024)}


def test_passes_are_padded_to_a_size_and_a_reach(module):
    """A pass runs at the next size up, looking as far as the next bucket of keys; long ones are not recorded."""
    model = card_model(module, options=GpuOptions(rows=STEPS, capacity=4096))
    cache = model.new_cache()
    for rows in (1, 3, 4, 5, 8, 9, 20):
        model.forward([1] * rows, cache, 1)
    assert {key[1] for key in model.passes.pool.keys} == {1, 4, 8}
    assert {key[2] for key in model.passes.pool.keys} == {1024}
    model.prefill([1] * 970, cache)
    assert len(cache) == 1020
    model.forward([1] * 3, cache, 1)
    model.forward([1], cache, 1)
    model.forward([1], cache, 1)
    assert {key[1:] for key in model.passes.pool.keys if key[2] > 1024} == {(1, 2048)}


def test_documents_take_turns(module):
    """The cache that is put aside for another document comes back whole, also cut short meanwhile."""
    model = card_model(module)
    texts = [random_ids(60, seed) for seed in range(3)]
    caches = [model.new_cache() for _ in texts]
    for cache, ids in zip(caches, texts, strict=True):
        model.prefill(ids[:40], cache)
    caches[1].truncate(33)
    for cache, ids in zip(caches, texts, strict=True):
        at = len(cache)
        close(model.forward(ids[at : at + 5], cache, 5), plain(module, ids[: at + 5])[at:])


def test_what_was_put_aside_first_goes_first(module):
    """With room for two caches aside, the third document's switch forgets the oldest, which then starts over."""
    model = card_model(module, options=GpuOptions(rows=STEPS, capacity=256, put_aside=2))
    caches = [model.new_cache() for _ in range(4)]
    for cache in caches:
        model.prefill(random_ids(20), cache)
    assert [len(cache) for cache in caches] == [0, 20, 20, 20]
    none_aside = card_model(module, options=GpuOptions(rows=STEPS, capacity=256, put_aside=0))
    first, second = none_aside.new_cache(), none_aside.new_cache()
    none_aside.prefill(random_ids(20), first)
    none_aside.prefill(random_ids(20), second)
    assert [len(first), len(second)] == [0, 20]


def test_an_emptied_cache_takes_no_place_aside(module):
    """A document that was closed makes room before one that is open."""
    model = card_model(module, options=GpuOptions(rows=STEPS, capacity=256, put_aside=2))
    caches = [model.new_cache() for _ in range(4)]
    for cache in caches[:3]:
        model.prefill(random_ids(20), cache)
    caches[1].truncate(0)
    model.prefill(random_ids(20), caches[3])
    assert [len(cache) for cache in caches] == [20, 0, 20, 20]


def test_an_embedding_outside_the_card_gives_the_same(module):
    """Rows embedded on the host pass through buffers of their own; the logits are the same bits."""
    ids = random_ids(50)
    here, outside = card_model(module), card_model(module, host_embedding=True)
    caches = [model.new_cache() for model in (here, outside)]
    for start, end in ((0, 30), (30, 31), (31, 36), (36, 50)):
        assert torch.equal(
            *(m.forward(ids[start:end], c, end - start) for m, c in zip((here, outside), caches, strict=True))
        )


# The draft loop


def _greedy(model, ids: list[int], count: int, tokens: int) -> tuple[list[int], list[float]]:
    written, probabilities, cache = [], [], model.new_cache()
    for _ in range(count):
        logits = ModelRunner(model).model.forward([*ids, *written], cache, 1)[0, :tokens]
        written.append(int(logits.argmax()))
        probabilities.append(float(logits.softmax(-1).max()))
        cache.truncate(0)
    return written, probabilities


@pytest.mark.parametrize("behind", [1, 2, 3, 8, 9, 40])
def test_the_loop_writes_what_single_passes_write(module, behind):
    """However far its cache lags, the loop writes the greedy tokens with their probabilities, and keeps all but one."""
    ids, options = random_ids(60), GpuOptions(rows=STEPS, capacity=256, tokens=600)
    model = card_model(module, options=options)
    cache = model.new_cache()
    model.prefill(ids[: len(ids) - behind], cache)
    done = model.write(ids, cache, 5)
    tokens, probabilities = _greedy(card_model(module), ids, 5, tokens=600)
    assert list(done.ids) == tokens
    assert done.probabilities == pytest.approx(probabilities, rel=1e-3)
    assert cache.ids == [*ids, *tokens[:-1]]
    ids += [*tokens[:3], 7]  # three accepted, the fourth was another
    again = model.write(ids, cache, 4)
    assert list(again.ids) == _greedy(card_model(module), ids, 4, tokens=600)[0]


def test_the_loop_writes_only_ids_that_may_be_chosen(module):
    """Padding of the vocabulary and whatever else lies beyond is never written."""
    model = card_model(module, options=GpuOptions(rows=STEPS, capacity=256, tokens=5))
    assert max(model.write(random_ids(20), model.new_cache(), 12).ids) < 5


def test_the_loop_has_a_longest_run(module):
    """Asked for more than a recording holds, it writes as many as that."""
    model = card_model(module)
    assert len(model.write([1, 2, 3], model.new_cache(), 99).ids) == MOST_WRITTEN


def test_a_text_beyond_the_draft_model_is_refused(module):
    """Positions the rotation was not made for are said, not looked up."""
    model = card_model(module)
    with pytest.raises(RequestError, match="do not fit the draft model's 1024; name another draft"):
        model.write([1] * 1025, model.new_cache(), 2)


# Attention


@pytest.mark.parametrize(("attend", "reach"), [(blockwise, 256), (blockwise, 512), (fused, 256), (fused, 300)])
def test_ways_to_attend_agree(attend, reach):
    """Each gives plain softmax attention over the keys up to a row's own position, whatever lies behind it."""
    heads, kv_heads, width, rows = 6, 2, 16, 5
    torch.manual_seed(0)
    keys, values = torch.randn(kv_heads, 512, width), torch.randn(kv_heads, 512, width)
    queries = torch.randn(rows, heads, width)
    shape = ModelShape.from_config(llama(**(SIZES | {"num_attention_heads": 4})))
    positions = torch.arange(200, 200 + rows)
    step = Step(positions, Rotation(shape, 512, torch.device("cpu")), reach)
    got = attend(queries, keys, values, step).view(rows, heads, width)
    for row in range(rows):
        for head in range(heads):
            k, v = (part[head // 3, : 201 + row] for part in (keys, values))
            want = torch.softmax(k @ queries[row, head] * width**-0.5, dim=0) @ v
            torch.testing.assert_close(got[row, head], want, atol=1e-5, rtol=1e-4)


def test_reading_a_prompt_attends_alike():
    """The kernel for many rows and the one for few see the same keys."""
    torch.manual_seed(0)
    keys, values, queries = torch.randn(2, 64, 16), torch.randn(2, 64, 16), torch.randn(20, 4, 16)
    rotation = Rotation(ModelShape.from_config(qwen2()), 64, torch.device("cpu"))
    few = Step(torch.arange(40, 60), rotation, 64)
    many = Step(torch.arange(40, 60), rotation, 60, begin=40)
    torch.testing.assert_close(
        prompt(queries, keys, values, many), fused(queries, keys, values, few), atol=1e-5, rtol=1e-4
    )


def test_a_pass_has_a_cost_at_both_ends_of_what_it_is_padded_to(module):
    """The planner's straight lines between points then say that one to a size cost alike."""
    costs = card_model(module, options=OPTIONS).row_costs()
    assert list(costs) == [1, 2, 3, 4, 5, 8]
    assert costs[3] == costs[4] and costs[5] == costs[8]
    assert all(ms > 0 for ms in costs.values())


def test_measuring_more_rows_than_passes_have_makes_room(module):
    """A bench may ask for rows that no text needs; passes work on afterwards, and the scratch cache is given up."""
    model, ids = card_model(module), random_ids(20)
    assert list(model.measure_rows([1, 48], repeats=1)) == [1, 48]
    cache = model.new_cache()
    close(model.forward(ids, cache, 20), plain(module, ids))
    assert not model.passes.store._aside


def test_memory_given_back_leaves_no_cache_half_full(module):
    """The working cache is emptied with the others, and is filled again like a new one."""
    model, ids = card_model(module), random_ids(40)
    caches = [model.new_cache(), model.new_cache()]
    for cache in caches:
        model.prefill(ids, cache)
    model.passes.store.release()
    assert [len(cache) for cache in caches] == [0, 0]
    for cache in caches:
        close(model.forward(ids, cache, 40), plain(module, ids))


@pytest.mark.parametrize(("exact", "rows"), [(False, (1, 5, 32)), (True, (5,))])
def test_a_card_chooses_sizes_from_what_it_measured(module, monkeypatch, exact, rows):
    """Candidates are measured, the useful ones kept, and recordings of others forgotten; given sizes are left alone."""
    curve = {size: 1.0 if size <= 5 else 2.0 for size in ROWS}
    model = card_model(module, options=GpuOptions(exact=exact, capacity=256))
    cache = model.new_cache()
    model.passes.decide([1], cache, 1, 5)
    model.passes.decide([1], cache, 1, 7)
    monkeypatch.setattr(model, "on_card", True)
    monkeypatch.setattr(model, "measure_rows", lambda sizes: {size: curve[size] for size in sizes})
    model.settle()
    assert (model.rows, model.curve) == (rows, curve)
    assert {key[1] for key in model.passes.pool.keys} == {5}
    given = card_model(module, options=OPTIONS)
    monkeypatch.setattr(given, "on_card", True)
    given.settle()
    assert given.rows == STEPS

"""What only a card can show: bits of its kernels, recordings against single launches, memory that really runs out."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from engine.gpu import card
from engine.gpu.attention import fused
from engine.gpu.build import random_model
from engine.gpu.graphs import CudaGraphs
from engine.gpu.kernels import TORCH
from engine.gpu.linears import Int8Linear, Nf4Linear
from engine.gpu.memory import demand
from engine.gpu.model import GpuModel, GpuOptions
from engine.gpu.step import Rotation, Step
from engine.gpu.trial import try_out
from engine.model import ModelRunner
from tests.gpu.conftest import wide_model, wide_shape
from tests.tiny_models import random_ids

pytestmark = pytest.mark.gpu

DTYPES = ["nf4", "int8", "bfloat16"]


# Exact mode


@pytest.mark.parametrize("kernels", ["auto", "torch"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_mode_gives_the_same_bits_with_and_without_drafts(dtype, kernels):
    """Logits of single tokens equal, bit for bit, those of the same tokens among drafts of any length."""
    model = wide_model(dtype, exact=True, rows=(5,), kernels=kernels)
    ids, rng, cache = random_ids(560), random.Random(4), model.new_cache()
    model.prefill(ids[:240], cache)
    single = torch.cat([model.forward([token], cache, 1) for token in ids[240:]])  # across stretches of keys
    for _ in range(3):
        cache.truncate(240)
        parts, at = [], 240
        while at < len(ids):
            rows = min(rng.randrange(1, 9), len(ids) - at)
            parts.append(model.forward(ids[at : at + rows], cache, rows))
            at += rows
        assert torch.equal(torch.cat(parts), single)


@pytest.mark.parametrize("length", [9, 256, 259, 700])
def test_exact_prompts_do_not_depend_on_what_is_drafted_behind_them(length):
    """The logits behind a prompt have the same bits whatever rides along in its first pass."""
    ids, bits = random_ids(length + 5), []
    model = wide_model(exact=True, rows=(5,))
    for drafted in (0, 1, 4):
        runner = ModelRunner(model)
        bits.append(runner.logits(ids[: length + drafted], last=drafted + 1)[0])
    assert all(torch.equal(other, bits[0]) for other in bits)


def test_a_pass_gives_the_same_bits_again():
    """Replays of one recording over the same cache agree with each other."""
    model = wide_model()
    cache = model.new_cache()
    model.prefill(random_ids(300), cache)
    first = model.forward(random_ids(5), cache, 5)
    for _ in range(5):
        cache.truncate(300)
        assert torch.equal(model.forward(random_ids(5), cache, 5), first)


# Recordings


@pytest.mark.parametrize("dtype", DTYPES)
def test_recordings_compute_what_single_launches_do(dtype):
    """Over a growing text and all sizes of passes, replayed and launched logits agree closely."""
    recorded, launched = wide_model(dtype), wide_model(dtype, graphs=False)
    assert isinstance(recorded.passes.pool, CudaGraphs) and not isinstance(launched.passes.pool, CudaGraphs)
    ids, caches, at = random_ids(200), [recorded.new_cache(), launched.new_cache()], 100
    for model, cache in zip((recorded, launched), caches, strict=True):
        model.prefill(ids[:100], cache)
    for rows in (1, 2, 3, 5, 7, 12, 1, 1, 20):
        ours, theirs = (
            model.forward(ids[at : at + rows], cache, rows)
            for model, cache in zip((recorded, launched), caches, strict=True)
        )
        torch.testing.assert_close(ours, theirs, atol=0.05, rtol=0.02)
        at += rows
    assert {key[1] for key in recorded.passes.pool.keys} == {1, 2, 5, 8, 16}


def test_recordings_follow_a_cache_that_grows():
    """After the buffers moved nothing is replayed on the old ones: logits agree with those of a large cache."""
    small, large = wide_model(capacity=256), wide_model(capacity=2048)
    ids, caches = random_ids(900), [small.new_cache(), large.new_cache()]
    for model, cache in zip((small, large), caches, strict=True):
        model.prefill(ids[:240], cache)
        for at in range(240, 300, 5):
            model.forward(ids[at : at + 5], cache, 5)
        model.prefill(ids[300:890], cache)
    ours, theirs = (m.forward(ids[890:895], c, 5) for m, c in zip((small, large), caches, strict=True))
    torch.testing.assert_close(ours, theirs, atol=0.05, rtol=0.02)
    assert small.capacity == 1024


def test_the_draft_loop_is_recorded_and_right():
    """The recorded loop writes what the launched one writes, with the same probabilities."""
    recorded, launched = (wide_model("bfloat16", tied=True, graphs=graphs) for graphs in (True, False))
    ids = random_ids(120)
    for _ in range(3):
        ours, theirs = (model.write(ids, model.new_cache(), 6) for model in (recorded, launched))
        assert ours.ids == theirs.ids
        assert ours.probabilities == pytest.approx(theirs.probabilities, rel=0.05)
        ids = [*ids, *ours.ids[:2], 17]


def test_sizes_are_measured_and_what_is_not_needed_is_forgotten():
    """A model whose sizes are not given has measured all candidates and keeps recordings of those it chose."""
    model = random_model(wide_shape(), "nf4", "cuda")
    assert model.curve and set(model.rows) <= set(model.curve)
    assert {key[1] for key in model.passes.pool.keys} <= set(model.rows)
    assert model.row_costs()[1] == model.curve[1]
    exact = random_model(wide_shape(), "nf4", "cuda", GpuOptions(exact=True))
    assert len(exact.rows) == 1


# Kernels


@pytest.mark.parametrize("width", [64, 128])
def test_tritons_kernels_compute_what_torchs_do(width):
    """They agree within bfloat16; where Triton cannot be had that is said, and torch's kernels are used."""
    triton_kernels = pytest.importorskip("engine.gpu.triton_kernels", reason="Triton is not installed")
    try_out(triton_kernels.TRITON, torch.device("cuda"), width)
    assert wide_model().network.kernels.name == "triton"


@pytest.mark.parametrize("rows", [1, 5, 16, 32])
def test_a_rows_attention_depends_on_its_own_keys_alone(rows):
    """Bits stay when the reach grows and when other rows change."""
    triton_kernels = pytest.importorskip("engine.gpu.triton_kernels", reason="Triton is not installed")
    torch.manual_seed(0)
    options = {"device": "cuda", "dtype": torch.bfloat16}
    keys, values = torch.randn(4, 4096, 128, **options), torch.randn(4, 4096, 128, **options)
    queries = torch.randn(rows, 28, 128, **options)
    rotation = Rotation(wide_shape(), 4096, torch.device("cuda"))
    near, far = (Step(torch.arange(1000, 1000 + rows, device="cuda"), rotation, reach) for reach in (1280, 4096))
    mixed = triton_kernels.attend(queries, keys, values, near)
    assert torch.equal(mixed, triton_kernels.attend(queries, keys, values, far))
    torch.testing.assert_close(mixed, fused(queries, keys, values, near), atol=0.02, rtol=0.02)
    lone = queries.clone()
    lone[1:] = 0
    assert torch.equal(triton_kernels.attend(lone, keys, values, near)[0], mixed[0])


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_a_few_rows_do_not_unpack_nf4_weights(rows):
    """The fused kernels are in use: a product allocates far less than the weight would take in 16 bits."""
    weight = torch.randn(37_888, 3584, device="cuda", dtype=torch.bfloat16)
    linear, unpacked = Nf4Linear(weight), weight.nbytes
    x = torch.randn(rows, 3584, device="cuda", dtype=torch.bfloat16)
    want = torch.nn.functional.linear(x, linear.weight())
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    got = linear(x)
    assert torch.cuda.max_memory_allocated() - before < unpacked // 20
    torch.testing.assert_close(got, want, atol=2.0, rtol=0.05)


def test_int8_products_have_a_rows_bits_whatever_stands_beside_it():
    weight = torch.randn(4608, 3584, device="cuda", dtype=torch.bfloat16)
    linear, x = Int8Linear(weight), torch.randn(9, 3584, device="cuda", dtype=torch.bfloat16)
    whole = linear(x)
    assert all(torch.equal(linear(x[at : at + 1])[0], whole[at]) for at in range(len(x)))


def test_prompts_agree_however_they_are_cut():
    """Torch's kernel for many rows sees the keys before its piece: one piece and several give nearly the same."""
    model, ids = wide_model("bfloat16"), random_ids(600)
    results = []
    for cuts in ([0, 599], [0, 64, 320, 599], [0, 1, 599]):
        cache = model.new_cache()
        for start, end in pairwise(cuts):
            model.prefill(ids[start:end], cache)
        results.append(model.forward(ids[599:], cache, 1))
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], atol=0.1, rtol=0.05)


def test_torchs_kernels_and_tritons_make_the_same_model():
    """A whole pass over either gives nearly the same logits."""
    model = wide_model()
    plain = GpuModel(replace(model.network, kernels=TORCH), model.options)
    ids = random_ids(90)
    ours, theirs = (m.forward(ids[80:85], _filled(m, ids[:80]), 5) for m in (model, plain))
    torch.testing.assert_close(ours, theirs, atol=0.1, rtol=0.05)


def _filled(model, ids):
    cache = model.new_cache()
    model.prefill(ids, cache)
    return cache


# Memory


def test_memory_that_runs_out_is_survived():
    """A prompt too long for what is free raises; the cache is given back, and with room again the model works."""
    model = wide_model(capacity=256)
    cache, ids = model.new_cache(), random_ids(30)
    want = model.forward(ids[:5], cache, 5)
    torch.cuda.empty_cache()
    ballast = []
    while card.free_bytes() > 300 * 2**20:
        size = min(2**30, card.free_bytes() - 200 * 2**20)
        ballast.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    with pytest.raises(torch.OutOfMemoryError):
        model.prefill(random_ids(8000), cache)  # one product of it takes 600 MB
    ballast.clear()
    torch.cuda.empty_cache()
    assert len(cache) == 0 and model.capacity == 256
    assert torch.equal(model.forward(ids[:5], cache, 5), want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_model_takes_no_more_than_was_planned(dtype):
    """Weights, cache, a long prompt and recordings stay below the count that the plan goes by."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    model = wide_model(dtype, capacity=2048)
    _filled(model, random_ids(1024))
    for rows in (1, 5, 16):
        model.forward(random_ids(rows), model.new_cache(), rows)
    counted = demand(wide_shape(), dtype)
    planned = counted.weights + counted.embedding + counted.workspace + 2 * 2048 * counted.token
    assert torch.cuda.max_memory_allocated() - before < planned


def test_an_embedding_outside_the_card_gives_the_same_bits():
    """Only where rows are embedded differs."""
    model = wide_model()
    outside = GpuModel(
        replace(model.network, embedding=model.network.embedding.cpu(), host_embedding=True), model.options
    )
    ids = random_ids(60)
    ours, theirs = (m.forward(ids[50:55], _filled(m, ids[:50]), 5) for m in (model, outside))
    assert torch.equal(ours, theirs)

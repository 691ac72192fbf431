"""Bits on the int8 path: a row's logits do not depend on the rows beside it or on how its prefix was chunked."""

from __future__ import annotations

import random

import pytest
import torch

from engine import loader
from engine.codecs import ChannelCodec, GroupCodec, choose_codec
from engine.int8_linear import Backend, choose_backend, quantise_weight
from engine.kv_cache import KVCache
from engine.loader import load
from engine.model import ModelRunner

MIX = [3, 5, 7, 1, 13, 9, 11, 15]


@pytest.fixture(scope="module", params=["kernels", "operators"])
def network(request, tiny, tmp_path_factory):
    """A tiny model on the compiled kernels, and on torch's operators, which run where those do not."""
    codec = ChannelCodec(choose_backend()) if request.param == "operators" else choose_codec()
    if request.param == "kernels" and not isinstance(codec, GroupCodec):
        pytest.skip("no compiled kernels on this processor")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loader, "choose_codec", lambda _: codec)
        return load(str(tiny), "int8", tmp_path_factory.mktemp("cache") / "models", lambda _: None).network


def logits_in(network, ids: list[int], sizes: list[int]) -> torch.Tensor:
    """All logits of `ids` fed in passes of the given sizes, the last size repeated to the end."""
    cache, out, at = network.new_cache(), [], 0
    for number in range(len(ids)):
        rows = min(sizes[min(number, len(sizes) - 1)], len(ids) - at)
        if rows:
            out.append(network.forward(ids[at : at + rows], cache, rows))
        at += rows
    return torch.cat(out)


def some_ids(count: int, vocab: int, seed: int = 0) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(vocab) for _ in range(count)]


@pytest.mark.parametrize("sizes", [[1], [2], [4], [8], [16], [32], [64], [512], [100, 1, 2, 3, 200], MIX])
def test_rows_and_chunks_do_not_change_a_bit(network, sizes):
    """Passes of 1 to 512 rows, regular and in an irregular mix, give the same logits across block borders."""
    ids = some_ids(560, network.vocab_size)
    assert torch.equal(logits_in(network, ids, sizes), logits_in(network, ids, [256]))


def test_rollback_and_refill_do_not_change_a_bit(network):
    """Random sequences of reuse, truncation and feeding end in the logits of a fresh forward."""
    rng = random.Random(5)
    runner = ModelRunner(network)
    ids = some_ids(300, network.vocab_size)
    for _ in range(25):
        keep = rng.randrange(len(ids))
        ids = ids[:keep] + some_ids(rng.randrange(1, 60), network.vocab_size, rng.randrange(10**6))
        last = rng.randrange(1, min(9, len(ids)) + 1)
        got = runner.logits(ids, last=last)
        assert torch.equal(got, logits_in(network, ids, [64])[-last:])
        assert runner.cache.ids == ids


@pytest.fixture(scope="module")
def real_reference():
    """One prefill of 566 random ids on the real model, by chunks of 96: ids, logits of the last 96, keys, values."""
    return {}


def reference(network, kept):
    if not kept:
        ids = some_ids(566, 100_000)
        cache = network.new_cache()
        for at in range(0, 470, 94):
            network.forward(ids[at : at + 94], cache, 1)
        kept.update(ids=ids, logits=network.forward(ids[470:], cache, 96), cache=cache)
    return kept


def first_keys(cache, count):
    """The first keys of all layers; compiled attention keeps them in blocks."""
    return cache.keys[..., :count] if cache.keys.ndim == 4 else cache.keys[:, :, : count // cache.keys.shape[-1]]


@pytest.mark.real
@pytest.mark.parametrize("sizes", [[1], [2], [4], [8], [16], [32], MIX])
def test_real_rows_do_not_change_a_bit(real_models, real_reference, sizes):
    """On the real 0.5B, 64 tokens after a prefix of 470 have the same logits in passes of 1 to 32 rows."""
    network = real_models.target.network
    want = reference(network, real_reference)
    cache = network.new_cache()
    network.prefill(want["ids"][:470], cache)
    rows, at, number = [], 470, 0
    while at < 534:
        size = min(sizes[number % len(sizes)], 534 - at)
        rows.append(network.forward(want["ids"][at : at + size], cache, size))
        at, number = at + size, number + 1
    assert torch.equal(torch.cat(rows), want["logits"][:64])


@pytest.mark.real
@pytest.mark.parametrize("chunk", [16, 32, 64, 128, 256, 512])
def test_real_prefill_chunks_do_not_change_a_bit(real_models, real_reference, chunk):
    """On the real 0.5B, a prefill of 512 tokens leaves the same keys and values in chunks of 16 to 512."""
    network = real_models.target.network
    want = reference(network, real_reference)
    cache = network.new_cache()
    for at in range(0, 512 - chunk, chunk):
        network.prefill(want["ids"][at : at + chunk], cache)
    got = network.forward(want["ids"][512 - chunk : 512], cache, 16)
    assert torch.equal(got, want["logits"][512 - 470 - 16 : 512 - 470])
    assert torch.equal(cache.values[:, :, :512], want["cache"].values[:, :, :512])
    assert torch.equal(first_keys(cache, 512), first_keys(want["cache"], 512))


@pytest.mark.parametrize("name", ["fbgemm", "onednn", "float"])
def test_integer_products_are_exact_where_a_backend_is_offered(name):
    """Each backend that `choose_backend` would accept equals 64-bit integers on random and on extreme rows."""
    from engine.int8_linear import _exact_form

    backend = Backend("float", 127) if name == "float" else _exact_form(name)
    if backend is None:
        pytest.skip(f"{name} is not exact on this processor, and the product does not use it here")
    generator = torch.Generator().manual_seed(2)
    codes = torch.randint(-backend.levels, backend.levels + 1, (70, 1536), generator=generator).to(torch.int8)
    codes[0] = backend.levels
    rows = torch.randint(-127, 128, (19, 1536), generator=generator).float()
    rows[0], rows[1] = 127, -127
    linear = backend.pack(codes, torch.ones(70))
    assert torch.equal(linear(rows), (rows.double() @ codes.double().t()).float())


def test_saturating_codes_are_not_used():
    """The chosen backend adds the largest products without loss: the sum of extremes is the true sum."""
    backend = choose_backend()
    codes = torch.full((32, 4096), backend.levels, dtype=torch.int8)
    linear = backend.pack(codes, torch.ones(32))
    assert linear(torch.full((1, 4096), 127.0))[0, 0].item() == 127 * backend.levels * 4096


def test_quantised_weights_stay_close():
    """Codes times scale differ from the weight by at most half a step, and a zero row stays zero."""
    weight = torch.randn(20, 64, generator=torch.Generator().manual_seed(1))
    weight[3] = 0
    codes, scale = quantise_weight(weight, 63)
    assert codes.abs().max() <= 63
    assert ((codes * scale[:, None]) - weight).abs().max() <= scale.max() / 2 + 1e-6
    assert not codes[3].any()


def test_an_all_zero_row_gives_finite_logits(network):
    """A row of zeros, as an unused embedding may be, neither divides by zero nor spoils its neighbours."""
    embedding = network._embedding
    network._embedding = embedding.clone()
    network._embedding[7] = 0
    try:
        assert torch.isfinite(logits_in(network, [7, 3, 7, 7], [4])).all()
    finally:
        network._embedding = embedding


class CountingCache(KVCache):
    """Records how its storage grows."""

    def __init__(self) -> None:
        super().__init__()
        self.grown: list[int] = []

    def _grow(self, capacity: int) -> None:
        self.grown.append(capacity)


def test_storage_grows_by_doubling_and_rollback_keeps_it():
    """Room is made in powers of two; truncation gives nothing back and costs nothing."""
    cache = CountingCache()
    for length in (1, 256, 257, 1000, 100):
        cache.reserve(length)
    assert cache.grown == [256, 512, 1024]
    cache.extend(range(10))
    assert cache.reuse([0, 1, 2, 9]) == 3
    assert cache.ids == [0, 1, 2]
    assert cache.reuse([5]) == 0

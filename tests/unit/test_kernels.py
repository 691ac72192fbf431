"""The compiled kernels: their products and what stands between them, whatever rows and threads take part."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from engine import group_codes
from engine.attention import TorchAttention
from engine.gguf_codes import UNPACK
from engine.group_codes import quantise
from engine.kernels import find, team
from engine.kernels.arithmetic import KernelArithmetic
from engine.kernels.attention import KernelAttention
from engine.kernels.find import find_kernels
from engine.kernels.group_codes import GROUP, GroupCodes
from engine.kernels.kernels import Part
from engine.kernels.layout import pack
from engine.kernels.stack import CompiledStack
from engine.layers import LeanLayer
from engine.lean_shape import LeanShape
from engine.stepped import SteppedStack
from engine.torch_arithmetic import TorchArithmetic


@pytest.fixture(scope="module")
def compiled():
    found = find_kernels()
    if found is None:
        pytest.skip("no compiled kernels on this processor")
    return found


def some_codes(bits, out, inputs, seed=0):
    random = np.random.default_rng(seed)
    codes = random.integers(0, 2**bits, (out, inputs), dtype=np.uint8)
    steps = random.integers(0, 256, (out, inputs // GROUP[bits]), dtype=np.uint8)
    factors, more = (random.standard_normal((out, -(-inputs // 256))).astype(np.float16) for _ in range(2))
    if bits == 4:
        return GroupCodes(4, codes, steps, factors, random.integers(-128, 128, steps.shape, dtype=np.int8), more)
    return GroupCodes(bits, codes, steps.view(np.int8) if bits == 6 else steps, factors)


def floats(codes):
    return torch.from_numpy(codes.floats())


def whole_rows(rows, inputs, seed=0):
    """Rows of integers that are their own codes: the largest in each is 127."""
    x = torch.randint(-127, 128, (rows, inputs), generator=torch.Generator().manual_seed(seed)).float()
    x[:, 0] = 127.0
    return x


def product(compiled, parts, x):
    linear = compiled.linear(parts, x.shape[1])
    with compiled.team.passing():
        return linear(KernelArithmetic(compiled, 0.0).rounded(x)[0])


def part(codes, factor=1.0):
    return Part(codes.bits, pack(codes), len(codes.codes), factor)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 13, 40])
@pytest.mark.parametrize("inputs", [64, 576, 1536])
@pytest.mark.parametrize("bits", [4, 6, 7])
def test_products_are_those_of_the_weights(compiled, bits, inputs, rows):
    """Codes of each size times int8 rows equal 64-bit arithmetic to float32's precision, for every number of rows.

    Super-blocks may be cut short, and rows may need more of them than are unpacked at a time.
    """
    codes = some_codes(bits, 72, inputs)
    x = whole_rows(rows, inputs)
    want = x.double() @ floats(codes).T
    assert torch.allclose(product(compiled, [part(codes)], x).double(), want, rtol=0, atol=1e-5 * want.abs().max())


@pytest.mark.parametrize("bits", [4, 6, 7])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_products_do_not_overflow(compiled, bits, sign):
    """All codes, steps and activations at their largest, of either sign: sums in 16 and in 32 bits hold them."""
    codes, groups, ones = np.full((8, 512), 2**bits - 1, np.uint8), (8, 512 // GROUP[bits]), np.ones((8, 2), np.float16)
    steps = np.full(groups, -128, np.int8) if bits == 6 else np.full(groups, 255, np.uint8)
    offsets = (np.full(groups, -128, np.int8), -ones) if bits == 4 else ()
    weight = GroupCodes(bits, codes, steps, ones, *offsets)
    for rows in (1, 5):
        got = product(compiled, [part(weight)], torch.full((rows, 512), 127.0 * sign))
        want = sign * 127 * weight.floats()[0].sum()
        assert np.allclose(got.numpy(), want, rtol=1e-6)


def test_parts_of_a_linear_stand_side_by_side(compiled):
    """Channels of several parts come in order, each with its own factor; a last part need not fill its tile."""
    first, second = some_codes(4, 16, 256, 1), some_codes(7, 13, 256, 2)
    x = whole_rows(3, 256)
    got = product(compiled, [part(first, 0.5), part(second, 2.0)], x)
    assert got.shape == (3, 29)
    assert torch.equal(got[:, :16], product(compiled, [part(first)], x) * 0.5)
    assert torch.equal(got[:, 16:], product(compiled, [part(second)], x) * 2.0)


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_threads_do_not_change_a_bit(compiled, threads):
    """One thread or more than there are processors, many jobs in a row: the same bits, and torch keeps its threads."""
    codes, x = part(some_codes(4, 1024, 512)), whole_rows(5, 512)
    before = torch.get_num_threads()
    want = product(compiled, [codes], x)
    try:
        torch.set_num_threads(threads)
        linear, arithmetic = compiled.linear([codes], 512), KernelArithmetic(compiled, 0.0)
        with compiled.team.passing():
            for _ in range(300):
                assert torch.equal(linear(arithmetic.rounded(x)[0]), want)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_torch_keeps_to_one_thread_between_passes(compiled):
    """From the first pass of a completion to its last torch calls no threads, and has them back afterwards."""
    before, seen = torch.get_num_threads(), []
    codes, x = part(some_codes(4, 64, 64)), whole_rows(1, 64)
    with compiled.team.alone():
        seen.append(torch.get_num_threads())
        want = product(compiled, [codes], x)
        seen.append(torch.get_num_threads())
        other = threading.Thread(target=lambda: seen.append(torch.equal(product(compiled, [codes], x), want)))
        other.start()
        other.join()
        seen.append(torch.get_num_threads())
    assert seen == [1, 1, True, 1]
    assert torch.get_num_threads() == before


def test_two_threads_that_both_run_passes_take_turns(compiled):
    """Engines in two threads share the team; neither sees the other's rows."""
    codes, failures = part(some_codes(7, 256, 512)), []

    def run(seed):
        x = whole_rows(4, 512, seed)
        want = product(compiled, [codes], x)
        failures.extend(seed for _ in range(100) if not torch.equal(product(compiled, [codes], x), want))

    both = [threading.Thread(target=run, args=(seed,)) for seed in (1, 2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert failures == []


def test_a_helper_waits_for_as_long_as_a_pass_lasts(compiled, monkeypatch):
    """However long one thread works alone in a pass, its helper stays at hand; after the pass it goes to sleep."""
    monkeypatch.setattr(team, "PATIENCE", 10)
    monkeypatch.setattr(team, "_processors", lambda: 2)
    serving, asleep = threading.Event(), threading.Event()

    class Watched:
        @staticmethod
        def serve(job, patience):
            serving.set()
            compiled.library.serve(job, patience)
            asleep.set()

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    crew = team.Team(Watched)
    try:
        with crew.passing():
            assert serving.wait(20)
            assert not asleep.wait(0.3)
        assert asleep.wait(20)
    finally:
        crew._end()
        torch.set_num_threads(before)


def test_zeros_stay_zeros(compiled):
    """Rows of zeros divide nothing by zero, in the norm, the gate and the rounding."""
    arithmetic = KernelArithmetic(compiled, 1e-6)
    _, q, scale = arithmetic.normed(torch.zeros(2, 64), None, torch.ones(64))
    assert not arithmetic.floats(q).any() and torch.isfinite(scale).all()
    q, scale = arithmetic.gated(torch.zeros(2, 128), torch.ones(2, 1))
    assert not arithmetic.floats(q).any() and torch.isfinite(scale).all()


def test_the_gate_is_silu_from_end_to_end(compiled):
    """Silu by a polynomial is silu, from numbers whose exponential vanishes to those where it overflows."""
    gate = torch.linspace(-100, 100, 4096)
    both = torch.stack([torch.cat([gate, torch.ones(4096)])])
    q, scale = KernelArithmetic(compiled, 0.0).gated(both, torch.ones(1, 1))
    silu = both[0, :4096]  # the result is left where the gate was
    assert torch.allclose(silu, torch.nn.functional.silu(gate.double()).float(), rtol=2e-6, atol=1e-30)
    assert q == (1, 4096) and scale == silu.abs().max()


def test_what_stands_between_is_what_torch_computes(compiled):
    """Sum, norm, gate and rounding agree with torch's operators; x takes in what is added to it."""
    generator = torch.Generator().manual_seed(1)
    x, change, weight = (torch.randn(size, generator=generator) for size in ((6, 128), (6, 128), (128,)))
    scale = torch.rand(6, 1, generator=generator)
    own, torchs = KernelArithmetic(compiled, 1e-5), TorchArithmetic(1e-5)
    summed, q, size = own.normed(x.clone(), (change, scale), weight)
    want_summed, want, want_size = torchs.normed(x, (change, scale), weight)
    assert torch.allclose(summed, want_summed, rtol=1e-6, atol=1e-6)
    assert (own.floats(q) - want).abs().max() <= 0.51
    assert torch.allclose(size, want_size, rtol=1e-5)


@pytest.mark.parametrize(("heads", "key_heads", "size"), [(12, 2, 128), (14, 2, 64), (4, 4, 16), (8, 1, 80)])
def test_attention_is_what_torch_computes(compiled, heads, key_heads, size):
    """Groups of heads of several sizes, across stretches of keys: torch's answers, but for keys in half precision."""
    want, got = (answers(kind, heads, key_heads, size, [150, 1, 30, 2, 90]) for kind in (TorchAttention, compiled_kind))
    assert (got - want).abs().max() <= 3e-3 * want.abs().max()


@pytest.mark.parametrize("sizes", [[1] * 12 + [261], [7, 16, 250], [128, 128, 17]])
@pytest.mark.parametrize(("heads", "key_heads"), [(6, 1), (7, 1), (2, 2)])
def test_attention_of_a_row_does_not_depend_on_its_company(compiled, heads, key_heads, sizes):
    """Rows that come alone or with others, in units that begin anywhere: the same bits."""
    want, got = (answers(compiled_kind, heads, key_heads, 32, found) for found in ([273], sizes))
    assert torch.equal(got, want)


def test_what_an_earlier_text_left_in_the_cache_is_not_seen(compiled):
    """After a rollback the old keys are still there, even ones too large for half precision: no bit shows it."""
    with torch.inference_mode(), compiled.team.passing():
        shape, rope, rows = attention_case(4, 2, 32, 40)
        attention = KernelAttention(compiled, shape, rope)
        fresh, used = attention.new_cache(), attention.new_cache()
        attend(attention, used, tuple(part * 1e6 for part in rows))
        used.truncate(3)
        used.truncate(0)
        assert torch.equal(attend(attention, used, rows), attend(attention, fresh, rows))


@pytest.mark.parametrize(("rows", "last"), [(1, 1), (5, 2), (140, 1), (33, 33)])
def test_layers_in_one_call_are_the_layers_step_by_step(compiled, rows, last):
    """Whatever rows come and are wanted, one compiled call leaves the bits that steps leave, in the cache too."""
    shape = LeanShape(3, 128, 192, heads=4, kv_heads=2, head_dim=32, vocab=0, eps=1e-6, max_length=200)
    generator = torch.Generator().manual_seed(rows)
    layers = [some_layer(compiled, shape, generator) for _ in range(shape.layers)]
    rope = torch.polar(torch.ones(200, 16), torch.randn(200, 16, generator=generator))
    arithmetic = KernelArithmetic(compiled, shape.eps)
    stepped = SteppedStack(arithmetic, KernelAttention(compiled, shape, rope), layers)
    results = []
    for stack in (arithmetic.stack(shape, layers, rope), stepped):
        cache, found = stack.new_cache(), []
        x = torch.randn(rows + 7, shape.hidden, generator=torch.Generator().manual_seed(1))
        with torch.inference_mode(), compiled.team.passing():
            for part, wanted in ((x[:rows], last), (x[rows:], 7)):
                x_after, change = stack.run(part.clone(), cache, wanted)
                found += [x_after, *change]
                cache.extend([0] * len(part))
        results.append(found)
    assert isinstance(arithmetic.stack(shape, layers, rope), CompiledStack)
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


def some_layer(compiled, shape, generator):
    def linear(parts, inputs):
        return compiled.linear([part(some_codes(bits, out, inputs, bits), 1e-4) for bits, out in parts], inputs)

    def floats_of(size):
        return torch.randn(size, generator=generator)

    heads, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    return LeanLayer(
        input_norm=floats_of(shape.hidden),
        qkv=linear([(4, heads), (4, kv), (6, kv)], shape.hidden),
        qkv_bias=floats_of(heads + 2 * kv),
        out=linear([(4, shape.hidden)], heads),
        post_norm=floats_of(shape.hidden),
        gate_up=linear([(4, shape.intermediate), (7, shape.intermediate)], shape.hidden),
        down=linear([(6, shape.hidden)], shape.intermediate),
    )


def attention_case(heads, key_heads, size, rows):
    generator = torch.Generator().manual_seed(heads)
    width = (heads + 2 * key_heads) * size
    shape = LeanShape(2, 0, 0, heads, key_heads, size, 0, 0.0, rows)
    rope = torch.polar(torch.ones(rows, size // 2), torch.randn(rows, size // 2, generator=generator))
    return shape, rope, tuple(0.6 * torch.randn(of, generator=generator) for of in ((rows, width), (rows, 1), (width,)))


def attend(attention, cache, rows):
    """The answers of both layers for rows that follow what the cache holds."""
    product, scale, bias = rows
    step = attention.begin(cache, len(product))
    found = [step.attend(layer, product.clone(), scale, bias).clone() for layer in (0, 1)]
    cache.extend([0] * len(product))
    return torch.cat(found, dim=1)


def compiled_kind(shape, rope):
    return KernelAttention(find_kernels(), shape, rope)


def answers(kind, heads, key_heads, size, sizes):
    shape, rope, (product, scale, bias) = attention_case(heads, key_heads, size, sum(sizes))
    attention = kind(shape, rope)
    cache = attention.new_cache()
    with torch.inference_mode(), find_kernels().team.passing():
        parts = zip(torch.split(product, sizes), torch.split(scale, sizes), strict=True)
        return torch.cat([attend(attention, cache, (*part, bias)) for part in parts])


@pytest.mark.parametrize("inputs", [128, 576])
def test_floats_are_rounded_within_half_a_step(inputs):
    """No number moves further than half a step, and a step is a 63rd of its group's largest number and some."""
    weight = np.random.default_rng(3).standard_normal((20, inputs)).astype(np.float32)
    weight[4], weight[5] = 0.0, 3.25
    weight[6, 32:64] *= 0.01  # a group whose numbers are small beside its neighbours'
    found = quantise(weight)
    largest = np.abs(weight).reshape(20, -1, 32).max(-1).repeat(32, axis=1)
    most = np.abs(weight).max(-1, keepdims=True)
    assert (np.abs(floats(found).numpy() - weight) <= (largest / 63 + most / 63 / 255) * 0.505).all()
    assert not floats(found)[4].any()


def test_coarse_codes_are_fitted():
    """With 4 bits, steps and offsets are those of the least error: closer than from the least to the largest value."""
    weight = np.random.default_rng(7).standard_normal((64, 256)).astype(np.float32)
    weight[3], weight[4, :32] = 0.0, -1.5
    groups = weight.reshape(64, 8, 32)
    low, high = groups.min(-1, keepdims=True), groups.max(-1, keepdims=True)
    step = np.maximum(high - low, 1e-7) / 15
    plain = (np.rint((groups - low) / step) * step + low).reshape(weight.shape)
    found = quantise(weight, 4)
    assert found.codes.max() == 15
    assert np.square(floats(found).numpy() - weight).mean() < 0.9 * np.square(plain - weight).mean()
    assert np.abs(floats(found).numpy()[3]).max() < 1e-5 and np.abs(floats(found).numpy()[4, :32] + 1.5).max() < 2e-2


def test_a_weight_is_rounded_in_pieces(monkeypatch):
    """However many channels are rounded at a time, the codes are the same."""
    weight = np.random.default_rng(6).standard_normal((50, 64)).astype(np.float32)
    whole = quantise(weight)
    monkeypatch.setattr(group_codes, "PIECE", 16)
    pieces = quantise(weight)
    for name in ("codes", "steps", "factors"):
        assert np.array_equal(getattr(whole, name), getattr(pieces, name))


@pytest.mark.parametrize(("kind", "size", "halves"), [("Q4_K", 144, slice(0, 4)), ("Q6_K", 210, slice(208, 210))])
def test_codes_of_a_gguf_file_are_taken_over(compiled, kind, size, halves):
    """As llama.cpp lays them out: the weights are those that the gguf package reads from random bytes, bit by bit."""
    import gguf

    data = np.random.default_rng(4).integers(0, 256, (16, 3 * size), dtype=np.uint8)
    random = np.random.default_rng(5).random((16, 3, (halves.stop - halves.start) // 2)).astype(np.float16)
    data.reshape(16, 3, size)[..., halves] = random.view(np.uint8)
    want = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind])
    found = UNPACK[kind](data)
    assert np.array_equal(found.floats().astype(np.float32), want)
    x = whole_rows(2, 768)
    assert torch.allclose(product(compiled, [part(found)], x), x @ torch.from_numpy(want).T, rtol=1e-4, atol=1.0)


def test_kernels_that_compute_something_else_are_not_used(monkeypatch):
    """When the trial fails, or anything breaks while compiling, torch's operators are taken and nothing is raised."""
    monkeypatch.setattr(find, "_is_right", lambda _: False)
    assert find._found.__wrapped__() is None
    monkeypatch.setattr(find, "_is_right", lambda _: 1 / 0)
    assert find._found.__wrapped__() is None

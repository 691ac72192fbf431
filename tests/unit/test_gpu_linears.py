"""Weights in few bits: what the products compute, what they weigh, and which bitsandbytes may make them."""

from __future__ import annotations

from importlib import metadata

import pytest
import torch

from engine.errors import ModelLoadError
from engine.gpu.linears import FloatLinear, Int8Linear, Nf4Linear, compute_dtype, linear_maker, require_bitsandbytes
from tests.tiny_models import correlation, one_sentence


@pytest.fixture(scope="module")
def weight() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(192, 128).to(torch.bfloat16)


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(7, 128).to(torch.bfloat16)


BIAS = torch.linspace(-3, 3, 192).to(torch.bfloat16)


def test_nf4_multiplies_by_what_its_codes_stand_for(weight, x):
    """The product is that of the restored weights, which follow the given ones; the bias is added."""
    linear = Nf4Linear(weight, BIAS)
    restored = linear.weight()
    assert correlation(restored.float(), weight.float()) > 0.99
    want = torch.nn.functional.linear(x.float(), restored.float(), BIAS.float())
    torch.testing.assert_close(linear(x).float(), want, atol=0.1, rtol=0.02)
    assert linear(x).dtype == torch.bfloat16


def test_nf4_takes_bfloat16_alone(weight, x):
    """In float32 bitsandbytes has no tensor-core kernel and is slow without a word, so it never gets any."""
    with pytest.raises(AssertionError):
        Nf4Linear(weight.float())
    with pytest.raises(AssertionError):
        Nf4Linear(weight)(x.float())
    assert compute_dtype("nf4") == compute_dtype("int8") == torch.bfloat16
    assert compute_dtype("float32") == torch.float32


def test_nf4_scales_are_quantised_too(weight):
    """Half a byte a weight and a byte a block of 64, with one float for every 256 blocks."""
    blocks = weight.numel() // 64
    assert Nf4Linear(weight).nbytes == weight.numel() // 2 + blocks + 4 * -(-blocks // 256)


def test_int8_follows_the_weights_and_its_rows_are_alone(weight, x):
    """Rounded products are near the exact ones, and a row has the same bits whatever rows stand beside it."""
    linear = Int8Linear(weight, BIAS)
    want = torch.nn.functional.linear(x.float(), weight.float(), BIAS.float())
    assert correlation(linear(x).float(), want) > 0.999
    assert all(torch.equal(linear(x)[at], linear(x[at : at + 1])[0]) for at in range(len(x)))
    assert linear.nbytes == weight.numel() + 4 * len(weight)
    assert linear(torch.zeros_like(x)).isfinite().all()


def test_int8_outliers_do_not_overflow(weight, x):
    """Activations beyond what float16 holds come through: Qwen2.5-7B has such."""
    large = x.clone()
    large[2, 3] = 90_000.0
    want = torch.nn.functional.linear(large.float(), weight.float())
    got = Int8Linear(weight)(large).float()
    torch.testing.assert_close(got[2], want[2], atol=3_000.0, rtol=0.05)
    assert torch.equal(got[0], Int8Linear(weight)(x).float()[0])


def test_each_format_has_its_linear(weight):
    makers = {dtype: linear_maker(dtype) for dtype in ("nf4", "int8", "bfloat16", "float32")}
    kinds = {dtype: type(make(weight, None)) for dtype, make in makers.items()}
    assert kinds == {"nf4": Nf4Linear, "int8": Int8Linear, "bfloat16": FloatLinear, "float32": FloatLinear}


def _missing(_: str) -> str:
    raise metadata.PackageNotFoundError


@pytest.mark.parametrize("version", ["0.49.2", "0.50.0", "0.9", "0.50.0.dev3"])
def test_an_old_bitsandbytes_is_refused(version):
    """Before 0.50.1 every pass of more than one row unpacked all weights: said with the command that mends it."""
    with pytest.raises(ModelLoadError, match=f"bitsandbytes {version} has no kernels for a few rows") as caught:
        require_bitsandbytes("nf4", lambda _: version)
    assert one_sentence(str(caught.value)) and "pip install -U 'bitsandbytes>=0.50.1'" in str(caught.value)


def test_a_missing_bitsandbytes_is_named():
    with pytest.raises(ModelLoadError, match="dtype int8 needs bitsandbytes, which is not installed; run") as caught:
        require_bitsandbytes("int8", _missing)
    assert one_sentence(str(caught.value))


@pytest.mark.parametrize("version", ["0.50.1", "0.50.2", "0.51.0.dev0", "1.0", "0.50.1+cu128"])
def test_a_new_bitsandbytes_is_taken(version):
    require_bitsandbytes("nf4", lambda _: version)


def test_the_installed_one_is_new_enough():
    require_bitsandbytes("nf4")

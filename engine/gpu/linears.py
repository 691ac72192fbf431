"""Matrix products with weights in 4, 8, 16 or 32 bits.

4 bits are bitsandbytes' NF4 with double quantisation. 8 bits are the scheme of the CPU path: weights per output
channel, activations per row, integer sums, which do not depend on how many rows stand beside a row. bitsandbytes' own
8-bit layer is not used: it reads activations as float16, in which Qwen2.5-7B's overflow, and its split of outliers has
shapes that depend on the data, which no graph can hold. Its integer product is.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.errors import ModelLoadError
from engine.int8_linear import quantise_weight

GpuDtype = Literal["nf4", "int8", "bfloat16", "float32"]
BLOCK = 64  # weights that share a scale in NF4
LEVELS = 127
PIECE = 4096  # rows of a matrix that are made int8 at a time
NEEDED = (0, 50, 1)
TINY = 1e-30  # keeps an all-zero row from dividing by zero


class Linear(Protocol):
    """Maps activations [rows, in] to [rows, out] of the same type."""

    @property
    def nbytes(self) -> int:
        """Bytes of weights that a product reads."""
        ...

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply."""
        ...


MakeLinear = Callable[[Tensor, Tensor | None], Linear]
"""Makes a linear of a float weight [out, in] and a bias [out]; the weight may be dropped afterwards."""


def compute_dtype(dtype: GpuDtype) -> torch.dtype:
    """Return the type of activations: bfloat16, for which alone there are fast 4-bit kernels, unless all is float32."""
    return torch.float32 if dtype == "float32" else torch.bfloat16


def linear_maker(dtype: GpuDtype) -> MakeLinear:
    """Return what makes linears of a weight format; raises ModelLoadError when bitsandbytes is wanted and too old."""
    if dtype in ("nf4", "int8"):
        require_bitsandbytes(dtype)
    makers: dict[GpuDtype, MakeLinear] = {"nf4": Nf4Linear, "int8": Int8Linear}
    return makers.get(dtype, FloatLinear)


def require_bitsandbytes(dtype: str, installed: Callable[[str], str] = metadata.version) -> None:
    """Raise ModelLoadError unless a bitsandbytes is installed that has kernels for a few rows."""
    fix = "run `pip install -U 'bitsandbytes>=0.50.1'`"
    try:
        version = installed("bitsandbytes")
    except metadata.PackageNotFoundError:
        raise ModelLoadError(f"dtype {dtype} needs bitsandbytes, which is not installed; {fix}") from None
    numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:3] if part.isdigit())
    if numbers < NEEDED:
        raise ModelLoadError(f"bitsandbytes {version} has no kernels for a few rows of dtype {dtype}; {fix}")


class FloatLinear:
    """Weights as they are."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight, self.bias = weight, bias

    @property
    def nbytes(self) -> int:
        """Bytes of weights that a product reads."""
        return self.weight.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply."""
        return F.linear(x, self.weight, self.bias)


class Nf4Linear:
    """NF4 weights, their scales quantised too, multiplied in bfloat16."""

    compute = torch.bfloat16

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        from bitsandbytes import functional, matmul_4bit

        # In float32, its default, bitsandbytes has no tensor-core kernel and is slow without a word.
        assert weight.dtype == self.compute
        self._codes, self._state = functional.quantize_4bit(
            weight, blocksize=BLOCK, compress_statistics=True, quant_type="nf4"
        )
        assert self._state.nested and self._state.dtype == self.compute
        self._bias = bias
        self._product: Callable[..., Tensor] = matmul_4bit

    @property
    def nbytes(self) -> int:
        """Bytes of weights that a product reads."""
        scales: int = self._state.absmax.nbytes + self._state.state2.absmax.nbytes
        return int(self._codes.nbytes) + scales

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply."""
        assert x.dtype == self.compute
        return self._product(x, self._codes, quant_state=self._state, bias=self._bias)

    def weight(self) -> Tensor:
        """Return the weights that the codes stand for, bfloat16 [out, in]."""
        from bitsandbytes import functional

        restored: Tensor = functional.dequantize_4bit(self._codes, self._state)
        return restored


class Int8Linear:
    """int8 weights per output channel, multiplied by activations rounded row by row."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        import bitsandbytes  # noqa: F401  (registers the product)

        # Piece by piece: in floats a large matrix takes six times its own room on the way.
        pieces = [quantise_weight(piece, LEVELS) for piece in torch.split(weight, PIECE)]
        self._codes, self._scale = (torch.cat(parts) for parts in zip(*pieces, strict=True))
        self._bias = None if bias is None else bias.float()
        self._product: Any = torch.ops.bitsandbytes.int8_linear_matmul.default

    @property
    def nbytes(self) -> int:
        """Bytes of weights that a product reads."""
        return self._codes.nbytes + self._scale.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply."""
        largest = x.abs().amax(dim=-1, keepdim=True).float().clamp_min_(TINY)
        rounded = torch.round(x.float() * (LEVELS / largest)).to(torch.int8)
        product: Tensor = self._product(rounded, self._codes) * (largest / LEVELS) * self._scale
        return (product if self._bias is None else product + self._bias).to(x.dtype)

"""What the CPU forward computes with: products with packed weights, and what stands between two.

Activations go into a product as integers within +-127, one scale a row. How they are kept is the business of those
who make and multiply them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.attention import Attention, TorchAttention
from engine.lean_shape import LeanShape

Activations = Any
"""Rounded rows, as an Arithmetic returns them and its linears take them; the next call may reuse their memory."""

Linear = Callable[[Activations], Tensor]
"""Multiplies rows [rows, in] with a packed weight: float32 [rows, out], to be multiplied by the rows' scale."""

LEVELS = 127  # of the integers
TINY = 1e-30  # keeps an all-zero row from dividing by zero


class Arithmetic(Protocol):
    """One way to compute what stands between two products. A row's bits must depend on that row alone."""

    def alone(self) -> AbstractContextManager[None]:
        """Return what many passes and the choices between them run in."""
        ...

    def passing(self) -> AbstractContextManager[None]:
        """Return what a pass runs in."""
        ...

    def attention(self, shape: LeanShape, rope: Tensor) -> Attention:
        """Return the attention for a model; `rope` is complex64 [max_length, head_dim / 2]."""
        ...

    def normed(
        self, x: Tensor, change: tuple[Tensor, Tensor] | None, weight: Tensor
    ) -> tuple[Tensor, Activations, Tensor]:
        """Add a product times its rows' scale to x [rows, hidden]; return that, its RMS norm rounded, and the scale.

        x may be changed in place.
        """
        ...

    def gated(self, both: Tensor, scale: Tensor) -> tuple[Activations, Tensor]:
        """Return silu(gate) * up rounded, from the product [rows, 2 intermediate] and its rows' scale."""
        ...

    def rounded(self, x: Tensor) -> tuple[Activations, Tensor]:
        """Round rows [rows, n]."""
        ...

    def floats(self, q: Activations) -> Tensor:
        """Return rounded rows as numbers within +-127."""
        ...


class TorchArithmetic:
    """torch's operators. The activations stay float32, the linears round them.

    The RMS factor and the up projection's scale cancel in the rounded values, so they only enter row scales. A number
    in an operation on tensors costs another few microseconds, a third of a small operation: constants are tensors.
    """

    def __init__(self, eps: float) -> None:
        self._eps = torch.tensor([eps])
        self._levels = torch.tensor([float(LEVELS)])

    def alone(self) -> AbstractContextManager[None]:
        """Torch brings its own threads."""
        return nullcontext()

    def passing(self) -> AbstractContextManager[None]:
        """Torch brings its own threads."""
        return nullcontext()

    def attention(self, shape: LeanShape, rope: Tensor) -> Attention:
        """See Arithmetic."""
        return TorchAttention(shape, rope)

    def normed(self, x: Tensor, change: tuple[Tensor, Tensor] | None, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See Arithmetic."""
        if change is not None:
            x = torch.addcmul(x, *change)
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        inverse = torch.addcmul(self._eps, length, length, value=1 / x.shape[-1]).rsqrt_()
        q, scale = self.rounded(x * weight)
        return x, q, scale.mul_(inverse)

    def gated(self, both: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """See Arithmetic."""
        width = both.shape[1] // 2
        gate = torch.nn.functional.silu(both[:, :width] * scale, inplace=True)
        q, own = self.rounded(gate.mul_(both[:, width:]))
        return q, own.mul_(scale)

    def rounded(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """See Arithmetic; the linears do the rounding."""
        largest = x.abs().amax(dim=-1, keepdim=True).clamp_min_(TINY)
        return x * (self._levels / largest), largest

    def floats(self, q: Tensor) -> Tensor:
        """See Arithmetic."""
        return q

"""What stands between two products, by torch's operators; see engine.arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from engine.arithmetic import LEVELS, TINY
from engine.attention import TorchAttention
from engine.layers import LeanLayer, Stack
from engine.lean_shape import LeanShape
from engine.stepped import SteppedStack


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

    def stack(self, shape: LeanShape, layers: Sequence[LeanLayer], rope: Tensor) -> Stack:
        """See Arithmetic."""
        return SteppedStack(self, TorchAttention(shape, rope), layers)

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

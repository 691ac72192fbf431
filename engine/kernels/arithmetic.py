"""What stands between two products, compiled; see engine.arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from engine.attention import TorchAttention
from engine.kernels.attention import WIDTH, KernelAttention
from engine.kernels.kernels import Kernels, Rounded
from engine.kernels.layout import QUADS
from engine.kernels.stack import CompiledStack
from engine.layers import LeanLayer, Stack
from engine.lean_shape import LeanShape
from engine.stepped import SteppedStack


class KernelArithmetic:
    """What stands between two products, compiled; see Arithmetic."""

    def __init__(self, kernels: Kernels, eps: float) -> None:
        self._kernels, self._library, self._eps = kernels, kernels.library, eps
        self._room = torch.empty(0)
        self._nothing = torch.empty(0), torch.empty(0)

    def alone(self) -> AbstractContextManager[None]:
        """See Arithmetic."""
        return self._kernels.team.alone()

    def passing(self) -> AbstractContextManager[None]:
        """With the team awake."""
        return self._kernels.team.passing()

    def stack(self, shape: LeanShape, layers: Sequence[LeanLayer], rope: Tensor) -> Stack:
        """See Arithmetic; heads of an odd size are left to torch."""
        if shape.head_dim % WIDTH:
            return SteppedStack(self, TorchAttention(shape, rope), layers)
        return CompiledStack(self._kernels, KernelAttention(self._kernels, shape, rope), shape, layers, self._eps)

    def normed(self, x: Tensor, change: tuple[Tensor, Tensor] | None, weight: Tensor) -> tuple[Tensor, Rounded, Tensor]:
        """See Arithmetic."""
        rows, width = x.shape
        if len(self._room) < width:
            self._room = torch.empty(width)
        delta, delta_scale = change or self._nothing
        scale = torch.empty(rows, 1)
        self._library.normed(
            x.data_ptr(),
            delta.data_ptr(),
            delta_scale.data_ptr(),
            weight.data_ptr(),
            self._room.data_ptr(),
            *self._kernels.room(rows * width),
            scale.data_ptr(),
            width,
            rows,
            change is not None,
            self._eps,
        )
        return x, Rounded(rows, width), scale

    def gated(self, both: Tensor, scale: Tensor) -> tuple[Rounded, Tensor]:
        """See Arithmetic; `both` is changed."""
        rows, stride = both.shape
        own = torch.empty(rows, 1)
        width = stride // 2
        room = self._kernels.room(rows * width)
        self._library.gated(both.data_ptr(), scale.data_ptr(), *room, own.data_ptr(), width, rows, stride)
        return Rounded(rows, width), own

    def rounded(self, x: Tensor) -> tuple[Rounded, Tensor]:
        """See Arithmetic."""
        x = x.contiguous()
        rows, width = x.shape
        scale = torch.empty(rows, 1)
        self._library.rounded(x.data_ptr(), *self._kernels.room(rows * width), scale.data_ptr(), width, rows)
        return Rounded(rows, width), scale

    def floats(self, q: Rounded) -> Tensor:
        """See Arithmetic."""
        pairs = self._kernels.rounded.codes[: q.rows * q.width].view(q.rows, -1, 2 * QUADS, 2, 2)
        return pairs.transpose(2, 3).reshape(q).float()

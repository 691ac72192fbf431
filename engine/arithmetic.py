"""What the CPU forward computes with: what stands between two products with packed weights, and a model's layers.

Activations go into a product as integers within +-127, one scale a row. How they are kept is the business of those
who make and multiply them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from torch import Tensor

from engine.layers import Activations, LeanLayer, Stack
from engine.lean_shape import LeanShape

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

    def stack(self, shape: LeanShape, layers: Sequence[LeanLayer], rope: Tensor) -> Stack:
        """Return a model's layers, ready to run; `rope` is complex64 [max_length, head_dim / 2]."""
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

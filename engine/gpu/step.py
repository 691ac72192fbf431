"""What all layers of one pass share: which positions its rows have, how far they look back, their rotations."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.gpu.shape import ModelShape


class Step:
    """The rows of one pass, at consecutive positions.

    `reach` keys from the first on are looked at: all that count, in a bucket. What lies in a bucket behind a row's own
    position is masked. `begin` is the first position where the host knows it, which it does while reading a prompt.
    """

    def __init__(self, positions: Tensor, rotation: Rotation, reach: int, begin: int | None = None) -> None:
        self.positions = positions  # [rows] int64
        self.rows = len(positions)
        self.reach, self.begin = reach, begin
        self.cos = rotation.cos.index_select(0, positions)  # [rows, head_dim / 2]
        self.sin = rotation.sin.index_select(0, positions)
        self._visible: Tensor | None = None

    def visible(self) -> Tensor:
        """Return which keys each row sees, bool [rows, reach]; made once a pass."""
        if self._visible is None:
            keys = torch.arange(self.reach, device=self.positions.device)
            self._visible = keys <= self.positions[:, None]
        return self._visible


class Rotation:
    """Cosines and sines of all positions, float32 [length, head_dim / 2]."""

    def __init__(self, shape: ModelShape, length: int, device: torch.device) -> None:
        frequencies = torch.tensor(shape.inv_freq, device=device)
        angles = torch.outer(torch.arange(length, dtype=torch.float32, device=device), frequencies)
        self.cos = angles.cos().mul_(shape.rope_scaling)
        self.sin = angles.sin().mul_(shape.rope_scaling)

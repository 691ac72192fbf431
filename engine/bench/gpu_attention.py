"""The ways to attend from a few rows to many keys, measured against each other as a pass runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from engine.bench.gpu_budget import Deadline
from engine.bench.gpu_passes import timed
from engine.gpu.attention import Attention, blockwise, fused
from engine.gpu.graphs import CudaGraphs, Eager, GraphPool
from engine.gpu.shape import ModelShape
from engine.gpu.step import Rotation, Step

ROWS = (1, 5, 8)
REPEATS = 5


@dataclass(frozen=True, slots=True)
class AttentionCost:
    """Microseconds a layer; `off` is the largest difference from torch's fused kernel."""

    way: str
    rows: int
    keys: int
    us: float
    off: float

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return {"way": self.way, "rows": self.rows, "keys": self.keys, "us": round(self.us, 2), "off": self.off}


def ways(with_triton: bool) -> dict[str, Attention]:
    """Return the ways that can be had here, the one all are compared with first."""
    found: dict[str, Attention] = {"torch fused": fused, "blockwise": blockwise}
    if with_triton:
        from engine.gpu.triton_kernels import attend

        found["triton"] = attend
    return found


class AttentionTrial:
    """All layers' attention of one shape over so many keys; every layer reads keys of its own, as in a pass."""

    def __init__(self, shape: ModelShape, keys: int, device: torch.device) -> None:
        size = (shape.layers, shape.kv_heads, keys, shape.head_dim)
        generator = torch.Generator(device).manual_seed(0)
        kind = torch.bfloat16
        self._keys = torch.randn(size, device=device, dtype=kind, generator=generator)
        self._values = torch.randn(size, device=device, dtype=kind, generator=generator)
        self._queries = torch.randn(
            max(ROWS), shape.heads, shape.head_dim, device=device, dtype=kind, generator=generator
        )
        self._rotation = Rotation(shape, keys, device)
        self._out = torch.zeros(max(ROWS), shape.heads * shape.head_dim, device=device, dtype=kind)
        self._shape, self._reach, self._device = shape, keys, device

    @torch.inference_mode()
    def measure(self, way: str, attend: Attention, rows: int, expected: Tensor | None) -> tuple[AttentionCost, Tensor]:
        """Time one way; return what it costs and what it computes."""
        pool: GraphPool = CudaGraphs() if self._device.type == "cuda" else Eager()
        positions = torch.arange(self._reach - rows, self._reach, device=self._device)
        run = partial(pool.run, way, partial(self._all_layers, attend, rows, positions))
        run()
        us = median(timed(run, self._device) for _ in range(REPEATS)) * 1e6 / self._shape.layers
        result = self._out[:rows].float()
        off = 0.0 if expected is None else float((result - expected).abs().max())
        return AttentionCost(way, rows, self._reach, us, off), result

    def _all_layers(self, attend: Attention, rows: int, positions: Tensor) -> None:
        step = Step(positions, self._rotation, self._reach)
        queries = self._queries[:rows]
        for keys, values in zip(self._keys.unbind(0), self._values.unbind(0), strict=True):
            self._out[:rows] = attend(queries, keys, values, step)


def measure_attention(
    into: list[AttentionCost],
    found: Mapping[str, Attention],
    shape: ModelShape,
    keys: int,
    device: torch.device,
    deadline: Deadline,
) -> None:
    """Measure every way over so many keys."""
    trial = AttentionTrial(shape, keys, device)
    for rows in ROWS:
        expected: Tensor | None = None
        for way, attend in found.items():
            if deadline.over:
                return
            cost, result = trial.measure(way, attend, rows, expected)
            expected = result if expected is None else expected
            into.append(cost)

"""What passes cost on a card: by rows, recorded and eager, against the time that reading the weights takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

import torch

from engine.bench.gpu_budget import Deadline
from engine.gpu.kv_store import GpuCache
from engine.gpu.model import GpuModel

REPEATS = 3
COPIES = 4  # in a row, so that waiting for them does not count


@dataclass(slots=True)
class Curve:
    """One model's milliseconds by rows; grows while it is measured. `how` is graphs, eager or exact."""

    model: str
    dtype: str
    how: str
    weight_bytes: int
    cached: int
    ms: dict[int, float] = field(default_factory=dict)

    def against_one(self, rows: int) -> float | None:
        """Return v(rows): how many one-row passes a pass of `rows` costs."""
        return self.ms[rows] / self.ms[1] if rows in self.ms and 1 in self.ms else None

    def share(self, bandwidth: float) -> float | None:
        """Return a one-row pass's share of the floor: the time to read the weights at `bandwidth` bytes a second."""
        return self.weight_bytes / bandwidth * 1e3 / self.ms[1] if bandwidth and 1 in self.ms else None

    def as_json(self, bandwidth: float) -> dict[str, Any]:
        """Return the figures as plain data."""
        share = self.share(bandwidth)
        return {
            "model": self.model,
            "dtype": self.dtype,
            "how": self.how,
            "weight_bytes": self.weight_bytes,
            "cached_tokens": self.cached,
            "ms_by_rows": {str(rows): round(ms, 4) for rows, ms in sorted(self.ms.items())},
            "share_of_bandwidth_floor": None if share is None else round(share, 4),
        }


def copy_bandwidth(device: torch.device, size: int) -> float:
    """Return bytes a second, read and written ones counted, of copying `size` bytes on the device."""
    source = torch.empty(size, dtype=torch.uint8, device=device).fill_(1)
    target = torch.empty_like(source)

    def copy() -> None:
        for _ in range(COPIES):
            target.copy_(source)

    seconds = median(timed(copy, device) for _ in range(REPEATS + 1))
    return 2 * size * COPIES / seconds


def timed(action: Callable[[], object], device: torch.device) -> float:
    """Return the seconds an action takes until the device has done all it was told."""
    wait(device)
    began = time.perf_counter()
    action()
    wait(device)
    return time.perf_counter() - began


def wait(device: torch.device) -> None:
    """Wait until the device has done all it was told; a processor always has."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure_curve(
    into: Curve, model: GpuModel, rows: Iterable[int], queued: int, deadline: Deadline
) -> tuple[int, ...]:
    """Time passes of each number of rows into `into`; return the numbers that time was too short for."""
    cache = model.new_cache()
    model.prefill([1] * into.cached, cache)
    wanted = list(rows)
    for at, count in enumerate(wanted):
        if deadline.over:
            return tuple(wanted[at:])
        passes = partial(_passes, model, cache, into.cached, count, queued)
        passes()  # the first records
        into.ms[count] = median(timed(passes, model.device) for _ in range(REPEATS)) * 1e3 / queued
    return ()


def _passes(model: GpuModel, cache: GpuCache, cached: int, rows: int, times: int) -> None:
    """Send passes off one after another: what the host does for one then hides behind the one before."""
    for _ in range(times):
        cache.truncate(cached)
        model.forward([1] * rows, cache, rows)

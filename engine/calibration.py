"""What passes cost is measured once, when a model is first loaded on a machine, and kept with the prepared model.

Row counts are timed in turn within a budget, so that a slow moment meets all. The quickest times are kept: whatever
else the machine does can only add to them. What is kept holds for one processor, number of threads and version of
torch; anything else is measured anew, and so is what proves to have been measured on a busy machine.
"""

from __future__ import annotations

import json
import logging
import platform
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import accumulate
from math import inf
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch

from engine.costs import RowCosts
from engine.loader import LoadedModel
from engine.model import ForwardModel
from engine.prepare import FORMAT
from engine.processor import processor_name

log = logging.getLogger(__name__)

ROWS = (1, 2, 4, 8, 16)
BUDGET_MS = 1500.0  # for the target; the draft model's smaller passes need less
REPEATS = 7  # more tell no more
GLANCES = 2
LEAST_ROW = 0.025  # a further row costs at least this share of a one-row pass; what says less was luck of few repeats
HASTE = 0.75  # a one-row pass below this share of its kept cost: all of them were taken in a slow moment
PREFIX = 64  # tokens in the cache before a timed pass


@runtime_checkable
class MeasuredModel(Protocol):
    """A network that has measured its passes by itself, to choose the sizes it runs them at."""

    def row_costs(self) -> Mapping[int, float]:
        """Return milliseconds by rows, straight between the row counts given."""
        ...


def costs_of(model: LoadedModel, most_rows: int) -> RowCosts:
    """Return the costs of a model's passes: those kept from an earlier start, or measured now and kept.

    A model that cannot roll back verifies nothing, so its costs do not matter.
    """
    if not getattr(model.network, "can_truncate", True):
        return RowCosts()
    if isinstance(model.network, MeasuredModel):
        return RowCosts(model.network.row_costs())
    key = machine_key()
    kept = _Kept(model.prepared / "costs.json" if model.prepared else None)
    points = kept.read(key)
    if points is None or quickest(model.network) < HASTE * points.get(1, inf):
        points = measure(model.network, most_rows)
        kept.write(key, points)
        log.info("measured passes of %s: %s ms", model.name, {r: round(ms, 1) for r, ms in points.items()})
    return RowCosts(points)


def machine_key() -> str:
    """Say what the costs of a pass hold for."""
    threads = torch.get_num_threads()
    return f"{platform.machine()} {processor_name()}, {threads} threads, torch {torch.__version__}, weights {FORMAT}"


def measure(network: ForwardModel, most_rows: int) -> dict[int, float]:
    """Return the least milliseconds of a pass by rows; each row count is run once before, to build its kernels."""
    timed = _stopwatch(network, most_rows)
    counts = [rows for rows in ROWS if rows <= most_rows]
    end = time.perf_counter() + BUDGET_MS / 1e3
    times = {rows: [timed(rows)] for rows in counts}
    while time.perf_counter() < end and len(times[1]) <= REPEATS:
        for rows in counts:
            times[rows].append(timed(rows))
    return _rising({rows: min(taken[1:] or taken) for rows, taken in times.items()})


def quickest(network: ForwardModel) -> float:
    """Return the least milliseconds of a few one-row passes: enough to see that kept costs met a slow moment."""
    timed = _stopwatch(network, 1)
    return min(timed(1) for _ in range(GLANCES))


def _stopwatch(network: ForwardModel, most_rows: int) -> Callable[[int], float]:
    cache = network.new_cache()
    network.forward([0] * min(PREFIX, network.max_length - most_rows), cache, 1)
    base = len(cache)

    def timed(rows: int) -> float:
        cache.truncate(base)
        began = time.perf_counter()
        float(network.forward([0] * rows, cache, rows)[-1, 0])  # reading a number waits for the device
        return (time.perf_counter() - began) * 1e3

    return timed


def _rising(points: dict[int, float]) -> dict[int, float]:
    """No pass costs more than one of more rows: where one seems to, it met a slow moment; nor quite as little."""
    falling = accumulate(reversed(points.values()), min)
    least = dict(zip(points, reversed(list(falling)), strict=True))
    return {rows: max(ms, least[1] * (1 + LEAST_ROW * (rows - 1))) for rows, ms in least.items()}


class _Kept:
    """One JSON file of costs by machine; a file that cannot be read or written costs a measurement, no more."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self, key: str) -> dict[int, float] | None:
        try:
            points = self._all()[key]
            return {int(rows): float(ms) for rows, ms in points.items() if float(ms) > 0} or None
        except (KeyError, ValueError, AttributeError, TypeError):
            return None

    def write(self, key: str, points: Mapping[int, float]) -> None:
        if self._path is None:
            return
        values = self._all() | {key: {str(rows): round(ms, 3) for rows, ms in points.items()}}
        with suppress(OSError):
            self._path.write_text(json.dumps(values, indent=1), encoding="utf-8")

    def _all(self) -> dict[str, dict[str, float]]:
        with suppress(OSError, ValueError):
            if self._path is not None:
                found = json.loads(self._path.read_text(encoding="utf-8"))
                return found if isinstance(found, dict) else {}
        return {}

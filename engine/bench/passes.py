"""What a pass costs: target and draft by rows, their linears alone, and reading a prompt."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.progress import Progress
from rich.table import Table

from engine.cpu_forward import LeanModel
from engine.kv_cache import KVCache
from engine.loader import LoadedModel
from engine.model import ForwardModel, Prefiller

ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
BASE = 512  # tokens in the cache before a pass
CHUNKS = (16, 64, 256)


@dataclass(slots=True)
class Passes:
    """One model's costs. Milliseconds, medians and minima by rows; prompt tokens per second by chunk."""

    role: str
    name: str
    cached: int
    passes: dict[int, list[float]] = field(default_factory=dict)
    linears: dict[int, list[float]] = field(default_factory=dict)
    prefill: dict[int, list[float]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return {
            "role": self.role,
            "name": self.name,
            "cached_tokens": self.cached,
            "pass_ms": _by_rows(self.passes),
            "linears_alone_ms": _by_rows(self.linears),
            "prefill_tokens_per_second": {str(n): round(median(v), 1) for n, v in self.prefill.items() if v},
        }


def _by_rows(times: dict[int, list[float]]) -> dict[str, dict[str, float]]:
    return {str(n): {"median": round(median(v), 3), "min": round(min(v), 3)} for n, v in times.items() if v}


def measure_passes(role: str, model: LoadedModel, repeats: int, progress: Progress, into: list[Passes]) -> None:
    """Measure a model; its figures are in `into` from the first on."""
    base = min(BASE, model.network.max_length - max(ROWS) - 1)
    found = Passes(role, Path(model.name).name, base)
    into.append(found)
    task = progress.add_task(f"passes: {role}", total=3)
    rng = random.Random(0)  # noqa: S311  (repeatable ids, no secret)
    ids = [rng.randrange(model.tokenizer.size) for _ in range(base + max(ROWS))]
    cache = model.network.new_cache()
    model.network.forward(ids[:base], cache, 1)
    _alternate(found.passes, {n: _pass_of(model.network, cache, ids, base, n) for n in ROWS}, repeats)
    progress.advance(task)
    if isinstance(model.network, LeanModel):
        _alternate(found.linears, linears_alone(model.network), repeats)
    progress.advance(task)
    _measure_prefill(found, model.network, ids[:base], repeats)
    progress.advance(task)


def _alternate(into: dict[int, list[float]], actions: dict[int, Callable[[], float]], repeats: int) -> None:
    """Time actions in turn, so that slow moments meet all; each first meets its kernels untimed."""
    for action in actions.values():
        action()
    for _ in range(repeats):
        for rows, action in actions.items():
            into.setdefault(rows, []).append(action())


def _pass_of(network: ForwardModel, cache: KVCache, ids: Sequence[int], base: int, rows: int) -> Callable[[], float]:
    def action() -> float:
        cache.truncate(base)
        began = time.perf_counter()
        network.forward(ids[base : base + rows], cache, rows)
        return (time.perf_counter() - began) * 1e3

    return action


def _measure_prefill(found: Passes, network: ForwardModel, ids: Sequence[int], repeats: int) -> None:
    speeds: dict[int, list[float]] = {}
    _alternate(speeds, {n: _prefill_of(network, ids, n) for n in CHUNKS if n <= len(ids)}, max(1, repeats // 3))
    found.prefill = {chunk: [len(ids) / ms * 1e3 for ms in times] for chunk, times in speeds.items()}


def _prefill_of(network: ForwardModel, ids: Sequence[int], chunk: int) -> Callable[[], float]:
    def read(part: Sequence[int], cache: KVCache) -> None:
        if isinstance(network, Prefiller):
            network.prefill(part, cache)
        else:
            network.forward(part, cache, 1)

    def action() -> float:
        cache = network.new_cache()
        began = time.perf_counter()
        for start in range(0, len(ids), chunk):
            read(ids[start : start + chunk], cache)
        return (time.perf_counter() - began) * 1e3

    return action


def linears_alone(network: LeanModel) -> dict[int, Callable[[], float]]:
    """Return, by rows, what times the integer products of one whole pass, with the rounding of their rows."""
    return {rows: _linears_of(network, rows) for rows in ROWS}


def _linears_of(network: LeanModel, rows: int) -> Callable[[], float]:
    shape, arithmetic = network.shape, network.arithmetic
    widths = (shape.hidden, shape.heads * shape.head_dim, shape.hidden, shape.intermediate)
    inputs = [torch.randint(-127, 128, (rows, width)).float() for width in widths]

    @torch.inference_mode()
    def action() -> float:
        began = time.perf_counter()
        with arithmetic.passing():
            for layer in network.layers:
                for linear, x in zip((layer.qkv, layer.out, layer.gate_up, layer.down), inputs, strict=True):
                    linear(arithmetic.rounded(x)[0])
            network.head(arithmetic.rounded(inputs[0])[0])
        return (time.perf_counter() - began) * 1e3

    return action


def passes_table(found: Passes) -> Table:
    """Return a model's costs as a table for people."""
    speeds = ", ".join(f"{median(v):.0f} in chunks of {n}" for n, v in found.prefill.items())
    table = Table(
        title=f"passes of the {found.role}, {found.name}: ms (median), {found.cached} tokens in the cache",
        caption=f"prompt, tokens/s: {speeds}" if speeds else None,
        title_justify="left",
        caption_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
    )
    table.add_column("rows", no_wrap=True)
    for rows in found.passes:
        table.add_column(str(rows), justify="right")
    first = median(found.passes[1])
    table.add_row("pass", *(f"{median(v):.1f}" for v in found.passes.values()))
    table.add_row("against one row", *(f"{median(v) / first:.2f}" for v in found.passes.values()))
    if found.linears:
        table.add_row("linears alone", *(f"{median(v):.1f}" for v in found.linears.values()))
    return table

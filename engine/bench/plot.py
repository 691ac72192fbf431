"""A picture of a run: tokens per second as bars, one group a data set, one bar a contestant."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from engine.bench.report import Report
from engine.bench.settings import GENERATION
from engine.bench.tally import Tally
from engine.errors import ConfigError

WIDTH = 0.84  # of a group, in data sets
INCHES = (2.2, 4.8)  # a data set's width, the picture's height
COLOURS = ("#8a8f98", "#2e8b57", "#2f6fb3", "#12355b", "#c9772b", "#e0a35c", "#8b3a2e", "#a98bc4", "#5e4b8b", "#444444")


def require_pyplot() -> Any:  # noqa: ANN401  (matplotlib is no dependency, so not typed here)
    """Import matplotlib, drawing to files only."""
    try:
        matplotlib = importlib.import_module("matplotlib")
        matplotlib.use("Agg")
        return importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ConfigError("a plot needs matplotlib, which is not installed; install foretype[bench]") from error


def draw(report: Report, path: Path) -> None:
    """Draw a report's generation suites into a PNG file."""
    pyplot = require_pyplot()
    found = [tally for tally in report.tallies if tally.timed and tally.suite in GENERATION]
    if not found:
        raise ConfigError("there is nothing to plot; run a suite that completes holes")
    groups = list(dict.fromkeys((t.suite, t.data) for t in found))
    names = list(dict.fromkeys(t.contestant for t in found))
    figure, axes = pyplot.subplots(figsize=(max(6.0, INCHES[0] * len(groups)), INCHES[1]), layout="constrained")
    for at, name in enumerate(names):
        _bars(axes, [t for t in found if t.contestant == name], groups, (at, len(names)))
    axes.set_xticks(range(len(groups)), [f"{suite}\n{data}" for suite, data in groups])
    axes.set_ylabel("tokens/s, decoding alone")
    axes.set_title(f"{report.title}\n{report.machine['processor']}, {report.machine['threads']} threads", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    figure.savefig(path, format="png", dpi=144)
    pyplot.close(figure)


def _bars(axes: Any, found: list[Tally], groups: list[tuple[str, str]], place: tuple[int, int]) -> None:  # noqa: ANN401  (matplotlib is not typed here)
    at, count = place
    width = WIDTH / count
    lefts = [groups.index((t.suite, t.data)) + (at - (count - 1) / 2) * width for t in found]
    heights = [t.tokens_per_second for t in found]
    bars = axes.bar(lefts, heights, width, label=found[0].contestant, color=COLOURS[at % len(COLOURS)])
    axes.bar_label(bars, fmt="%.0f", fontsize=6)

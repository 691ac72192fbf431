"""Benchmarks on known files with holes.

drafters   tokens per second and mean acceptance length without drafts, with lookup, with the draft model, with both
prompt     exact matches by the prompt's form: split at the cursor, anchored, anchored with token healing

All variants of a suite run in one process and in turn on each hole, so that a change of the machine's mood meets all of
them. A variant that was to draft and drafted nothing is an error, not a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from engine.catalog import models_dir
from engine.config import DrafterName, EngineConfig, Limits
from engine.core import CompletionSummary
from engine.engine import Engine
from engine.errors import EngineError
from engine.holes import Hole, exercism, humaneval, spread
from engine.load_report import once_each
from engine.models import LoadedModels, load_models
from engine.prompt import PromptStyle

DRAFTERS: dict[str, tuple[DrafterName, ...]] = {
    "none": (),
    "lookup": ("lookup",),
    "model": ("model",),
    "both": ("lookup", "model"),
}
STYLES = {
    "split at the cursor": PromptStyle(0, 0),
    "anchored": PromptStyle(8, 0),
    "anchored, last token healed": PromptStyle(8, 1),
    "anchored, last word healed": PromptStyle(8, 4),
}
MAX_TOKENS = 32


@dataclass(slots=True)
class Tally:
    """What one variant did on one set of holes."""

    holes: int = 0
    exact: int = 0
    same_as_first: int = 0
    tokens: int = 0
    passes: int = 0
    decode_ms: float = 0.0
    rates: list[float] = field(default_factory=list)
    drafted: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, int] = field(default_factory=dict)

    def add(self, summary: CompletionSummary, hole: Hole, first: CompletionSummary) -> None:
        """Take in one completion; `first` is what the first variant wrote for the same hole."""
        stats = summary.stats
        ms = stats.ms["total"] - stats.ms["prefill"]
        self.holes += 1
        self.exact += summary.text.strip() == hole.wanted.strip()
        self.same_as_first += summary.token_ids == first.token_ids
        later = max(stats.emitted_tokens - len(summary.rounds[0].emitted), 0) if summary.rounds else 0
        self.tokens += later
        self.passes += max(stats.target_passes - 1, 0)
        self.decode_ms += ms
        if later:
            self.rates.append(later / ms * 1e3)
        for source in stats.drafted:
            self.drafted[source] = self.drafted.get(source, 0) + stats.drafted[source]
            self.accepted[source] = self.accepted.get(source, 0) + stats.accepted[source]

    @property
    def tokens_per_second(self) -> float:
        """Over the whole set, the prompt's pass left out."""
        return self.tokens / self.decode_ms * 1e3 if self.decode_ms else 0.0

    @property
    def mean_acceptance_length(self) -> float:
        """Emitted tokens per target pass, the prompt's pass left out."""
        return self.tokens / self.passes if self.passes else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return {
            "holes": self.holes,
            "exact": self.exact,
            "same_text_as_first": self.same_as_first,
            "tokens_per_second": round(self.tokens_per_second, 2),
            "median_tokens_per_second": round(median(self.rates), 2) if self.rates else 0.0,
            "mean_acceptance_length": round(self.mean_acceptance_length, 3),
            "drafted": self.drafted,
            "accepted": self.accepted,
        }


@dataclass(slots=True)
class Result:
    """A suite's tallies by (data set, variant)."""

    suite: str
    models: str
    tallies: dict[tuple[str, str], Tally] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        rows = [{"data": data, "variant": variant} | t.as_json() for (data, variant), t in self.tallies.items()]
        return {"suite": self.suite, "models": self.models, "rows": rows}

    def table(self) -> Table:
        """Return a table for people."""
        table = Table(title=f"{self.suite}: {self.models}", title_justify="left", header_style="bold")
        for name in ("data", "variant", "holes", "exact", "same text", "tokens/s", "ratio", "a pass", "accepted"):
            table.add_column(name, justify="left" if name in ("data", "variant", "accepted") else "right")
        first: dict[str, float] = {}
        for (data, variant), tally in self.tallies.items():
            base = first.setdefault(data, tally.tokens_per_second)
            drafts = ", ".join(f"{s} {tally.accepted[s]}/{n}" for s, n in tally.drafted.items())
            table.add_row(
                data,
                variant,
                str(tally.holes),
                str(tally.exact),
                str(tally.same_as_first),
                f"{tally.tokens_per_second:.1f}",
                f"{tally.tokens_per_second / base:.2f}" if base else "-",
                f"{tally.mean_acceptance_length:.2f}",
                drafts or "-",
            )
        return table


def run_suite(suite: str, config: EngineConfig, data: Path, count: int, console: Console) -> Result:
    """Run a suite over `count` holes of each of its data sets; progress goes to `console`."""
    sets = _drafter_sets(data, count) if suite == "drafters" else _prompt_sets(data, count)
    models = load_models(config, once_each(lambda line: console.print(line, highlight=False)), models_dir())
    engines = _drafter_engines(models, config) if suite == "drafters" else _prompt_engines(models, config)
    names = [models.target.name] + ([models.draft.name] if models.draft else [])
    result = Result(suite, " + ".join(names))
    stop = Limits(MAX_TOKENS, "block" if suite == "drafters" else "free")
    with Progress(console=console, transient=True) as progress:
        for name, holes in sets.items():
            _measure(result, name, holes, engines, stop, progress)
    _require_drafts(result)
    return result


def _drafter_sets(data: Path, count: int) -> dict[str, list[Hole]]:
    return {
        "HumanEval multi-line": spread(humaneval(data, "MultiLine"), count),
        "exercism with buffers": spread(exercism(data), count),
    }


def _prompt_sets(data: Path, count: int) -> dict[str, list[Hole]]:
    return {"HumanEval random span": spread(humaneval(data, "RandomSpanLight"), count)}


def _drafter_engines(models: LoadedModels, config: EngineConfig) -> dict[str, Engine]:
    possible = {n: d for n, d in DRAFTERS.items() if models.draft is not None or "model" not in d}
    plain = Engine(models, replace(config, drafters=()))
    return {name: Engine(models, replace(config, drafters=d), sharing=plain) for name, d in possible.items()}


def _prompt_engines(models: LoadedModels, config: EngineConfig) -> dict[str, Engine]:
    lookup = replace(config, drafters=("lookup",))
    plain = Engine(models, lookup)
    return {name: Engine(models, lookup, style, sharing=plain) for name, style in STYLES.items()}


def _measure(
    result: Result,
    name: str,
    holes: Sequence[Hole],
    engines: dict[str, Engine],
    limits: Limits,
    progress: Progress,
) -> None:
    task = progress.add_task(name, total=len(holes) * len(engines))
    for hole in holes:
        first: CompletionSummary | None = None
        for variant, engine in engines.items():
            summary = _complete(engine, hole, limits)
            first = first or summary
            result.tallies.setdefault((name, variant), Tally()).add(summary, hole, first)
            progress.advance(task)
        if not progress.console.is_terminal:
            progress.console.print(f"{name}: {progress.tasks[task].completed:.0f} of {progress.tasks[task].total:.0f}")
        for engine in engines.values():
            engine.forget(hole.path)  # the next hole may be cut from the same file: nothing of this one may help it


def _complete(engine: Engine, hole: Hole, limits: Limits) -> CompletionSummary:
    summary = None
    for chunk in engine.complete(hole.request(limits)):
        summary = chunk.summary
    assert summary is not None
    return summary


def _require_drafts(result: Result) -> None:
    for variant in {variant for _, variant in result.tallies}:
        tallies = [t for (_, v), t in result.tallies.items() if v == variant]
        wanted = DRAFTERS.get(variant, ())
        for source in wanted:
            if not any(tally.drafted.get(source) for tally in tallies):
                raise EngineError(f"variant {variant!r} never drafted from {source}; its figures mean nothing")

"""What a run found: for people as tables, for machines as one object."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from engine.bench.measure import DataSet
from engine.bench.passes import Passes, passes_table
from engine.bench.remarks import Remarks
from engine.bench.run import HoleRuns
from engine.bench.session_figures import SessionFigures
from engine.bench.settings import Settings
from engine.bench.tally import Tally, Versus, tallies

FORMAT = 1
WIDE = 120  # columns where the output is no terminal
NOTE = (
    "Rates are of decoding alone: the pass that reads the prompt is left out, for peers too. Ratios are per hole, "
    "medians of its repeats; shown are the median over holes and its quartiles."
)


@dataclass(slots=True)
class Report:
    """Grows while the run goes on, so that an interrupted run can still be reported."""

    settings: Settings
    machine: dict[str, Any]
    models: list[dict[str, Any]]
    stop: str  # how our texts end, see StopMode
    data: list[tuple[str, DataSet]] = field(default_factory=list)
    sessions: list[SessionFigures] = field(default_factory=list)
    passes: list[Passes] = field(default_factory=list)
    peers: dict[str, Any] = field(default_factory=dict)
    versus: list[Versus] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    interrupted: bool = False
    began: float = field(default_factory=time.time)

    @property
    def tallies(self) -> list[Tally]:
        """Every contestant on every data set."""
        return [tally for suite, data in self.data for tally in tallies(suite, data)]

    @property
    def title(self) -> str:
        """The models' names."""
        return " + ".join(model["name"] for model in self.models)

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "foretype_bench": FORMAT,
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.began)),
            "seconds": round(time.time() - self.began, 1),
            "note": NOTE,
            "machine": self.machine,
            "models": self.models,
            "settings": self.settings.as_json() | {"stop": self.stop},
            "peers": self.peers,
            "results": [tally.as_json() for tally in self.tallies],
            "versus": [v.as_json() for v in self.versus],
            "session": self.sessions[0].as_json() if self.sessions else None,
            "passes": [found.as_json() for found in self.passes],
            "holes": [row for suite, data in self.data for row in _rows(suite, data)],
            "failed_holes": [
                {"suite": suite, "data": data.name} | f.as_json() for suite, data in self.data for f in data.failures
            ],
            "skipped": self.skipped,
            "warnings": self.warnings,
            "failures": self.failures,
            "interrupted": self.interrupted,
        }

    def print(self, console: Console) -> None:
        """Print the tables and all that was noticed; a file is as wide as it must be, a terminal as it is."""
        if not console.is_terminal:
            console = Console(file=console.file, width=max(console.width, WIDE))
        for table in self._tables():
            console.print(table)
        notes = [_machine_line(self.machine), *(f"{name}: {_words(facts)}" for name, facts in self.peers.items())]
        notes += [NOTE] if self.data else []
        remarks = Remarks(notes, self.skipped, self.warnings, self.failures, self.interrupted)
        remarks.print(console)

    def _tables(self) -> Iterator[Table]:
        yield from (_table(suite, data) for suite, data in self.data)
        if self.versus:
            yield _versus_table(self.versus)
        yield from (figures.table(self.title) for figures in self.sessions)
        yield from (passes_table(found) for found in self.passes)


def _machine_line(machine: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    flags = " ".join(machine["flags"])
    return f"{machine['processor']} ({flags}), {machine['threads']} threads, {machine['memory_gib']} GiB; {versions}"


def _words(facts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _rows(suite: str, data: DataSet) -> Iterator[dict[str, Any]]:
    for hole in data.holes:
        opening = hole.opening.run
        yield {
            "suite": suite,
            "data": data.name,
            "hole": hole.name,
            "prompt_tokens": opening.prompt_tokens,
            "opening": {"computed_tokens": opening.computed_tokens, "prefill_ms": round(opening.prefill_ms, 1)},
            "contestants": {name: _hole_row(hole, name) for name in hole.runs},
        }


def _hole_row(hole: HoleRuns, name: str) -> dict[str, Any]:
    runs = hole.runs[name]
    return {
        "exact": hole.exact(runs[0]),
        "same_as_plain": all(hole.same(run) for run in runs),
        "runs": [run.as_json() for run in runs],
    }


def _table(suite: str, data: DataSet) -> Table:
    table = Table(title=f"{suite}: {data.name}", title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    for name in ("", "tokens/s", "ratio", "quartiles", "a pass", "accepted", "exact", "same text"):
        if name == "accepted":
            table.add_column(name, overflow="fold", min_width=12)
        else:
            table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for tally in tallies(suite, data):
        table.add_row(*_cells(tally))
    table.caption = _caption(data)
    table.caption_justify = "left"
    return table


def _caption(data: DataSet) -> str:
    """Say how long the prompts are, and how much of them the timed runs found in the cache."""
    runs = [run for hole in data.holes for found in hole.runs.values() for run in found if run.computed_tokens]
    prompts = [hole.opening.run.prompt_tokens for hole in data.holes]
    words = [f"{len(data.failures)} failed"] if data.failures else []
    if runs:
        share = sum(run.reused_tokens for run in runs) / sum(run.prompt_tokens for run in runs)
        words.append(f"prompts of {median(prompts):.0f} tokens, {share:.1%} of them found in the cache by timed runs")
    return "; ".join(words)


def _cells(tally: Tally) -> Iterator[str]:
    length, ratio = tally.mean_acceptance_length, tally.ratio
    drafts = ", ".join(f"{source} {tally.accepted[source]}/{n}" for source, n in tally.drafted.items())
    yield tally.contestant
    yield f"{tally.tokens_per_second:.1f}"
    yield f"{ratio.middle:.2f}" if ratio else "-"
    yield f"{ratio.low:.2f}-{ratio.high:.2f}" if ratio else "-"
    yield "-" if length is None else f"{length:.2f}"
    yield drafts or "-"
    yield f"{tally.exact}/{tally.holes}"
    yield f"{tally.same}/{tally.holes}"


def _versus_table(versus: list[Versus]) -> Table:
    table = Table(title="against the best of others", title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    for name in ("suite", "data", "ours", "against", "their best", "ratio"):
        table.add_column(name, justify="right" if name == "ratio" else "left")
    for v in versus:
        table.add_row(v.suite, v.data, v.ours, v.others, v.best, str(v.ratio))
    return table

"""What a run on a card found: tables for people, one object for machines; grows while the run goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from engine.bench import gpu_tables
from engine.bench.exact import Agreement
from engine.bench.gpu_attention import AttentionCost
from engine.bench.gpu_bars import Bar, bars
from engine.bench.gpu_drafting import Drafting
from engine.bench.gpu_passes import Curve
from engine.bench.gpu_speed import Rate
from engine.bench.remarks import Remarks
from engine.bench.report import FORMAT, WIDE
from engine.bench.settings import Settings

NOTE = (
    "Weights are random numbers. Passes are sent off one after another and include the logits of all rows. "
    "Texts are scripted: every pass is run at its full cost, then the script's token gets the highest logit, for "
    "peers too. Rates leave out the step that reads the prompt."
)


@dataclass(slots=True)
class GpuReport:
    """All figures of the suites `gpu` and `exact`."""

    settings: Settings
    machine: dict[str, Any]
    title: str
    on_card: bool
    bandwidth: float = 0.0  # bytes a second
    seconds: dict[str, float] = field(default_factory=dict)  # by part
    curves: list[Curve] = field(default_factory=list)
    drafting: list[Drafting] = field(default_factory=list)
    rates: list[Rate] = field(default_factory=list)
    overheads: dict[str, float] = field(default_factory=dict)  # milliseconds a round, by mode
    attention: list[AttentionCost] = field(default_factory=list)
    agreements: list[Agreement] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    interrupted: bool = False
    began: float = field(default_factory=time.time)

    def curve(self, model: str, dtype: str, how: str) -> Curve | None:
        """Return a curve that has been begun."""
        return next((c for c in self.curves if (c.model, c.dtype, c.how) == (model, dtype, how)), None)

    @property
    def bars(self) -> list[Bar]:
        """The bars of the suite `gpu`, none where it did not run."""
        if "gpu" not in self.settings.suites:
            return []
        curve = self.curve("7B", "nf4", "graphs")
        overhead = max(self.overheads.values()) / curve.ms[1] if self.overheads and curve and 1 in curve.ms else None
        return bars(curve, self.bandwidth, overhead, self.rates, self.on_card)

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "foretype_bench": FORMAT,
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.began)),
            "seconds": round(time.time() - self.began, 1),
            "title": self.title,
            "note": NOTE,
            "on_card": self.on_card,
            "machine": self.machine,
            "settings": {"suites": list(self.settings.suites), "seed": self.settings.seed},
            "copy_bytes_per_second": round(self.bandwidth),
            "passes": [curve.as_json(self.bandwidth) for curve in self.curves],
            "drafting": [found.as_json() for found in self.drafting],
            "speed": [rate.as_json() for rate in self.rates],
            "overhead_ms_per_round": {mode: round(ms, 4) for mode, ms in self.overheads.items()},
            "attention": [cost.as_json() for cost in self.attention],
            "exact": [agreement.as_json() for agreement in self.agreements],
            "bars": [bar.as_json() for bar in self.bars],
            "facts": self.facts,
            "seconds_by_part": {part: round(seconds, 1) for part, seconds in self.seconds.items()},
            "skipped": self.skipped,
            "warnings": self.warnings,
            "failures": self.failures,
            "interrupted": self.interrupted,
        }

    def print(self, console: Console) -> None:
        """Print the tables and all that was noticed; a file is as wide as it must be, a terminal as it is."""
        if not console.is_terminal:
            console = Console(file=console.file, width=max(console.width, WIDE))
        console.print(self.title, style="bold", markup=False, highlight=False)
        for table in self._tables():
            console.print(table)
        notes = [gpu_tables.machine_line(self.machine), NOTE]
        remarks = Remarks(notes, self.skipped, self.warnings, self.failures, self.interrupted)
        remarks.print(console)

    def _tables(self) -> Iterator[Table]:
        if self.curves:
            yield gpu_tables.curves_table(self.curves, self.bandwidth)
        if self.drafting:
            yield gpu_tables.drafting_table(self.drafting)
        if any(rate.samples for rate in self.rates):
            yield gpu_tables.speed_table(self.rates, self.overheads)
        if self.attention:
            yield gpu_tables.attention_table(self.attention)
        if self.agreements:
            yield gpu_tables.agreement_table(self.agreements)
        if found := self.bars:
            yield gpu_tables.bars_table(found)

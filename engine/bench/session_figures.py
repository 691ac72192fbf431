"""What a replayed session comes to: latencies, work for nothing, reuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from engine.bench.figures import p50_p95, percentile
from engine.core import CancelToken, CompletionRequest, DecodeStats


@dataclass(slots=True)
class Ask:
    """One request of the recording and what became of it. Times in seconds of the performance counter."""

    request: CompletionRequest
    asked: float
    cancel: CancelToken = field(default_factory=CancelToken)
    cancelled: float | None = None
    started: bool = False
    first_text: float | None = None
    idle: float | None = None
    stats: DecodeStats | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """What the asks of a session come to. Milliseconds."""

    asks: list[Ask]

    @property
    def started(self) -> list[Ask]:
        """The asks that the engine began."""
        return [ask for ask in self.asks if ask.stats is not None]

    @property
    def cancelled(self) -> list[Ask]:
        """Those among them that a newer one cancelled."""
        return [ask for ask in self.started if ask.cancelled is not None]

    @property
    def first_text_ms(self) -> list[float]:
        """From asking to the first text, of those that got that far."""
        return [(ask.first_text - ask.asked) * 1e3 for ask in self.started if ask.first_text is not None]

    @property
    def cancel_to_idle_ms(self) -> list[float]:
        """From cancelling to the engine being free."""
        return [(a.idle - a.cancelled) * 1e3 for a in self.cancelled if a.idle is not None and a.cancelled is not None]

    @property
    def computed_tokens(self) -> list[float]:
        """Prompt tokens that were read for each request the engine began: those that were not in the cache."""
        return [float(ask.stats.computed_tokens) for ask in self.started if ask.stats is not None]

    @property
    def computed_per_keystroke(self) -> list[float]:
        """The same for all requests: each follows a keystroke, and for one that was never begun nothing was read."""
        return self.computed_tokens + [0.0] * sum(not ask.started for ask in self.asks)

    def _sum(self, name: str, asks: Sequence[Ask]) -> int:
        return sum(getattr(ask.stats, name) for ask in asks)

    @property
    def thrown_away(self) -> float | None:
        """Share of all passes that served completions cancelled later."""
        passes = self._sum("target_passes", self.started)
        return self._sum("target_passes", self.cancelled) / passes if passes else None

    @property
    def reused(self) -> float | None:
        """Share of all prompt tokens that were in the cache."""
        tokens = self._sum("prompt_tokens", self.started)
        return self._sum("reused_tokens", self.started) / tokens if tokens else None

    def as_json(self) -> dict[str, Any]:
        """Return the figures, and one row for each request, as plain data."""
        return {
            "requests": len(self.asks),
            "started": len(self.started),
            "cancelled": len(self.cancelled),
            "failed": sum(bool(ask.fault) for ask in self.asks),
            "first_text_ms": p50_p95(self.first_text_ms),
            "computed_tokens_per_keystroke": p50_p95(self.computed_per_keystroke),
            "computed_tokens_per_started": p50_p95(self.computed_tokens),
            "cancel_to_idle_ms": p50_p95(self.cancel_to_idle_ms),
            "passes_thrown_away": _rounded(self.thrown_away),
            "reused_share": _rounded(self.reused),
            "rows": [_row(ask) for ask in self.asks],
        }

    def table(self, title: str) -> Table:
        """Return the figures as a table for people."""
        table = Table(title=f"session: {title}", title_justify="left", header_style="bold", box=SIMPLE_HEAD)
        for name in ("", "p50", "p95", "of"):
            table.add_column(name, justify="right" if name else "left")
        rows = {
            "first text, ms after asking": self.first_text_ms,
            "computed tokens per keystroke": self.computed_per_keystroke,
            "computed tokens per request started": self.computed_tokens,
            "cancelled to idle, ms": self.cancel_to_idle_ms,
        }
        for name, values in rows.items():
            both = (percentile(values, 0.5), percentile(values, 0.95))
            table.add_row(name, *("-" if v is None else f"{v:.0f}" for v in both), str(len(values)))
        shares = {"prompt tokens reused": self.reused, "passes thrown away": self.thrown_away}
        words = [f"{name} {value:.1%}" for name, value in shares.items() if value is not None]
        counts = f"{len(self.asks)} requests, {len(self.started)} started, {len(self.cancelled)} of them cancelled"
        table.caption, table.caption_justify = "; ".join([counts, *words]), "left"
        return table


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _row(ask: Ask) -> dict[str, Any]:
    stats = ask.stats
    row: dict[str, Any] = {"path": ask.request.path, "started": ask.started, "cancelled": ask.cancelled is not None}
    if stats is not None:
        row |= {
            "prompt_tokens": stats.prompt_tokens,
            "computed_tokens": stats.computed_tokens,
            "passes": stats.target_passes,
            "tokens": stats.emitted_tokens,
        }
    for name, until in (("first_text_ms", ask.first_text), ("idle_ms", ask.idle)):
        row[name] = None if until is None else round((until - ask.asked) * 1e3, 2)
    return row | ({"fault": ask.fault} if ask.fault else {})

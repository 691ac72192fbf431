"""What happened in a completion, for people: a row per round, a closing summary, and text coloured by its source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine.core import CompletionSummary, DecodeStats, Option, Round, Source

COLOURS: dict[Source, str] = {"target": "white", "lookup": "green", "model": "cyan"}
LABELS: dict[Source, str] = {"target": "target", "lookup": "lookup", "model": "draft model"}

Decode = Callable[[Sequence[int]], str]


def print_trace(summary: CompletionSummary, decode: Decode, console: Console) -> None:
    """Print one row per round and the closing summary."""
    table = Table(title="rounds: propose, verify, commit", title_justify="left", header_style="bold", box=None)
    for name in ("round", "source", "drafted", "accepted", "rows", "draft ms", "verify ms"):
        table.add_column(name, justify="left" if name == "source" else "right", no_wrap=True)
    table.add_column("promised tokens/s", overflow="fold")
    table.add_column("emitted text", overflow="fold")
    for number, step in enumerate(summary.rounds, 1):
        table.add_row(*_row(number, step), _coloured(step, decode))
    console.print(table)
    console.print(_legend())
    for line in summary_lines(summary):
        console.print(line, highlight=False)


def _row(number: int, step: Round) -> tuple[str, ...]:
    source = " + ".join(LABELS[source] for source in dict.fromkeys(step.draft.sources)) or "none"
    counts = (str(len(step.draft)), str(step.accepted), str(step.rows))
    promised = ", ".join(_promise(option) for option in step.options)
    return (str(number), source, *counts, f"{step.draft_ms:.1f}", f"{step.verify_ms:.1f}", promised)


def _promise(option: Option) -> str:
    length = f" {option.length}" if option.length else ""
    return f"{option.name}{length}: {option.speed * 1e3:.1f}"


def _coloured(step: Round, decode: Decode) -> Text:
    text = Text()
    for at, token in enumerate(step.emitted):
        source: Source = step.draft.sources[at] if at < step.accepted else "target"
        text.append(repr(decode([token]))[1:-1], style=COLOURS[source])
    return text


def _legend() -> Text:
    text = Text("colours: ")
    for source, colour in COLOURS.items():
        text.append(f"{LABELS[source]}  ", style=colour)
    return text


def summary_lines(summary: CompletionSummary) -> list[str]:
    """Say in a few lines what was computed, reused, drafted and accepted, and where the time went."""
    stats, ms = summary.stats, summary.stats.ms
    later = sum(len(step.emitted) for step in summary.rounds[1:])
    rate = f", {later / max(ms['total'] - ms['prefill'], 1e-9) * 1e3:.1f} tokens/s after the first" if later else ""
    drafts = [
        f"{LABELS[source]} {stats.accepted.get(source, 0)} of {stats.drafted[source]}"
        for source in COLOURS
        if source in stats.drafted
    ]
    return [
        f"prompt {stats.prompt_tokens} tokens: {stats.reused_tokens} reused, {stats.computed_tokens} computed",
        f"{stats.emitted_tokens} tokens in {stats.target_passes} target passes: "
        f"{stats.mean_acceptance_length:.2f} a pass{rate}",
        f"accepted: {', '.join(drafts) or 'nothing was drafted'}",
        f"ms: prefill {ms['prefill']:.0f}, draft {ms['draft']:.0f}, verify {ms['verify']:.0f}, "
        f"overhead {ms['overhead']:.0f}, first text {ms['first_token']:.0f}, total {ms['total']:.0f}",
        f"finished by: {summary.finish_reason}",
    ]


def as_json(summary: CompletionSummary) -> dict[str, Any]:
    """Return the summary as plain data, the object that `foretype complete --json` prints."""
    return {
        "text": summary.text,
        "token_ids": list(summary.token_ids),
        "prompt_token_ids": list(summary.prompt_token_ids),
        "finish_reason": summary.finish_reason,
        "stats": stats_as_json(summary.stats),
    }


def rounds_as_json(summary: CompletionSummary, decode: Decode) -> list[dict[str, Any]]:
    """Return every round with text and source of each token it drafted and emitted; times are milliseconds."""
    return [
        {
            "drafted": len(step.draft),
            "draft": [
                {"text": decode([token]), "source": source}
                for token, source in zip(step.draft.ids, step.draft.sources, strict=True)
            ],
            "accepted": step.accepted,
            "rows": step.rows,
            "draft_ms": round(step.draft_ms, 3),
            "verify_ms": round(step.verify_ms, 3),
            "options": [
                {"name": o.name, "length": o.length, "tokens": round(o.tokens, 3), "ms": round(o.ms, 3)}
                for o in step.options
            ],
            "tokens": [
                {"text": decode([token]), "source": step.draft.sources[at] if at < step.accepted else "target"}
                for at, token in enumerate(step.emitted)
            ],
        }
        for step in summary.rounds
    ]


def stats_as_json(stats: DecodeStats) -> dict[str, Any]:
    """Return counts and times as plain data; times are milliseconds."""
    return {
        "prompt_tokens": stats.prompt_tokens,
        "reused_tokens": stats.reused_tokens,
        "computed_tokens": stats.computed_tokens,
        "target_passes": stats.target_passes,
        "drafted": dict(stats.drafted),
        "accepted": dict(stats.accepted),
        "mean_acceptance_length": round(stats.mean_acceptance_length, 4),
        "ms": {name: round(value, 3) for name, value in stats.ms.items()},
    }

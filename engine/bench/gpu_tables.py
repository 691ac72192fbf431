"""The figures of the card's suites as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from engine.bench.exact import Agreement
from engine.bench.gpu_attention import AttentionCost
from engine.bench.gpu_bars import Bar, find_rate
from engine.bench.gpu_drafting import Drafting
from engine.bench.gpu_passes import Curve
from engine.bench.gpu_speed import Rate

SHOWN = (1, 2, 4, 5, 8, 16, 32, 64)  # rows in the table; the object has all


def _table(title: str, names: Sequence[str], words: int = 1) -> Table:
    """Return an empty table; the first `words` columns are words, the others numbers."""
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD, caption_justify="left")
    for at, name in enumerate(names):
        table.add_column(name, justify="left" if at < words else "right", no_wrap=True)
    return table


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def curves_table(curves: Sequence[Curve], bandwidth: float) -> Table:
    """Return milliseconds of a pass by rows, with v(5) and the share of the bandwidth floor."""
    shown = [rows for rows in SHOWN if any(rows in curve.ms for curve in curves)]
    title = f"a pass by rows, ms; copying moves {bandwidth / 1e9:.0f} GB/s"
    table = _table(title, ["", *map(str, shown), "v(5)", "GB read", "of the floor"])
    for curve in curves:
        cells = [_number(curve.ms.get(rows), ".2f") for rows in shown]
        v5, share = _number(curve.against_one(5), ".2f"), _number(curve.share(bandwidth), ".1%")
        name = f"{curve.model} {curve.dtype}, {curve.how}"
        table.add_row(name, *cells, v5, f"{curve.weight_bytes / 1e9:.3g}", share)
    return table


def drafting_table(found: Sequence[Drafting]) -> Table:
    """Return milliseconds of a draft by its tokens."""
    counts = sorted({count for drafting in found for count in drafting.ms})
    table = _table("writing a draft by tokens, ms", ["", *map(str, counts), "a token"])
    for drafting in found:
        cells = [_number(drafting.ms.get(count), ".2f") for count in counts]
        name = f"{drafting.model} {drafting.dtype}, {drafting.how}"
        table.add_row(name, *cells, _number(drafting.per_token, ".2f"))
    return table


def speed_table(rates: Sequence[Rate], overheads: Mapping[str, float]) -> Table:
    """Return tokens a second of everybody, against the first one's plain decoding."""
    table = _table(
        "decoding a scripted text",
        ["", "mode", "acceptance", "length", "tokens/s", "ratio", "accepted", "ms a round"],
        2,
    )
    first = find_rate(rates, rates[0].who, "plain")
    plain = first.tokens_per_second if first else None
    for rate in rates:
        speed = rate.tokens_per_second
        table.add_row(
            rate.who,
            rate.mode,
            _number(rate.acceptance, ".1f"),
            str(rate.length or "-"),
            _number(speed, ".1f"),
            _number(speed / plain if speed and plain else None, ".2f"),
            _number(rate.accepted_share, ".2f"),
            _number(rate.round_ms, ".2f"),
        )
    words = [f"{mode} {ms:.3f} ms" for mode, ms in overheads.items()]
    table.caption = f"overhead of a round beside its pass and draft: {', '.join(words)}" if words else None
    return table


def attention_table(costs: Sequence[AttentionCost]) -> Table:
    """Return microseconds of a layer's attention, one column a case."""
    cases = list(dict.fromkeys((cost.keys, cost.rows) for cost in costs))
    names = [f"{rows} over {keys}" for keys, rows in cases]
    table = _table("attention of a layer, rows over keys, µs", ["", *names])
    for way in dict.fromkeys(cost.way for cost in costs):
        by_case = {(cost.keys, cost.rows): cost.us for cost in costs if cost.way == way}
        table.add_row(way, *(_number(by_case.get(case), ".1f") for case in cases))
    return table


def agreement_table(found: Sequence[Agreement]) -> Table:
    """Return how far verification computes what plain decoding computes."""
    names = ["", "rows", "other bits", "largest difference", "other token", "largest gap there", "median gap"]
    table = _table("verification against plain decoding", names)
    for agreement in found:
        facts = agreement.as_json()
        table.add_row(
            f"{agreement.model}, {agreement.mode}",
            str(agreement.rows),
            str(agreement.other_bits),
            f"{agreement.largest:.4g}",
            f"{agreement.mismatch_rate:.2%}",
            _number(facts["largest_gap_at_a_mismatch"], ".4g"),
            _number(facts["median_gap"], ".4g"),
        )
    return table


def bars_table(found: Sequence[Bar]) -> Table:
    """Return each bar with its figure and the verdict."""
    table = _table("bars", ["", "figure", "bar", "verdict"])
    for bar in found:
        limit = f"{'≥' if bar.at_least else '≤'} {bar.limit:g}"
        table.add_row(bar.name, _number(bar.figure, ".2f"), limit, bar.verdict)
    return table


def machine_line(machine: Mapping[str, Any]) -> str:
    """Return the machine in one line."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    return f"{machine['device']}; {machine['processor']}, {machine['threads']} threads; {versions}"

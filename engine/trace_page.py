"""A completion as one HTML page that replays it: the page's data, and how they get into the template.

How the page looks and moves is in trace_page.html. Needs no torch, so that a page can be made of any summary.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from engine.acceptance import ANY_WRITTEN
from engine.core import CompletionRequest, CompletionSummary, Round
from engine.costs import ROW_PRIOR
from engine.errors import ConfigError
from engine.trace import Decode, rounds_as_json, stats_as_json

if TYPE_CHECKING:
    from engine import Engine

LINES_BEFORE, LINES_AFTER = 8, 4  # of the document, around the completion
UNREPLACED = "\ufffd"
INLINE = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)
UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a completion stands. `owed` is what its first tokens only spell again, already part of `before`."""

    place: str
    model: str
    before: str
    after: str
    owed: str = ""
    line_break: str = "\n"


@dataclass(frozen=True, slots=True)
class Costs:
    """The values of the what-if panel as this completion had them, per round after the first; milliseconds.

    `acceptance` is the even rate at which drafts of `length` tokens give `tokens` a round, so that the panel's formula
    at these values is the measured speed-up; `kept` of `judged` drafted tokens is what was counted. Without a second
    round nothing was measured: then the values are assumptions and `speedup` is None.
    """

    tokens: float
    length: float
    acceptance: float
    draft: float
    overhead: float
    first_row: float
    next_row: float
    kept: int
    judged: int
    passes: tuple[tuple[int, float], ...]
    speedup: float | None


ASSUMED = Costs(1.0, 4.0, ANY_WRITTEN.prior, 5.0, 1.0, 50.0, 50.0 * ROW_PRIOR, 0, 0, (), None)


def scene_of(engine: Engine, request: CompletionRequest, location: str) -> Scene:
    """Return the scene of a request that came from `location`, PATH:LINE:COL."""
    line_break = "\r\n" if "\r\n" in request.text else "\n"
    before = request.text[: request.cursor].replace("\r\n", "\n").split("\n")[-LINES_BEFORE - 1 :]
    after = request.text[request.cursor :].replace("\r\n", "\n").split("\n")[: LINES_AFTER + 1]
    return Scene(
        place=":".join([request.path, *location.rsplit(":", 2)[1:]]),
        model=engine.explain(request)["model"],
        before="\n".join(before).lstrip("\n"),
        after="\n".join(after).rstrip("\n"),
        owed=engine.plan(request).owed.decode("utf-8", "replace"),
        line_break=line_break,
    )


def page_data(summary: CompletionSummary, decode: Decode, scene: Scene) -> dict[str, Any]:
    """Return as plain data all that the page shows.

    Each token of a round has `shown`, its part of the text, and `dropped`, whether it came after the text's end.
    """
    pieces = shown_pieces(summary, decode, scene)
    last = max((at for at, piece in enumerate(pieces) if piece), default=-1)
    rounds = rounds_as_json(summary, decode)
    tokens = [token for step in rounds for token in step["tokens"]]
    for at, token in enumerate(tokens):
        token["shown"] = pieces[at] if at < len(pieces) else ""
        token["dropped"] = at > last
    return {
        "place": scene.place,
        "model": scene.model,
        "before": scene.before,
        "after": scene.after,
        "text": summary.text,
        "finish_reason": summary.finish_reason,
        "stats": stats_as_json(summary.stats),
        "rounds": rounds,
        "costs": asdict(costs_of(summary)),
    }


def shown_pieces(summary: CompletionSummary, decode: Decode, scene: Scene) -> list[str]:
    """Return which part of the text each token brought; joined they are the text."""
    pieces, reached = [], 0
    for count in range(1, len(summary.token_ids) + 1):
        own = decode(summary.token_ids[:count])[len(scene.owed) :].replace("\n", scene.line_break)
        if UNREPLACED not in summary.text:  # the text leaves out bytes that are no character
            own = own.replace(UNREPLACED, "")
        end = max(reached, _agreeing(own, summary.text))
        pieces.append(summary.text[reached:end])
        reached = end
    if pieces:
        pieces[-1] += summary.text[reached:]
    return pieces


def _agreeing(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def costs_of(summary: CompletionSummary) -> Costs:
    """Return what a round yielded and cost, so that total time is rounds times costs; the first one read the prompt."""
    rounds = summary.rounds[1:]
    if not rounds:
        return ASSUMED
    count = len(rounds)
    drafted = sum(len(step.draft) for step in rounds)
    drafting = sum(step.draft_ms for step in rounds)
    overhead = summary.stats.ms["overhead"] / len(summary.rounds) + (0.0 if drafted else drafting / count)
    passes = tuple((step.rows, step.verify_ms) for step in rounds)
    first_row, next_row = line_of(rounds)
    tokens = sum(_useful(summary)[1:]) / count
    spent = overhead * count + (drafting if drafted else 0.0) + sum(ms for _, ms in passes)
    return Costs(
        tokens=tokens,
        length=drafted / count,
        acceptance=even_acceptance(tokens, drafted / count),
        draft=drafting / drafted if drafted else 0.0,
        overhead=overhead,
        first_row=first_row,
        next_row=next_row,
        kept=sum(step.accepted for step in rounds),
        judged=sum(step.accepted + _mistaken(step) for step in rounds),
        passes=passes,
        speedup=tokens * first_row * count / spent,
    )


def _useful(summary: CompletionSummary) -> list[int]:
    """Per round, the tokens that plain decoding would have had to compute too, an end token included."""
    left, useful = len(summary.token_ids), []
    for step in summary.rounds:
        taken = min(len(step.emitted), left)
        left -= taken
        useful.append(taken + _ended(step))
    return useful


def _ended(step: Round) -> bool:
    return len(step.emitted) == step.accepted  # else the target's own token stands behind the accepted ones


def _mistaken(step: Round) -> bool:
    return step.accepted < len(step.draft) and not _ended(step)


def line_of(rounds: Sequence[Round]) -> tuple[float, float]:
    """Return milliseconds of a pass of one row and of each further row.

    The first is what the planner expected of a plain pass, by costs measured on this machine and at its pace just then;
    the second leads from there to the mean of the passes that were run.
    """
    count = len(rounds)
    rows, ms = sum(r.rows for r in rounds) / count, sum(r.verify_ms for r in rounds) / count
    plain = [option.ms for step in rounds for option in step.options if option.name == "none"]
    single = [step.verify_ms for step in rounds if step.rows == 1]
    if rows == 1:
        return ms, ROW_PRIOR * ms
    first = min(ms, median(plain or single or [ms / (1 + ROW_PRIOR * (rows - 1))]))
    return first, (ms - first) / (rows - 1)


def expected_tokens(acceptance: float, length: float) -> float:
    """Expected tokens of a round: those kept of `length` drafted ones, and one of the target's own."""
    if not 0 < acceptance < 1:
        return length + 1 if acceptance else 1.0
    return -math.expm1((length + 1) * math.log(acceptance)) / (1 - acceptance)  # exact near 1, where powers are not


def even_acceptance(tokens: float, length: float) -> float:
    """Return the acceptance at which drafts of `length` tokens give `tokens` a round; the prior if none was drafted."""
    if length == 0:
        return ANY_WRITTEN.prior
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, length) < tokens else (low, middle)
    return high


def require_writable(path: Path) -> None:
    """Raise ConfigError now if a page could not be written there later. Leaves no trace."""
    known = path.exists()
    try:
        path.open("ab").close()
        if not known:
            path.unlink()
    except OSError as error:
        raise _unwritable(path, error) from None


def write_page(path: Path, data: dict[str, Any]) -> None:
    """Write the page: one file that needs no other."""
    try:
        path.write_bytes(page(data).encode())
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"{path} cannot be written ({error.strerror}); choose another file for --trace-html")


def page(data: dict[str, Any]) -> str:
    """Return the page: its data cannot end the element they stand in, and only its own script may run."""
    template = resources.files("engine").joinpath("trace_page.html").read_text("utf-8").replace("\r\n", "\n")
    hashes = {kind: _hash(content) for kind, content in INLINE.findall(template)}
    policy = f"style-src {hashes['style']}; script-src {hashes['script']}"
    # The data come last: nothing in them is a placeholder any more.
    return template.replace("@POLICY@", policy).replace("@DATA@", json.dumps(data).translate(UNSAFE))


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"

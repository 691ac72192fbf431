"""Known files with a hole cut out: what benchmarks and quality tests complete and compare.

Reads the folder layout of the evaluation data (`humaneval-infilling`, `exercism-fim`,
`crosscodeeval-python-sample`); a missing folder is said in plain words, nothing is downloaded.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.config import Limits, SamplingParams
from engine.core import Buffer, CompletionRequest
from engine.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Hole:
    """A document split at a hole, and the text that was there."""

    name: str
    path: str
    language: str
    before: str
    wanted: str
    after: str
    buffers: tuple[Buffer, ...] = ()

    def request(self, limits: Limits, sampling: SamplingParams | None = None) -> CompletionRequest:
        """Ask for the hole's text."""
        return CompletionRequest(
            path=self.path,
            language=self.language,
            text=self.before + self.after,
            cursor=len(self.before),
            buffers=self.buffers,
            sampling=sampling or SamplingParams(),
            limits=limits,
        )


def humaneval(data: Path, kind: str) -> list[Hole]:
    """HumanEval-Infilling (Bavarian et al., 2022): `kind` is SingleLine, MultiLine, RandomSpan or RandomSpanLight."""
    name = kind.removesuffix("Light") + "Infilling" + ("Light" if kind.endswith("Light") else "")
    rows = _rows(data / "humaneval-infilling" / f"HumanEval-{name}.jsonl.gz")
    return [
        Hole(r["task_id"], f"{r['entry_point']}.py", "python", r["prompt"], r["canonical_solution"], r["suffix"])
        for r in rows
    ]


def exercism(data: Path, kinds: tuple[str, ...] = ()) -> list[Hole]:
    """Holes in six languages with the exercise's other files as open buffers; all kinds unless some are named."""
    folder = data / "exercism-fim"
    exercises = {row["id"]: row for row in _rows(folder / "exercises.jsonl.gz")}
    return [
        _exercism_hole(row, exercises[row["ex"]])
        for row in _rows(folder / "holes.jsonl.gz")
        if row["ex"] in exercises and (not kinds or row["kind"] in kinds)
    ]


def _exercism_hole(row: dict[str, Any], exercise: dict[str, Any]) -> Hole:
    text: str = exercise["text"]
    start, end = row["start"], row["end"]
    buffers = tuple(Buffer(b["path"], 1, b["text"]) for b in exercise["open_buffers"])
    return Hole(row["id"], exercise["path"], row["lang"], text[:start], text[start:end], text[end:], buffers)


def crosscode(data: Path) -> list[Hole]:
    """CrossCodeEval (Ding et al., 2023), Python: the rest of a line; what was retrieved for it are the buffers."""
    rows = _rows(data / "crosscodeeval-python-sample" / "sample.jsonl.gz")
    return [_crosscode_hole(row) for row in rows]


def _crosscode_hole(row: dict[str, Any]) -> Hole:
    """Snippets of one file become one buffer: the engine is given files, best match first."""
    texts: dict[str, list[str]] = {}
    for piece in row["crossfile_context"]["list"]:
        texts.setdefault(piece["filename"], []).append(piece["retrieved_chunk"])
    buffers = tuple(Buffer(path, 1, "\n\n".join(pieces)) for path, pieces in texts.items())
    about = row["metadata"]
    return Hole(
        about["task_id"], about["file"], "python", row["prompt"], row["groundtruth"], row["right_context"], buffers
    )


def spread(holes: list[Hole], count: int) -> list[Hole]:
    """Take `count` holes evenly over the list, so that a short run sees every part of it."""
    if count >= len(holes):
        return holes
    return [holes[i * len(holes) // count] for i in range(count)]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise ConfigError(f"{path} is not there; give the folder of the evaluation data with --data")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)

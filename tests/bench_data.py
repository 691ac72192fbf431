"""A small copy of the evaluation data's folder layout, made on the spot, and settings to run suites on it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from engine.bench.settings import Settings
from engine.config import EngineConfig
from engine.models import LoadedModels, load_models
from tests.tiny_models import quietly

SOLUTION = """\
def total(prices, taxes):
    result = sum(prices) + sum(taxes)
    return round(result, 2)


def discounted(prices, share):
    result = sum(prices) * (1 - share)
    return round(result, 2)


def average(prices):
    result = sum(prices) / len(prices)
    return round(result, 2)


def mean(prices):
    result = sum(prices) / len(prices)
    return round(result, 2)
"""
TEST = """\
from shop import total


def test_total():
    result = sum([1, 2]) + sum([0, 1])
    assert total([1, 2], [0, 1]) == round(result, 2)
"""


def write_rows(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)


def session_rows(requests: int = 6, step: int = 30) -> list[dict]:
    """A person who types letters into one of two documents, a request after each."""
    rows = [
        {"kind": "header", "time": 1000},
        {"kind": "documentEncountered", "time": 1000, "id": 0, "relativePath": "src/shop.py"},
        {"kind": "setContent", "time": 1000, "id": 0, "content": SOLUTION, "v": 1},
        {"kind": "documentEncountered", "time": 1000, "id": 1, "relativePath": "test/test_shop.py"},
        {"kind": "setContent", "time": 1000, "id": 1, "content": TEST, "v": 1},
        {"kind": "focused", "time": 1000, "id": 0},
    ]
    at = len(SOLUTION)
    for n in range(requests):
        when = 1000 + (n + 1) * step
        rows += [
            {"kind": "changed", "time": when, "id": 0, "edit": [[at + n, at + n, "x"]], "v": n + 2},
            {"kind": "selectionChanged", "time": when, "id": 0, "selection": [[at + n + 1, at + n + 1]]},
            {"kind": "request", "time": when + 1, "id": 0, "requestId": n, "v": n + 2},
        ]
    return rows


def make_data(folder: Path) -> Path:
    """Write every data set that a suite reads, two or three rows each."""
    holes = [
        {"task_id": f"T/{n}", "entry_point": f"f{n}", "prompt": head, "canonical_solution": body, "suffix": tail}
        for n, (head, body, tail) in enumerate(
            (SOLUTION[:at], SOLUTION[at : at + 30], SOLUTION[at + 30 :]) for at in (30, 120, 200)
        )
    ]
    for name in ("MultiLineInfilling", "RandomSpanInfilling", "RandomSpanInfillingLight"):
        write_rows(folder / "humaneval-infilling" / f"HumanEval-{name}.jsonl.gz", holes)
    exercise = {"id": "e", "lang": "python", "path": "shop.py", "text": SOLUTION}
    exercise["open_buffers"] = [{"path": "test_shop.py", "text": TEST}]
    write_rows(folder / "exercism-fim" / "exercises.jsonl.gz", [exercise])
    cuts = [{"id": f"e/{n}", "ex": "e", "lang": "python", "kind": "line", "start": n, "end": n + 20} for n in (31, 120)]
    write_rows(folder / "exercism-fim" / "holes.jsonl.gz", cuts)
    snippets = [{"filename": "lib.py", "retrieved_chunk": text, "score": 1.0} for text in (TEST[:60], TEST[60:])]
    row = {
        "prompt": SOLUTION[:100],
        "groundtruth": SOLUTION[100:110],
        "right_context": SOLUTION[110:],
        "crossfile_context": {"text": "", "list": snippets},
        "metadata": {"task_id": "c/1", "file": "shop.py"},
    }
    write_rows(folder / "crosscodeeval-python-sample" / "sample.jsonl.gz", [row])
    pasted = "    assert discounted([1, 2], 0.5) == round(1.5, 2)\n"
    rows = session_rows()
    for n, when in ((1, 1300), (0, 1400)):
        rows.append({"kind": "changed", "time": when, "id": n, "edit": [[0, 0, pasted]], "v": 50})
    write_rows(folder / "vscode-edit-session" / "session.jsonl.gz", rows)
    return folder


def small(data: Path | None, **changes) -> Settings:
    values = {"data": data, "count": 2, "repeats": 1, "max_tokens": 8, "minutes": 0.02}
    return Settings(**(values | changes))


def two_models(target: Path, draft: Path | None, models: Path) -> tuple[LoadedModels, EngineConfig]:
    config = EngineConfig(target=str(target), draft=str(draft) if draft else "", context_tokens=512)
    return load_models(config, quietly, models), config

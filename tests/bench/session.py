"""`python -m tests.bench.session --data DIR`: a recorded VS Code session, at its own pace, through the real server.

Prints, for questions asked at the recorded times: the time from question to answer, the share answered without the
engine, and how many passes of the target were for nothing. Documents, changes, cursors and questions are the recorded
ones; a question is taken back when the next change or question of its document comes, as VS Code does.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.lsp_client import LspClient

READY = 120.0  # seconds that a model may take to load


@dataclass
class Recorded:
    """One document of the recording as the editor has it."""

    uri: str
    text: str = ""
    version: int = 0
    cursor: int = 0
    pending: int | None = None

    def position(self, offset: int) -> tuple[int, int]:
        before = self.text[:offset]
        return before.count("\n"), offset - (before.rfind("\n") + 1)


@dataclass
class Tally:
    """What was measured; times in milliseconds."""

    asked: dict[int, float] = field(default_factory=dict)
    replies: list[tuple[int, float, bool]] = field(default_factory=list)  # id, ms, whether it had items

    def arrived(self, request: int, at: float, items: bool) -> None:
        self.replies.append((request, (at - self.asked[request]) * 1e3, items))


class Clocked(LspClient):
    """A client that notes when each answer arrives."""

    tally: Tally

    def _sort(self, message: dict[str, Any]) -> None:
        super()._sort(message)
        if "method" not in message and message["id"] in self.tally.asked:
            result = message.get("result")
            if result is not None:
                self.tally.arrived(message["id"], time.monotonic(), bool(result["items"]))


def events(folder: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(folder / "vscode-edit-session" / "session.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines)


class Replay:
    """Acts as the editor of the recording."""

    def __init__(self, client: Clocked) -> None:
        self.client, self.tally = client, client.tally
        self.documents: dict[int, Recorded] = {}

    def act(self, event: dict[str, Any]) -> None:
        act = getattr(self, f"_{event['kind']}", None)
        if act is not None:
            act(event)

    def _documentEncountered(self, event: dict[str, Any]) -> None:  # noqa: N802  (the recording's names)
        self.documents[event["id"]] = Recorded(f"untitled:/session/{event['relativePath']}")

    def _setContent(self, event: dict[str, Any]) -> None:  # noqa: N802
        document = self.documents[event["id"]]
        document.text, document.version = event["content"], event["v"] + 1
        language = {"ts": "typescript", "json": "json", "md": "markdown"}.get(document.uri.rpartition(".")[2], "")
        self.client.open(document.uri, document.text, language, document.version)

    def _changed(self, event: dict[str, Any]) -> None:
        document = self.documents[event["id"]]
        document.version = event["v"] + 1
        self._take_back(document)
        edits = sorted(event["edit"], reverse=True)  # all are relative to the text before, so the last goes first
        changes = [(document.position(start), document.position(end), text) for start, end, text in edits]
        self.client.change(document.uri, document.version, *changes)
        for start, end, text in edits:
            document.text = document.text[:start] + text + document.text[end:]
            document.cursor = start + len(text)

    def _selectionChanged(self, event: dict[str, Any]) -> None:  # noqa: N802
        if event["selection"]:
            self.documents[event["id"]].cursor = event["selection"][0][1]

    def _request(self, event: dict[str, Any]) -> None:
        document = self.documents[event["id"]]
        self._take_back(document)
        line, column = document.position(min(document.cursor, len(document.text)))
        began = time.monotonic()
        document.pending = self.client._next + 1
        self.tally.asked[document.pending] = began
        self.client.request_inline(document.uri, line, column, 1 if event["triggerKind"] else 2)

    def _take_back(self, document: Recorded) -> None:
        if document.pending is not None and not self.client.answers(document.pending):
            self.client.cancel(document.pending)
        document.pending = None


def replay(client: Clocked, folder: Path, start: float, minutes: float, speed: float) -> float:
    """Play the recording from a minute on; what was before it happens at once and unasked. Return seconds of typing."""
    acting, first, began, last = Replay(client), None, 0.0, 0.0
    for event in events(folder):
        first = event["time"] if first is None else first
        minute = (event["time"] - first) / 60_000
        if minute < start:
            if event["kind"] != "request":
                acting.act(event)
            continue
        if minute >= start + minutes:
            break
        began = began or time.monotonic() - (minute - start) * 60 / speed
        due = began + (minute - start) * 60 / speed
        time.sleep(max(0.0, due - time.monotonic()))
        acting.act(event)
        last = due
    return last - began


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def report(client: Clocked, seconds: float) -> dict[str, Any]:
    status = client.ask("workspace/executeCommand", {"command": "foretype.status", "arguments": []}, timeout=120)
    tally = client.tally
    shown = [ms for _, ms, items in tally.replies if items]
    every = [ms for _, ms, _ in tally.replies]
    return {
        "seconds": round(seconds),
        "asked": len(tally.asked),
        "answered": len(every),
        "with_text": len(shown),
        "answer_ms": {"p50": round(quantile(every, 0.5), 1), "p95": round(quantile(every, 0.95), 1)},
        "text_ms": {"p50": round(quantile(shown, 0.5), 1), "p95": round(quantile(shown, 0.95), 1)},
        "counts": status["counts"],
        "cache": status["cache"],
        "passes": status["passes"],
        "drafted": status["drafted"],
        "accepted": status["accepted"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/eval-data"))
    parser.add_argument("--profile", default="cpu-small")
    parser.add_argument("--start", type=float, default=0.0, help="minute of the recording to begin at")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--speed", type=float, default=1.0)
    options = parser.parse_args()
    with Clocked.start("-m", "lsp_server") as client:
        client.tally = Tally()
        client.initialize(options={"profile": options.profile, "notifications": {"status": True}})
        client.wait_for("foretype/status", lambda told: told["state"] in {"ready", "degraded", "failed"}, READY)
        seconds = replay(client, options.data, options.start, options.minutes, options.speed)
        print(json.dumps(report(client, seconds), indent=2))


if __name__ == "__main__":
    main()

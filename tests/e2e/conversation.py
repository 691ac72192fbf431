"""What tests of a conversation share: a server with a scripted engine, and what that engine was asked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.lsp_client import LspClient
from tests.e2e.scripted_engine import completions, read_record

URI = "untitled:one.py"


@contextmanager
def conversation(tmp_path: Path, *, options: Any = None, roots=(), encodings=None, **script) -> Iterator[LspClient]:
    """Start a server whose engine follows a script, loaded and ready; its record is at `record(tmp_path)`."""
    script["record"] = str(tmp_path / "record.jsonl")
    with LspClient.scripted(script) as client:
        given = {"notifications": {"status": True, "extended": True}, "debounce": False, **(options or {})}
        client.initialize(options=given, roots=roots, encodings=encodings)
        if given.get("enable", True) and "fail_load" not in script:
            client.wait_for("foretype/status", lambda status: status["state"] == "ready")
        yield client


def record(tmp_path: Path) -> list[dict[str, Any]]:
    """Return the completions that the engine was asked for, without those begun ahead of being asked."""
    return [line for line in completions(tmp_path / "record.jsonl") if not line["ahead"]]


def everything_seen(tmp_path: Path) -> str:
    """Return all that the engine was ever given."""
    return json.dumps(read_record(tmp_path / "record.jsonl"), ensure_ascii=False)


def until(condition: Callable[[], Any], seconds: float = 30) -> Any:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError("it never became true")


def texts(items: list[dict[str, Any]] | None) -> list[str]:
    """Return the inserted texts."""
    return [item["insertText"] for item in items or []]


def command(client: LspClient, name: str, *arguments: Any) -> Any:
    """Run a command of the server."""
    return client.ask("workspace/executeCommand", {"command": f"foretype.{name}", "arguments": list(arguments)})

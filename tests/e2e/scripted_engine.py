"""An engine that follows a script, with the seam of the real one; it writes down what it was asked.

The script is a dict, its JSON text, or the path of a JSON file:

    rules       [{"left": the text left of the cursor ends with this, or "contains": it stands somewhere left of it,
                  "answer": text, or "answers": [greedy text, text for seed 1, ...], "repeat": n times in a row}, ...]
                A rule whose answer was typed in part goes on where the typing ended, as a model would.
    default     what is answered when no rule fits; null for nothing
    echo        true: answer `<line left of the cursor|number of buffers|text right of the cursor on its line>`
    token_ms    time per token (a word or a mark with the blanks before it)
    prefill_ms  time before the first token
    load_ms     time to load
    noise       true: print, warn, log and draw progress bars, in Python and on file descriptor 1, also from a child
    fail_load   loading fails with this message
    fail_on     a request whose text contains this raises RuntimeError
    record      path of a file that gets one JSON line per call
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from engine import (
    CancelToken,
    CompletionChunk,
    CompletionRequest,
    CompletionSummary,
    DecodeStats,
    EngineConfig,
    LoadStep,
    ModelLoadError,
    TextRun,
)

TOKEN = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")
LOAD_STEPS = 20


def read_script(script: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """Return a script from a dict, JSON text or the path of a JSON file."""
    if isinstance(script, Mapping):
        return dict(script)
    text = str(script)
    values = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text("utf-8"))
    return dict(values)


def read_record(path: str | Path) -> list[dict[str, Any]]:
    """Return what an engine wrote down: `event` is begin, complete (at its end) or forget."""
    file = Path(path)
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def completions(path: str | Path) -> list[dict[str, Any]]:
    """Return the ended completions of a record, oldest first; `cancelled` is the token at which one was stopped."""
    return [line for line in read_record(path) if line["event"] == "complete"]


def loader(script: str | Path | Mapping[str, Any]) -> Callable[..., ScriptedEngine]:
    """Return what the server calls to load its engine."""
    values = read_script(script)

    def load(config: EngineConfig, report: Callable[[LoadStep], None]) -> ScriptedEngine:
        if values.get("noise"):
            make_noise("load")
            subprocess.run([sys.executable, "-c", "print('noise of a child')"], check=True)
        for step in range(LOAD_STEPS):
            report(LoadStep("loading the script", step / LOAD_STEPS))
            time.sleep(values.get("load_ms", 0) / 1000 / LOAD_STEPS)
        if message := values.get("fail_load"):
            raise ModelLoadError(message)
        return ScriptedEngine(values, config)

    return load


class ScriptedEngine:
    """Answers by the script. One completion at a time, as the real engine."""

    def __init__(self, script: str | Path | Mapping[str, Any], config: EngineConfig | None = None) -> None:
        self.script = read_script(script)
        self.config = config or EngineConfig()
        self.notes: list[str] = list(self.script.get("notes", ()))

    def complete(self, request: CompletionRequest, cancel: CancelToken | None = None) -> Iterator[CompletionChunk]:
        """Yield the answer token by token; the last chunk has the summary."""
        cancel = cancel or CancelToken()
        call = _Call(request, cancel)
        self._write({"event": "begin", "path": request.path})
        try:
            yield from self._complete(call)
        finally:
            self._write({"event": "complete", **call.record()})

    def catch_up(self, request: CompletionRequest, cancel: CancelToken | None = None) -> None:
        """There is no draft model that could read ahead."""

    def forget(self, path: str) -> None:
        """Write down which document is to be forgotten."""
        self._write({"event": "forget", "path": path})

    def explain(self, request: CompletionRequest, last: CompletionSummary | None = None) -> dict[str, Any]:
        """Return the request in the form of the real engine's explanation."""
        before, after = request.text[: request.cursor], request.text[request.cursor :]
        parts = [*((b.path, b.text) for b in request.buffers), ("prefix", before), ("suffix", after)]
        told: dict[str, Any] = {"prompt": [{"name": name, "text": text, "tokens": 1} for name, text in parts]}
        return told | ({"last": {"text": last.text}} if last else {})

    def _complete(self, call: _Call) -> Iterator[CompletionChunk]:
        if self.script.get("noise"):
            make_noise("complete")
        if (bad := self.script.get("fail_on")) and bad in call.request.text:
            raise RuntimeError(f"the script says so: {call.request.text}")  # as some libraries quote what they choke on
        if not _pause(self.script.get("prefill_ms", 0), call.cancel):
            yield call.last("cancelled")
            return
        limits = call.request.limits
        for token in TOKEN.findall(self.answer(call.request)):
            reason = call.reason_to_stop(token, limits.max_tokens, limits.stop)
            if reason is not None:
                yield call.last(reason)
                return
            time.sleep(self.script.get("token_ms", 0) / 1000)
            call.tokens.append(token)
            yield CompletionChunk((TextRun(token, "target"),))
        yield call.last("cancelled" if call.cancel.cancelled else "stop")

    def answer(self, request: CompletionRequest) -> str:
        """Return the whole text that would be written for a request."""
        before, after = request.text[: request.cursor], request.text[request.cursor :]
        if self.script.get("echo"):
            line = before.rpartition("\n")[2]
            return f"<{line}|{len(request.buffers)}|{after.partition(chr(10))[0]}>"
        rules = self.script.get("rules", ())
        seed = request.sampling.seed if request.sampling.temperature else 0
        for rule in rules:
            if _fits(rule, before):
                return _text(rule, seed)
        for rule in rules:
            if (rest := _rest(rule, seed, before)) is not None:
                return rest
        return self.script.get("default") or ""

    def _write(self, line: Mapping[str, Any]) -> None:
        if path := self.script.get("record"):
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


class _Call:
    """One completion under way."""

    def __init__(self, request: CompletionRequest, cancel: CancelToken) -> None:
        self.request, self.cancel = request, cancel
        self.tokens: list[str] = []
        self.started = time.monotonic()

    def reason_to_stop(self, token: str, most: int, stop: str) -> Any:
        if self.cancel.cancelled:
            return "cancelled"
        if len(self.tokens) >= most:
            return "length"
        return "line" if stop == "line" and "\n" in token else None

    def last(self, reason: Any) -> CompletionChunk:
        """Return the closing chunk."""
        count = len(self.tokens)
        prompt = tuple(range(len(TOKEN.findall(self.request.text))))
        stats = DecodeStats(
            prompt_tokens=len(prompt),
            computed_tokens=len(prompt),
            target_passes=count + 1,
            emitted_tokens=count,
            drafted={"lookup": 0},
            accepted={"lookup": 0},
            ms={"total": (time.monotonic() - self.started) * 1000},
        )
        return CompletionChunk(
            (), CompletionSummary("".join(self.tokens), tuple(range(count)), prompt, reason, stats, ())
        )

    def record(self) -> dict[str, Any]:
        """Return the call as plain data."""
        request = self.request
        return {
            "path": request.path,
            "language": request.language,
            "before": request.text[: request.cursor],
            "after": request.text[request.cursor :],
            "buffers": [{"path": b.path, "version": b.version, "text": b.text} for b in request.buffers],
            "seed": request.sampling.seed,
            "temperature": request.sampling.temperature,
            "max_tokens": request.limits.max_tokens,
            "ahead": request.limits.max_prefill > 0,  # nobody had asked for it yet
            "stop": request.limits.stop,
            "text": "".join(self.tokens),
            "cancelled": len(self.tokens) if self.cancel.cancelled else None,
            "started": self.started,
            "ended": time.monotonic(),
        }


def make_noise(where: str) -> None:
    """Do all that libraries do on standard output and standard error."""
    print(f"noise in {where} 🦊", flush=True)
    warnings.warn(f"noise in {where}", stacklevel=1)
    logging.getLogger("noisy.library").warning("noise in %s", where)
    for bar in range(3):
        sys.stdout.write(f"\r{bar}/3 |{'#' * bar}")
        sys.stdout.flush()
    os.write(1, b"noise on the file descriptor\n")


def _fits(rule: Mapping[str, Any], before: str) -> bool:
    return before.endswith(rule["left"]) if "left" in rule else rule["contains"] in before


def _text(rule: Mapping[str, Any], seed: int) -> str:
    answers = rule.get("answers") or [rule["answer"]]
    return answers[min(seed, len(answers) - 1)] * rule.get("repeat", 1)


def _rest(rule: Mapping[str, Any], seed: int, before: str) -> str | None:
    """Return what is left of a rule's answer when its beginning was typed or accepted already."""
    text = _text(rule, seed)
    start = before.rfind(rule["left"]) if rule.get("left") else -1
    typed = before[start + len(rule["left"]) :] if start >= 0 else ""
    return text[len(typed) :] if typed and text.startswith(typed) else None


def _pause(ms: float, cancel: CancelToken) -> bool:
    """Wait in steps of at most 20 ms; False when cancelled on the way."""
    end = time.monotonic() + ms / 1000
    while (left := end - time.monotonic()) > 0:
        if cancel.cancelled:
            return False
        time.sleep(min(left, 0.02))
    return not cancel.cancelled

"""A strict, small, synchronous LSP client over a subprocess pipe: what every end-to-end test speaks through.

It counts bytes, knows which requests are open, and takes anything unexpected on the stream (text between frames, a
second answer, an answer nobody asked for) as a failure of the server. It shares no code with pygls.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]
OWN_PID = os.getpid()
LINE_ENDS = ("\r\n", "\n", "\r")
CAPABILITIES: dict[str, Any] = {
    "textDocument": {"inlineCompletion": {}, "completion": {}, "synchronization": {"didSave": True}},
    "notebookDocument": {"synchronization": {}},
    "workspace": {"configuration": True, "workspaceFolders": True, "didChangeConfiguration": {}},
    "window": {"workDoneProgress": True},
}


class Refused(Exception):
    """The server answered a request with an error."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.error = error
        self.code = error.get("code")


class LspClient:
    """One server process and the conversation with it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.configuration: dict[str, Any] = {}  # section -> value, for `workspace/configuration`
        self.handlers: dict[str, Callable[[Any], Any]] = {
            "workspace/configuration": lambda p: [self.configuration.get(i.get("section", "")) for i in p["items"]],
            "client/registerCapability": lambda _: None,
            "client/unregisterCapability": lambda _: None,
            "window/workDoneProgress/create": lambda _: None,
        }
        self.requests: list[dict[str, Any]] = []  # what the server asked
        self.received: list[dict[str, Any]] = []  # notifications of the server
        self.strays: list[dict[str, Any]] = []  # answers without an id: to messages the server could not read
        self.faults: list[str] = []  # breaches of the protocol
        self._answers: dict[str, list[dict[str, Any]]] = {}
        self._asked: Counter[str] = Counter()
        self._next = 0
        self._stderr = bytearray()
        self._ended = False
        self._news = threading.Condition()
        self._writing = threading.Lock()
        self._threads = [threading.Thread(target=t, daemon=True) for t in (self._read, self._read_stderr)]
        for thread in self._threads:
            thread.start()

    # -- life

    @classmethod
    def start(cls, *args: str, env: Mapping[str, str] | None = None, cwd: str | Path | None = None) -> LspClient:
        """Start `python ARGS`; the repository is importable whatever the working folder."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        pipe = subprocess.PIPE
        command = [sys.executable, *args]
        return cls(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=cwd or ROOT))

    @classmethod
    def scripted(cls, script: Mapping[str, Any] | None = None, **how: Any) -> LspClient:
        """Start the real server with a scripted engine."""
        return cls.start("-m", "tests.e2e.scripted_server", json.dumps(script or {}), **how)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.kill()
        if kind is None:
            self.check()

    def check(self) -> None:
        """Fail when the server broke the protocol so far."""
        if self.faults:
            raise AssertionError("; ".join(self.faults))

    def shutdown(self) -> int:
        """Say goodbye as the protocol wants and return the exit code."""
        self.ask("shutdown")
        self.notify("exit")
        return self.wait_exit()

    def wait_exit(self, timeout: float = 30) -> int:
        """Return the exit code of the process when it is gone and all it wrote was read."""
        code = self.process.wait(timeout)
        for thread in self._threads:
            thread.join(timeout)
        return code

    def hang_up(self) -> None:
        """Close the server's standard input."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def kill(self) -> None:
        """End the server whatever it does."""
        self.process.kill()
        self.wait_exit()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()

    @property
    def stderr(self) -> str:
        """What the server wrote to standard error so far."""
        return self._stderr.decode(errors="replace")

    # -- messages

    def initialize(
        self,
        capabilities: Mapping[str, Any] | None = None,
        options: Any = None,
        roots: Sequence[str | Path] = (),
        encodings: Sequence[str] | None = None,
        process_id: int | None = OWN_PID,
        initialized: bool = True,
    ) -> Any:
        """Introduce ourselves, as a client with inline completion unless told otherwise; return the result."""
        able = dict(CAPABILITIES if capabilities is None else capabilities)
        if encodings is not None:
            able["general"] = {**able.get("general", {}), "positionEncodings": list(encodings)}
        uris = [r.as_uri() if isinstance(r, Path) else r for r in roots]
        params = {
            "processId": process_id,
            "rootUri": uris[0] if uris else None,
            "workspaceFolders": [{"uri": uri, "name": uri.rpartition("/")[2]} for uri in uris] or None,
            "capabilities": able,
            "initializationOptions": options,
        }
        result = self.ask("initialize", params)
        if initialized:
            self.notify("initialized", {})
        return result

    def request(self, method: str, params: Any = None) -> int:
        """Ask without waiting; return the id."""
        self._next += 1
        self.send({"id": self._next, "method": method, "params": params})
        return self._next

    def notify(self, method: str, params: Any = None) -> None:
        """Tell the server something."""
        self.send({"method": method, "params": params})

    def cancel(self, request: int | str) -> None:
        """Take a request back; it is still to be answered."""
        self.notify("$/cancelRequest", {"id": request})

    def send(self, message: Mapping[str, Any]) -> None:
        """Send any message; one with an id and a method counts as an open request."""
        if "id" in message and "method" in message:
            with self._news:
                self._asked[json.dumps(message["id"])] += 1
        self.raw(frame({"jsonrpc": "2.0", **message}))

    def raw(self, data: bytes) -> None:
        """Put bytes on the wire."""
        try:
            self._write(data)
        except OSError as error:
            self.wait_exit()
            raise AssertionError(f"the server ended; standard error: {self.stderr[-2000:]}") from error

    def ask(self, method: str, params: Any = None, timeout: float = 30) -> Any:
        """Request and wait for the result."""
        return self.wait(self.request(method, params), timeout)

    def wait(self, request: Any, timeout: float = 30) -> Any:
        """Return the result of a request, or raise `Refused` with the server's error."""
        key = json.dumps(request)
        self._until(lambda: key in self._answers, timeout, f"no answer to request {key}")
        answer = self._answers[key][0]
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    def answers(self, request: Any) -> list[dict[str, Any]]:
        """Return all answers to an id so far; more than one is right only where the id was used more than once."""
        with self._news:
            return list(self._answers.get(json.dumps(request), ()))

    @property
    def unanswered(self) -> list[Any]:
        """The ids of all requests that still wait for an answer."""
        with self._news:
            return [json.loads(k) for k, n in self._asked.items() if len(self._answers.get(k, ())) < n]

    def wait_answered(self, timeout: float = 30) -> None:
        """Wait until every request has its answer."""
        self._until(lambda: not self._open(), timeout, "requests without an answer")

    def notifications(self, method: str) -> list[Any]:
        """Return the params of all notifications of one kind so far."""
        with self._news:
            return [m.get("params") for m in self.received if m["method"] == method]

    def wait_for(self, method: str, predicate: Callable[[Any], bool] = lambda _: True, timeout: float = 30) -> Any:
        """Return the params of the first notification of a kind that fits, past or to come."""
        found: list[Any] = []

        def arrived() -> bool:
            found.extend(m.get("params") for m in self.received if m["method"] == method and predicate(m.get("params")))
            return bool(found)

        self._until(arrived, timeout, f"no fitting {method}")
        return found[0]

    # -- what an editor does

    def open(self, uri: str, text: str, language: str = "python", version: int = 1) -> None:
        """Open a document."""
        document = {"uri": uri, "languageId": language, "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def change(self, uri: str, version: int, *edits: str | tuple[tuple[int, int], tuple[int, int], str]) -> None:
        """Change a document by full texts or by `((line, column), (line, column), new text)`."""
        changes = [{"text": e} if isinstance(e, str) else {"range": span(e[0], e[1]), "text": e[2]} for e in edits]
        document = {"uri": uri, "version": version}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})

    def close_document(self, uri: str) -> None:
        """Close a document."""
        self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def request_inline(
        self, uri: str, line: int, column: int, trigger: int = 2, selected: Mapping[str, Any] | None = None
    ) -> int:
        """Ask for ghost text without waiting; `selected` is a `selectedCompletionInfo`."""
        context: dict[str, Any] = {"triggerKind": trigger}
        if selected is not None:
            context["selectedCompletionInfo"] = selected
        place = {"textDocument": {"uri": uri}, "position": {"line": line, "character": column}}
        return self.request("textDocument/inlineCompletion", {**place, "context": context})

    def wait_inline(self, request: int, timeout: float = 30) -> list[dict[str, Any]] | None:
        """Return the items of an inline request, None for null."""
        result = self.wait(request, timeout)
        return result["items"] if isinstance(result, dict) else result

    def inline(
        self, uri: str, line: int, column: int, trigger: int = 2, selected: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]] | None:
        """Ask for ghost text; return its items, None for null."""
        return self.wait_inline(self.request_inline(uri, line, column, trigger, selected))

    def inline_when_ready(self, uri: str, line: int, column: int, trigger: int = 2) -> list[dict[str, Any]]:
        """Ask again and again until there are items: a model may still be loading."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if items := self.inline(uri, line, column, trigger):
                return items
            time.sleep(0.02)
        raise AssertionError(f"never any items at {uri} {line}:{column}; standard error: {self.stderr[-2000:]}")

    def completion(self, uri: str, line: int, column: int) -> Any:
        """Ask for the completion list."""
        place = {"textDocument": {"uri": uri}, "position": {"line": line, "character": column}}
        return self.ask("textDocument/completion", {**place, "context": {"triggerKind": 1}})

    # -- inside

    def _open(self) -> bool:
        return any(len(self._answers.get(k, ())) < n for k, n in self._asked.items())

    def _until(self, fact: Callable[[], bool], timeout: float, missing: str) -> None:
        with self._news:
            known = self._news.wait_for(lambda: fact() or bool(self.faults) or self._ended, timeout)
            if fact():
                return
        self.check()
        why = f"the server ended ({self.process.poll()})" if known else f"waited {timeout} s"
        raise AssertionError(f"{missing}: {why}; standard error: {self.stderr[-2000:]}")

    def _read(self) -> None:
        try:
            while (message := read_frame(self.process.stdout)) is not None:
                self._take(message)
        except Exception as error:
            self.faults.append(f"the stream is broken: {error!r}")
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("jsonrpc") != "2.0":
            raise ValueError(f"not JSON-RPC 2.0: {message}")
        if "method" in message and "id" in message:
            self._answer(message)
        with self._news:
            self._sort(message)
            self._news.notify_all()

    def _sort(self, message: dict[str, Any]) -> None:
        if "method" in message:
            (self.requests if "id" in message else self.received).append(message)
        elif message["id"] is None and "null" not in self._asked:
            self.strays.append(message)
        else:
            key = json.dumps(message["id"])
            given = self._answers.setdefault(key, [])
            given.append(message)
            if len(given) > self._asked[key]:
                self.faults.append(f"an answer too many: {message}")
            if ("result" in message) == ("error" in message):
                self.faults.append(f"neither result nor error, or both: {message}")

    def _answer(self, message: Mapping[str, Any]) -> None:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if handler := self.handlers.get(message["method"]):
            answer["result"] = handler(message.get("params"))
        else:
            answer["error"] = {"code": -32601, "message": "this client does not know the method"}
        with contextlib.suppress(OSError, ValueError):  # the pipe may be gone
            self._write(frame(answer))

    def _write(self, data: bytes) -> None:
        with self._writing:
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def _read_stderr(self) -> None:
        while data := self.process.stderr.read1():
            self._stderr += data


def frame(message: Any) -> bytes:
    """Return a message as it goes over the wire."""
    try:
        body = json.dumps(message, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a surrogate pair travels escaped only
        body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def read_frame(stream: Any) -> dict[str, Any] | None:
    """Read one frame to the byte, None at the end of the stream; whatever else stands there raises ValueError."""
    length = None
    while (line := stream.readline()) != b"\r\n":
        if not line and length is None:
            return None
        name, colon, value = line.partition(b": ")
        if not colon or not line.endswith(b"\r\n") or name not in (b"Content-Length", b"Content-Type"):
            raise ValueError(f"not a header: {line + stream.read1(200)!r}")
        length = int(value) if name == b"Content-Length" else length
    if length is None:
        raise ValueError("a frame without Content-Length")
    body = stream.read(length)
    if len(body) != length:
        raise ValueError(f"the stream ended inside a frame: {body[-200:]!r}")
    message = json.loads(body.decode("utf-8"))
    if not isinstance(message, dict):
        raise TypeError(f"not an object: {message!r}")
    return message


def span(start: tuple[int, int], end: tuple[int, int]) -> dict[str, Any]:
    """Return an LSP range."""
    return {
        "start": {"line": start[0], "character": start[1]},
        "end": {"line": end[0], "character": end[1]},
    }


def apply(text: str, item: Mapping[str, Any], encoding: str = "utf-16") -> str:
    """Accept an item (inline or of a list) in a text as the strictest editor would: a range out of a line raises."""
    edit = item.get("textEdit", item)
    new = edit["newText"] if "newText" in edit else edit["insertText"]
    if not isinstance(new, str):
        raise TypeError(f"not plain text: {new!r}")
    start, end = (offset(text, edit["range"][side], encoding) for side in ("start", "end"))
    if start > end:
        raise ValueError(f"range runs backwards: {edit['range']}")
    return text[:start] + new + text[end:]


def offset(text: str, position: Mapping[str, int], encoding: str = "utf-16") -> int:
    """Return where a position is in the text, in code points; ValueError when there is no such place."""
    lines = split_lines(text)
    if not 0 <= position["line"] < len(lines):
        raise ValueError(f"no line {position['line']} of {len(lines)}")
    line = lines[position["line"]].rstrip("\r\n")
    width = 0
    for index, character in enumerate([*line, ""]):
        if width == position["character"]:
            return sum(map(len, lines[: position["line"]])) + index
        width += units(character, encoding)
    raise ValueError(f"no column {position['character']} in {line!r} ({encoding})")


def units(text: str, encoding: str) -> int:
    """Return a text's width in a position encoding."""
    wide = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}[encoding]
    return len(text.encode(wide[0], "surrogatepass")) // wide[1]


def split_lines(text: str) -> list[str]:
    """Split after line feed, carriage return or both, and nowhere else."""
    lines, start, at = [], 0, 0
    while at < len(text):
        width = 2 if text.startswith("\r\n", at) else 1
        at += width
        if text[at - width : at] in LINE_ENDS:
            lines.append(text[start:at])
            start = at
    return [*lines, text[start:]]

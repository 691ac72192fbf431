"""Ten thousand messages of all kinds, wrong and right, to the real server process with a scripted engine."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.e2e.lsp_client import LspClient, apply, frame, units
from tests.e2e.scripted_engine import completions

CLEAN, DIRTY = (
    "untitled:clean.py",
    ["untitled:dirty.py", "file:///no/such/file.py", "vscode-notebook-cell:/n.ipynb#W0", ""],
)
MESSAGES, BATCH = 10_000, 250
SEED = 20_261_130
PIECES = [
    "x",
    "é",
    "🦊",
    "\n",
    "\r\n",
    "\r",
    "\t",
    "\u2028",
    "\x0c",
    " = ",
    "def f():\n",
    "\ud83d",
    "\0",
    '"',
    "e\u0301",
]
COMMANDS = [f"foretype.{name}" for name in ("accept", "explain", "status", "restartEngine", "clearCache", "nothing")]
METHODS = [
    "textDocument/inlineCompletion",
    "textDocument/completion",
    "textDocument/didOpen",
    "textDocument/didChange",
    "textDocument/didClose",
    "textDocument/didSave",
    "notebookDocument/didOpen",
    "notebookDocument/didChange",
    "notebookDocument/didClose",
    "workspace/didChangeConfiguration",
    "workspace/didChangeWorkspaceFolders",
    "workspace/didChangeWatchedFiles",
    "workspace/executeCommand",
    "workspace/configuration",
    "window/workDoneProgress/cancel",
    "initialize",
    "initialized",
    "$/setTrace",
    "$/cancelRequest",
    "$/progress",
    "foretype/nothing",
    "rpc.discover",
    "",
]


class Fuzzer:
    """Makes messages and knows which of them are owed an answer."""

    def __init__(self, client: LspClient, seed: int) -> None:
        self.client = client
        self.rng = random.Random(seed)
        self.text, self.version = "", 1
        self.ids = 0
        self.kinds = {
            self.edit: 25,
            self.good_request: 10,
            self.spoilt_request: 20,
            self.spoilt_notification: 20,
            self.cancel: 8,
            self.no_message: 6,
            self.bad_frame: 4,
            self.odd_answer: 4,
            self.twice: 2,
            self.huge: 0.1,
        }

    def step(self) -> None:
        """Send one message, or one thing that is none."""
        (kind,) = self.rng.choices(list(self.kinds), list(self.kinds.values()))
        kind()

    # -- right

    def open(self) -> None:
        self.client.open(CLEAN, self.text, version=self.version)

    def edit(self) -> None:
        """Change the clean document at random, as an editor would, and remember what it says now."""
        start = self.rng.randint(0, len(self.text))
        end = min(len(self.text), start + self.rng.choice((0, 0, 1, 5)))
        where = [self.place(start), self.place(end)]
        new = "".join(self.rng.choices(PIECES, k=self.rng.randrange(6)))
        if len(self.text) > 3000:
            where, new = [self.place(0), self.place(len(self.text))], "x = 1\n"
        self.version += 1
        self.client.change(CLEAN, self.version, (*where, new))
        span = {
            side: {"line": line, "character": column}
            for side, (line, column) in zip(("start", "end"), where, strict=True)
        }
        self.text = apply(self.text, {"range": span, "newText": new})

    def place(self, at: int) -> tuple[int, int]:
        """Return a position that stands for an offset, moved left out of a line break's middle."""
        at -= self.text[at - 1 : at + 1] == "\r\n"
        before = self.text[:at].replace("\r\n", "\n").replace("\r", "\n")
        return before.count("\n"), units(before.rpartition("\n")[2], "utf-16")

    def good_request(self) -> None:
        line, column = self.place(self.rng.randint(0, len(self.text)))
        request = self.client.request_inline(CLEAN, line, column, trigger=self.rng.choice((1, 2)))
        if self.rng.random() < 0.3:  # else the next edit makes it void
            self.client.wait(request)

    # -- wrong

    def junk(self, depth: int = 0) -> Any:
        """Return any JSON value, small."""
        plain = [None, True, False, 0, -1, 1, 2**31, 2**53, 2**70, 0.5, 1e300, "", "x", "\ud83d", "\0", [], {}]
        if depth > 3 or self.rng.random() < 0.6:
            return self.rng.choice(plain)
        if self.rng.random() < 0.5:
            return [self.junk(depth + 1) for _ in range(self.rng.randrange(4))]
        names = ["uri", "textDocument", "position", "id", "method", "jsonrpc", "x"]
        return {self.rng.choice(names): self.junk(depth + 1) for _ in range(self.rng.randrange(4))}

    def params(self, method: str) -> Any:
        """Return params that would be right for a method, about one of the dirty documents."""
        uri = self.rng.choice(DIRTY)
        spot = {"line": self.rng.randrange(3), "character": self.rng.randrange(9)}
        name, span = {"uri": uri, "version": self.rng.randrange(-2, 50)}, {"start": spot, "end": dict(spot)}
        cell = {"kind": 2, "document": uri}
        book = {"uri": "file:///n.ipynb", "version": 1, "notebookType": "jupyter-notebook", "cells": [cell]}
        item = {**name, "languageId": "python", "text": "a = 1\n🦊\r\nb"}
        cells = {"structure": {"array": {"start": 0, "deleteCount": 1, "cells": [cell]}, "didOpen": [item]}}
        known = {
            "textDocument/inlineCompletion": {"textDocument": name, "position": spot, "context": {"triggerKind": 1}},
            "textDocument/completion": {"textDocument": name, "position": spot},
            "textDocument/didOpen": {"textDocument": item},
            "textDocument/didChange": {"textDocument": name, "contentChanges": [{"range": span, "text": "é"}]},
            "notebookDocument/didOpen": {"notebookDocument": book, "cellTextDocuments": [item]},
            "notebookDocument/didChange": {"notebookDocument": book, "change": {"cells": cells}},
            "notebookDocument/didClose": {"notebookDocument": book, "cellTextDocuments": [name]},
            "workspace/didChangeConfiguration": {"settings": {"foretype": {"debounce": False}}},
            "workspace/didChangeWorkspaceFolders": {
                "event": {"added": [{"uri": "file:///no", "name": "n"}], "removed": []}
            },
            "workspace/didChangeWatchedFiles": {"changes": [{"uri": uri, "type": 1}]},
            "workspace/executeCommand": {"command": self.rng.choice(COMMANDS), "arguments": [uri, spot]},
            "$/setTrace": {"value": "off"},
        }
        return json.loads(json.dumps(known.get(method, {"textDocument": name})))

    def spoil(self, value: Any) -> Any:
        """Replace, drop or add something somewhere in params; sometimes nothing."""
        chance = self.rng.random()
        if chance < 0.2 or not value or not isinstance(value, dict | list):
            return self.junk() if chance < 0.7 else value
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = self.rng.choice(keys)
        if chance < 0.3:
            del value[key]
        elif chance < 0.4 and isinstance(value, dict):
            value["unknown"] = self.junk()
        else:
            value[key] = self.spoil(value[key])
        return value

    def key(self) -> int | str:
        """Return an id that was not used yet."""
        self.ids += 1
        return self.rng.choice([10**6 + self.ids, -self.ids, f"id-{self.ids}", f"é\ud83d{self.ids}", 2**64 + self.ids])

    def spoilt_request(self) -> None:
        method = self.rng.choice(METHODS)
        self.client.send({"id": self.key(), "method": method, "params": self.spoil(self.params(method))})

    def spoilt_notification(self) -> None:
        method = self.rng.choice(METHODS)
        self.client.notify(method, self.spoil(self.params(method)))

    def cancel(self) -> None:
        self.client.cancel(self.rng.choice([self.rng.randrange(200), f"id-{self.rng.randrange(200)}", self.junk()]))

    def twice(self) -> None:
        """Use one id for two requests at once: one answer each."""
        params = {**self.params(METHODS[0]), "textDocument": {"uri": CLEAN}}
        key = self.key()
        for _ in range(2):
            self.client.send({"id": key, "method": METHODS[0], "params": params})

    def odd_answer(self) -> None:
        """Answer what was not asked, or send neither request nor answer."""
        message = {"jsonrpc": "2.0", "id": self.junk(), "result": self.junk()}
        if self.rng.random() < 0.5:
            message["error"] = self.junk()
        self.client.raw(frame(message))

    def no_message(self) -> None:
        """Frame something that is no message at all, or a request whose id is none."""
        bodies = [
            b"",
            b"{",
            b"\xff\xfe",
            b"[]",
            b"7",
            b'{"jsonrpc": "2.0", "method": "x", "params": NaN}',
            b"[" * 3000,
            b'{"a":' * 3000,
            b'[{"jsonrpc": "2.0", "id": 1, "method": "textDocument/inlineCompletion"}]',
            b'{"jsonrpc": "2.0", "id": null, "method": "shutdown"}',
            b'{"jsonrpc": "2.0", "id": [1], "method": "shutdown"}',
            b'{"jsonrpc": "2.0", "id": 1.5, "method": "shutdown"}',
            b'{"jsonrpc": "1.0", "method": "exit ", "params": {}}',
            json.dumps({"jsonrpc": "2.0", **{str(n): self.junk() for n in range(3)}}).encode(),
        ]
        body = self.rng.choice(bodies)
        self.client.raw(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def bad_frame(self) -> None:
        """Break the frames themselves; what is cut is filled up, so that nothing after it is lost."""
        body = json.dumps({"jsonrpc": "2.0", "method": "x", "params": self.junk()}).encode()
        cut = self.rng.randrange(len(body))
        frames = [
            b"Content-Length: -5\r\n\r\n" + body,
            b"Content-Length: 99999999999\r\n\r\n" + body,
            b"Content-Length: x\r\n\r\n" + body,
            b"Content-Type: x\r\n\r\n" + body,
            b"Loading 100%\r|####|\n\n\r\n" + body[:cut],
            b"content-length:%d\n\n" % cut + body,
            b"Content-Length: %d\r\n\r\n" % len(body) + body[:cut] + b"\0" * (len(body) - cut),
            self.rng.randbytes(self.rng.randrange(300)).replace(b"\n", b""),
        ]
        self.client.raw(self.rng.choice(frames))

    def huge(self) -> None:
        """Open a document of some megabytes, or bring a name as long."""
        text = "name = 'é'\n" * 200_000
        document = {"uri": self.rng.choice(DIRTY), "languageId": "python", "version": 1, "text": text}
        wrong = self.rng.random() < 0.5
        self.client.notify("textDocument/didOpen", {"textDocument": text if wrong else document})


def test_ten_thousand_messages(tmp_path):
    """No crash, one answer for every request with a proper id, and the document that was edited properly is exact."""
    record = tmp_path / "record"
    with LspClient.scripted({"echo": True, "record": str(record)}) as client:
        fuzzer = Fuzzer(client, SEED)
        for _ in range(100):
            fuzzer.spoilt_request()
            fuzzer.no_message()
        client.wait_answered(60)
        client.initialize(options={"debounce": False})
        fuzzer.open()
        for count in range(MESSAGES):
            fuzzer.step()
            if count % BATCH == BATCH - 1:
                client.wait_answered(60)
        client.wait_answered(60)
        check_text(client, fuzzer, record)
        assert client.shutdown() == 0
        assert " failed: " not in client.stderr  # as handlers' own errors are logged


def check_text(client: LspClient, fuzzer: Fuzzer, record: Path) -> None:
    """Ask at the end of the clean document: answer and engine must see all that was written into it."""
    end = fuzzer.place(len(fuzzer.text))
    line = "\nfinal = "
    fuzzer.text += line
    client.change(CLEAN, fuzzer.version + 1, (end, end, line))
    (item, *_) = client.inline_when_ready(CLEAN, *fuzzer.place(len(fuzzer.text)), trigger=1)
    assert apply(fuzzer.text, item) == fuzzer.text + item["insertText"]
    asked = [c for c in completions(record) if c["before"].endswith(line)]
    text = fuzzer.text.replace("\r\n", "\n").replace("\r", "\n").replace("\ud83d", "\ufffd")
    assert asked[-1]["before"] == text
    assert asked[-1]["after"] == ""

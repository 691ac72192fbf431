"""`python -m tests.bench.requests --count N`: the server's memory while it answers N questions.

One real server process with an engine that answers at once. A client types, asks, takes questions back, takes letters
back, opens and closes documents, always under new names; the resident memory is printed at every tenth.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil

from tests.e2e.lsp_client import LspClient, Refused

MIB = 2**20
OPEN = 6  # documents at a time
UNDER_WAY = 16  # questions that may wait for their answers
LIFE = 60  # questions until a document is closed
LINES = 40
NAMES = ("total", "größe", "значение", "count_of_items", "🦊_den", "value")
SCRIPT: dict[str, Any] = {
    "rules": [
        {"left": "(", "answer": "self, other)\n"},
        {"left": "= ", "answers": ["compute(1)\n    return 2\n", "other(2)\n", "third[3]\n"]},
    ],
    "default": " = compute(a)\n    return a\n",
}


@dataclass(frozen=True)
class Sample:
    """What was measured after so many questions."""

    asked: int
    seconds: float
    resident: int  # bytes
    threads: int
    documents: int  # that the server has open
    computed: int


class Forgetful(LspClient):
    """A client that keeps no answer: only the server's memory is to be seen growing."""

    def settle(self, request: int) -> None:
        """Wait for an answer and drop it, with all that was told meanwhile."""
        with suppress(Refused):
            self.wait(request)
        with self._news:
            self._answers.pop(str(request))
            self._asked.pop(str(request))  # one answer more would still be noticed
            self.received.clear()


@dataclass
class Page:
    """A document as the client has it: lines, of which one is being written."""

    uri: str
    line: int
    typed: str = ""
    version: int = 1
    asked: int = 0


class Traffic:
    """Acts like several hasty people at once."""

    def __init__(self, client: Forgetful, seed: int = 0) -> None:
        self.client, self.random = client, random.Random(seed)
        self.pages: list[Page] = []
        self.opened = 0
        self.waiting: deque[int] = deque()

    def ask(self, number: int) -> None:
        """Do what leads up to a question, and ask it."""
        if len(self.pages) < OPEN:
            self._open()
        page = self.random.choice(self.pages)
        if page.asked >= LIFE:
            self._close(page)
            page = self._open()
        page.asked += 1
        self._type(page)
        beyond = 3 if number % 200 == 0 else 0  # a question that is ahead of its change
        column = len(page.typed.encode("utf-16-le")) // 2 + beyond
        asked = self.client.request_inline(page.uri, page.line, column, trigger=1 if number % 25 == 0 else 2)
        self.waiting.append(asked)
        if self.random.random() < 0.3:
            self.client.cancel(asked)
        while len(self.waiting) > UNDER_WAY:
            self.client.settle(self.waiting.popleft())

    def settle(self) -> None:
        """Wait for all answers."""
        while self.waiting:
            self.client.settle(self.waiting.popleft())

    def _open(self) -> Page:
        self.opened += 1
        page = Page(f"untitled:/page-{self.opened}.py", self.random.randrange(LINES))
        body = [f"def function_{self.opened}_{n}(a, b): return a + {n}" for n in range(LINES)]
        body[page.line] = ""
        self.client.open(page.uri, "\n".join(body) + "\n")
        self.pages.append(page)
        return page

    def _close(self, page: Page) -> None:
        self.client.close_document(page.uri)
        self.pages.remove(page)

    def _type(self, page: Page) -> None:
        at = len(page.typed.encode("utf-16-le")) // 2
        page.version += 1
        if self.random.random() < 0.1 or len(page.typed) > 60:  # begin the line anew
            self.client.change(page.uri, page.version, ((page.line, 0), (page.line, at), ""))
            page.typed, page.version, at = "", page.version + 1, 0
        new = self.random.choice([*NAMES, " ", "(", " = ", "a"])
        page.typed += new
        self.client.change(page.uri, page.version, ((page.line, at), (page.line, at), new))


def run(count: int, parts: int = 10) -> Iterator[Sample]:
    """Ask so many questions and yield what is measured after each part of them."""
    with Forgetful.scripted(SCRIPT) as client:
        options = {"notifications": {"status": True, "extended": True}, "debounce": False}
        client.initialize(options=options)
        client.wait_for("foretype/status", lambda told: told["state"] == "ready")
        traffic, process, began = Traffic(client), psutil.Process(client.process.pid), time.monotonic()
        for number in range(1, count + 1):
            traffic.ask(number)
            if number * parts // count > (number - 1) * parts // count:
                traffic.settle()
                told = client.ask("workspace/executeCommand", {"command": "foretype.status", "arguments": []})
                counted = (told["documents"], told["counts"]["computed"])
                seconds = time.monotonic() - began
                yield Sample(number, seconds, process.memory_info().rss, process.num_threads(), *counted)
        client.shutdown()


def main() -> None:
    """Print a row for every tenth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    count = parser.parse_args().count
    print(f"{'questions':>10} {'computed':>10} {'seconds':>9} {'resident MiB':>13} {'threads':>8} {'documents':>10}")
    for sample in run(count):
        print(
            f"{sample.asked:10,} {sample.computed:10,} {sample.seconds:9.1f} {sample.resident / MIB:13.1f} "
            f"{sample.threads:8} {sample.documents:10}",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""What a pull says while it runs: the protocol and its faces, a bar in a terminal, plain lines elsewhere, or JSON.

Must not know what is pulled, nor from where.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

STEP = 10  # per cent between two lines


class Report(Protocol):
    """Hears what a pull does."""

    def start(self, label: str, total: int) -> None:
        """Begin a piece of work of `total` bytes; the one before is over."""

    def advance(self, count: int) -> None:
        """Count further bytes as done."""

    def say(self, line: str) -> None:
        """Tell the user one plain line."""


class Silent:
    """A report that nobody reads."""

    def start(self, label: str, total: int) -> None:
        """Ignore it."""

    def advance(self, count: int) -> None:
        """Ignore it."""

    def say(self, line: str) -> None:
        """Ignore it."""


class Lines:
    """Plain lines for logs and pipes: `NAME: 40 %`, once per step at most."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.start("", 0)

    def start(self, label: str, total: int) -> None:
        """Count from zero, up to `total`."""
        self._label, self._total, self._done, self._next = label, total, 0, STEP

    def advance(self, count: int) -> None:
        """Print a line if a step is done."""
        self._done += count
        percent = self._done * 100 // max(self._total, 1)
        if percent >= self._next:
            self._next = percent // STEP * STEP + STEP
            self.say(f"{self._label}: {percent} %")

    def say(self, line: str) -> None:
        """Print the line as it is."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class JsonLines:
    """One object a line for programs: `{"label", "done", "total"}` in bytes once per cent, and `{"say"}`."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def start(self, label: str, total: int) -> None:
        """Count from zero, up to `total`."""
        self._label, self._total, self._done, self._told = label, total, 0, -1
        self.advance(0)

    def advance(self, count: int) -> None:
        """Tell how far it is if that is another per cent."""
        self._done += count
        percent = self._done * 100 // max(self._total, 1)
        if percent != self._told:
            self._told = percent
            self._write({"label": self._label, "done": self._done, "total": self._total})

    def say(self, line: str) -> None:
        """Tell the line as it is."""
        self._write({"say": line})

    def _write(self, told: dict[str, object]) -> None:
        print(json.dumps(told), file=self._out, flush=True)


class Bar:
    """A bar that moves while something with a known size goes on, and vanishes afterwards."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = self._new_bar()

    def stop(self) -> None:
        """Take the bar away."""
        self._bar.stop()

    def _new_bar(self) -> Progress:
        name = TextColumn("{task.description}", markup=False)
        columns = (name, BarColumn(), DownloadColumn(), TimeRemainingColumn())
        return Progress(*columns, console=self._console, transient=True)

    def start(self, label: str, total: int) -> None:
        """Replace the bar by a new one."""
        self._bar.stop()
        self._bar = self._new_bar()
        self._bar.add_task(label, total=total)
        self._bar.start()

    def advance(self, count: int) -> None:
        """Move the bar."""
        for task in self._bar.task_ids:
            self._bar.advance(task, count)

    def say(self, line: str) -> None:
        """Print the line above the bar."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def report_to(console: Console | Report) -> Iterator[Report]:
    """Report as suits the console; in a terminal no bar is left behind. A report is taken as it is."""
    if not isinstance(console, Console):
        yield console
        return
    if not console.is_interactive:
        yield Lines(console)
        return
    bar = Bar(console)
    try:
        yield bar
    finally:
        bar.stop()

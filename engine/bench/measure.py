"""The loop of a generation suite: every hole, every contestant, in turn."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.progress import Progress

from engine.bench.contestant import Contestant, EngineContestant
from engine.bench.run import HoleRuns, Opening
from engine.holes import Hole

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failure:
    """A hole that broke, and for whom."""

    hole: str
    contestant: str
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"hole": self.hole, "contestant": self.contestant, "reason": self.reason}


@dataclass(slots=True)
class DataSet:
    """What was measured on one data set; grows while it is measured, so that an interruption loses nothing."""

    name: str
    contestants: list[str]
    holes: list[HoleRuns] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


class Measurement:
    """Runs contestants on holes, each hole `repeats` times: A B C, B C A, ..., the first place going round.

    `opener` is ours: it opens each hole with an untimed run, so that whoever is timed finds the prompt read.
    """

    def __init__(
        self, opener: EngineContestant, contestants: Sequence[Contestant], repeats: int, progress: Progress
    ) -> None:
        self._opener, self._contestants = opener, contestants
        self._repeats, self._progress = repeats, progress
        self._warm = False

    @property
    def names(self) -> list[str]:
        """The contestants' names, the one that ratios count from first."""
        return [contestant.name for contestant in self._contestants]

    def measure(self, into: DataSet, holes: Sequence[Hole]) -> None:
        """Measure a data set into `into`. A hole that fails is noted there and the next one is taken."""
        task = self._progress.add_task(into.name, total=len(holes) * len(self._contestants) * self._repeats)
        if holes and not self._warm:
            self._warm_up(holes[0])
        for number, hole in enumerate(holes):
            try:
                self._hole(into, hole, number)
            finally:
                self._forget(hole.path)
            self._progress.update(task, completed=(number + 1) * len(self._contestants) * self._repeats)
            if not self._progress.console.is_terminal:
                self._progress.console.print(f"{into.name}: {number + 1} of {len(holes)} holes", highlight=False)

    def _warm_up(self, hole: Hole) -> None:
        """Let everybody meet one hole untimed: kernels are built, costs get known."""
        self._warm = True
        unused = DataSet("", [])
        opening = self._opened(unused, hole)
        for contestant in self._contestants if opening else ():
            self._tried(unused, contestant, hole, opening, None)
        self._forget(hole.path)

    def _hole(self, into: DataSet, hole: Hole, number: int) -> None:
        opening = self._opened(into, hole)
        if opening is None:
            return
        runs = HoleRuns(hole.name, hole.wanted, opening)
        into.holes.append(runs)
        for contestant in self._turns(number):
            self._tried(into, contestant, hole, opening, runs)

    def _turns(self, number: int) -> Iterator[Contestant]:
        for repeat in range(self._repeats):
            first = (number + repeat) % len(self._contestants)
            yield from self._contestants[first:]
            yield from self._contestants[:first]

    def _opened(self, into: DataSet, hole: Hole) -> Opening | None:
        try:
            return self._opener.open(hole)
        except Exception as error:  # one hole must not cost the run
            self._note(into, hole, "opening", error)
            return None

    def _tried(
        self, into: DataSet, contestant: Contestant, hole: Hole, opening: Opening | None, runs: HoleRuns | None
    ) -> None:
        assert opening is not None
        try:
            run = contestant.run(hole, opening)
        except Exception as error:  # neither may one contestant
            self._note(into, hole, contestant.name, error)
            return
        if runs is not None:
            runs.runs.setdefault(contestant.name, []).append(run)

    def _note(self, into: DataSet, hole: Hole, who: str, error: Exception) -> None:
        log.debug("%s failed on %s", who, hole.name, exc_info=error)
        reason = f"{type(error).__name__}: {str(error).strip()}".splitlines()[0]
        failure = Failure(hole.name, who, reason)
        if failure not in into.failures:
            into.failures.append(failure)
            self._progress.console.print(f"{hole.name}: {who} failed ({reason})", style="red", markup=False)

    def _forget(self, path: str) -> None:
        for contestant in {id(c): c for c in (self._opener, *self._contestants)}.values():
            contestant.forget(path)

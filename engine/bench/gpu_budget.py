"""Time on a lent card is short: every part of a run has a share of it, and what breaks costs its own part alone."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from engine.errors import EngineError

log = logging.getLogger(__name__)

LEAST = 20.0  # seconds below which no part is begun: making a large model takes so long
Clock = Callable[[], float]
Tell = Callable[[str], None]


class Deadline:
    """A moment that measuring must not go beyond; asked between measurements."""

    def __init__(self, seconds: float, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds

    @property
    def left(self) -> float:
        """Seconds that remain, 0 when there are none."""
        return max(0.0, self._end - self._clock())

    @property
    def over(self) -> bool:
        """Whether the time is used up."""
        return self.left == 0.0

    def share(self, seconds: float) -> Deadline:
        """Return the deadline of a part that may take so long, but not longer than the whole."""
        return Deadline(min(seconds, self.left), self._clock)


Part = tuple[str, float, Callable[[Deadline], None]]
"""A name, the seconds it may take of those that are left, and what is done until the deadline it is given."""


def run_parts(
    parts: Iterable[Part], whole: Deadline, tell: Tell, seconds: dict[str, float], skipped: list[str]
) -> None:
    """Run parts in turn; note in `seconds` how long each took and in `skipped` what was left out and why."""
    for name, share, action in parts:
        if whole.left < LEAST:
            skipped.append(f"{name} skipped: the time was used up by what came before")
            continue
        tell(f"{name}…")
        before = whole.left
        try:
            action(whole.share(share))
        except EngineError as error:
            skipped.append(f"{name} skipped: {error}")
        except Exception as error:  # one part must not cost the run
            log.debug("%s broke off", name, exc_info=error)
            skipped.append(f"{name} broken off: {first_line(error)}")
        seconds[name] = before - whole.left


def first_line(error: Exception) -> str:
    """Return an exception's kind and the first line of what it says."""
    return f"{type(error).__name__}: {str(error).strip()}".splitlines()[0]

"""What the rules know: the cursor's surroundings, the lines written so far, and what these amount to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from engine.config import StopMode
from engine.core import FinishReason

CYCLES = (1, 2, 3)  # lines per cycle of a runaway


@dataclass(frozen=True, slots=True)
class StopContext:
    """What stands around the cursor; a few thousand characters on each side are enough."""

    before: str
    after: str
    mode: StopMode
    language: str = ""


@dataclass(frozen=True, slots=True)
class StopState:
    """What is known after some text: `generated[:shown]` is final; `end` is the cut once the completion ended."""

    shown: int
    end: int | None = None
    reason: FinishReason | None = None


class Facts(NamedTuple):
    """What a context says, prepared once."""

    mode: StopMode
    left: str  # the cursor's line up to the cursor
    rest: str  # the cursor's line from the cursor on, without trailing whitespace; '' if blank
    targets: tuple[str, ...]  # `rest` if not empty, then the non-blank lines that follow: what a repeat repeats
    breaks: int  # line breaks between the cursor and the first target
    need: int  # how many targets make a repeat certain
    sure: bool  # False: `after` ends before there is enough evidence
    shortcut: bool  # the first target alone will do if it leaves the brackets in order
    open: int  # brackets that a completion may leave open, because `left` opens or `rest` closes them
    hash: bool  # comments start with '#'


class Line(NamedTuple):
    """A non-blank generated line; the first one includes what stands left of the cursor."""

    text: str  # without trailing whitespace
    origin: int  # offset of text[0] in the generated text; negative on the cursor's line
    whole: bool  # its line break is there
    gap: int  # blank lines above
    open: int  # brackets opened since the start of the cursor's line and still open where this line starts

    @property
    def end(self) -> int:
        """Where it ends in the generated text."""
        return max(0, self.origin + len(self.text))


class Match(NamedTuple):
    """A repeat of the text right of the cursor, complete or in progress."""

    line: int  # index of its first line
    cut: int  # where to cut if it is one
    open: int  # brackets open at the cut


class Seen(NamedTuple):
    """What the lines read so far amount to."""

    lines: tuple[Line, ...] = ()
    matches: tuple[Match, ...] = ()  # in progress, earliest cut first
    runs: tuple[int, ...] = (0,) * len(CYCLES)  # per cycle: how many last lines equal the line one cycle above
    gap: int = 0  # blank lines since the last line
    open: int = 0  # brackets open after the last line
    unsure: bool = False  # the next line has begun and may turn out to start something new
    ended: StopState | None = None


def ending(end: int, reason: FinishReason) -> StopState:
    """Return the state of a text that is over, all of it shown up to the cut."""
    return StopState(end, end, reason)

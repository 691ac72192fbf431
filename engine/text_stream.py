"""From emitted tokens to text that may be shown: bytes to characters, stop rules, and who proposed what.

The stop rules are asked after every token, so where a completion ends does not depend on how many tokens arrived in
one pass. Text that a rule may still take back is held.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.core import FinishReason, Source, TextRun
from engine.stops import StopContext, finish, scan
from engine.tokenizer import complete_utf8


class TextStream:
    """The text of one completion as it grows."""

    def __init__(self, token_bytes: Sequence[bytes], stops: StopContext, owed: int, line_break: str) -> None:
        """`owed` is how many leading bytes only spell what the user typed; `line_break` is the document's own."""
        self._table, self._stops = token_bytes, stops
        self._owed, self._line_break = owed, line_break
        self._data = b""
        self._text = ""
        self._ends: list[tuple[int, Source]] = []  # how far the text reached after each token, and its proposer
        self._emitted = 0
        self._shown = 0
        self._cut: int | None = None
        self.token_ids: list[int] = []
        self.reason: FinishReason | None = None

    def add(self, token: int, source: Source) -> bool:
        """Take in one emitted token; True when a stop rule ended the completion with it."""
        self.token_ids.append(token)
        self._data += self._table[token]
        own = self._data[self._owed :]
        self._text = own[: complete_utf8(own)].decode("utf-8", "ignore")
        self._ends.append((len(self._text), source))
        state = scan(self._stops, self._text)
        self._shown = state.shown
        if state.end is not None:
            self._cut, self.reason = state.end, state.reason
        return state.end is not None

    def fresh(self) -> tuple[TextRun, ...]:
        """Return what may be shown and was not returned before."""
        return self._take(self._shown if self._cut is None and self._text else 0)

    def finish(self, reason: FinishReason) -> tuple[TextRun, ...]:
        """End the completion, if no stop rule did, for an outside `reason`; return the rest of its text."""
        if self._cut is None:
            self._cut, self.reason = max(finish(self._stops, self._text, reason), self._emitted), reason
        return self._take(self._cut)

    @property
    def text(self) -> str:
        """The finished completion with the document's line breaks."""
        assert self._cut is not None
        return self._own_breaks(self._text[: self._cut])

    def _take(self, end: int) -> tuple[TextRun, ...]:
        runs: list[TextRun] = []
        for reached, source in self._ends:
            upto = min(reached, end)
            if upto > self._emitted:
                piece = self._own_breaks(self._text[self._emitted : upto])
                if runs and runs[-1].source == source:
                    piece = runs.pop().text + piece
                runs.append(TextRun(piece, source))
                self._emitted = upto
        return tuple(runs)

    def _own_breaks(self, text: str) -> str:
        return text.replace("\n", self._line_break) if self._line_break != "\n" else text

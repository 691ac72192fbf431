"""One run of the engine for one place: its text so far, fed from the engine's thread, read on the loop.

Several requests may wait for the same run, since a person who types what it says keeps it going.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from engine import CancelToken, CompletionRequest, CompletionSummary
from lsp_server.asks import View
from lsp_server.place import Place, Suggestion
from lsp_server.suggestions import SuggestionCache


class Generation:
    """A growing answer. All but `cancel` belongs to the loop's thread."""

    def __init__(self, place: Place, request: CompletionRequest, *, background: bool = False, rank: int = 0) -> None:
        """Take where it is wanted and what the engine is asked; `rank` above 0 is an alternative."""
        self.place, self.request, self.rank = place, request, rank
        self.background = background  # any foreground work may push it aside
        self.kept = background  # whether it goes on without anyone waiting
        self.cancel = CancelToken()
        self.text = ""
        self.summary: CompletionSummary | None = None
        self.error: Exception | None = None
        self.ended = False
        self.discarded = False
        self.answered: View | None = None  # the question it has answered while it went on
        self.watchers: set[asyncio.Event] = set()
        self.on_news: Callable[[Generation], None] = lambda _: None

    @property
    def document(self) -> str:
        """The document it runs for."""
        return self.place.document

    @property
    def complete(self) -> bool:
        """Whether the model came to its own end, so that nothing can follow."""
        return self.summary is not None and self.summary.finish_reason not in {"cancelled", "length"}

    @property
    def declined(self) -> bool:
        """Whether it ended without having been asked to: the engine would not, or something else came first."""
        return self.ended and self.error is None and not self.text and not self.complete

    @property
    def wanted(self) -> bool:
        """Whether anyone waits for it or what it makes is kept."""
        return self.kept or bool(self.watchers)

    def rest(self, place: Place) -> str | None:
        """Return what it has beyond what was typed since it began, None where the person went elsewhere."""
        if place == self.place:
            return self.text
        known = SuggestionCache(limit=1)
        known.put(self.place, Suggestion(self.text), finished=False)
        hit = known.find(place)
        return hit.suggestion.text if hit else None

    def grow(self, text: str) -> None:
        """Take a committed stretch of text."""
        if not self.discarded:
            self.text += text
            self._tell()

    def end(self, summary: CompletionSummary | None = None, error: Exception | None = None) -> None:
        """Take the end: how it came about, or why there is none. Later calls change nothing."""
        if not self.ended:
            self.summary, self.error, self.ended = summary, error, True
            self._tell()

    def stop(self) -> None:
        """Ask the engine to leave it; the end comes from there."""
        self.cancel.cancel()

    def discard(self) -> None:
        """Leave it, and what it has written so far and may still write."""
        self.text, self.discarded = "", True
        self.stop()

    def _tell(self) -> None:
        self.on_news(self)
        for watcher in self.watchers:
            watcher.set()

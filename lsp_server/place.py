"""Where a completion is wanted and what is put there: the two values that gates, filters and the cache share.

All text here has line feeds only and no byte-order mark; positions are code points. Conversion to the document's own
line breaks and to the client's columns happens at the edge, in `items.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Place:
    """A cursor in a document. `before` and `after` may be cut far away from it; `line` and `column` count from 0."""

    document: str  # the document's identity, not its URI as spelt
    language: str
    before: str
    after: str
    line: int
    column: int  # code points since the line's start

    @property
    def line_before(self) -> str:
        """The cursor's line left of the cursor."""
        return self.before.rpartition("\n")[2]

    @property
    def line_after(self) -> str:
        """The cursor's line right of the cursor."""
        return self.after.partition("\n")[0]

    def accepting(self, suggestion: Suggestion) -> Place:
        """Return where the cursor stands once a suggestion is accepted here."""
        breaks = suggestion.text.count("\n")
        column = len(suggestion.text.rpartition("\n")[2]) + (0 if breaks else self.column)
        before, after = self.before + suggestion.text, self.after[suggestion.replaces :]
        return replace(self, before=before, after=after, line=self.line + breaks, column=column)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Text to insert at the cursor in place of `replaces` characters right of it, all on the cursor's line."""

    text: str
    replaces: int = 0

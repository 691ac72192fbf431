"""The value that filters hand on: what is left of a model's answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lsp_server.place import Place


@dataclass(frozen=True, slots=True)
class Answer:
    """Text to be inserted in place of `replaces` characters right of the cursor.

    `finished` is false where the model would have gone on; the text then ends with a whole line.
    """

    text: str
    replaces: int = 0
    finished: bool = True

    def cut(self, end: int) -> Answer | None:
        """Return the text up to `end`; None if nothing worth showing is left of it."""
        return self.with_text(self.text[:end]) if self.text[:end].strip() else None

    def with_text(self, text: str) -> Answer:
        """Return the same with another text."""
        return replace(self, text=text)


Filter = Callable[[Place, Answer], Answer | None]
"""Looks for one kind of fault and returns the answer without it, or None if nothing worth showing is left."""


def lines_with_offsets(text: str) -> list[tuple[int, str]]:
    """Return a text's lines, each with where it starts."""
    found, at = [], 0
    for line in text.split("\n"):
        found.append((at, line))
        at += len(line) + 1
    return found


def letters_and_digits(text: str) -> int:
    """Return how much a text says: a repeat of brackets alone proves nothing."""
    return sum(map(str.isalnum, text))


def squeezed(text: str) -> str:
    """Return a text without white space, by which lines are compared."""
    return "".join(text.split())

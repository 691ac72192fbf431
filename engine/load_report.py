"""What a terminal says about loading: each step once, however often its progress is told."""

from __future__ import annotations

from collections.abc import Callable

from engine.core import LoadStep


def once_each(tell: Callable[[str], None]) -> Callable[[LoadStep], None]:
    """Return a report of loading that tells each step's words once."""
    said: set[str] = set()

    def report(step: LoadStep) -> None:
        if step.text not in said:
            said.add(step.text)
            tell(f"{step.text}…")

    return report

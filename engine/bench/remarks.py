"""What stands below a benchmark's tables: what was left out, what is doubtful, what makes the figures worthless."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console


@dataclass(frozen=True, slots=True)
class Remarks:
    """Sentences by weight, the lightest first."""

    notes: Sequence[str]
    skipped: Sequence[str]
    warnings: Sequence[str]
    failures: Sequence[str]
    interrupted: bool

    def print(self, console: Console) -> None:
        """Print them, the graver the brighter."""
        for style, lines in (
            ("dim", self.notes),
            ("dim", self.skipped),
            ("yellow", self.warnings),
            ("bold red", self.failures),
        ):
            for line in lines:
                console.print(line, style=style, markup=False, highlight=False)
        if self.interrupted:
            console.print("interrupted: these are the figures so far", style="yellow")

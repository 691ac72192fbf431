"""A recorded editing session, replayed as documents that change: what the editor knew at each moment.

The recording is JSON lines of editor events; offsets in it are UTF-16. File order is the order of events, times are for
the pace.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from engine.config import Limits
from engine.core import Buffer, CompletionRequest
from engine.errors import ConfigError

SESSION = Path("vscode-edit-session") / "session.jsonl.gz"
LANGUAGES = {
    ".ts": "typescript",
    ".js": "javascript",
    ".mjs": "javascript",
    ".json": "json",
    ".md": "markdown",
    ".py": "python",
}


@dataclass(frozen=True, slots=True)
class Edit:
    """`start` to `end` of the text before it, in UTF-16 units, became `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the recording. `at` is in milliseconds from the first."""

    at: float
    kind: str
    fields: dict[str, Any]


def read_events(data: Path) -> list[Event]:
    """Read the recorded session of the evaluation data."""
    path = data / SESSION
    if not path.is_file():
        raise ConfigError(f"{path} is not there; give the folder of the evaluation data with --data")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    began = rows[0]["time"] if rows else 0
    return [Event(float(row.get("time", began) - began), row["kind"], row) for row in rows]


@dataclass(slots=True)
class Document:
    """One open document. `cursor` is in UTF-16 units."""

    path: str
    text: str = ""
    version: int = 0
    cursor: int = 0

    @property
    def language(self) -> str:
        """The language by the file's ending, empty where it is not known."""
        return LANGUAGES.get(PurePosixPath(self.path).suffix, "")

    @property
    def place(self) -> int:
        """The cursor in code points."""
        return code_points(self.text, self.cursor)


@dataclass(slots=True)
class Workspace:
    """All documents as they stand; the most recently used comes last."""

    documents: dict[int, Document] = field(default_factory=dict)
    stored: dict[str, str] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        """Bring the documents up to an event."""
        row = event.fields
        if (number := row.get("id")) is None:
            return
        if event.kind == "documentEncountered":
            self.documents[number] = Document(row["relativePath"].replace("\\", "/"))
        document = self.documents[number]
        if event.kind == "setContent":
            self._replace(document, row["content"])
        elif event.kind == "storeContent":
            self.stored[row["contentId"]] = document.text
        elif event.kind == "restoreContent" and row["contentId"] in self.stored:
            self._replace(document, self.stored[row["contentId"]])
        elif event.kind == "changed":
            self._change(document, edits_of(event))
        elif event.kind == "selectionChanged" and row["selection"]:
            document.cursor = row["selection"][0][1]
        if event.kind in ("focused", "changed"):
            self.documents[number] = self.documents.pop(number)

    @staticmethod
    def _replace(document: Document, text: str) -> None:
        document.text, document.version = text, document.version + 1

    def _change(self, document: Document, edits: list[Edit]) -> None:
        self._replace(document, changed(document.text, edits))
        if edits:
            last = edits[-1]
            shift = sum(len16(e.text) - (e.end - e.start) for e in edits[:-1])
            document.cursor = last.start + shift + len16(last.text)

    def request(self, number: int, limits: Limits) -> CompletionRequest:
        """Ask for a completion at a document's cursor, all other documents being open buffers, the latest first."""
        document = self.documents[number]
        return CompletionRequest(
            path=document.path,
            language=document.language,
            text=document.text,
            cursor=document.place,
            buffers=self.others(number),
            limits=limits,
        )

    def others(self, number: int) -> tuple[Buffer, ...]:
        """Return the other documents that hold text, the latest first."""
        rest = [d for n, d in reversed(self.documents.items()) if n != number and d.text]
        return tuple(Buffer(d.path, d.version, d.text) for d in rest)


def edits_of(event: Event) -> list[Edit]:
    """Return the edits of a `changed` event, first place first."""
    return [Edit(*edit) for edit in sorted(event.fields["edit"])]


def changed(text: str, edits: list[Edit]) -> str:
    """Apply edits that all count in the text before them."""
    if text.isascii():
        return "".join(_pieces(text, edits))
    wide = text.encode("utf-16-le", "surrogatepass")
    done = 0
    pieces: list[bytes] = []
    for edit in edits:
        pieces += [wide[2 * done : 2 * edit.start], edit.text.encode("utf-16-le", "surrogatepass")]
        done = edit.end
    return b"".join([*pieces, wide[2 * done :]]).decode("utf-16-le", "surrogatepass")


def _pieces(text: str, edits: list[Edit]) -> Iterator[str]:
    done = 0
    for edit in edits:
        yield text[done : edit.start]
        yield edit.text
        done = edit.end
    yield text[done:]


def len16(text: str) -> int:
    """Return a text's length in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def code_points(text: str, offset: int) -> int:
    """Turn an offset in UTF-16 units into one in code points, within the text."""
    if text.isascii():
        return min(offset, len(text))
    head = text.encode("utf-16-le", "surrogatepass")[: 2 * offset]
    return len(head.decode("utf-16-le", "replace"))

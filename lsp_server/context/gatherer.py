"""The other texts that a completion may draw on: cells of the notebook, open documents, related files.

Everything that leaves here is masked and passed the rules at this moment. What was handed out and is refused now is
named once in `Context.dropped`, so that nothing learnt from it is kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

from engine import Buffer
from lsp_server.context.draft import Context, ContextDraft, Refused, Used
from lsp_server.context.file_cache import FileCache
from lsp_server.context.lru import Lru
from lsp_server.context.open_texts import OpenDocument, OpenTexts, View, shared
from lsp_server.context.related import Found, related_files
from lsp_server.context.snapshots import MAX_DOCUMENT, Cells, Own, Snapshot, Snapshots, Store
from lsp_server.documents.uris import to_path
from lsp_server.privacy.rules import FileRules, resolved_path

__all__ = ["Context", "ContextGatherer", "Kind", "Refused", "Snapshot", "Used"]

Kind = Literal["created", "changed", "deleted"]
Rule = Callable[[str], str | None]

MAX_OPEN = 16
_RECHECK = 1.0  # seconds that what was learnt of an open document's file holds
_SAME_LANGUAGE = 0.5  # as much as sharing half of all identifiers


class ContextGatherer:
    """Gathers contexts. `snapshot` belongs to the thread of the documents; the rest may run in any.

    `on_folder` is told each folder that matters, for watching.
    """

    def __init__(
        self,
        store: Store,
        cells: Cells,
        rules: FileRules,
        on_folder: Callable[[Path], None] = lambda _: None,
        files: FileCache | None = None,
    ) -> None:
        self._rules = rules
        self._on_folder = on_folder
        self._files = files or FileCache()
        self._texts = OpenTexts()
        self._snapshots = Snapshots(store, cells, self._texts)
        self._related: Lru[str, tuple[Own, Found]] = Lru(16)
        self._edited: Lru[Path, None] = Lru(32)
        self._answers: Lru[tuple[str, Rule], tuple[float, str | None]] = Lru(256)
        self._identities: Lru[str, tuple[float, str]] = Lru(1024)
        self._handed_out: Lru[str, Callable[[], str | None]] = Lru(64)
        self._checked = float("-inf")

    def snapshot(self, document: OpenDocument) -> Snapshot:
        """Take down what other threads must not look at while it changes."""
        return self._snapshots.take(document)

    def gather_from(self, snapshot: Snapshot, related: bool = True) -> Context:
        """Return the context for a snapshot; `related` says whether files that are not open may be read."""
        own = snapshot.own
        draft = ContextDraft(files={self._file(own.uri)})
        for uri in snapshot.too_long:
            draft.refuse(uri, f"it is longer than {MAX_DOCUMENT:,} characters")
        self._add_cells(draft, snapshot.cells)
        self._add_others(draft, own, snapshot.others)
        path = to_path(own.uri)
        if related and path is not None:
            draft.files.update(map(self._file, snapshot.open))  # what is open is never read from disk
            self._add_related(draft, path, own)
        return draft.finished(self._no_longer_allowed())

    def forget(self, key: str) -> None:
        """Drop everything known of a document that was closed or renamed."""
        self._texts.forget(key)
        self._snapshots.forget(key)
        self._related.pop(key)
        self._handed_out.pop(key)

    def rules_changed(self) -> tuple[str, ...]:
        """Take note of other roots or patterns; return the buffers that must be forgotten."""
        self._answers.clear()
        self._related.clear()
        self._checked = float("-inf")
        return self._no_longer_allowed()

    def changed(self, path: Path, kind: Kind) -> tuple[str, ...]:
        """Take note of a change on disk; return the buffers that must be forgotten because of it."""
        self._rules.refresh(path)
        if kind == "deleted":
            self._files.forget(path)
            self._edited.pop(path)
        else:
            self._edited.put(path, None)
        if path.name in {".gitignore", "exclude"}:
            return self.rules_changed()
        if kind == "changed":
            return ()
        self._related.clear()
        gone = str(path)
        return self._drop_refused(
            name for name, _ in self._handed_out.items() if f"{name}{os.sep}".startswith(gone + os.sep)
        )

    # What is open

    def _add_cells(self, draft: ContextDraft, cells: Iterable[View]) -> None:
        rule = self._rules.completion_refusal
        for cell in cells:
            if self._allowed(draft, cell, rule):
                self._add_open(draft, cell, "cell of the same notebook", rule)

    def _add_others(self, draft: ContextDraft, own: Own, others: Sequence[View]) -> None:
        rule = self._rules.context_refusal
        places = {view.key: place for place, view in enumerate(others)}
        allowed = [view for view in others if self._allowed(draft, view, rule)]
        allowed.sort(key=lambda view: self._relevance(own, view, places[view.key]), reverse=True)
        count = 0
        for view in allowed:
            file = self._file(view.uri)
            if count < MAX_OPEN and file not in draft.files:
                count += self._add_open(draft, view, "open document", rule)
            draft.files.add(file)

    def _relevance(self, own: Own, view: View, place: int) -> float:
        words = self._texts.text(view).words
        known = own.alike.get(view.key)
        if known is None or known[0] is not words:
            known = own.alike[view.key] = words, shared(own.words, words)
        return known[1] + _SAME_LANGUAGE * (own.language == view.language) + 1 / (1 + place)

    def _add_open(self, draft: ContextDraft, view: View, why: str, rule: Rule) -> bool:
        added = draft.add(Buffer(view.key, view.version, self._texts.text(view).text), view.uri, why)
        if added:
            self._handed_out.put(view.key, lambda: rule(view.uri))
        return added

    def _allowed(self, draft: ContextDraft, view: View, rule: Rule) -> bool:
        refusal = self._answer(view.uri, rule)
        if refusal:
            self._refuse(draft, view.uri, refusal, view.key)
            self._texts.forget(view.key)
        return refusal is None

    def _answer(self, uri: str, rule: Rule) -> str | None:
        asked, refusal = self._answers.get((uri, rule)) or (float("-inf"), None)
        now = time.monotonic()
        if now - asked >= _RECHECK:
            refusal = rule(uri)
            self._answers.put((uri, rule), (now, refusal))
        return refusal

    def _file(self, uri: str) -> str:
        """Return the identity of the file behind a document, or of the document where there is none."""
        asked, identity = self._identities.get(uri) or (float("-inf"), uri)
        now = time.monotonic()
        if now - asked >= _RECHECK:
            path = to_path(uri)
            identity = _identity(path) if path else uri
            self._identities.put(uri, (now, identity))
        return identity

    # What is on disk

    def _add_related(self, draft: ContextDraft, path: Path, own: Own) -> None:
        found = self._found(path, own)
        for file, rule in found.refused:
            self._refuse(draft, str(file), rule, str(file))
        self._tell_folders(path, found)
        for related in found.files:
            identity = _identity(related.path)
            if identity not in draft.files:
                draft.files.add(identity)
                self._add_file(draft, related.path, related.why)

    def _found(self, path: Path, own: Own) -> Found:
        known = self._related.get(own.key)
        if known and known[0] is own:
            return known[1]
        edited = [file for file, _ in self._edited.items()]
        found = related_files(path, own.text, own.language, self._rules, recent=edited)
        self._related.put(own.key, (own, found))
        return found

    def _add_file(self, draft: ContextDraft, path: Path, why: str) -> None:
        if refusal := self._rules.refusal(path):
            self._files.forget(path)
            self._refuse(draft, str(path), refusal, str(path))
            return
        content = self._files.read(path)
        if content.rule:
            draft.refuse(str(path), content.rule)
        elif draft.add(Buffer(str(path), content.version, content.text), str(path), why):
            self._handed_out.put(str(path), lambda: self._rules.refusal(path))

    def _tell_folders(self, path: Path, found: Found) -> None:
        root = self._rules.root_of(path)
        folders = [path.parent, *(related.path.parent for related in found.files)]
        for folder in dict.fromkeys([root, *folders] if root else folders):
            self._on_folder(folder)

    def _refuse(self, draft: ContextDraft, name: str, rule: str, key: str) -> None:
        """Note a refusal; if the text was handed out before, have all that was looked at again with this context."""
        draft.refuse(name, rule)
        if self._handed_out.peek(key):
            self._checked = float("-inf")

    def _no_longer_allowed(self) -> tuple[str, ...]:
        """Return what was handed out and would be refused now, each once; looks at most once a second."""
        now = time.monotonic()
        if now - self._checked < _RECHECK:
            return ()
        self._checked = now
        return self._drop_refused(name for name, _ in self._handed_out.items())

    def _drop_refused(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in names if self._is_refused(name))

    def _is_refused(self, name: str) -> bool:
        refusal = self._handed_out.peek(name)
        if refusal is None or refusal() is None:
            return False
        self._handed_out.pop(name)
        self._texts.forget(name)
        self._files.forget(Path(name))
        return True


def _identity(path: Path) -> str:
    """Return one name for all names of a file."""
    try:
        state = path.stat()
    except (OSError, ValueError):
        state = None
    return f"{state.st_dev}:{state.st_ino}" if state and state.st_ino else os.path.normcase(resolved_path(path))

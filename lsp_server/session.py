"""One client's session: what it opened, what it wants, and the engine that serves it. It knows no JSON-RPC.

The parts and who owns them are visible here in one place; handlers in `server.py` only translate.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from lsprotocol import types

from engine import LoadStep
from lsp_server.completion import Completer
from lsp_server.context.gatherer import ContextGatherer, Kind
from lsp_server.context.watcher import WorkspaceWatcher
from lsp_server.documents.notebooks import Notebooks
from lsp_server.documents.store import Document, DocumentStore
from lsp_server.documents.uris import to_path
from lsp_server.privacy.rules import FileRules
from lsp_server.settings import Settings, read_settings
from lsp_server.status import StatusBoard
from lsp_server.worker import EngineWorker, LoadEngine

log = logging.getLogger(__name__)

_KINDS: dict[types.FileChangeType, Kind] = {
    types.FileChangeType.Created: "created",
    types.FileChangeType.Changed: "changed",
    types.FileChangeType.Deleted: "deleted",
}
RETRY = 30.0  # seconds after a failed load until a question makes us try again: the model may be there by now


class Session:
    """Everything between the client's notifications and the engine."""

    def __init__(self, status: StatusBoard, load: LoadEngine, ask_for_notices: Callable[[], None]) -> None:
        """Take whom to tell and how an engine comes about; nothing is loaded before `begin`.

        `ask_for_notices` has the client watch files, when our own watching fails and the client can.
        """
        self.status, self._ask_for_notices = status, ask_for_notices
        self.store = DocumentStore()
        self.notebooks = Notebooks(self.store)
        self.rules = FileRules(())
        self.watcher = WorkspaceWatcher(
            lambda path, kind: self._on_loop(self._disk_changed, path, kind),
            on_limit=lambda message: self._on_loop(self._watching_failed, message),
        )
        self.gatherer = ContextGatherer(self.store, self.notebooks, self.rules, self.watcher.watch)
        self.worker = EngineWorker(load, self)
        self.completer = Completer(self.store, self.rules, self.gatherer, self.worker, status)
        self.settings = Settings()
        self._roots: dict[str, Path] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failed_at: float | None = None

    # The session itself.

    def set_roots(self, added: Iterable[str], removed: Iterable[str] = ()) -> None:
        """Take the workspace's folders by URI; what is no local folder has no files for us."""
        for uri in removed:
            self._roots.pop(uri, None)
        for uri in added:
            if path := to_path(uri):
                self._roots[uri] = path
        self.rules.set_roots(list(self._roots.values()))
        self.completer.purge(self.gatherer.rules_changed())

    def begin(self) -> None:
        """Load the engine, unless the settings keep it off."""
        self._loop = asyncio.get_running_loop()
        if self.settings.enable:
            self.restart()
        else:
            self.status.off()

    def restart(self) -> None:
        """Load the engine anew."""
        self._failed_at = None
        self.status.loading(LoadStep("starting the engine"))
        self.worker.start(self.settings.engine_config())

    def configure(self, values: object) -> None:
        """Take settings. What the engine is made of restarts it; all else holds from the next question on."""
        settings, complaints = read_settings(values)
        for complaint in complaints:
            self.status.say(f"Foretype: {complaint}.")
        older, self.settings = self.settings, settings
        self.completer.settings = settings
        self.rules.set_exclude(settings.exclude)
        if settings.exclude != older.exclude:
            self.completer.purge(self.gatherer.rules_changed())
        if self._loop is None:  # the session has not begun
            return
        if not settings.enable:
            self.completer.stop()
            self.status.off()
        elif settings.engine_config() != older.engine_config() or not (self.worker.started or older.enable):
            self.restart()
        elif not older.enable:
            self.status.resume(ready=self.worker.ready)

    def clear(self) -> None:
        """Drop all that was suggested and learnt so far."""
        self.completer.cache.clear()
        for document in self.store.recent():
            self.worker.forget(document.key)

    def close(self) -> None:
        """Stop everything."""
        self.completer.stop()
        self.worker.close()
        self.watcher.close()

    # Documents.

    def opened(self, item: types.TextDocumentItem) -> None:
        """Take a document that the client opened."""
        document = self.store.open(item.uri, item.language_id, item.version, item.text)
        self.completer.opened(document)

    def changed(self, params: types.DidChangeTextDocumentParams) -> None:
        """Take a change of a document."""
        known = params.text_document
        if document := self.store.change(known.uri, known.version, params.content_changes):
            self.completer.changed(document)

    def closed(self, uri: str) -> None:
        """Let go of a document."""
        if document := self.store.close(uri):
            self._forget(document)

    def notebook(self, follow: Any, params: Any) -> None:  # noqa: ANN401  (three methods and their parameters)
        """Let the notebooks follow a notification, and notice which cells came, changed and went."""
        before = {document.key: (document, document.version) for document in self.store.recent()}
        follow(params)
        now = {document.key: document for document in self.store.recent()}
        for key, (document, version) in before.items():
            if key not in now:
                self._forget(document)
            elif now[key].version != version:
                self.completer.changed(now[key])

    def unreadable(self, method: str, params: object) -> None:
        """Hear of a notification that made no sense: what it was about may have missed an edit."""
        document = params.get("textDocument") if isinstance(params, dict) else None
        uri = document.get("uri") if isinstance(document, dict) else None
        if method == types.TEXT_DOCUMENT_DID_CHANGE and isinstance(uri, str) and (known := self.store.get(uri)):
            known.doubt("a change of it could not be read")

    def _forget(self, document: Document) -> None:
        self.completer.forget(document.key)
        self.gatherer.forget(document.key)

    # Files.

    def disk_changed(self, uri: str, kind: types.FileChangeType) -> None:
        """Take a notice of the client's own watcher."""
        if path := to_path(uri):
            self.watcher.client_event(path, _KINDS[kind])

    def _disk_changed(self, path: Path, kind: Kind) -> None:
        """Hear of a file that changed, on the loop's thread."""
        self.completer.purge(self.gatherer.changed(path, kind))

    def _watching_failed(self, message: str) -> None:
        self.status.say(message)
        if self.watcher.mode == "client":
            self._ask_for_notices()

    def _on_loop(self, hear: Callable[..., None], *news: object) -> None:
        """Pass on what the watcher's thread says."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the process is about to end
                self._loop.call_soon_threadsafe(hear, *news)

    # The engine.

    def loading(self, step: LoadStep) -> None:
        """Hear a step of loading."""
        if self.settings.enable:
            self.status.loading(step)

    def loaded(self, notes: list[str]) -> None:
        """Hear that the engine is ready."""
        for note in notes:
            log.warning("%s", note)
        if not self.settings.enable:
            return
        lacking = [note for note in notes if note.startswith("no draft model")]
        if lacking:
            self.status.degraded(lacking[0])
        else:
            self.status.ready()

    def failed(self, message: str) -> None:
        """Hear that there is no engine."""
        self._failed_at = time.monotonic()
        log.error("no completions: %s", message)
        self.status.failed(message)

    def retry(self) -> None:
        """Try to load again, some time after it failed: called with every question."""
        if self._failed_at is not None and time.monotonic() - self._failed_at > RETRY and self.settings.enable:
            self.restart()

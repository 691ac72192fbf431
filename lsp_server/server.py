"""The language server: inline completion over the engine.

This is the first, small form: it serves `textDocument/inlineCompletion` from the open documents. Loading and completing
happen on one engine thread; a newer request for a document cancels the older one. It must not import torch itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from engine import Buffer, CancelToken, CompletionChunk, CompletionRequest, EngineConfig, EngineError, Limits

log = logging.getLogger(__name__)

AUTOMATIC_TOKENS = 48
INVOKED_TOKENS = 128


class CompletionEngine(Protocol):
    """The seam to the engine; a scripted stand-in drives the server's tests."""

    def complete(self, request: CompletionRequest, cancel: CancelToken | None = None) -> Any:  # noqa: ANN401
        """Yield CompletionChunks."""
        ...

    def forget(self, path: str) -> None:
        """Drop everything learnt from a document."""
        ...


LoadEngine = Callable[[EngineConfig], CompletionEngine]


def load_engine(config: EngineConfig) -> CompletionEngine:
    """Load the real engine, and torch with it."""
    from engine import Engine

    engine = Engine.load(config)
    for note in engine.notes:
        log.warning("%s", note)
    return engine


class ForetypeServer(LanguageServer):
    """Keeps the engine on its own thread and knows which request runs for which document."""

    def __init__(self, load: LoadEngine = load_engine) -> None:
        super().__init__("foretype", "0.1.0")
        self._load = load
        self._thread = ThreadPoolExecutor(1, "engine")
        self._engine: Future[CompletionEngine] | None = None
        self._running: dict[str, CancelToken] = {}

    def start_engine(self, options: dict[str, Any]) -> None:
        """Begin to load on the engine thread; requests meanwhile get empty answers."""
        try:
            config = EngineConfig.from_mapping(options)
        except EngineError as error:
            log.error("settings: %s", error)
            config = EngineConfig()
        self._engine = self._thread.submit(self._load, config)
        self._engine.add_done_callback(_log_failure)

    async def complete(self, params: types.InlineCompletionParams) -> str | None:
        """Return the completion's text; None when superseded, empty when there is nothing to show."""
        uri = params.text_document.uri
        self.cancel(uri)
        engine = self._engine
        if engine is None or not engine.done() or engine.exception() is not None:
            return ""
        cancel = self._running[uri] = CancelToken()
        request = self._request(params)
        work = self._thread.submit(_text_of, engine.result(), request, cancel)
        try:
            text = await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            cancel.cancel()
            raise
        except EngineError as error:
            log.warning("%s", error)
            return ""
        return None if cancel.cancelled else text

    def cancel(self, uri: str) -> None:
        """Stop what runs for a document."""
        if token := self._running.pop(uri, None):
            token.cancel()

    def closed(self, uri: str) -> None:
        """Stop and forget a document."""
        self.cancel(uri)
        engine = self._engine
        if engine is not None and engine.done() and engine.exception() is None:
            self._thread.submit(engine.result().forget, uri)

    def _request(self, params: types.InlineCompletionParams) -> CompletionRequest:
        document = self.workspace.get_text_document(params.text_document.uri)
        others = [d for d in reversed(self.workspace.text_documents.values()) if d.uri != document.uri]
        invoked = params.context.trigger_kind == types.InlineCompletionTriggerKind.Invoked
        return CompletionRequest(
            path=document.uri,
            language=document.language_id or "",
            text=document.source,
            cursor=document.offset_at_position(params.position),
            buffers=tuple(Buffer(d.uri, d.version or 0, d.source) for d in others),
            limits=Limits(INVOKED_TOKENS if invoked else AUTOMATIC_TOKENS),
        )

    def shut(self) -> None:
        """Stop every completion; the thread ends after its pass."""
        for uri in list(self._running):
            self.cancel(uri)
        self._thread.shutdown(wait=False, cancel_futures=True)


def _text_of(engine: CompletionEngine, request: CompletionRequest, cancel: CancelToken) -> str:
    chunks: list[CompletionChunk] = list(engine.complete(request, cancel))
    return "".join(chunk.text for chunk in chunks)


def _log_failure(loading: Future[CompletionEngine]) -> None:
    if not loading.cancelled() and (error := loading.exception()):
        log.error("no completions: %s", error)


def create_server(load: LoadEngine = load_engine) -> ForetypeServer:
    """Return a server with its handlers."""
    server = ForetypeServer(load)

    @server.feature(types.INITIALIZED)
    def initialized(ls: ForetypeServer, _: types.InitializedParams) -> None:
        options: Any = ls.protocol.initialize_options  # type: ignore[attr-defined]  # set in `initialize`
        ls.start_engine(options if isinstance(options, dict) else {})

    @server.feature(types.INITIALIZE)
    def initialize(ls: ForetypeServer, params: types.InitializeParams) -> None:
        ls.protocol.initialize_options = params.initialization_options  # type: ignore[attr-defined]

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(ls: ForetypeServer, params: types.DidCloseTextDocumentParams) -> None:
        ls.closed(params.text_document.uri)

    @server.feature(types.SHUTDOWN)
    def shutdown(ls: ForetypeServer, _: None) -> None:
        ls.shut()

    # Without an options object pygls does not announce the capability.
    @server.feature(types.TEXT_DOCUMENT_INLINE_COMPLETION, types.InlineCompletionOptions())
    async def inline_completion(
        ls: ForetypeServer, params: types.InlineCompletionParams
    ) -> types.InlineCompletionList | None:
        text = await ls.complete(params)
        if text is None:
            return None
        here = types.Range(params.position, params.position)
        return types.InlineCompletionList([types.InlineCompletionItem(text, range=here)] if text.strip() else [])

    return server

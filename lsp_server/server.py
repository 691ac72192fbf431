"""The handlers: from the protocol's messages to the session and back. No decision is taken here.

This must not import torch: `initialize` is answered while the models are still on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from engine import EngineConfig
from lsp_server import explain, items
from lsp_server.asks import Answer, Ask
from lsp_server.session import Session
from lsp_server.status import StatusBoard
from lsp_server.wire.failures import log_failure
from lsp_server.wire.protocol import ForetypeProtocol
from lsp_server.worker import CompletionEngine, LoadEngine, Report

SECTION = "foretype"
NOTIFICATIONS = "notifications"  # in `initializationOptions`: which of our own notifications the client wants
TRIGGERS = list(".([{,=:<\"'/ ")  # after which a popup may ask without a word begun
CONFIGURED_IN = 2.0  # seconds a client may take to tell its settings before the engine is loaded without them
CELLS = types.NotebookDocumentSyncOptions(
    [types.NotebookDocumentFilterWithNotebook(notebook="*", cells=[types.NotebookCellLanguage("*")])]
)


def load_engine(config: EngineConfig, report: Report) -> CompletionEngine:
    """Load the real engine, and torch with it."""
    from engine import Engine

    return Engine.load(config, report)


class ForetypeServer(LanguageServer):
    """A pygls server with our protocol and one session."""

    protocol: ForetypeProtocol

    def __init__(self, load: LoadEngine = load_engine) -> None:
        """Take how an engine comes about."""
        super().__init__(
            "foretype",
            "0.1.0",
            protocol_cls=ForetypeProtocol,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            notebook_document_sync=CELLS,
        )
        status = StatusBoard(self.protocol.notify, self._create_progress)
        self.session = Session(status, load, self._ask_for_notices)
        self.protocol.unreadable = self.session.unreadable
        self.client = types.ClientCapabilities()
        self.options: Mapping[str, Any] = {}
        self.splits_at_line_feeds = False  # whether the client takes the rest of a line break for text

    def _create_progress(self, token: str) -> None:
        self.protocol.send_request(types.WINDOW_WORK_DONE_PROGRESS_CREATE, types.WorkDoneProgressCreateParams(token))

    def _ask_for_notices(self) -> None:
        everything = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher("**/*")])
        self.register(types.Registration("files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, everything))

    def register(self, registration: types.Registration) -> None:
        """Ask the client for what can only be asked for while it runs."""
        self.protocol.send_request(types.CLIENT_REGISTER_CAPABILITY, types.RegistrationParams([registration]))

    @property
    def pulls_configuration(self) -> bool:
        """Whether the client tells settings when asked."""
        return bool(self.client.workspace and self.client.workspace.configuration)

    async def configure(self) -> None:
        """Ask the client for its settings and take them; what it does not set, its start options do."""
        item = types.ConfigurationItem(section=SECTION)
        try:
            asked = self.protocol.send_request_async(types.WORKSPACE_CONFIGURATION, types.ConfigurationParams([item]))
            (values,) = await asyncio.wait_for(asked, CONFIGURED_IN)
        except Exception as error:  # refused, late, or no list of one: the settings stay
            log_failure("reading the client's settings", error)
            return
        self.take(values)

    def take(self, values: object) -> None:
        """Take settings over those of the start."""
        if values is None or isinstance(values, Mapping):
            given = {name: value for name, value in (values or {}).items() if value is not None}
            values = {**self.options, **given}
        self.session.configure(values)


def create_server(load: LoadEngine = load_engine) -> ForetypeServer:
    """Return a server with its handlers."""
    server = ForetypeServer(load)
    _add_lifecycle(server)
    _add_documents(server)
    _add_workspace(server)
    _add_commands(server)
    # Without an options object pygls does not announce the capability.
    server.feature(types.TEXT_DOCUMENT_INLINE_COMPLETION, types.InlineCompletionOptions())(inline_completion)
    return server


# -- completions


async def inline_completion(
    ls: ForetypeServer, params: types.InlineCompletionParams
) -> types.InlineCompletionList | None:
    """Answer with ghost text; null when a newer question or a change has made this one void."""
    ls.session.retry()
    at, context = params.position, params.context
    ask = Ask(
        uri=params.text_document.uri,
        line=at.line,
        column=at.character,
        automatic=context.trigger_kind == types.InlineCompletionTriggerKind.Automatic,
        popup=context.selected_completion_info,
    )
    answer = await ls.session.completer.answer(ask)
    return None if answer is None else types.InlineCompletionList(_inline_items(answer, ls.splits_at_line_feeds))


def _inline_items(answer: Answer, line_feeds: bool) -> list[types.InlineCompletionItem]:
    view = answer.view
    target = replace(view.target, line_break="\n") if line_feeds else view.target
    return [items.inline_item(view.place, one, target, view.ask.popup) for one in answer.suggestions]


async def completion(ls: ForetypeServer, params: types.CompletionParams) -> types.CompletionList:
    """Answer with a row for the popup; always incomplete, so that the next key asks again."""
    ls.session.retry()
    at = params.position
    answer = await ls.session.completer.answer(Ask(params.text_document.uri, at.line, at.character, inline=False))
    rows = (
        [items.completion_item(answer.view.place, one, answer.view.target) for one in answer.suggestions]
        if answer
        else []
    )
    return types.CompletionList(is_incomplete=True, items=rows)


# -- lifecycle


def _add_lifecycle(server: ForetypeServer) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(ls: ForetypeServer, params: types.InitializeParams) -> None:
        ls.client = params.capabilities
        # Neovim 0.12 splits ghost text at line feeds and joins its lines with the buffer's own breaks.
        ls.splits_at_line_feeds = bool(params.client_info and params.client_info.name == "Neovim")
        options = params.initialization_options
        if isinstance(options, Mapping):
            ls.options = {name: value for name, value in options.items() if name != NOTIFICATIONS}
        window = ls.client.window
        notifications = options.get(NOTIFICATIONS) if isinstance(options, Mapping) else None
        ls.session.status.wants(notifications, progress=bool(window and window.work_done_progress))
        ls.session.store.encoding = ls.protocol.position_encoding
        ls.session.set_roots(_roots(params))
        ls.session.watcher.client_can_watch = _can_watch(params.capabilities)
        text = ls.client.text_document
        if text is None or text.inline_completion is None:
            options = types.CompletionOptions(trigger_characters=TRIGGERS)
            server.feature(types.TEXT_DOCUMENT_COMPLETION, options)(completion)

    @server.feature(types.INITIALIZED)
    async def initialized(ls: ForetypeServer, _: types.InitializedParams) -> None:
        ls.session.configure(ls.options)
        workspace = ls.client.workspace
        if workspace and workspace.did_change_configuration and workspace.did_change_configuration.dynamic_registration:
            section = types.DidChangeConfigurationRegistrationOptions(section=SECTION)
            ls.register(types.Registration("settings", types.WORKSPACE_DID_CHANGE_CONFIGURATION, section))
        if ls.pulls_configuration:
            await ls.configure()
        ls.session.begin()

    @server.feature(types.SHUTDOWN)
    def shutdown(ls: ForetypeServer, _: None) -> None:
        ls.session.close()


def _roots(params: types.InitializeParams) -> list[str]:
    if params.workspace_folders:
        return [folder.uri for folder in params.workspace_folders]
    return [params.root_uri] if params.root_uri else []


def _can_watch(client: types.ClientCapabilities) -> bool:
    files = client.workspace.did_change_watched_files if client.workspace else None
    return bool(files and files.dynamic_registration)


# -- documents


def _add_documents(server: ForetypeServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: ForetypeServer, params: types.DidOpenTextDocumentParams) -> None:
        ls.session.opened(params.text_document)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: ForetypeServer, params: types.DidChangeTextDocumentParams) -> None:
        ls.session.changed(params)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: ForetypeServer, params: types.DidCloseTextDocumentParams) -> None:
        ls.session.closed(params.text_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def book_opened(ls: ForetypeServer, params: types.DidOpenNotebookDocumentParams) -> None:
        ls.session.notebook(ls.session.notebooks.opened, params)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def book_changed(ls: ForetypeServer, params: types.DidChangeNotebookDocumentParams) -> None:
        ls.session.notebook(ls.session.notebooks.changed, params)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def book_closed(ls: ForetypeServer, params: types.DidCloseNotebookDocumentParams) -> None:
        ls.session.notebook(ls.session.notebooks.closed, params)


# -- workspace


def _add_workspace(server: ForetypeServer) -> None:
    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def configuration(ls: ForetypeServer, params: types.DidChangeConfigurationParams) -> None:
        if ls.pulls_configuration:
            await ls.configure()
        elif isinstance(params.settings, Mapping):
            ls.take(params.settings.get(SECTION, params.settings))

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def folders(ls: ForetypeServer, params: types.DidChangeWorkspaceFoldersParams) -> None:
        added, removed = params.event.added, params.event.removed
        ls.session.set_roots([folder.uri for folder in added], [folder.uri for folder in removed])

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def files(ls: ForetypeServer, params: types.DidChangeWatchedFilesParams) -> None:
        for change in params.changes:
            ls.session.disk_changed(change.uri, change.type)


# -- commands


def _add_commands(server: ForetypeServer) -> None:
    @server.command(items.ACCEPT)
    def accept(ls: ForetypeServer, *_: Any) -> None:  # noqa: ANN401  (a command's arguments are JSON)
        ls.session.completer.counts["accepted"] += 1

    @server.command("foretype.explain")
    async def explain_place(ls: ForetypeServer, *arguments: Any) -> dict[str, Any]:  # noqa: ANN401  (a command's arguments are JSON)
        return await explain.explain(ls.session, _place(arguments))

    @server.command("foretype.status")
    def status(ls: ForetypeServer, *_: Any) -> dict[str, Any]:  # noqa: ANN401  (a command's arguments are JSON)
        return explain.status(ls.session)

    @server.command("foretype.restartEngine")
    def restart(ls: ForetypeServer, *_: Any) -> None:  # noqa: ANN401  (a command's arguments are JSON)
        ls.session.restart()

    @server.command("foretype.clearCache")
    def clear(ls: ForetypeServer, *_: Any) -> None:  # noqa: ANN401  (a command's arguments are JSON)
        ls.session.clear()


def _place(arguments: tuple[Any, ...]) -> Ask:
    """Read a URI and a position, one after the other or in one object."""
    try:
        first = arguments[0]
        uri, at = (first["uri"], first["position"]) if isinstance(first, Mapping) else arguments[:2]
        return Ask(str(uri), int(at["line"]), int(at["character"]))
    except (LookupError, TypeError, ValueError):
        raise JsonRpcInvalidParams("foretype.explain takes a URI and a position") from None

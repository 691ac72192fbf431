"""The states of a conversation: who may be asked what when, and what the protocol itself answers."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from cattrs import Converter
from lsprotocol import types
from pygls.capabilities import ServerCapabilitiesBuilder
from pygls.exceptions import (
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcMethodNotFound,
    JsonRpcServerNotInitialized,
)
from pygls.lsp.server import LanguageServer
from pygls.protocol.language_server import _prepare_command_arguments

from lsp_server.documents.positions import Encoding, choose_encoding
from lsp_server.wire.failures import LONGEST_NAME
from lsp_server.wire.lifetime import Lifetime
from lsp_server.wire.rpc import Handler, RpcProtocol


class Stage(enum.Enum):
    """Where the conversation is."""

    NEW = enum.auto()
    RUNNING = enum.auto()
    SHUT = enum.auto()


class ForetypeProtocol(RpcProtocol):
    """Admits messages by the state of the conversation.

    The handlers of `initialize` and of changes of documents must be plain functions: what follows counts on them.
    """

    def __init__(self, server: LanguageServer, converter: Converter) -> None:
        super().__init__(server, converter)
        self.position_encoding: Encoding = "utf-16"
        self._stage = Stage.NEW
        self._greeted = False
        self._lifetime: Lifetime | None = None
        self._own: dict[str, Handler] = {
            types.INITIALIZE: self._initialize,
            types.SHUTDOWN: self._shut_down,
            types.WORKSPACE_EXECUTE_COMMAND: self._execute_command,
        }

    def attach(self, send: Callable[[bytes], None], lifetime: Lifetime) -> None:
        """Connect to the client: `send` takes a message's bytes on any thread."""
        self._send, self._lifetime = send, lifetime

    def handler_of(self, method: str) -> Handler:
        """Return who answers a request in this state, or raise why nobody does."""
        if self._stage is Stage.NEW and method != types.INITIALIZE:
            raise JsonRpcServerNotInitialized("the first request must be initialize")
        if self._stage is Stage.SHUT:
            raise JsonRpcInvalidRequest("the server was shut down")
        handler = self._own.get(method) or self.fm.features.get(method)
        if handler is None or _is_one_way(method) is True:
            raise JsonRpcMethodNotFound(f"no such request: {method[:LONGEST_NAME]}")
        return handler

    def listener_of(self, method: str) -> Handler | None:
        """Return who hears a notification in this state; `initialized` counts once."""
        if method == types.EXIT:
            return self._exit
        if self._stage is not Stage.RUNNING or _is_one_way(method) is False:
            return None
        if method == types.INITIALIZED:
            known, self._greeted = self._greeted, True
            return None if known else self.fm.features.get(method)
        return self.fm.features.get(method)

    def _initialize(self, params: types.InitializeParams) -> types.InitializeResult:
        if self._stage is not Stage.NEW:
            raise JsonRpcInvalidRequest("the server is initialized already")
        self.client_capabilities = params.capabilities
        general = params.capabilities.general
        self.position_encoding = choose_encoding(general.position_encodings if general else None)
        self._server.process_id = params.process_id
        if self._lifetime and params.process_id is not None:
            self._lifetime.watch(params.process_id)
        if handler := self.fm.features.get(types.INITIALIZE):
            handler(params)
        builder = ServerCapabilitiesBuilder(
            self.client_capabilities,
            set(self.fm.features),
            self.fm.feature_options,
            list(self.fm.commands),
            self._server._text_document_sync_kind,
            self._server._notebook_document_sync,
            self.position_encoding,
        )
        self.server_capabilities = builder.build()  # type: ignore[no-untyped-call]  # pygls gives it no types
        self._stage = Stage.RUNNING
        return types.InitializeResult(self.server_capabilities, self.server_info)

    def _shut_down(self, _: object) -> Any:  # noqa: ANN401  (None, or a coroutine that returns it)
        self._stage = Stage.SHUT
        for task in self.running.values():
            task.cancel()
        handler = self.fm.features.get(types.SHUTDOWN)
        return handler(None) if handler else None

    def _exit(self, _: object) -> None:
        if self._lifetime:
            self._lifetime.end("the client said exit", 0 if self._stage is Stage.SHUT else 1)

    def _execute_command(self, params: types.ExecuteCommandParams) -> Any:  # noqa: ANN401  (what the command returns)
        handler = self.fm.commands.get(params.command)
        if handler is None:
            raise JsonRpcInvalidParams(f"unknown command {params.command[:LONGEST_NAME]}")
        params.arguments = params.arguments or []
        try:
            arguments, _ = _prepare_command_arguments(handler, params, self._converter)
        except Exception as error:
            raise JsonRpcInvalidParams(f"the command's arguments cannot be read ({type(error).__name__})") from None
        return handler(*arguments)


def _is_one_way(method: str) -> bool | None:
    """Whether a method is a notification; None for methods that only we know."""
    kinds = types.METHOD_TO_TYPES.get(method)
    return None if kinds is None else kinds[1] is None

"""Requests, answers and notifications: ids, params of the right type, and exactly one answer for every id.

pygls brings types and the registration of handlers. Its own dispatch and handlers are not used: they apply text changes
themselves, keep a future for every notification, mix our requests with the client's, drop what they cannot read, and
log bodies. The states of LSP are not known here.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import Any, TypeGuard

from cattrs import Converter
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInternalError,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcRequestCancelled,
)
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

from lsp_server.wire.failures import log_failure, log_outcome
from lsp_server.wire.structure import make_strict, problems, readable

log = logging.getLogger(__name__)

Handler = Callable[[Any], Any]


class RpcProtocol(LanguageServerProtocol):
    """Takes parsed messages one by one, on the loop's thread.

    Handlers are plain functions or coroutine functions. `unreadable` is called with a notification whose params make no
    sense: a document may have missed an edit.
    """

    def __init__(self, server: LanguageServer, converter: Converter) -> None:
        make_strict(converter)
        super().__init__(server, converter)
        self.unreadable: Callable[[str, object], None] | None = None
        self.running: dict[str | int, asyncio.Task[Any]] = {}
        self._background: set[asyncio.Task[Any]] = set()
        self._send: Callable[[bytes], None] | None = None

    def handler_of(self, method: str) -> Handler:
        """Return who answers a request now, or raise the JSON-RPC error that is the answer."""
        raise NotImplementedError

    def listener_of(self, method: str) -> Handler | None:
        """Return who hears a notification now."""
        raise NotImplementedError

    # -- in

    def receive(self, message: Mapping[str, Any]) -> None:
        """Handle one message up to its handler's first wait."""
        if "method" not in message:
            self._take_response(message)
        elif "id" in message:
            self._take_request(message)
        else:
            self._take_notification(message)

    def _take_request(self, message: Mapping[str, Any]) -> None:
        key = message["id"]
        if not _is_id(key):
            self.refuse(None, JsonRpcInvalidRequest.CODE, "the id is neither a string nor an integer")
        elif key in self.running:
            self.refuse(key, JsonRpcInvalidRequest.CODE, "a request with this id is still running")
        else:
            self._answer(key, message)

    def _answer(self, key: str | int, message: Mapping[str, Any]) -> None:
        method = message["method"]
        try:
            result = self._begin(method, message)
        except Exception as error:
            self._fail(key, method, error)
            return
        if inspect.iscoroutine(result):
            task = self.running[key] = asyncio.ensure_future(result)
            task.add_done_callback(partial(self._finish, key, method))
        else:
            self._respond(key, method, result)

    def _begin(self, method: object, message: Mapping[str, Any]) -> Any:  # noqa: ANN401  (what a handler returns)
        """Check a request and call its handler; a coroutine is returned unstarted."""
        if not isinstance(method, str) or message.get("jsonrpc") != self.VERSION:
            raise JsonRpcInvalidRequest("not a JSON-RPC 2.0 request")
        handler = self.handler_of(method)
        return handler(self._structured(method, message.get("params")))

    def _take_notification(self, message: Mapping[str, Any]) -> None:
        method = message["method"]
        if message.get("jsonrpc") != self.VERSION or not isinstance(method, str):
            log.warning("ignoring a message that is not JSON-RPC 2.0")
        elif method == types.CANCEL_REQUEST:
            self._cancel(message.get("params"))
        elif handler := self.listener_of(method):
            try:
                self._tell(method, handler, message.get("params"))
            except Exception as error:
                log_failure(method, error)

    def _tell(self, method: str, handler: Handler, raw: object) -> None:
        try:
            params = self._structured(method, raw)
        except JsonRpcInvalidParams as error:
            log.warning("ignoring %s: %s", method, error.message)
            if self.unreadable:
                self.unreadable(method, raw)
            return
        result = handler(params)
        if inspect.iscoroutine(result):
            self._run(method, result)

    def _run(self, method: str, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        task.add_done_callback(partial(log_outcome, method))

    def _structured(self, method: str, params: object) -> Any:  # noqa: ANN401  (the type belongs to the method)
        """Return params as lsprotocol's type of this method, or as they are for a method of our own."""
        kind: Any = types.METHOD_TO_TYPES.get(method, (None, None, None))[2]
        if kind is None:
            return params
        given = {} if params is None else params
        if not isinstance(given, dict):
            raise JsonRpcInvalidParams("params must be an object")
        try:
            if kind is types.InitializeParams:
                given = readable(self._converter, given)
            return self._converter.structure(given, kind)
        except Exception as error:
            raise JsonRpcInvalidParams(problems(error)) from None

    def _cancel(self, params: object) -> None:
        key = params.get("id") if isinstance(params, dict) else None
        task = self.running.get(key) if _is_id(key) else None
        if task is not None and not task.cancelling():
            task.cancel()

    def _take_response(self, message: Mapping[str, Any]) -> None:
        key: object = message.get("id")
        if _is_id(key) and (future := self._request_futures.pop(key, None)):
            kind = self._result_types.pop(key, None)
            with suppress(InvalidStateError):  # given up meanwhile
                _settle(future, message, lambda: self._structured_result(message, kind))
        elif "id" in message and "result" not in message and "error" not in message:
            self.refuse(key if _is_id(key) else None, JsonRpcInvalidRequest.CODE, "no method")

    def _structured_result(self, message: Mapping[str, Any], kind: Any) -> Any:  # noqa: ANN401  (the request knows)
        return self._converter.structure(message, kind).result if kind else message.get("result")

    # -- out

    def refuse(self, key: str | int | None, code: int, text: str) -> None:
        """Answer with an error; without an id when there is none to be trusted."""
        self._send_data({"jsonrpc": self.VERSION, "id": key, "error": {"code": code, "message": text}})

    def _finish(self, key: str | int, method: str, task: asyncio.Task[Any]) -> None:
        del self.running[key]
        if task.cancelled():
            self.refuse(key, JsonRpcRequestCancelled.CODE, "cancelled")
        elif error := task.exception():
            self._fail(key, method, error)
        else:
            self._respond(key, method, task.result())

    def _respond(self, key: str | int, method: str, result: object) -> None:
        try:
            body = self._encode({"jsonrpc": self.VERSION, "id": key, "result": result})
        except Exception as error:
            self._fail(key, method, error)
        else:
            self._put(body)

    def _fail(self, key: str | int, method: object, error: BaseException) -> None:
        if isinstance(error, JsonRpcException):
            self.refuse(key, error.code, error.message)
        else:
            log_failure(str(method), error)
            self.refuse(key, JsonRpcInternalError.CODE, f"internal error ({type(error).__name__})")

    def _send_data(self, data: Any) -> None:  # noqa: ANN401  (pygls hands over messages and dicts)
        """Send a message on any thread; what pygls does here logs bodies and may interleave."""
        try:
            self._put(self._encode(data))
        except (TypeError, ValueError, RecursionError, AttributeError) as error:
            log_failure("sending", error)

    def _encode(self, data: object) -> bytes:
        # Escaped, since half a surrogate pair, which clients may send and get back, has no UTF-8 form.
        return json.dumps(data, default=self._serialize_message, allow_nan=False).encode()

    def _put(self, body: bytes) -> None:
        if self._send:
            self._send(body)


def _is_id(key: object) -> TypeGuard[str | int]:
    return isinstance(key, str | int) and not isinstance(key, bool)


def _settle(future: Future[Any], message: Mapping[str, Any], result: Callable[[], Any]) -> None:
    """Give a client's answer to who asked."""
    if message.get("error") is not None:
        future.set_exception(JsonRpcException("the client refused", code=_code(message["error"])))
        return
    try:
        value = result()
    except Exception as error:
        future.set_exception(JsonRpcException(f"the client's answer cannot be read: {problems(error)}"))
    else:
        future.set_result(value)


def _code(error: object) -> int:
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) else JsonRpcInternalError.CODE

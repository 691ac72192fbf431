"""The loop between frames and protocol.

Messages reach the protocol one by one and in order, each after the first step of the handler before it. All writing
happens on the loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO

from pygls.lsp.server import LanguageServer

from lsp_server.wire.failures import describe
from lsp_server.wire.frames import Fault, Item, framed
from lsp_server.wire.inbox import Inbox
from lsp_server.wire.lifetime import Lifetime
from lsp_server.wire.protocol import ForetypeProtocol

log = logging.getLogger(__name__)


class FrameWriter:
    """Puts frames on a stream, each with one write, on the thread of the loop whoever sends."""

    def __init__(self, stream: BinaryIO, loop: asyncio.AbstractEventLoop, gone: Callable[[str], None]) -> None:
        self._stream, self._loop, self._gone = stream, loop, gone
        self._thread = threading.get_ident()
        self._open = True

    def send(self, body: bytes) -> None:
        """Send a message. A client that is gone is reported once; what comes after is dropped."""
        data = framed(body)
        if threading.get_ident() == self._thread:
            self._write(data)
        else:
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                self._loop.call_soon_threadsafe(self._write, data)

    def _write(self, data: bytes) -> None:
        if not self._open:
            return
        try:
            self._stream.write(data)
            self._stream.flush()
        except (OSError, ValueError):
            self._open = False
            self._gone("the client no longer reads")


def serve(server: LanguageServer, inbox: Inbox, stdout: BinaryIO, lifetime: Lifetime) -> None:
    """Serve one client until the inbox ends; `lifetime` then knows the exit code."""
    asyncio.run(_serve(server, inbox, stdout, lifetime), debug=False)  # asyncio's debug log shows arguments


async def _serve(server: LanguageServer, inbox: Inbox, stdout: BinaryIO, lifetime: Lifetime) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_log_loop_error)
    protocol = server.protocol
    assert isinstance(protocol, ForetypeProtocol)
    protocol.attach(FrameWriter(stdout, loop, lifetime.end).send, lifetime)
    async for item in items_of(inbox):
        if isinstance(item, Fault):
            protocol.refuse(None, item.code, item.text)
        else:
            protocol.receive(item)
        await asyncio.sleep(0)  # a handler just begun takes its snapshot before the next message changes anything


async def items_of(inbox: Inbox) -> AsyncIterator[Item]:
    """Yield an inbox's items on the loop until it ends."""
    filled = asyncio.Event()
    inbox.tell(partial(asyncio.get_running_loop().call_soon_threadsafe, filled.set))
    while (item := inbox.take()) != "end":
        if item is not None:
            yield item
        else:
            await filled.wait()
            filled.clear()


def _log_loop_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what went wrong outside any handler, without the messages of exceptions: they may quote a buffer."""
    error = context.get("exception")
    log.error("%s: %s", context.get("message"), describe(error) if error else "no exception")

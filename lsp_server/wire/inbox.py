"""What was read and not yet handled, between the thread that reads standard input and the event loop.

Reading begins before the server is imported, so that the end of the stream is seen at any time.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Literal

from lsp_server.wire.frames import Fault, FrameReader, Item, decode
from lsp_server.wire.lifetime import Lifetime

log = logging.getLogger(__name__)

MOST_WAITING = 1024  # items read ahead
MOST_WAITING_BYTES = 64 * 2**20


class Inbox:
    """A queue from one thread to another, bounded in number and bytes: a flood waits in the client's pipe."""

    def __init__(self) -> None:
        self._items: deque[tuple[Item | Literal["end"], int]] = deque()
        self._bytes = 0
        self._room = threading.Condition()
        self._filled: Callable[[], object] = lambda: None

    def tell(self, filled: Callable[[], object]) -> None:
        """Let `filled` be called on the thread that adds, after every item from now on."""
        with self._room:
            self._filled = filled

    def put(self, item: Item, size: int) -> None:
        """Add an item when there is room; one alone may have any size."""
        with self._room:
            self._room.wait_for(lambda: self._has_room(size))
            self._add(item, size)

    def close(self) -> None:
        """Add the end, to be taken after what waits already."""
        with self._room:
            self._add("end", 0)

    def take(self) -> Item | Literal["end"] | None:
        """Return the oldest item, None when nothing waits."""
        with self._room:
            if not self._items:
                return None
            item, size = self._items.popleft()
            self._bytes -= size
            self._room.notify_all()
            return item

    def _has_room(self, size: int) -> bool:
        small = len(self._items) < MOST_WAITING and self._bytes + size <= MOST_WAITING_BYTES
        return small or not self._items

    def _add(self, item: Item | Literal["end"], size: int) -> None:
        self._items.append((item, size))
        self._bytes += size
        with suppress(RuntimeError):  # the loop is closed
            self._filled()


def start_reading(stdin: BinaryIO, inbox: Inbox, lifetime: Lifetime) -> None:
    """Read on a thread of its own until the stream ends, and the process's life with it."""
    threading.Thread(target=_read, args=(stdin, inbox, lifetime), name="reader", daemon=True).start()


def _read(stdin: BinaryIO, inbox: Inbox, lifetime: Lifetime) -> None:
    try:
        for frame in FrameReader(stdin):
            if isinstance(frame, Fault):
                inbox.put(frame, 0)
            else:
                inbox.put(decode(frame), len(frame))
    except (OSError, ValueError) as error:
        log.warning("standard input cannot be read: %s", type(error).__name__)
    finally:
        lifetime.end("standard input is closed")

"""Frames: from bytes to messages, whatever else stands on the stream. It knows neither the loop nor the protocol.

Importing this file must stay cheap: reading begins before the server is imported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

MOST_BODY = 256 * 2**20  # bytes of one message
CHUNK = 2**16
LONGEST_LENGTH = 200  # bytes of a Content-Length line
LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*(\d{1,12})[ \t]*\r?\n\Z", re.IGNORECASE)
HEADER = re.compile(rb"(?!content-length)[\w-]+[ \t]*:[^\r\n]*\r?\n\Z", re.IGNORECASE)
BLANK = (b"\r\n", b"\n")

PARSE_ERROR = -32700
INVALID_REQUEST = -32600


@dataclass(frozen=True, slots=True)
class Fault:
    """Something on the stream that is no message: the error to answer."""

    code: int
    text: str


Item = dict[str, Any] | Fault


class FrameReader:
    """Takes frames from a stream. After anything odd it goes on at the next Content-Length line, wherever that stands.

    So a client that counted wrong loses a message, not the connection.
    """

    def __init__(self, stream: BinaryIO, most: int = MOST_BODY) -> None:
        self._stream = stream
        self._most = most
        self._length: int | None = None
        self._tail = b""  # the end of a line that was too long to read at once
        self._lost = False

    def __iter__(self) -> Iterator[bytes | Fault]:
        """Yield bodies and, once per stretch that cannot be understood, a fault, until the stream ends."""
        for line in iter(partial(self._stream.readline, CHUNK), b""):
            if line in BLANK and self._length is not None:
                body = self._stream.read(self._length)
                if len(body) < self._length:
                    return
                self._length, self._lost = None, False
                yield body
            elif not self._header(line) and not self._lost:
                self._lost = True
                yield Fault(PARSE_ERROR, "expected headers with a Content-Length that can be right")

    def _header(self, line: bytes) -> bool:
        """Take one header line; return whether it was in order."""
        whole = self._tail + line
        end = whole[-LONGEST_LENGTH:]
        self._tail = b"" if line.endswith(b"\n") else end
        if found := LENGTH.search(end):
            length = int(found[1])
            self._length = length if length <= self._most else None
            return self._length is not None and found.start() == len(end) - len(whole)
        return line in BLANK or HEADER.match(line) is not None


def decode(body: bytes) -> Item:
    """Return the message in a frame, or what is wrong with it."""
    try:
        message = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return Fault(PARSE_ERROR, "the message is not JSON, or nested too deeply")
    return message if isinstance(message, dict) else Fault(INVALID_REQUEST, "the message is not an object")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def framed(body: bytes) -> bytes:
    """Return a body as it goes over the wire: its bytes are counted, not its characters."""
    return b"Content-Length: %d\r\n\r\n" % len(body) + body

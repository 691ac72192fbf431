"""Frames: reading them from any bytes, writing them to the byte, and the bounded queue between thread and loop."""

from __future__ import annotations

import asyncio
import io
import json
import random
import threading

import pytest
from lsprotocol import types
from pygls.lsp.server import LanguageServer

from lsp_server.wire.frames import MOST_BODY, Fault, FrameReader, decode
from lsp_server.wire.inbox import MOST_WAITING, MOST_WAITING_BYTES, Inbox
from lsp_server.wire.lifetime import Lifetime
from lsp_server.wire.protocol import ForetypeProtocol
from lsp_server.wire.transport import FrameWriter, items_of, serve

BODY = '{"id": "é🙂"}'.encode()


def framed(body: bytes, header: bytes = b"Content-Length: %d\r\n\r\n") -> bytes:
    return header % len(body) + body


def read(data: bytes, most: int = MOST_BODY) -> list[bytes | None]:
    """Return the bodies that a reader finds, None for a fault."""
    return [None if isinstance(item, Fault) else item for item in FrameReader(io.BytesIO(data), most)]


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: %d\r\n\r\n",
        b"content-length:%d\r\n\r\n",
        b"CONTENT-LENGTH \t:\t %d  \r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n",
        b"Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf8\r\nX-More: a: b\r\n\r\n",
        b"Content-Length: %d\n\n",
        b"\r\n\r\nContent-Length: %d\r\n\r\n",
        b"Content-Length: 3\r\nContent-Length: %d\r\n\r\n",
    ],
)
def test_headers_in_any_form_are_read(header):
    """Case, blanks, order, further headers and bare line feeds make no difference."""
    assert read(framed(BODY, header) * 2) == [BODY, BODY]


@pytest.mark.parametrize(
    "junk",
    [
        b"Downloading 3/3 |####|\n",
        b"no line break before the header",
        b"Content-Length: -5\r\n\r\n" + BODY,
        b"Content-Length: five\r\n\r\n" + BODY,
        b"Content-Length:\r\n\r\n",
        b"Content-Length: 99999999999\r\n\r\n" + BODY,
        b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n" + BODY,
        b"Content-Type: text\r\n\r\n" + BODY,
        b"\x00\xff" * 200_000,
        b"Content-Length: 5\r\n\r\n" + b"12345" + b"rest of a body that was counted in characters",
        b"a\n\nb\r\n\r\nc\n" * 50,
    ],
)
def test_reading_goes_on_after_what_is_no_frame(junk):
    """Junk, also right before a header, and lengths that cannot be right cost one fault, not the frames after it."""
    found = read(framed(BODY) + junk + framed(BODY) + framed(BODY))
    assert found[0] == BODY
    assert found[-2:] == [BODY, BODY]
    assert found.count(None) == 1


def test_every_stretch_of_junk_is_a_fault_of_its_own():
    """After a frame was read, the next junk is reported again."""
    assert read((b"junk\n" + framed(BODY)) * 3) == [None, BODY] * 3


@pytest.mark.parametrize("cut", range(1, len(framed(BODY))))
def test_a_frame_cut_at_the_end_is_dropped(cut):
    """Whatever is missing at the end of the stream, no half message comes out."""
    assert [item for item in read(framed(BODY) + framed(BODY)[:-cut]) if item] == [BODY]


def test_a_body_over_the_limit_is_skipped_without_being_held():
    """A body larger than we take is passed over piece by piece, and the next one is read."""
    big = b'"' + b"x" * 300_000 + b'"'
    assert read(framed(big) + framed(BODY), most=1000) == [None, BODY]


def test_random_bytes_between_frames():
    """Seeded noise of bytes that headers are made of never hides the last frame or ends the reading."""
    rng = random.Random(4)
    for _ in range(500):
        noise = bytes(rng.choice(b'Content-Length: \r\n\r\n{}"0') for _ in range(rng.randrange(60)))
        data = noise + b"\r\n" + b"x" * 99 + framed(BODY)  # enough for any length that the noise may have promised
        assert read(data, most=9)[-1:] == [None] or read(data, most=99)[-1] in (BODY, None)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff\xfe\xfa{}", -32700),
        (b'{"a": NaN}', -32700),
        (b'{"a": Infinity}', -32700),
        (b'{"a": ' + b"1" * 5000 + b"}", -32700),
        (b"[" * 200_000, -32700),
        (b'{"a":' * 200_000, -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "shutdown"}]', -32600),
        (b"null", -32600),
        (b'"shutdown"', -32600),
        (b"17", -32600),
    ],
)
def test_what_is_no_message_becomes_a_fault(body, code):
    """No JSON, JSON with numbers that are none, nesting without end, and JSON that is no object (B15's relatives)."""
    found = decode(body)
    assert isinstance(found, Fault)
    assert found.code == code


def test_a_message_may_begin_with_a_byte_order_mark():
    """A byte-order mark before the JSON is not part of it (B13)."""
    assert decode(b"\xef\xbb\xbf" + BODY) == json.loads(BODY)


class Pipe(io.BytesIO):
    """A stream that remembers every write; it breaks when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[tuple[bytes, int]] = []
        self.broken = False

    def write(self, data: bytes) -> int:
        if self.broken:
            raise BrokenPipeError
        self.writes.append((bytes(data), threading.get_ident()))
        return len(data)


def test_a_frame_is_one_write_with_its_bytes_counted():
    """The header counts bytes, not characters, and stands in the same write as the body (B15)."""

    async def scenario() -> None:
        pipe = Pipe()
        FrameWriter(pipe, asyncio.get_running_loop(), lambda _: None).send(BODY)
        ((data, _),) = pipe.writes
        assert data == b"Content-Length: 16\r\n\r\n" + BODY

    asyncio.run(scenario())


def test_all_writing_happens_on_the_loop():
    """Frames sent from other threads are written by the loop's thread, each whole."""

    async def scenario() -> None:
        pipe = Pipe()
        writer = FrameWriter(pipe, asyncio.get_running_loop(), lambda _: None)
        bodies = [b"%d" % n * 1000 for n in range(8)]
        await asyncio.gather(*(asyncio.to_thread(writer.send, body) for body in bodies))
        while len(pipe.writes) < len(bodies):
            await asyncio.sleep(0)
        assert sorted(data for data, _ in pipe.writes) == sorted(framed(body) for body in bodies)
        assert {thread for _, thread in pipe.writes} == {threading.get_ident()}

    asyncio.run(scenario())


def test_a_client_that_is_gone_is_reported_once():
    """A broken pipe is the client's end, and later frames are dropped quietly."""

    async def scenario() -> None:
        pipe, reasons = Pipe(), []
        pipe.broken = True
        writer = FrameWriter(pipe, asyncio.get_running_loop(), reasons.append)
        writer.send(b"{}")
        writer.send(b"{}")
        assert len(reasons) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(("size", "most"), [(0, MOST_WAITING), (2**23, 8)])
def test_the_inbox_is_bounded_in_number_and_bytes(size, most):
    """A reader that is faster than the loop waits; nothing is lost and the order stays."""

    async def scenario() -> None:
        inbox = Inbox()
        put = []

        def flood() -> None:
            for n in range(most * 2):
                inbox.put({"n": n}, size)
                put.append(n)
            inbox.close()

        thread = threading.Thread(target=flood)
        thread.start()
        while len(put) < most:
            await asyncio.sleep(0.001)
        assert len(put) == most
        assert thread.is_alive()
        got = [inbox.take()["n"]]
        async with asyncio.timeout(30):
            while len(put) == most:
                await asyncio.sleep(0.001)
        async for item in items_of(inbox):
            got.append(item["n"])
            assert len(put) <= most + len(got)
        assert got == list(range(most * 2))
        thread.join()

    asyncio.run(scenario())


def test_one_message_larger_than_the_bound_still_passes():
    """An empty inbox takes a message of any size."""
    inbox = Inbox()
    inbox.put({"n": 1}, MOST_WAITING_BYTES * 2)
    assert inbox.take() == {"n": 1}
    assert inbox.take() is None


def test_a_handler_sees_what_was_before_the_next_message():
    """A request and the change right behind it: the request's handler begins before the change is made (B10)."""
    server = LanguageServer("test", "1", protocol_cls=ForetypeProtocol)
    seen = []

    @server.feature("textDocument/didChange")
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        seen.append("change")

    @server.feature("textDocument/hover")
    async def hover(params: types.HoverParams) -> None:
        seen.append("request")
        await asyncio.sleep(0)

    @server.feature("textDocument/definition")
    async def definition(params: types.DefinitionParams) -> None:
        await asyncio.sleep(1000)

    inbox, pipe, ended = Inbox(), Pipe(), Ended()
    place = {"textDocument": {"uri": "doc"}, "position": {"line": 0, "character": 0}}
    change = {"textDocument": {"uri": "doc", "version": 2}, "contentChanges": [{"text": ""}]}
    for message in (
        {"id": 1, "method": "initialize", "params": {"capabilities": {}}},
        {"id": 2, "method": "textDocument/hover", "params": place},
        {"method": "textDocument/didChange", "params": change},
        {"id": 3, "method": "textDocument/definition", "params": place},
    ):
        inbox.put({"jsonrpc": "2.0", **message}, 0)
    inbox.put(Fault(-32700, "a test"), 0)
    inbox.close()
    serve(server, inbox, pipe, ended.lifetime)
    assert seen == ["request", "change"]
    answers = [json.loads(data.partition(b"\r\n\r\n")[2]) for data, _ in pipe.writes]
    assert [answer["id"] for answer in answers] == [1, 2, None, 3]  # the last one cancelled, not forgotten
    assert answers[-1]["error"]["code"] == -32800


class Ended:
    """A lifetime whose process does not really end."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.left = threading.Event()
        self.lifetime = Lifetime(self._leave)

    def _leave(self, code: int) -> None:
        self.codes.append(code)
        self.left.set()


def test_the_guard_ends_the_process_while_the_loop_is_stuck():
    """Nobody has to run for the process to end but the guard; the stop of the loop was asked for (B29)."""
    ended, stopped = Ended(), threading.Event()
    ended.lifetime.start(stopped.set)
    ended.lifetime.end("a test")
    assert stopped.wait(30)
    assert ended.left.wait(30)
    assert ended.codes == [1]


@pytest.mark.parametrize("codes", [(0, 1), (1, 0), (0,)])
def test_a_proper_goodbye_counts(codes):
    """Exit after shutdown gives 0, also when standard input was closed just before or after."""
    ended = Ended()
    ended.lifetime.start(lambda: None)
    for code in codes:
        ended.lifetime.end("a test", code)
    assert ended.left.wait(30)
    assert ended.codes == [0]


def test_a_parent_that_is_not_there_is_not_watched():
    """An id that means nothing here, as from outside a container, does not end us; neither do absurd ids."""
    for process_id in (2**22 + 1, 2**70, -1):
        ended = Ended()
        ended.lifetime.watch(process_id)
        assert not ended.lifetime._editor_gone()
        assert not ended.lifetime._editor_gone()

"""Order, states, ids and params, without a process: messages go in parsed, answers come out as bytes."""

from __future__ import annotations

import asyncio
import json
import logging
import sys

import pytest
from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter

from lsp_server.wire.protocol import ForetypeProtocol
from lsp_server.wire.structure import make_strict, readable

INLINE = types.TEXT_DOCUMENT_INLINE_COMPLETION
SECRET = "canary-in-the-buffer"


class Lifetime:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.watched: list[int] = []
        self.codes: list[int] = []

    def watch(self, process_id: int) -> None:
        self.watched.append(process_id)

    def end(self, why: str, code: int = 1) -> None:
        self.codes.append(code)


class Conversation:
    """A server with a few handlers, and both directions of its conversation."""

    def __init__(self) -> None:
        self.server = LanguageServer("test", "1", protocol_cls=ForetypeProtocol)
        self.protocol: ForetypeProtocol = self.server.protocol
        self.lifetime = Lifetime()
        self.out: list[dict] = []
        self.calls: list[tuple[str, object]] = []
        self.protocol.attach(lambda body: self.out.append(json.loads(body)), self.lifetime)
        self.gate = asyncio.Event()
        for method in (types.TEXT_DOCUMENT_DID_OPEN, types.TEXT_DOCUMENT_DID_CHANGE, types.TEXT_DOCUMENT_DID_CLOSE):
            self.server.feature(method)(self._noting(method))
        self.server.feature("foretype/odd")(lambda params: params)
        self.server.feature("foretype/later")(later)
        self.server.command("test.add")(add)

        @self.server.feature(INLINE, types.InlineCompletionOptions())
        async def inline_completion(params: types.InlineCompletionParams) -> object:
            return await self._inline(params)

    def _noting(self, method: str):
        def note(params: types.DidOpenTextDocumentParams) -> None:
            self.calls.append((method, params))
            if isinstance(params, types.DidOpenTextDocumentParams) and params.text_document.text == "raise":
                raise ValueError(SECRET)

        return note

    async def _inline(self, params: types.InlineCompletionParams) -> object:
        self.calls.append((INLINE, params))
        uri = params.text_document.uri
        if uri == "raise":
            raise KeyError(SECRET)
        if uri == "nan":
            return {"score": float("nan")}
        if uri == "slow":
            await self.gate.wait()
        if uri == "tidy":
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0)
        return None if uri == "null" else types.InlineCompletionList([])

    def say(self, message: dict) -> None:
        self.protocol.receive({"jsonrpc": "2.0", **message})

    def ask(self, key: object, method: object, params: object = None) -> None:
        self.say({"id": key, "method": method, "params": params})

    def initialize(self, **more: object) -> dict:
        self.ask("init", "initialize", {"processId": None, "rootUri": None, "capabilities": {}, **more})
        return self.answer("init")

    def answer(self, key: object) -> dict:
        (answer,) = [m for m in self.out if m["id"] == key]
        return answer

    def code(self, key: object) -> int:
        return self.answer(key)["error"]["code"]


async def later(params: object) -> None:
    await asyncio.sleep(0)


async def add(left: int, position: types.Position) -> int:
    return left + position.line


def inline(uri: object = "doc", **more: object) -> dict:
    where = {"position": {"line": 0, "character": 0}, "context": {"triggerKind": 2}}
    return {"textDocument": {"uri": uri}, **where, **more}


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def run(scenario) -> None:
    async def main() -> None:
        await scenario(Conversation())

    asyncio.run(main())


def test_a_request_before_initialize_is_refused():
    """Nothing but initialize is answered first; notifications are ignored."""

    async def scenario(talk):
        talk.ask(0, INLINE, inline())
        talk.say({"method": "textDocument/didOpen", "params": {}})
        assert talk.code(0) == -32002
        assert not talk.calls
        assert "result" in talk.initialize()

    run(scenario)


def test_initialize_is_taken_once():
    """A second initialize is refused; one that failed may be repeated."""

    async def scenario(talk):
        talk.ask(1, "initialize", {"capabilities": None})
        assert talk.code(1) == -32602
        talk.initialize()
        talk.ask(2, "initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        assert talk.code(2) == -32600

    run(scenario)


def test_after_shutdown_only_exit_counts():
    """Requests after shutdown are refused, running ones cancelled, and exit ends with 0."""

    async def scenario(talk):
        talk.initialize()
        talk.ask(1, INLINE, inline("slow"))
        await settle()
        talk.ask(2, "shutdown")
        talk.ask(3, INLINE, inline())
        talk.say({"method": "textDocument/didClose", "params": {"textDocument": {"uri": "doc"}}})
        await settle()
        assert talk.answer(2)["result"] is None
        assert talk.code(1) == -32800
        assert talk.code(3) == -32600
        assert [method for method, _ in talk.calls] == [INLINE]
        talk.say({"method": "exit"})
        assert talk.lifetime.codes == [0]

    run(scenario)


def test_exit_without_shutdown_is_an_error():
    """Exit works in any state and gives 1 where shutdown was left out."""

    async def scenario(talk):
        talk.say({"method": "exit"})
        assert talk.lifetime.codes == [1]

    run(scenario)


def test_the_capabilities_are_announced():
    """Text synchronisation, notebooks, folders and inline completion are announced though pygls's handlers are gone."""

    async def scenario(talk):
        cells = types.NotebookDocumentFilterWithCells(cells=[types.NotebookCellLanguage("python")])
        talk.server._notebook_document_sync = types.NotebookDocumentSyncOptions([cells])
        notebooks = {"notebookDocument": {"synchronization": {}}}
        able = talk.initialize(capabilities=notebooks)["result"]["capabilities"]
        assert able["textDocumentSync"]["openClose"]
        assert able["textDocumentSync"]["change"] == types.TextDocumentSyncKind.Incremental
        assert able["notebookDocumentSync"]
        assert able["workspace"]["workspaceFolders"]["supported"]
        assert able["inlineCompletionProvider"] == {}
        assert able["executeCommandProvider"]["commands"] == ["test.add"]

    run(scenario)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["utf-8"], "utf-8"),
        (["utf-32", "utf-16"], "utf-32"),
        (["utf-7", "utf-8"], "utf-8"),
        ([], "utf-16"),
        (None, "utf-16"),
        ([7, "utf-8"], "utf-8"),
        ("utf-8", "utf-16"),
    ],
)
def test_the_clients_first_known_encoding_is_taken(offered, chosen):
    """The choice is the client's first that we know; a list that cannot be read counts as none (B02)."""

    async def scenario(talk):
        result = talk.initialize(capabilities={"general": {"positionEncodings": offered}})
        assert result["result"]["capabilities"]["positionEncoding"] == chosen
        assert talk.protocol.position_encoding == chosen

    run(scenario)


def test_capabilities_that_cannot_be_read_do_not_keep_a_client_out():
    """Values from later protocol versions and plain nonsense are dropped, what stands beside them is kept."""
    converter = default_converter()
    make_strict(converter)
    able = {
        "textDocument": {
            "completion": {"completionItemKind": {"valueSet": [1, 999]}, "dynamicRegistration": True},
            "inlineCompletion": {"dynamicRegistration": "yes"},
            "rename": {"prepareSupport": True},
        },
        "window": [],
        "workspace": {"configuration": True, "workspaceEdit": {"resourceOperations": ["explode"]}},
        "general": {"positionEncodings": ["utf-8"], "staleRequestSupport": {}},
    }
    params = {
        "processId": None,
        "rootUri": None,
        "capabilities": able,
        "trace": "compact",
        "clientInfo": {"name": None},
    }
    read = converter.structure(readable(converter, params), types.InitializeParams)
    assert read.capabilities.workspace.configuration
    assert read.capabilities.general.position_encodings == ("utf-8",)
    assert read.capabilities.text_document.completion.dynamic_registration
    assert read.capabilities.text_document.inline_completion is not None
    assert read.capabilities.text_document.rename is None  # nothing looks at it
    assert read.trace is None

    async def scenario(talk):
        assert "result" in talk.initialize(**params)

    run(scenario)


def test_the_editors_process_is_watched():
    """The process id of initialize goes to the lifetime (B29)."""

    async def scenario(talk):
        talk.initialize(processId=4711)
        assert talk.lifetime.watched == [4711]

    run(scenario)


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        "text",
        7,
        {},
        inline(None),
        inline(7),
        inline(["a"]),
        inline(position={"line": -1, "character": 0}),
        inline(position={"line": "0", "character": 0}),
        inline(position={"line": True, "character": 0}),
        inline(position={"line": 0.5, "character": 0}),
        inline(position=[0, 0]),
        inline(context={"triggerKind": 9}),
        inline(context=None),
        inline(textDocument="doc"),
    ],
)
def test_params_of_the_wrong_shape_are_refused(params):
    """Missing fields and wrong types give -32602 and say where, without the values."""

    async def scenario(talk):
        talk.initialize()
        talk.ask(1, INLINE, params)
        assert talk.code(1) == -32602
        assert not talk.calls

    run(scenario)


def test_unknown_keys_and_huge_columns_are_tolerated():
    """A document version in the request, other extras and columns beyond the protocol's largest number do no harm."""

    async def scenario(talk):
        talk.initialize()
        params = inline(formattingOptions={"tabSize": 4}, position={"line": 0.0, "character": 2**53})
        params["textDocument"]["version"] = 3
        talk.ask(1, INLINE, params)
        await settle()
        assert talk.answer(1)["result"] == {"items": []}
        ((_, seen),) = talk.calls
        assert seen.position == types.Position(0, 2**31 - 1)

    run(scenario)


def test_a_null_text_is_not_the_word_none():
    """A didOpen whose text is null opens nothing, and the server learns that it could not be read."""

    async def scenario(talk):
        talk.initialize()
        unread = []
        talk.protocol.unreadable = lambda method, raw: unread.append((method, raw))
        params = {"textDocument": {"uri": "doc", "languageId": "python", "version": 1, "text": None}}
        talk.say({"method": "textDocument/didOpen", "params": params})
        assert not talk.calls
        assert unread == [("textDocument/didOpen", params)]

    run(scenario)


@pytest.mark.parametrize("key", [1.5, True, None, [], {}, [[1]]])
def test_an_id_that_is_none_is_refused_without_one(key):
    """Ids that are neither text nor integer cannot be repeated; the answer has the id null."""

    async def scenario(talk):
        talk.initialize()
        talk.ask(key, INLINE, inline())
        assert talk.code(None) == -32600

    run(scenario)


@pytest.mark.parametrize("key", [0, -1, 2**80, "", "0", "é\ud83d\n"])
def test_any_text_or_integer_is_an_id(key):
    """Zero, negative and huge integers, empty text and half surrogates come back as they were."""

    async def scenario(talk):
        talk.initialize()
        talk.ask(key, INLINE, inline())
        await settle()
        assert talk.answer(key)["result"] == {"items": []}

    run(scenario)


def test_an_id_in_use_is_refused():
    """Two requests under one id get one answer each; text and number of the same digits are different ids."""

    async def scenario(talk):
        talk.initialize()
        talk.ask(1, INLINE, inline("slow"))
        talk.ask("1", INLINE, inline("slow"))
        talk.ask(1, INLINE, inline())
        assert talk.code(1) == -32600
        talk.gate.set()
        await settle()
        assert [m["id"] for m in talk.out if m.get("result") == {"items": []}] == [1, "1"]
        assert len(talk.out) == 4

    run(scenario)


@pytest.mark.parametrize(
    "message",
    [
        {"id": 5},
        {"id": 5, "method": 7},
        {"id": 5, "method": None},
        {"id": 5, "method": INLINE, "jsonrpc": "1.0", "params": inline()},
        {"id": 5, "method": INLINE, "jsonrpc": None},
    ],
)
def test_what_is_no_request_but_has_an_id_is_refused(message):
    """Every id gets its answer."""

    async def scenario(talk):
        talk.initialize()
        talk.say(message)
        assert talk.code(5) == -32600

    run(scenario)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"method": "nobody/knows", "params": [1]},
        {"method": "$/whatever"},
        {"method": INLINE, "params": inline()},
        {"method": "shutdown"},
        {"method": "initialized", "params": {}},
        {"method": "initialized", "params": {}},
        {"method": ["exit"]},
        {"method": "textDocument/didOpen", "jsonrpc": "1.0"},
        {"id": "unknown", "result": {}},
        {"id": [1], "result": {}},
        {"id": "unknown", "error": "bad"},
        {"method": "$/cancelRequest", "params": {"id": 99}},
        {"method": "$/cancelRequest", "params": {"id": {}}},
        {"method": "$/cancelRequest", "params": [1]},
        {"method": "$/cancelRequest"},
    ],
)
def test_what_needs_no_answer_is_ignored(message, caplog):
    """Unknown notifications, answers to nothing and cancels of nothing are quiet, and the server goes on."""

    async def scenario(talk):
        talk.initialize()
        del talk.out[:]
        talk.say(message)
        await settle()
        assert not talk.out
        assert not talk.calls
        talk.ask(1, INLINE, inline())
        await settle()
        assert talk.answer(1)["result"] == {"items": []}

    run(scenario)
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]


def test_an_unknown_method_is_named():
    """A request for a method nobody serves gives -32601, cut to a length that can be read."""

    async def scenario(talk):
        talk.initialize()
        talk.ask(1, "x" * 10_000)
        assert talk.code(1) == -32601
        assert len(talk.answer(1)["error"]["message"]) < 200

    run(scenario)


def test_a_notification_with_an_id_is_no_request():
    """What the protocol knows as a notification does nothing when it is sent as a request, and is answered."""

    async def scenario(talk):
        talk.initialize()
        document = {"uri": "doc", "languageId": "python", "version": 1, "text": "x"}
        talk.ask(1, "textDocument/didOpen", {"textDocument": document})
        assert talk.code(1) == -32601
        assert not talk.calls

    run(scenario)


def test_initialized_counts_once():
    """A second `initialized` does not start anything again."""

    async def scenario(talk):
        begun = []

        @talk.server.feature("initialized")
        async def initialized(params: types.InitializedParams) -> None:
            begun.append(params)

        talk.initialize()
        for _ in range(3):
            talk.say({"method": "initialized", "params": {}})
        await settle()
        assert len(begun) == 1

    run(scenario)


def test_a_cancelled_request_has_one_answer():
    """Cancelled twice, or after its answer, a request is answered once (B17)."""

    async def scenario(talk):
        talk.initialize()
        talk.ask(1, INLINE, inline("slow"))
        talk.ask(2, INLINE, inline())
        await settle()
        for key in (1, 1, 2):
            talk.say({"method": "$/cancelRequest", "params": {"id": key}})
        await settle()
        assert talk.code(1) == -32800
        assert talk.answer(2)["result"] == {"items": []}

    run(scenario)


def test_a_second_cancel_does_not_disturb_the_first():
    """A handler that tidies up after a cancel, and then has an answer, is left in peace and answers."""

    async def scenario(talk):
        talk.initialize()
        talk.ask(1, INLINE, inline("tidy"))
        await settle()
        talk.say({"method": "$/cancelRequest", "params": {"id": 1}})
        await asyncio.sleep(0)
        talk.say({"method": "$/cancelRequest", "params": {"id": 1}})
        await settle()
        assert talk.answer(1)["result"] == {"items": []}

    run(scenario)


def test_a_storm_of_cancels_leaves_the_newest():
    """Thirty requests, each followed by a cancel of the one before: all get one answer, the last a result (B17)."""

    async def scenario(talk):
        talk.initialize()
        for key in range(30):
            talk.ask(key, INLINE, inline("slow"))
            if key:
                talk.say({"method": "$/cancelRequest", "params": {"id": key - 1}})
        talk.gate.set()
        await settle()
        assert [talk.code(key) for key in range(29)] == [-32800] * 29
        assert talk.answer(29)["result"] == {"items": []}
        assert not talk.protocol.running

    run(scenario)


def test_a_handlers_exception_is_answered_and_not_quoted(caplog):
    """The client learns of an internal error; neither log nor answer quotes the exception."""

    async def scenario(talk):
        talk.initialize()
        talk.ask(1, INLINE, inline("raise"))
        document = {"uri": "doc", "languageId": "python", "version": 1, "text": "raise"}
        talk.say({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        await settle()
        assert talk.code(1) == -32603
        talk.ask(2, INLINE, inline())
        await settle()
        assert talk.answer(2)["result"] == {"items": []}
        assert SECRET not in json.dumps(talk.out)

    with caplog.at_level(logging.INFO):
        run(scenario)
    assert SECRET not in caplog.text
    assert "KeyError" in caplog.text
    assert "ValueError" in caplog.text


def test_a_result_that_is_no_json_is_an_internal_error():
    """A number that JSON does not have never reaches the wire."""

    async def scenario(talk):
        talk.initialize()
        talk.ask(1, INLINE, inline("nan"))
        await settle()
        assert talk.code(1) == -32603

    run(scenario)


def test_null_is_an_answer():
    """A handler's None goes out as a null result, not as a message without one."""

    async def scenario(talk):
        talk.initialize()
        talk.ask(1, INLINE, inline("null"))
        await settle()
        assert talk.answer(1) == {"jsonrpc": "2.0", "id": 1, "result": None}

    run(scenario)


def test_pygls_does_not_touch_documents():
    """Changes reach our handlers in order, and no workspace of pygls exists that could apply them too."""

    async def scenario(talk):
        talk.initialize()
        document = {"uri": "doc", "languageId": "python", "version": 1, "text": "x"}
        talk.say({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        change = {"textDocument": {"uri": "doc", "version": 2}, "contentChanges": [{"text": "y"}]}
        talk.say({"method": "textDocument/didChange", "params": change})
        talk.ask(1, INLINE, inline())
        await settle()
        talk.say({"method": "textDocument/didClose", "params": {"textDocument": {"uri": "doc"}}})
        kinds = ["textDocument/didOpen", "textDocument/didChange", INLINE, "textDocument/didClose"]
        assert [method for method, _ in talk.calls] == kinds
        with pytest.raises(RuntimeError):
            _ = talk.server.workspace

    run(scenario)


def test_nothing_is_kept_of_what_is_done():
    """After many notifications, requests and commands no future is left behind, whatever pygls would keep."""

    async def scenario(talk):
        talk.initialize()
        for key in range(200):
            talk.ask(key, INLINE, inline())
            talk.ask(str(key), "workspace/executeCommand", command([1, {"line": 1, "character": 0}]))
            talk.say({"method": "textDocument/didClose", "params": {"textDocument": {"uri": "doc"}}})
            talk.say({"method": "foretype/later"})
            await settle()
        held = (
            talk.protocol._background,
            talk.protocol.running,
            talk.protocol._request_futures,
            talk.protocol._result_types,
        )
        assert [len(kept) for kept in held] == [0, 0, 0, 0]

    run(scenario)


def command(arguments: object, name: object = "test.add") -> dict:
    return {"command": name, "arguments": arguments}


@pytest.mark.parametrize(
    ("params", "code"),
    [
        (command([1]), -32602),
        (command([1, {"line": "a"}]), -32602),
        (command([1, {"line": 1, "character": 0}, 3]), -32602),
        (command({}), -32602),
        (command(None), -32602),
        (command([], "nobody.knows"), -32602),
        (command([], None), -32602),
    ],
)
def test_commands_with_wrong_arguments_are_refused(params, code):
    """Too few, too many, wrong types, unknown names: always an answer."""

    async def scenario(talk):
        talk.initialize()
        talk.ask(1, "workspace/executeCommand", params)
        await settle()
        assert talk.code(1) == code

    run(scenario)


def test_a_command_gets_typed_arguments():
    """A position in a command's arguments arrives as one."""

    async def scenario(talk):
        talk.initialize()
        talk.ask(1, "workspace/executeCommand", command([40, {"line": 2, "character": 0}]))
        await settle()
        assert talk.answer(1)["result"] == 42

    run(scenario)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"result": [{"enabled": True}]}, ({"enabled": True},)),
        (
            {"result": 7},
            "the client's answer cannot be read: invalid value for type, expected Sequence @ params.result",
        ),
        ({"error": {"code": -32601, "message": SECRET}}, "the client refused"),
        ({"error": "nonsense"}, "the client refused"),
    ],
)
def test_the_clients_answers_find_who_asked(answer, outcome):
    """Results and errors reach the waiting handler; the client's own ids cannot be mistaken for ours."""

    async def scenario(talk):
        talk.initialize()
        asked = talk.protocol.send_request_async("workspace/configuration", types.ConfigurationParams([]), msg_id="7")
        talk.ask("7", INLINE, inline())
        talk.say({"id": "7", **answer})
        await settle()
        try:
            found = await asked
        except Exception as error:
            found = str(error)
        assert found == outcome
        assert [m["result"] for m in talk.out if m["id"] == "7" and "result" in m] == [{"items": []}]

    run(scenario)


def test_an_answer_that_nobody_waits_for_any_more_is_dropped():
    """The client may answer after the one who asked gave up."""

    async def scenario(talk):
        talk.initialize()
        asked = talk.protocol.send_request_async("workspace/configuration", types.ConfigurationParams([]), msg_id="7")
        asked.cancel()
        await settle()
        talk.say({"id": "7", "result": []})
        talk.say({"id": "7", "result": []})

    run(scenario)


def test_deep_nesting_in_params_is_survived():
    """Params nested almost as deep as Python allows are answered."""

    async def scenario(talk):
        talk.initialize()
        deep: object = []
        for _ in range(sys.getrecursionlimit() - 200):
            deep = [deep]
        talk.ask(1, INLINE, inline(deep))
        talk.ask(2, "foretype/odd", {"deep": deep})
        await settle()
        assert talk.code(1) == -32602
        assert "id" in talk.answer(2)

    run(scenario)

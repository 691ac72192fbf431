"""Group B of the cases against the real server process: storms, typing ahead, ranges, what is not open, flat memory.

Other parts of the group: `test_completing.py` for what a question comes to, `test_process.py` for the process's life.
"""

from __future__ import annotations

import time

import pytest

from tests.bench.requests import MIB, run
from tests.bench.session import Clocked, Replay, Tally, events
from tests.e2e.conversation import URI, command, conversation, record, texts, until
from tests.e2e.lsp_client import CAPABILITIES, LspClient, apply, span, units

CANCELLED = -32800
MOST_FOR_THE_NEWEST = 2  # runs: the one that was under way, and the newest question's own


def typed(client: LspClient, text: str, seconds: float, cancels: bool) -> tuple[int, float]:
    """Type a text from the start of an empty document, asking after each key; return the last question and its time."""
    asked = []
    for column, letter in enumerate(text):
        time.sleep(seconds)
        client.change(URI, column + 2, ((0, column), (0, column), letter))
        if asked and cancels:
            client.cancel(asked[-1])
        asked.append(client.request_inline(URI, 0, column + 1))
    return asked[-1], time.monotonic()


def begun_after(tmp_path, moment: float) -> list[dict]:
    """Return the runs begun since; monotonic clocks of processes on one machine agree."""
    return [line for line in record(tmp_path) if line["started"] >= moment]


@pytest.mark.parametrize(
    ("text", "cancels"),
    [("def fibonacci(", True), ("def fibonacci(", False), ("def fibonacci_number(how_many, ", False)],
)
def test_typing_a_name_leaves_no_queue(tmp_path, text, cancels):
    """B21: at ten keys a second and 300 ms for an answer, the last key waits for two runs, however many keys came."""
    rules = [{"left": text, "answer": "one, two):\n"}]
    with conversation(tmp_path, rules=rules, default="never\n", prefill_ms=300) as client:
        client.open(URI, "")
        last, moment = typed(client, text, 0.1, cancels)
        (shown,) = texts(client.wait_inline(last))
        assert shown.endswith("one, two):")
        client.wait_answered()
        assert len(begun_after(tmp_path, moment)) <= MOST_FOR_THE_NEWEST
        assert record(tmp_path)[-1]["before"] == text


@pytest.mark.parametrize(
    ("popup", "cancels"),
    [(False, True), (True, True), (False, False)],
    ids=["ghost text", "popup", "ghost text without cancelling"],
)
def test_a_storm_over_one_document(tmp_path, popup, cancels):
    """B17: of thirty questions 20 ms apart, taken back or not, only the newest is answered, with no queue before it."""
    able = {**CAPABILITIES, "textDocument": {"completion": {}}} if popup else CAPABILITIES
    method = "textDocument/completion" if popup else "textDocument/inlineCompletion"
    script = {"default": " = one + two + three\n", "token_ms": 200, "record": str(tmp_path / "record.jsonl")}
    with LspClient.scripted(script) as client:
        client.initialize(able, options={"notifications": {"status": True}, "debounce": False})
        client.wait_for("foretype/status", lambda told: told["state"] == "ready")
        client.open(URI, "name\n" * 30)
        asked = []
        for line in range(30):
            place = {"textDocument": {"uri": URI}, "position": {"line": line, "character": 4}}
            asked.append(client.request(method, {**place, "context": {"triggerKind": 1}}))
            moment = time.monotonic()
            if line and cancels:
                client.cancel(asked[-2])
            time.sleep(0.02)
        assert client.wait(asked[-1])["items"]
        client.wait_answered()
        for older in asked[:-1]:
            (answer,) = client.answers(older)
            assert answer.get("error", {"code": CANCELLED})["code"] == CANCELLED
            assert cancels or answer["result"] is None
            assert not (answer.get("result") or {}).get("items")
        lines = [line for line in record(tmp_path) if not line["temperature"]]
        assert [line["before"].count("\n") for line in lines if line["cancelled"] is None] == [29]
        assert len([line for line in lines if line["started"] >= moment]) <= MOST_FOR_THE_NEWEST
        assert len(lines) < 30


def test_a_storm_over_many_documents(tmp_path):
    """B17: what was asked for other documents and taken back is not worked off one after the other."""
    with conversation(tmp_path, default=" = one\n", prefill_ms=1500) as client:
        asked = []
        for number in range(12):
            client.open(f"untitled:page-{number}", "name")
            asked.append(client.request_inline(f"untitled:page-{number}", 0, 4))
            if number:
                client.cancel(asked[-2])
            time.sleep(0.02)
        assert texts(client.wait_inline(asked[-1])) == ["name = one"]
        client.wait_answered()
        whole = until(lambda: [line["path"] for line in record(tmp_path) if line["cancelled"] is None])
        assert whole == ["untitled:page-11"]


def test_a_stretch_of_the_recorded_session(tmp_path, data):
    """B21: at twelve times its pace, every question of a recorded session is answered once and no text is off."""
    script = {"default": " = compute(one, two)\n", "token_ms": 3}
    with Clocked.scripted(script) as client:
        client.tally = Tally()
        client.initialize(options={"notifications": {"status": True}, "debounce": False})
        client.wait_for("foretype/status", lambda told: told["state"] == "ready")
        replayed = play(client, data, minutes=(29.5, 31.0), speed=12)
        client.wait_answered()
        asked = client.tally.asked
        assert len(asked) > 100
        for request in asked:
            (answer,) = client.answers(request)
            assert answer.get("error", {"code": CANCELLED})["code"] == CANCELLED
        assert any(items for _, _, items in client.tally.replies)
        counts = command(client, "status")["counts"]
        assert counts["computed"] < counts["asked"] <= len(asked)
        for document in replayed.documents.values():
            if document.text:
                assert seen(client, document.uri) == document.text.replace("\r\n", "\n")
        assert not client.stderr


def play(client: Clocked, folder, minutes: tuple[float, float], speed: float) -> Replay:
    """Play some minutes of the recording; what was before them happens at once and unasked."""
    acting, first, began = Replay(client), None, 0.0
    for event in events(folder):
        first = event["time"] if first is None else first
        minute = (event["time"] - first) / 60_000
        if minute >= minutes[1]:
            break
        if minute >= minutes[0]:
            began = began or time.monotonic()
            time.sleep(max(0.0, began + (minute - minutes[0]) * 60 / speed - time.monotonic()))
        if minute >= minutes[0] or event["kind"] != "request":
            acting.act(event)
    return acting


def seen(client: LspClient, uri: str) -> str:
    """Return a document as the engine would be given it."""
    told = command(client, "explain", uri, {"line": 0, "character": 0})
    return "".join(part["text"] for part in told["prompt"][-2:])


ONE_LETTER_MORE = {
    "a word": ("foob", "ar", "a"),
    "a word with umlauts": ("größ", "enordnung", "e"),
    "a word of another script": ("знач", "ение", "е"),
    "after a blank": ("x = ", "1", "1"),
    "an emoji": ("x = '", "🦊'", "🦊"),
    "after CRLF": ("import os\r\nfoob", "ar", "a"),
}


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    """A conversation that several checks share, and the folder of its record."""
    folder = tmp_path_factory.mktemp("talk")
    rules = [{"left": left.rpartition("\n")[2], "answer": answer} for left, answer, _ in ONE_LETTER_MORE.values()]
    rules += [
        {"left": "foo(", "answer": "a)\nbar(1)\n"},
        {"left": "bar(", "answer": "a"},
        {"left": "baz(", "answer": "a , b)"},
        {"left": "call", "answer": "(one, two)\n"},
        {"left": "return a", "answer": " + b\n"},
        {"left": "text.format", "answer": "(name)"},
    ]
    with conversation(folder, rules=rules) as client:
        yield client, folder


@pytest.mark.parametrize("case", ONE_LETTER_MORE.values(), ids=ONE_LETTER_MORE)
def test_one_letter_more_than_the_reply_knows(talk, case):
    """B22: who types the next letter before the reply shows sees that it fits, and accepting does not double it."""
    (client, _), (before, answer, letter) = talk, case
    client.open(URI, before)
    line, column = before.count("\n"), units(before.rpartition("\n")[2], "utf-16")
    (item,) = client.inline(URI, line, column)
    assert item["range"]["end"] == {"line": line, "character": column}
    stretched = {**item["range"], "end": {"line": line, "character": column + units(letter, "utf-16")}}
    line_typed = (before + letter).rpartition("\n")[2]
    shown = line_typed.encode("utf-16-le")[2 * item["range"]["start"]["character"] :].decode("utf-16-le")
    assert item["filterText"].startswith(shown)
    assert apply(before + letter, {**item, "range": stretched}) == before + answer
    client.change(URI, 2, ((line, column), (line, column), letter))
    (item,) = client.inline(URI, line, column + units(letter, "utf-16")) or [{}]
    assert not item or apply(before + letter, item) == before + answer


def test_typing_a_bracket_that_the_editor_closes(talk):
    """B23: the pair that an editor makes of the typed bracket agrees with the ghost, which stays without a new run."""
    client, folder = talk
    client.open(URI, "call")
    assert texts(client.inline(URI, 0, 4)) == ["call(one, two)"]
    runs = len(record(folder))
    client.change(URI, 2, ((0, 4), (0, 4), "()"))
    (item,) = client.inline(URI, 0, 5)
    assert apply("call()", item) == "call(one, two)"
    client.change(URI, 3, ((0, 5), (0, 5), "on"))
    (item,) = client.inline(URI, 0, 7)
    assert apply("call(on)", item) == "call(one, two)"
    assert len(record(folder)) == runs


def test_a_contradiction_is_no_fault_and_no_matter_of_other_documents(talk):
    """B23: after a contradiction nothing old is shown or logged, and what another document shows stays."""
    client, folder = talk
    other = "untitled:other.py"
    client.open(URI, "return a")
    client.open(other, "x = 1\nreturn a")
    assert texts(client.inline(URI, 0, 8)) == ["a + b"]
    assert texts(client.inline(other, 1, 8)) == ["a + b"]
    client.change(URI, 2, ((0, 8), (0, 8), " - "))
    assert client.inline(URI, 0, 11) == []
    runs = len(record(folder))
    client.change(other, 2, ((1, 8), (1, 8), " +"))
    assert [apply("x = 1\nreturn a +", i) for i in client.inline(other, 1, 10)] == ["x = 1\nreturn a + b"]
    assert len(record(folder)) == runs
    client.close_document(other)
    assert not client.stderr


@pytest.mark.parametrize("trigger", [1, 2])
@pytest.mark.parametrize(
    ("before", "after", "accepted"),
    [
        ("foo(", ")", "foo(a)\nbar(1)"),
        ("foo(", "", "foo(a)\nbar(1)"),
        ("bar(", " , b)", "bar(a , b)"),
        ("baz(", " , b)", "baz(a , b)"),
    ],
)
def test_text_right_of_the_cursor(talk, before, after, accepted, trigger):
    """B26, B27: the range is there, on one line, covers the cursor and exactly what the text replaces."""
    client, _ = talk
    client.open(URI, before + after)
    (item, *_) = client.inline(URI, 0, 4, trigger)
    assert apply(before + after, item) == accepted
    start, end = item["range"]["start"], item["range"]["end"]
    assert (start["line"], end["line"]) == (0, 0)
    assert start["character"] <= 4 <= end["character"]
    replaced = (before + after)[start["character"] : end["character"]]
    letters = iter(item["insertText"])
    assert all(letter in letters for letter in replaced), "an editor would not show it"


def test_a_popups_choice_with_text_behind_it(talk):
    """B27: with `format` selected over `f`, the item takes the popup's range and leaves what stands behind it."""
    client, _ = talk
    for text, behind in (("text.f", ""), ("größe = text.f", ""), ("text.f  # note", "  # note")):
        client.open(URI, text)
        end = len(text) - len(behind)
        chosen = {"range": span((0, end - 1), (0, end)), "text": "format"}
        for item in client.inline(URI, 0, end, selected=chosen):
            assert item["range"] == chosen["range"]
            assert item["insertText"].startswith("format")
            assert apply(text, item) == text[: end - 1] + "format(name)" + behind
        assert client.inline(URI, 0, end, trigger=1, selected={**chosen, "text": "formatted"}) == []


def test_what_is_not_open_may_be_spoken_of(tmp_path):
    """B28: questions, changes, closes and explanations of what is not open are answered empty or ignored, unlogged."""
    (tmp_path / "latin.py").write_bytes(b"caf\xe9 = 1\n")
    (tmp_path / "there.py").write_text("x = 1\n")
    names = ("latin.py", "there.py", "missing.py", "", "no/such/folder/x.py")
    uris = [*((tmp_path / name).as_uri() for name in names), "untitled:none", "vscode-remote://ssh/a.py", "", "%zz"]
    with conversation(tmp_path, roots=[tmp_path], default="never") as client:
        for uri in uris:
            client.change(uri, 2, ((0, 0), (0, 0), "x"))
            client.close_document(uri)
            for trigger in (1, 2):
                assert client.inline(uri, 0, 0, trigger) == []
            assert "problem" in command(client, "explain", uri, {"line": 0, "character": 0})
        client.open(URI, "x")
        client.close_document(URI)
        assert client.inline(URI, 0, 1, trigger=1) == []
        assert record(tmp_path) == []
        assert not [line for line in client.stderr.splitlines() if "ERROR" in line or "Traceback" in line]


MEMORY_SHORT = (
    "qwen2.5-coder needs about 1.6 GiB of memory and 0.4 are free; close what takes it, such as another editor's "
    "engine, or choose a smaller profile"
)


def test_a_second_window_without_room_says_so(tmp_path):
    """B33: where memory is short the second server says plainly why it has no model, and the first goes on serving."""
    with conversation(tmp_path, default=" = 1\n") as first:
        first.open(URI, "name")
        with LspClient.scripted({"fail_load": MEMORY_SHORT}) as second:
            second.initialize(options={"notifications": {"status": True}})
            told = second.wait_for("foretype/status", lambda told: told["state"] == "failed")
            assert told["message"] == MEMORY_SHORT
            assert told["action"] == "Choose a smaller profile, or close what takes the memory."
            second.open(URI, "name")
            for trigger in (1, 2):
                assert second.inline(URI, 0, 4, trigger) == []
            assert texts(first.inline(URI, 0, 4)) == ["name = 1"]
            assert command(second, "status")["state"] == "failed"
            assert not second.notifications("window/showMessage")
            assert second.shutdown() == 0
        with LspClient.scripted({"fail_load": MEMORY_SHORT}) as third:
            third.initialize()
            third.wait_for("window/showMessage", lambda told: MEMORY_SHORT in told["message"] and told["type"] == 1)
        assert texts(first.inline(URI, 0, 4)) == ["name = 1"]


def test_alternatives_of_many_documents_end(tmp_path):
    """More alternatives than may wait are given up and heard of: the server does not stay busy for ever."""
    rules = [{"left": "x = ", "answers": ["1\n", "2\n", "3\n"]}]
    with conversation(tmp_path, options={"explicitDeadlineMs": 100}, rules=rules, token_ms=40) as client:
        for number in range(6):
            client.open(f"untitled:{number}.py", "x = ")
        for number in range(6):
            client.request_inline(f"untitled:{number}.py", 0, 4, trigger=1)
        client.wait_answered()
        until(lambda: command(client, "status")["state"] == "ready")


def test_an_endless_word_does_not_stop_the_server(talk):
    """B66: behind a word of 60,000 letters, which no answer was ever ready for, others are served as before."""
    client, _ = talk
    data = "a1b2c3d4e5f6" * 5_000
    for text in (f"{data}=return a", f"{data} ", data, f"{data[:-1]}."):
        client.open("untitled:data.txt", text, "plaintext")
        slow = client.request_inline("untitled:data.txt", 0, len(text), trigger=1)
        client.open(URI, "return a")
        assert texts(client.inline(URI, 0, 8)) == ["a + b"]
        client.wait_inline(slow)
    client.close_document("untitled:data.txt")


def test_memory_is_flat():
    """After two thousand questions the server holds hardly more than after one thousand, and only what is open."""
    first, second = run(2_000, parts=2)
    assert second.resident - first.resident < 4 * MIB
    assert second.documents == first.documents
    assert second.threads == first.threads

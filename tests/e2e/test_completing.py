"""Questions and answers over a real pipe: newest wins, deadlines, the cache, alternatives, the popup, commands."""

from __future__ import annotations

import time

import pytest

from tests.e2e.conversation import URI, command, conversation, record, texts, until
from tests.e2e.lsp_client import CAPABILITIES, LspClient

BODY = "def add(a, b):\n    "
ANSWER = "total = a + b\n    return total\n"


def type_text(client: LspClient, uri: str, version: int, line: int, column: int, text: str) -> None:
    client.change(uri, version, ((line, column), (line, column), text))


def test_only_the_newest_is_computed(tmp_path):
    """B17, B21: of thirty questions, each taking the one before back, few are begun and the newest is answered."""
    name = "the_quick_brown_fox_jumps_over"
    rules = [{"left": name[:n], "answer": f" = {n}\n"} for n in range(30, 0, -1)]
    with conversation(tmp_path, rules=rules, token_ms=20) as client:
        client.open(URI, "")
        asked = []
        for n in range(1, 31):
            type_text(client, URI, n + 1, 0, n - 1, name[n - 1])
            asked.append(client.request_inline(URI, 0, n))
            if n > 1:
                client.cancel(asked[-2])
            time.sleep(0.01)
        assert texts(client.wait_inline(asked[-1])) == [f"{name} = 30"]
        client.wait_answered()
        lines = until(lambda: (done := record(tmp_path)) and done[-1]["text"] == " = 30\n" and done)
        assert len(lines) < 30
        assert sum(line["cancelled"] is None for line in lines) < 10


def test_a_client_that_cancels_nothing_gets_null_for_the_older(tmp_path):
    """B17: the newest question for a document wins; the older one is answered null without being taken back."""
    rules = [{"left": "slow", "answer": "ly\n"}, {"left": "fast", "answer": "er\n"}]
    with conversation(tmp_path, rules=rules, prefill_ms=2000) as client:
        client.open(URI, "slow\nfast\n")
        older = client.request_inline(URI, 0, 4)
        until(lambda: command(client, "status")["state"] == "busy")
        newer = client.request_inline(URI, 1, 4)
        assert client.wait_inline(older) is None
        assert texts(client.wait_inline(newer)) == ["faster"]
        first, second = record(tmp_path)
        assert (first["cancelled"], second["cancelled"]) == (0, None)


@pytest.mark.parametrize("when", ["prefill", "decode"])
def test_a_cancelled_question_stops_the_engine(tmp_path, when):
    """B18: the engine stops within a step of being cancelled, and the next question is not delayed."""
    slow = {"prefill_ms": 5000} if when == "prefill" else {"token_ms": 100}
    rules = [{"left": "long", "answer": "word " * 512}, {"left": "next", "answer": " one\n"}]
    with conversation(tmp_path, rules=rules, **slow) as client:
        client.open(URI, "long\nnext")
        asked = client.request_inline(URI, 0, 4, trigger=1)
        until(lambda: command(client, "status")["state"] == "busy")
        client.cancel(asked)
        (line,) = until(lambda: record(tmp_path))
        assert line["cancelled"] is not None
        assert line["cancelled"] < 10
        until(lambda: command(client, "status")["state"] == "ready")
        assert client.answers(asked)[0]["error"]["code"] == -32800


def test_a_closed_document_stops_its_completion(tmp_path):
    """Closing answers the open question, stops the engine and has it forget the document."""
    with conversation(tmp_path, rules=[{"left": "long", "answer": "word " * 512}], token_ms=100) as client:
        client.open(URI, "long")
        asked = client.request_inline(URI, 0, 4)
        until(lambda: command(client, "status")["state"] == "busy")
        client.close_document(URI)
        assert client.wait_inline(asked) is None
        until(lambda: record(tmp_path))
        until(lambda: command(client, "status")["state"] == "ready")
        assert client.inline(URI, 0, 4) == []


def test_the_deadline_gives_the_finished_lines_and_the_rest_comes(tmp_path):
    """At the soft deadline the finished lines are shown; the longer text is announced and served from the cache."""
    answer = "one = 1\n    two = 2\n    three = 3\n"
    rules = [{"left": BODY, "answer": answer}]
    with conversation(tmp_path, options={"automaticDeadlineMs": 300}, rules=rules, token_ms=60) as client:
        client.open(URI, BODY)
        (first,) = texts(client.inline(URI, 1, 4))
        assert first in {"one = 1", "one = 1\n    two = 2"}
        client.wait_for("foretype/extended", lambda told: told == {"uri": URI, "version": 1})
        until(lambda: record(tmp_path))
        assert texts(client.inline(URI, 1, 4)) == ["one = 1\n    two = 2\n    three = 3"]
        assert len(record(tmp_path)) == 1


def test_typing_along_the_first_lines_keeps_the_rest_coming(tmp_path):
    """What is typed of a suggestion cut at the deadline is answered from the cache, and its run goes on to the end."""
    answer = "one = 1\n    two = 2\n    three = 3\n    four = 4\n"
    rules = [{"left": BODY, "answer": answer}]
    with conversation(tmp_path, options={"automaticDeadlineMs": 300}, rules=rules, token_ms=110) as client:
        client.open(URI, BODY)
        assert texts(client.inline(URI, 1, 4))
        type_text(client, URI, 2, 1, 4, "o")
        assert texts(client.inline(URI, 1, 5))
        (line,) = until(lambda: record(tmp_path))
        assert line["cancelled"] is None
        client.wait_for("foretype/extended", lambda told: told["uri"] == URI)
        whole = "one = 1\n    two = 2\n    three = 3\n    four = 4"
        assert [client_apply("    o", item) for item in client.inline(URI, 1, 5)] == ["    " + whole]


def test_nothing_finished_by_the_deadline_is_waited_for(tmp_path):
    """A slow first line comes late rather than never: the question stays open until it is finished."""
    rules = [{"left": BODY, "answer": ANSWER}]
    with conversation(tmp_path, options={"automaticDeadlineMs": 1}, rules=rules, prefill_ms=500) as client:
        client.open(URI, BODY)
        assert texts(client.inline(URI, 1, 4))[0].startswith("total = a + b")


def test_typing_along_asks_nothing_new(tmp_path):
    """B23: what agrees with the ghost keeps it without a run; B22: the range lets one letter more match."""
    with conversation(tmp_path, rules=[{"left": "return a", "answer": " + b\n"}]) as client:
        client.open(URI, "return a")
        assert texts(client.inline(URI, 0, 8)) == ["a + b"]
        for n, letter in enumerate(" + "):
            type_text(client, URI, n + 2, 0, 8 + n, letter)
            (item,) = client.inline(URI, 0, 9 + n)
            line = "return a + "[: 9 + n]
            assert client_apply(line, item) == "return a + b"
        assert len(record(tmp_path)) == 1


def client_apply(line: str, item: dict) -> str:
    start, end = item["range"]["start"]["character"], item["range"]["end"]["character"]
    return line[:start] + item["insertText"] + line[end:]


def test_typing_against_the_ghost_ends_it(tmp_path):
    """B23: after a contradiction nothing old is shown, and taking it back shows the ghost again without a run."""
    rules = [{"left": "return a", "answer": " + b\n"}]
    with conversation(tmp_path, rules=rules) as client:
        client.open(URI, "return a")
        assert texts(client.inline(URI, 0, 8)) == ["a + b"]
        type_text(client, URI, 2, 0, 8, " - ")
        assert client.inline(URI, 0, 11) == []
        client.change(URI, 3, ((0, 8), (0, 11), ""))
        assert texts(client.inline(URI, 0, 8)) == ["a + b"]
        assert [line["before"] for line in record(tmp_path)] == ["return a", "return a - "]


def test_a_change_makes_the_open_question_void(tmp_path):
    """B22: an answer for older text is not sent; the run goes on and the next question joins it."""
    rules = [{"left": "foob", "answer": "ar = 1\n"}]
    with conversation(tmp_path, rules=rules, prefill_ms=300, token_ms=30) as client:
        client.open(URI, "foob")
        older = client.request_inline(URI, 0, 4)
        until(lambda: command(client, "status")["state"] == "busy")
        time.sleep(0.35)  # the run has written its first token
        type_text(client, URI, 2, 0, 4, "a")
        newer = client.request_inline(URI, 0, 5)
        assert client.wait_inline(older) is None
        (item,) = client.wait_inline(newer)
        assert client_apply("fooba", item) == "foobar = 1"
        assert len(until(lambda: record(tmp_path))) == 1


def test_words_and_lines_may_be_accepted_one_by_one(tmp_path):
    """After a word or a line of it was accepted the rest is served, and after all of it what was prepared meanwhile."""
    rules = [{"left": BODY, "answer": ANSWER}, {"left": "return total", "answer": " * 2\n"}]
    with conversation(tmp_path, rules=rules) as client:
        client.open(URI, BODY)
        assert texts(client.inline(URI, 1, 4)) == ["total = a + b\n    return total"]
        type_text(client, URI, 2, 1, 4, "total")
        assert texts(client.inline(URI, 1, 9)) == ["total = a + b\n    return total"]
        type_text(client, URI, 3, 1, 9, " = a + b\n    ")
        assert texts(client.inline(URI, 2, 4)) == ["return total"]
        assert len(record(tmp_path)) == 1
        type_text(client, URI, 4, 2, 4, "return total")
        assert texts(client.inline(URI, 2, 16)) == ["total * 2"]


def test_the_follow_up_is_prepared_when_idle(tmp_path):
    """What comes after the suggestion is computed while nothing else happens, and is there once it is accepted."""
    rules = [{"left": "x = ", "answer": "1\n"}, {"left": "x = 1", "answer": "\ny = 2\n"}]
    with conversation(tmp_path, rules=rules) as client:
        client.open(URI, "x = ")
        (item,) = client.inline(URI, 0, 4)
        ahead = until(lambda: [line for line in all_lines(tmp_path) if line["ahead"]])
        assert [line["before"] for line in ahead] == ["x = 1"]
        command(client, "accept", *item["command"]["arguments"])
        type_text(client, URI, 2, 0, 4, "1")
        cached = command(client, "status")["counts"].get("cached", 0)
        assert texts(client.inline(URI, 0, 5)) == ["1\ny = 2"]
        told = command(client, "status")["counts"]
        assert (told["cached"], told["accepted"]) == (cached + 1, 1)


def all_lines(tmp_path):
    from tests.e2e.scripted_engine import completions

    return completions(tmp_path / "record.jsonl")


def test_nothing_to_say_is_said_once(tmp_path):
    """Where the model has nothing to add an automatic question asks it once; who asks explicitly has it tried again."""
    with conversation(tmp_path, default="") as client:
        client.open(URI, "x = ")
        for runs, trigger in ((1, 2), (1, 2), (2, 1)):
            assert client.inline(URI, 0, 4, trigger=trigger) == []
            assert len(record(tmp_path)) == runs


def test_who_asks_gets_up_to_three_different(tmp_path):
    """An explicit question gets the greedy answer first and different alternatives, an automatic one a single item."""
    rules = [{"left": "x = ", "answers": ["1\n", "2\n", "1\n"]}]
    with conversation(tmp_path, rules=rules) as client:
        client.open(URI, "x = ")
        assert texts(client.inline(URI, 0, 4)) == ["1"]
        assert texts(client.inline(URI, 0, 4, trigger=1)) == ["1", "2"]
        assert texts(client.inline(URI, 0, 4)) == ["1"]
    rules = [{"left": "x = ", "answers": ["1\n", "2\n", "3\n"]}]
    with conversation(tmp_path, rules=rules) as client:
        client.open(URI, "x = ")
        assert texts(client.inline(URI, 0, 4, trigger=1)) == ["1", "2", "3"]
        runs = len(record(tmp_path))
        assert texts(client.inline(URI, 0, 4, trigger=1)) == ["1", "2", "3"]
        assert len(record(tmp_path)) == runs


def test_the_popups_choice_is_kept(tmp_path):
    """B27: with a popup item selected the suggestion begins with it and takes its range, or is withheld."""
    with conversation(tmp_path, rules=[{"left": "text.format", "answer": "(name)\n"}]) as client:
        client.open(URI, "text.f")
        chosen = {"range": {"start": {"line": 0, "character": 5}, "end": {"line": 0, "character": 6}}, "text": "format"}
        (item,) = client.inline(URI, 0, 6, selected=chosen)
        assert (item["insertText"], item["range"]) == ("format(name)", chosen["range"])
        assert client.inline(URI, 0, 6, selected={**chosen, "text": "find"}) == []


def test_every_item_has_a_range_on_one_line(tmp_path):
    """B26, B27: ranges cover exactly what the text replaces; the closer that the editor put there is not doubled."""
    rules = [{"left": "foo(", "answer": "a)\nbar(1)\n"}]
    with conversation(tmp_path, rules=rules) as client:
        client.open(URI, "foo()")
        (item,) = client.inline(URI, 0, 4)
        assert client_apply("foo()", item) == "foo(a)\nbar(1)"
        assert item["range"]["start"]["line"] == item["range"]["end"]["line"] == 0


def test_questions_about_what_is_not_open(tmp_path):
    """B28: a file that exists, one that does not, a folder and nonsense get an empty list."""
    (tmp_path / "there.py").write_text("x = 1\n")
    with conversation(tmp_path, default="never") as client:
        for uri in (
            (tmp_path / "there.py").as_uri(),
            (tmp_path / "missing.py").as_uri(),
            tmp_path.as_uri(),
            "untitled:none",
            "",
            "no uri",
        ):
            assert client.inline(uri, 0, 0) == []
        assert record(tmp_path) == []


def test_a_question_may_overtake_its_change(tmp_path):
    """B10: a position that does not exist yet is waited for a moment; one that never comes gets an empty list."""
    with conversation(tmp_path, rules=[{"left": "foo.", "answer": "bar\n"}]) as client:
        client.open(URI, "foo")
        asked = client.request_inline(URI, 0, 4)
        type_text(client, URI, 2, 0, 3, ".")
        assert client.wait_inline(asked) in ([], None) or texts(client.wait_inline(asked)) == ["bar"]
        assert texts(client.inline(URI, 0, 4)) == ["bar"]
        assert client.inline(URI, 7, 0) == []


def test_loading_is_visible_and_answers_are_empty(tmp_path):
    """B32: while the model loads, questions get empty lists at once and percentages are shown; then answers come."""
    script = {"rules": [{"left": "x = ", "answer": "1\n"}], "load_ms": 1500}
    with LspClient.scripted(script) as client:
        client.initialize(options={"notifications": {"status": True}})
        client.open(URI, "x = ")
        assert client.inline(URI, 0, 4) == []
        cancelled = client.request_inline(URI, 0, 4)
        client.cancel(cancelled)
        client.wait_for("foretype/status", lambda told: told["message"].endswith("50 %"))
        client.wait_for("foretype/status", lambda told: told["state"] == "ready")
        assert texts(client.inline(URI, 0, 4)) == ["1"]
        kinds = [p["value"]["kind"] for p in client.notifications("$/progress")]
        assert (kinds[0], kinds[-1]) == ("begin", "end")
        client.wait_answered()
        assert client.notifications("window/showMessage") == []


def test_a_failed_load_names_the_fix_once(tmp_path):
    """A missing model is said once with what to do; restarting the engine tries again."""
    with LspClient.scripted({"fail_load": "a.gguf is not there; run `foretype pull cpu`"}) as client:
        client.initialize()
        client.open(URI, "x = ")
        client.wait_for("window/showMessage", lambda told: "run `foretype pull cpu`" in told["message"])
        assert client.inline(URI, 0, 4) == []
        told = command(client, "status")
        assert (told["state"], told["action"]) == ("failed", "Run `foretype pull` and restart the engine.")
        command(client, "restartEngine")
        until(lambda: command(client, "status")["state"] == "failed")
        assert len(client.notifications("window/showMessage")) == 1


def test_a_faulty_document_is_left_alone(tmp_path):
    """A document that makes the engine fail is quarantined after three tries; others go on; reopening forgives it."""
    other = "untitled:other.py"
    with conversation(tmp_path, rules=[{"left": "x = ", "answer": "1\n"}], fail_on="poison") as client:
        client.open(URI, "poison\nx = ")
        client.open(other, "x = ")
        for _ in range(5):
            assert client.inline(URI, 1, 4) == []
        assert sum("poison" in line["before"] for line in record(tmp_path)) == 3
        client.wait_for("foretype/status", lambda told: told["state"] == "degraded")
        assert texts(client.inline(other, 0, 4)) == ["1"]
        client.open(URI, "poison\nx = ", version=9)
        assert client.inline(URI, 1, 4) == []
        assert sum("poison" in line["before"] for line in record(tmp_path)) == 4
        assert "poison" not in client.stderr


def test_off_means_no_work(tmp_path):
    """Switched off, nothing is loaded and nothing computed; switched on while running, completions come."""
    with conversation(tmp_path, options={"enable": False}, rules=[{"left": "x = ", "answer": "1\n"}]) as client:
        client.configuration["foretype"] = {"enable": False}
        client.open(URI, "x = ")
        assert client.inline(URI, 0, 4) == []
        until(lambda: command(client, "status")["state"] == "off")
        client.configuration["foretype"] = {"enable": True}
        client.notify("workspace/didChangeConfiguration", {"settings": None})
        client.wait_for("foretype/status", lambda told: told["state"] == "ready")
        assert texts(client.inline(URI, 0, 4)) == ["1"]
        client.configuration["foretype"] = {"languages": {"python": False}}
        client.notify("workspace/didChangeConfiguration", {"settings": None})
        until(lambda: client.inline(URI, 0, 4, trigger=1) == [])
        client.configuration["foretype"] = {"enable": False}
        client.notify("workspace/didChangeConfiguration", {"settings": None})
        until(lambda: command(client, "status")["state"] == "off")
        runs = len(record(tmp_path))
        type_text(client, URI, 2, 0, 0, "y = 2; ")
        assert client.inline(URI, 0, 11, trigger=1) == []
        assert len(record(tmp_path)) == runs


def test_unknown_settings_are_told_once(tmp_path):
    """Names that do not exist are listed in one message, however often the settings come."""
    with conversation(tmp_path, options={"colour": "red", "speed": 11}) as client:
        client.wait_for("window/showMessage", lambda told: "unknown setting colour, speed" in told["message"])
        client.notify("workspace/didChangeConfiguration", {"settings": None})
        command(client, "status")
        assert len(client.notifications("window/showMessage")) == 1


def test_clients_without_ghost_text_get_a_popup_row(tmp_path):
    """Without inline completion the classic one is announced and gives one preselected row, to be asked for again."""
    able = {**CAPABILITIES, "textDocument": {"completion": {}}}
    with LspClient.scripted({"rules": [{"left": "def f():\n    ret", "answer": "urn 1\n"}]}) as client:
        result = client.initialize(able)
        assert "(" in result["capabilities"]["completionProvider"]["triggerCharacters"]
        client.open(URI, "def f():\n    ret")
        reply = until(lambda: (r := client.completion(URI, 1, 7))["items"] and r)
        assert reply["isIncomplete"] is True
        (row,) = reply["items"]
        assert (row["label"], row["filterText"], row["preselect"]) == ("return 1", "ret", True)
        assert row["textEdit"]["newText"] == "return 1"
        assert row["textEdit"]["range"]["start"] == {"line": 1, "character": 4}
        assert row["insertTextMode"] == 1
    with LspClient.scripted() as client:
        assert "completionProvider" not in client.initialize()["capabilities"]


def test_explaining_a_place(tmp_path):
    """The explanation has the prompt, what was used and refused with the rule, and the last completion."""
    (tmp_path / ".env").write_text("KEY=1")
    env, other = (tmp_path / ".env").as_uri(), (tmp_path / "other.py").as_uri()
    with conversation(tmp_path, roots=[tmp_path], rules=[{"left": "x = ", "answer": "1\n"}]) as client:
        client.open(env, "API_KEY=canary")
        client.open(other, "def other_name():\n    pass\n")
        uri = (tmp_path / "a.py").as_uri()
        client.open(uri, "x = ")
        client.inline(uri, 0, 4)
        told = command(client, "explain", uri, {"line": 0, "character": 4})
        assert [part["name"] for part in told["prompt"]][-2:] == ["prefix", "suffix"]
        assert [used["why"] for used in told["used"]] == ["open document"]
        assert any(".env" in refused["path"] and "secrets" in refused["rule"] for refused in told["refused"])
        assert told["last"]["text"] == "1\n"
        assert "canary" not in str(told)
        assert "problem" in command(client, "explain", env, {"line": 0, "character": 0})
        assert "problem" in command(client, "explain", "untitled:none", {"line": 0, "character": 0})


def test_clearing_the_cache(tmp_path):
    """After clearing, the same question is computed again and the engine was told to forget."""
    with conversation(tmp_path, rules=[{"left": "x = ", "answer": "1\n"}]) as client:
        client.open(URI, "x = ")
        client.inline(URI, 0, 4)
        command(client, "clearCache")
        assert texts(client.inline(URI, 0, 4)) == ["1"]
        assert len(record(tmp_path)) == 2

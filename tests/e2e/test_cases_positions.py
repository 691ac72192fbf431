"""Group A of the cases against the real server process: the mirror of documents, columns, and what is cut where.

The engine notes what it was asked, so its prefix and suffix show what the server believes the document to be.
"""

from __future__ import annotations

import json
import unicodedata
from itertools import pairwise

import pytest

from engine.catalog import models_dir
from tests.conftest import REAL
from tests.e2e.conversation import URI, command, conversation, record, texts, until
from tests.e2e.lsp_client import CAPABILITIES, LspClient, Refused, apply, split_lines, units

ENCODINGS = ("utf-8", "utf-16", "utf-32")
ANSWER = " = 1\n"
SCRIPTS = {
    "ascii": "Kyiv - ne",
    "cyrillic": "Київ — né",
    "greek": "λόγος (μm)",
    "hebrew": "שלום עולם",
    "arabic": "مرحبا بالعالم",
    "devanagari": "नमस्ते क्षि",
    "thai": "สวัสดี น้ำ",
    "korean": "한국어 가",
    "chinese": "你好，世界",
    "beyond the basic plane": "𝒳𝒴 𠀋 🦊",
    "joined": "👩‍👩‍👧 👍🏽 🇺🇦",
    "combining": "ne\u0301e z\u0335\u0321",
}
SEPARATORS = ("\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")


class Editor:
    """A client whose engine's view of a document can be asked for."""

    def __init__(self, client: LspClient, folder, encoding: str = "utf-16") -> None:
        self.client, self.folder, self.encoding = client, folder, encoding
        self._opened = 0
        self._lines: list[dict] = []  # of the engine's record, as far as it was read
        self._read = 0

    def open(self, text: str, language: str = "python") -> str:
        """Open a page in place of the one before, which would be context, and return its URI."""
        self.client.close_document(f"untitled:page-{self._opened}")
        self._opened += 1
        uri = f"untitled:page-{self._opened}"
        self.client.open(uri, text, language)
        return uri

    def items(self, uri: str, line: int, column: int):
        return self.client.inline(uri, line, column, trigger=1)

    def seen(self, uri: str, line: int, column: int) -> tuple[str, str]:
        """Return what the engine is given left and right of a position."""
        known = len(self.asked(uri))
        self.items(uri, line, column)
        last = until(lambda: self.asked(uri)[known:])[-1]
        return last["before"], last["after"]

    def mirror(self, uri: str) -> str:
        """Return the whole text as the server has it."""
        return "".join(self.seen(uri, 0, 0))

    def column(self, text: str) -> int:
        return units(text, self.encoding)

    def asked(self, uri: str) -> list[dict]:
        """Return what the engine was asked for a document, without what it did ahead and the alternatives."""
        path = self.folder / "record.jsonl"
        path.touch()
        with path.open("rb") as file:
            file.seek(self._read)
            whole = file.read().rpartition(b"\n")[0]
        self._read += len(whole) + 1 if whole else 0
        self._lines += [line for line in map(json.loads, whole.splitlines()) if line["event"] == "complete"]
        return [line for line in self._lines if line["path"] == uri and not (line["ahead"] or line["temperature"])]


@pytest.fixture(scope="module", params=ENCODINGS)
def editor(request, tmp_path_factory):
    """An editor for each encoding; the server behind it is shared by the tests here."""
    folder = tmp_path_factory.mktemp(request.param)
    with conversation(folder, encodings=[request.param], rules=RULES, default=ANSWER) as client:
        yield Editor(client, folder, request.param)


RULES = [
    {"left": "return a", "answer": " + b\n"},
    {"contains": 'print("', "answer": ' ok")'},
    {"left": "def f(x):\n    ", "answer": "y = x * 2\n    return y\n"},
]


def edit(start: tuple[int, int], new: str, end: tuple[int, int] | None = None):
    return start, end or start, new


def test_an_emoji_before_the_cursor(editor):
    """B01: edits and questions after an emoji land where the client means them."""
    uri = editor.open('face = "🦊"')
    fox = editor.column('face = "🦊')
    editor.client.change(uri, 2, edit((0, fox + 1), "."))
    editor.client.change(uri, 3, edit((0, fox), "x"))
    assert editor.seen(uri, 0, fox) == ('face = "🦊', 'x".')


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["utf-8"], "utf-8"),
        (["utf-32", "utf-16"], "utf-32"),
        (["utf-16", "utf-8"], "utf-16"),
        (["utf-7", "utf-8"], "utf-8"),
        ([], "utf-16"),
        (None, "utf-16"),
    ],
    ids=str,
)
def test_the_clients_choice_of_columns(offered, chosen, tmp_path):
    """B02: the first unit on the client's list that we know is announced and used for edits, questions and ranges."""
    with LspClient.scripted({"default": ANSWER, "record": str(tmp_path / "record.jsonl")}) as client:
        assert client.initialize(encodings=offered)["capabilities"]["positionEncoding"] == chosen
        client.open(URI, "öbc")
        client.change(URI, 2, edit((0, units("ö", chosen)), "a"))
        end = units("öabc", chosen)
        (item,) = client.inline_when_ready(URI, 0, end, trigger=1)
        assert record(tmp_path)[-1]["before"] == "öabc"
        assert item["range"]["start"]["character"] == 0
        assert item["range"]["end"]["character"] == end
        assert apply("öabc", item, chosen) == "öabc = 1"


@pytest.mark.parametrize("script", SCRIPTS)
def test_ranges_in_any_script(editor, script):
    """B03: an item's range lies in its line in the client's unit, and accepting it in a strict editor never throws."""
    for after in ("", '")', '")  # 🦊'):
        before = f'héad = "🦊"\nprint("{SCRIPTS[script]}'
        uri = editor.open(before + after)
        (item,) = editor.items(uri, 1, editor.column(before.partition("\n")[2]))
        accepted = apply(before + after, item, editor.encoding)
        assert accepted == before + ' ok")' + after.removeprefix('")')


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_column_inside_a_character_is_its_start(editor, script):
    """B12, B03: asked at every column of a line, also inside characters, nothing is cut in half."""
    text = f"a = 1\r\n{SCRIPTS[script]}\r\nb = 2\r\n"
    uri, line = editor.open(text, "plaintext"), SCRIPTS[script]
    for column in range(0, editor.column(line) + 2, 3):
        before, after = editor.seen(uri, 1, min(column, editor.column(line)))
        assert before + after == text.replace("\r\n", "\n")
        assert editor.column(before.rpartition("\n")[2]) <= column


def test_only_line_breaks_end_a_line(editor):
    """B04: form feeds and their like are characters of their line, wherever they stand and whatever is edited."""
    for mark in SEPARATORS:
        uri = editor.open(f"a = 1\n{mark}b = 2{mark}\nc = 3\n")
        editor.client.change(uri, 2, edit((2, 0), "# "))
        editor.client.change(uri, 3, edit((1, editor.column(mark)), "z"))
        editor.client.change(uri, 4, edit((0, 5), f"{mark}x"))
        assert editor.mirror(uri) == f"a = 1{mark}x\n{mark}zb = 2{mark}\n# c = 3\n", ascii(mark)
        text = f"# {mark} here\nreturn a"
        (item,) = editor.items(editor.open(text), 1, 8)
        assert apply(text, item, editor.encoding) == f"{text} + b"


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_clamping_never_eats_a_line_break(editor, ending):
    """B06: a column past the end of a line is its end, also between the halves of a CRLF; so for lines."""
    text = f"hé🦊lo{ending}world{ending}"
    line = editor.column("hé🦊lo")
    for past in (1, 2, 999):
        uri = editor.open(text)
        editor.client.change(uri, 2, edit((0, line), "", (0, line + past)), edit((1, 5), "", (1, 5 + past)))
        editor.client.change(uri, 3, edit((0, line + 1), "", (0, line + 1 + past)))
        assert editor.mirror(uri) == text.replace(ending, "\n")
    editor.client.change(uri, 4, edit((0, editor.column("hé")), "", (0, 999)))
    editor.client.change(uri, 5, edit((7, 3), "end"))
    assert editor.mirror(uri) == "hé\nworld\nend"


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_breaks_of_the_file(editor, ending):
    """B07: the twins of a file get the same prompt and suggestion; what is inserted has the file's own breaks."""
    before, after = "def f(x):\n    ", "\n\nprint(f(1))\n"
    text = (before + after).replace("\n", ending)
    uri = editor.open(text)
    assert editor.seen(uri, 1, 4) == (before, after)
    (item,) = editor.items(uri, 1, 4)
    accepted = apply(text, item, editor.encoding)
    assert accepted == (before + "y = x * 2\n    return y" + after).replace("\n", ending)
    start, end = ((item["range"][side]["line"], item["range"][side]["character"]) for side in ("start", "end"))
    editor.client.change(uri, 2, edit(start, item["insertText"], end))
    assert editor.mirror(uri) == accepted.replace(ending, "\n")
    # Between the halves of a CRLF nothing can be put.
    editor.client.change(uri, 3, edit((0, 10), "#"))
    assert editor.mirror(uri) == accepted.replace(ending, "\n").replace("def f(x):", "def f(x):#")


def test_mixed_line_breaks(editor):
    """B07: in a file of mixed breaks lines count as in editors, and the more frequent break is inserted."""
    text = "a = 1\r\nb = 2\rc = 3\nd = 4\r\ndef f(x):\r\n    "
    uri = editor.open(text)
    editor.client.change(uri, 2, edit((3, 0), "# "))
    changed = text.replace("d = 4", "# d = 4")
    assert editor.mirror(uri) == changed.replace("\r\n", "\n").replace("\r", "\n")
    (item,) = editor.items(uri, 5, 4)
    assert item["insertText"] == "y = x * 2\r\n    return y"
    assert apply(changed, item, editor.encoding) == changed + item["insertText"]


# What must be seen from outside one encoding only.


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """An editor that names no encoding."""
    folder = tmp_path_factory.mktemp("plain")
    with conversation(folder, rules=RULES, default=ANSWER) as client:
        yield Editor(client, folder)


LATE = {
    "an older version": [(3, "3"), (2, "2")],
    "the same version again": [(2, "2"), (2, "2")],
    "older, then the newest again": [(3, "3"), (2, "2"), (3, "3")],
    "the version it was opened with": [(1, "1")],
}


@pytest.mark.parametrize("changes", LATE.values(), ids=LATE)
def test_old_versions_are_refused_until_the_text_is_certain(plain, changes):
    """B09: an old or repeated version is logged once and silences the document; a full text or reopening heals it."""
    client, uri = plain.client, plain.open("x = 1\n")
    for version, letter in changes:
        client.change(uri, version, edit((0, 5), letter))
    client.change(uri, 4, edit((0, 5), "0"))  # a later version alone does not make it certain
    for trigger in (1, 2):
        assert client.inline(uri, 0, 5, trigger) == []
    assert not plain.asked(uri)
    told = command(client, "explain", uri, {"line": 0, "character": 5})
    assert "in doubt" in told["held_back"]
    until(lambda: f"{uri}: change refused" in client.stderr)
    assert client.stderr.count(f"{uri}: change refused") == 1

    client.change(uri, 5, "x = 15\n")
    assert plain.seen(uri, 0, 6) == ("x = 15", "\n")
    client.change(uri, 6, edit((0, 6), "0"))
    assert plain.mirror(uri) == "x = 150\n"
    client.change(uri, 6, edit((0, 6), "0"))
    assert plain.items(uri, 0, 6) == []
    client.close_document(uri)
    client.open(uri, "y = 2\n", version=1)
    assert plain.seen(uri, 0, 5) == ("y = 2", "\n")
    client.change(uri, 1, edit((0, 5), "1"))
    assert plain.items(uri, 0, 5) == []
    client.open(uri, "z = 3\n", version=1)  # opened twice: the second one counts
    assert plain.seen(uri, 0, 5) == ("z = 3", "\n")


OVERTAKING = {
    "a letter": ("foo", (0, 4), edit((0, 3), ".")),
    "half an emoji": ("foo", (0, 5), edit((0, 3), "🦊")),
    "a new line": ("foo", (1, 4), edit((0, 3), "\n    ")),
    "a new line after CRLF": ("foo\r\n", (2, 1), edit((1, 0), "\r\nb")),
    "a full text": ("", (2, 3), "a\nb\nfoo"),
}


@pytest.mark.parametrize("case", OVERTAKING.values(), ids=OVERTAKING)
def test_a_question_overtakes_its_change(plain, case):
    """B10: a position that is not there yet is no error; the question after it is answered."""
    text, (line, column), change = case
    uri = plain.open(text)
    early = plain.client.request_inline(uri, line, column, trigger=1)
    plain.client.change(uri, 2, change)
    plain.client.wait_inline(early)  # raises for an error
    assert texts(plain.items(uri, line, column))


CLUSTERS = {
    "family": "👩‍👩‍👧",
    "accent": "e\u0301",
    "flag": "🇺🇦 ",
    "skin tone": "👍🏽",
    "greek": "λ",
    "vowel sign": "कि",
}


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_long_documents_are_not_cut_inside_a_character(plain, cluster):
    """B12: wherever the excerpt of a long line begins and ends, it does so between whole characters."""
    half = cluster * (60_000 // len(cluster))
    uri = plain.open(half + " " + half, "plaintext")
    for shift in range(len(cluster)):
        before, after = plain.seen(uri, 0, plain.column("a" * shift + half))
        assert 30_000 < len(before) < len(half), "nothing was cut"
        assert 30_000 < len(after) < len(half), "nothing was cut"
        for side in (before, after):
            assert side.strip() == (cluster * side.count(cluster.strip()[-1])).strip()
        plain.client.change(uri, 2 + shift, edit((0, 0), "a"))


def test_long_documents_are_not_cut_inside_a_line_break(plain):
    """B12: a CRLF is never halved, whatever stands before it, and the excerpt begins with a whole line."""
    lines = [f"λ{number:05} = 'μm'\r\n" for number in range(9_000)]
    uri = plain.open("".join(lines))
    for shift in range(3):
        before, after = plain.seen(uri, 4_500, 0)
        assert "\r" not in before + after
        assert 30_000 < len(before) < 4_500 * 14, "nothing was cut"
        assert before.startswith("λ")
        assert after.endswith("'μm'\n")
        plain.client.change(uri, 2 + shift, edit((0, 0), "x"))


def test_every_column_of_a_label(plain):
    """B12: the Greek label, the family and the CRLF come whole to the engine from wherever one asks."""
    line = 'plt.xlabel("λ (μm)👩‍👩‍👧")'
    uri = plain.open(f"{line}\r\n{line}\r\n")
    for column in range(units(line, "utf-16") + 1):
        before, after = plain.seen(uri, 1, column)
        assert before + after == f"{line}\n{line}\n"
        after.encode()  # half a pair would raise


def test_byte_order_marks(tmp_path):
    """B13: positions follow the opened text; a mark, opened or read from disk, reaches neither engine nor client."""
    (tmp_path / "helpers.py").write_bytes(b"\xef\xbb\xbfdef helper_one():\r\n    return 1\r\n")
    main = tmp_path / "main.py"
    main.write_bytes(b"\xef\xbb\xbfimport helpers\nreturn a")
    rules = [{"left": "return a", "answer": "\ufeff + b\n"}, {"left": "return b", "answer": " + c\ufeff\n"}]
    with conversation(tmp_path, roots=[tmp_path], rules=rules) as client:
        for uri, text in ((main.as_uri(), "import helpers\nreturn b"), (URI, "\ufeffreturn b")):
            client.open(uri, text)
            last = split_lines(text)[-1]
            (item,) = client.inline(uri, text.count("\n"), len(last), trigger=1)
            assert apply(text, item) == f"{text} + c"
            asked = record(tmp_path)[-1]
            assert asked["before"] == text.removeprefix("\ufeff")
            client.change(uri, 2, edit((0, 0), "# x\n"), edit((text.count("\n") + 1, len(last)), " "))
            assert client.inline(uri, text.count("\n") + 1, len(last) + 1, trigger=1) is not None
        first = record(tmp_path)[0]
        assert any("helper_one" in buffer["text"] for buffer in first["buffers"])
        assert not any("\ufeff" in buffer["text"] for line in record(tmp_path) for buffer in line["buffers"])
        client.change(URI, 3, "\ufeffreturn a")
        assert client.inline(URI, 0, 9, trigger=1) == []  # the answer begins with a mark: no text is left of it
        assert record(tmp_path)[-1]["before"] == "return a"


def test_every_message_is_counted_in_bytes(tmp_path):
    """B15: answers, errors, explanations and notifications with wide characters are framed by bytes."""
    wide = "测试🙂"
    with conversation(tmp_path, options={wide: 1}, default=f" = '{wide}'\n") as client:
        client.wait_for("window/showMessage", lambda told: wide in told["message"])
        client.open(f"untitled:{wide}", f"{wide} = 1\n{wide}", wide)
        (item,) = client.inline(f"untitled:{wide}", 1, 4, trigger=1)
        assert item["insertText"] == f" = '{wide}'"
        told = command(client, "explain", f"untitled:{wide}", {"line": 1, "character": 4})
        assert told["prompt"][-2]["text"] == f"{wide} = 1\n{wide}"
        with pytest.raises(Refused, match=wide):
            client.ask(f"unknown/{wide}")
        client.send({"id": wide, "method": "shutdown"})
        assert client.wait(wide) is None
    with LspClient.scripted({"fail_load": f"{wide} is not there"}) as client:
        client.initialize(options={"notifications": {"status": True}})
        client.wait_for("foretype/status", lambda told: told["message"] == f"{wide} is not there")


def test_half_characters_of_an_engine_are_dropped(tmp_path):
    """B16: what an engine could not finish spelling is cut off, never shown as a replacement mark."""
    marks = ("\ufffd", "\ud83d", "\ude42", "\ufffd\ufffd\n")
    rules = [{"left": f"x{n} = ", "answer": f'"🙂{mark}'} for n, mark in enumerate(marks)]
    rules += [{"left": f"y{n} = ", "answer": f"{mark}1\n"} for n, mark in enumerate(marks)]
    with conversation(tmp_path, rules=rules) as client:
        for n in range(len(marks)):
            for name, shown in (("x", ['"🙂']), ("y", [])):
                client.open(URI, f"{name}{n} = ", "plaintext")
                assert texts(client.inline(URI, 0, 5, trigger=1)) == shown


def test_popup_rows_have_the_same_ranges(tmp_path):
    """B03, B07: a client without ghost text gets ranges and line breaks by the same rules, in its own unit."""
    able = {**CAPABILITIES, "textDocument": {"completion": {}}}
    before, after = 'g = "🦊"\r\ndef f(x):\r\n    né', "\r\n"
    with LspClient.scripted({"rules": [{"left": "né", "answer": "e = x\n    return née\n"}]}) as client:
        client.initialize(able, encodings=["utf-8"])
        client.open(URI, before + after)
        reply = until(lambda: (r := client.completion(URI, 2, 7))["items"] and r)
        accepted = apply(before + after, reply["items"][0], "utf-8")
        assert accepted == before + "e = x\r\n    return née" + after


# With the real model.


@pytest.mark.real
def test_no_half_characters_from_the_real_model(tmp_path):
    """B16: with the real 0.5B and any limit of tokens no replacement mark is made, shown, or drafted from a repeat."""
    if not (models_dir() / REAL).is_file():
        pytest.skip(f"{REAL} is not here; run `foretype pull cpu-small`")
    line = "# 你好，世界 🙂 — повтор: "
    text = f"{line}你好，世界 🙂 — повтор\n{line}"
    options = {"profile": "cpu-small", "notifications": {"status": True}, "contextTokens": 256}
    with LspClient.start("-m", "lsp_server", cwd=tmp_path) as client:
        client.configuration["foretype"] = {"maxTokens": 1}
        client.initialize(options=options)
        told = client.wait_for("foretype/status", lambda told: told["state"] in {"ready", "degraded", "failed"}, 120)
        assert told["state"] != "failed", told["message"]
        client.open(URI, text)
        written = []
        for most in (1, 2, 3, 6):
            client.configuration["foretype"] = {"maxTokens": most}
            client.notify("workspace/didChangeConfiguration", {"settings": None})
            command(client, "clearCache")
            shown = texts(client.inline(URI, 1, units(line, "utf-16")))
            where = {"line": 1, "character": units(line, "utf-16")}
            last = until(lambda: command(client, "explain", URI, where).get("last"))["text"]  # noqa: B023  (called here)
            written.append(last)
            for said in (*shown, last):
                assert "\ufffd" not in said
                assert not any(unicodedata.category(character) == "Cs" for character in said)
        assert written[-1].strip()
        assert all(longer.startswith(shorter) for shorter, longer in pairwise(written))

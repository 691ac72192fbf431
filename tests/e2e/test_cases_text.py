"""Group C of the cases: what is suggested, from the engine's raw answer to the text after accepting.

Every file has its cursor at `█`. The answers are what models wrote in the reports behind the cases, and relatives.
"""

from __future__ import annotations

import re
import time
from typing import NamedTuple

import pytest

from engine.catalog import models_dir
from engine.fim import FAMILIES
from engine.holes import exercism
from tests.conftest import REAL
from tests.e2e.conversation import command, conversation, record, texts, until
from tests.e2e.lsp_client import LspClient, apply, span, split_lines, units

CURSOR = "█"
SUFFIXES = {"python": "py", "javascript": "js", "typescript": "ts", "markdown": "md", "csharp": "cs", "rust": "rs"}
EXPLICIT, AUTOMATIC = 1, 2


class Case(NamedTuple):
    """A file with a cursor, what the engine writes there, and the file after accepting; None: nothing is shown."""

    name: str
    language: str
    file: str
    answer: str
    accepted: str | None

    @property
    def before(self) -> str:
        return self.file.partition(CURSOR)[0]


CASES = [
    # B34: the answer goes on with what stands right of the cursor.
    Case("B34 nothing new", "python", "total = comp█ute(items) + 1\n", "ute(items) + 1\n", None),
    Case("B34 one letter", "markdown", "Not █qual to zero\n", "equal to zero\n", "Not equal to zero\n"),
    Case(
        "B34 and more", "markdown", "Not long: █qual to zero\n", "equal to zero.\nNext\n", "Not long: equal to zero\n"
    ),
    Case("B34 arguments", "go", "x := add(█b, c)\n", "a, b, c)\n", "x := add(a, b, c)\n"),
    Case("B34 condition", "java", "if (a█ && b) {\n}\n", " > 0 && b) {\n", "if (a > 0 && b) {\n}\n"),
    Case("B34 element", "html", "<p>█</p>\n", "one</p>\n<p>two</p>\n", "<p>one</p>\n"),
    Case("B34 wide letters", "python", 'say("🦊 é█")  # ок\n', ' ü")  # ок\n', 'say("🦊 é ü")  # ок\n'),
    # B35: brackets and quotes that the editor has closed already.
    Case("B35 two", "python", "print(len(█))\n", "xs))\n", "print(len(xs))\n"),
    Case("B35 one of two", "python", "show(len(█))\n", "xs)\n", "show(len(xs))\n"),
    Case("B35 none of two", "python", "log(len(█))\n", "xs\n", "log(len(xs))\n"),
    Case(
        "B35 effect",
        "javascript",
        "useEffect(() => {█});\n",
        "\n  load();\n}, []);\n",
        "useEffect(() => {\n  load();\n}, []);\n",
    ),
    Case("B35 index", "python", "a[b[█]]\n", "i]]\n", "a[b[i]]\n"),
    Case("B35 index goes on", "python", "c[d[█]]\n", "i] + 1] = 2\n", "c[d[i] + 1] = 2\n"),
    Case("B35 index, one", "rust", "let y = e[f[█]];\n", "i]\n", "let y = e[f[i]];\n"),
    Case("B35 string", "csharp", 'var s = F("█");\n', 'a" + b);\n', 'var s = F("a" + b);\n'),
    Case("B35 left open", "typescript", "items.map(█)\n", "(x) => x + 1\n", "items.map((x) => x + 1)\n"),
    Case("B35 wide letters", "python", 'привет["🦊"].append(█)\n', "ключ)\n", 'привет["🦊"].append(ключ)\n'),
    # B36: lines that follow the cursor are written again.
    Case(
        "B36 the next line",
        "python",
        "def add(a, b):\n    █\n    return a + b\n\ndef sub(a, b):\n    return a - b\n",
        "return a + b\n\ndef sub(a, b):\n    return a - b\n",
        None,
    ),
    Case(
        "B36 something new before it",
        "python",
        "def mul(a, b):\n    █\n    return a * b\n\ndef div(a, b):\n    return a / b\n",
        "check(a, b)\n    return a * b\n\ndef div(a, b):\n    return a / b\n",
        "def mul(a, b):\n    check(a, b)\n    return a * b\n\ndef div(a, b):\n    return a / b\n",
    ),
    Case(
        "B36 fields",
        "rust",
        "struct P {\n    x: f64,\n    █\n    z: f64,\n}\n",
        "y: f64,\n    z: f64,\n}\n",
        "struct P {\n    x: f64,\n    y: f64,\n    z: f64,\n}\n",
    ),
    Case(
        "B36 imports",
        "go",
        'import (\n\t"fmt"\n\t█\n\t"sort"\n)\n',
        '"os"\n\t"sort"\n)\n',
        'import (\n\t"fmt"\n\t"os"\n\t"sort"\n)\n',
    ),
    Case(
        "B36 keys",
        "yaml",
        "jobs:\n  build:\n    █\n    steps:\n      - run: make\n",
        "runs-on: linux\n    steps:\n      - run: make\n",
        "jobs:\n  build:\n    runs-on: linux\n    steps:\n      - run: make\n",
    ),
    # B40: the indentation of the first line.
    Case(
        "B40 tabs",
        "python",
        "class A:\n\tdef f(self):\n\t\t█\n",
        "\t\treturn 1\n",
        "class A:\n\tdef f(self):\n\t\treturn 1\n",
    ),
    Case(
        "B40 a lone space after tabs",
        "python",
        "class B:\n\tdef f(self):\n\t\t█\n",
        " x = 1\n        return x\n",
        "class B:\n\tdef f(self):\n\t\tx = 1\n\t\treturn x\n",
    ),
    Case(
        "B40 column 4 of 8",
        "python",
        "class C:\n    def f(self):\n    █\n",
        "return 1\n",
        "class C:\n    def f(self):\n        return 1\n",
    ),
    Case(
        "B40 column 0 of an empty line",
        "python",
        "def g():\n    x = 1\n█\n    return x\n",
        "y = 2\n",
        "def g():\n    x = 1\n    y = 2\n    return x\n",
    ),
    Case(
        "B40 a file of both",
        "python",
        "def h():\n\treturn 1\n\n\ndef k():\n    if h():\n        █\n",
        "        x = 1\n\t\treturn x\n",
        "def h():\n\treturn 1\n\n\ndef k():\n    if h():\n        x = 1\n        return x\n",
    ),
    Case(
        "B40 another language",
        "go",
        "func f() {\n\tif x {█\n\t}\n}\n",
        "\n    y()\n    if z {\n      w()\n    }\n",
        "func f() {\n\tif x {\n\t\ty()\n\t\tif z {\n\t\t\tw()\n\t\t}\n\t}\n}\n",
    ),
    # B42: the model begins the word anew.
    Case("B42 import", "python", "import nump█\n", "numpy as np\n", "import numpy as np\n"),
    Case("B42 rest", "python", "import os, nump█\n", "y\n", "import os, numpy\n"),
    Case(
        "B42 attribute",
        "python",
        "self.configuration = 1\nprint(self.conf█\n",
        "self.configuration)\n",
        "self.configuration = 1\nprint(self.configuration)\n",
    ),
    Case("B42 numbers", "markdown", "Five, Four, Thre█\n", "Three, Two, One\n", "Five, Four, Three, Two, One\n"),
    Case("B42 statement", "java", "int f() {\n    ret█\n}\n", "return 1;\n", "int f() {\n    return 1;\n}\n"),
    Case(
        "B42 wide letters",
        "python",
        "переменная = 1\nprint(перем█\n",
        "переменная)\n",
        "переменная = 1\nprint(переменная)\n",
    ),
    # B45: the file itself holds such tokens.
    Case(
        "B45 the name",
        "python",
        'MID = "<|fim_middle|>"\nEND = "<|endoftext|>"\nprint(M█\n',
        "ID)\n",
        'MID = "<|fim_middle|>"\nEND = "<|endoftext|>"\nprint(MID)\n',
    ),
    Case(
        "B45 the literal",
        "javascript",
        'const MID = "<|fim_middle|>";\nconst AGAIN = █\n',
        '"<|fim_middle|>";\n',
        'const MID = "<|fim_middle|>";\nconst AGAIN = "<|fim_middle|>";\n',
    ),
    Case(
        "B45 below",
        "rust",
        'let pre = █;\nlet mid = "<fim_middle>";\n',
        '"<fim_prefix>";\n',
        'let pre = "<fim_prefix>";\nlet mid = "<fim_middle>";\n',
    ),
    # B46: strings that stop lists are known to hold.
    Case("B46 address", "python", 'BASE = "https:█\n', '//example.org/a"\n', 'BASE = "https://example.org/a"\n'),
    Case("B46 floor division", "python", "x = a /█/ b\n", "/ b\n", None),
    Case("B46 division", "python", "y = a █\n", "// b\n", "y = a // b\n"),
    Case(
        "B46 fence",
        "markdown",
        "# Use\n\n█\n",
        "```python\nprint(1)\n```\n\nThen `make`.\n",
        "# Use\n\n```python\nprint(1)\n```\n\nThen `make`.\n",
    ),
    Case(
        "B46 fence opened",
        "markdown",
        "Run it:\n\n```sh\n█\n```\n",
        "make  # once\n```\n",
        "Run it:\n\n```sh\nmake  # once\n```\n",
    ),
    Case("B46 path", "yaml", "path: █\n", "/usr/src/app.py\n", "path: /usr/src/app.py\n"),
    Case("B46 comment", "go", "n := 1 █\n", "// one\n", "n := 1 // one\n"),
    # B48: next to nothing before the cursor.
    Case("B48 blank lines", "python", "\n\n█", "\n\n\n", None),
    Case("B48 before an import", "python", "█import os\nimport sys\n", "import os\nimport sys\n", None),
    Case("B48 spaces only", "python", "   █  ", "x = 1\n", None),
    # B51: white space.
    Case("B51 before a method", "php", "$result = a()\n█->b();\n", "    ", None),
    Case("B51 four spaces", "python", "def blank():\n█\n", "    \n", None),
    Case("B51 line breaks", "java", "class D {\n    █\n}\n", "\n\n    \n", None),
    Case("B51 at the end", "python", "def end():\n    █\n", "return 1  \n\n    \n", "def end():\n    return 1\n"),
]


@pytest.fixture(scope="module", params=[("utf-16", "\n"), ("utf-8", "\r\n")], ids=["lf", "crlf"])
def server(request, tmp_path_factory):
    """A server that writes each case's answer, for files with one kind of line break and one unit of columns."""
    encoding, line_break = request.param
    rules = [{"left": case.before, "answer": case.answer} for case in CASES]
    assert len({case.before for case in CASES}) == len(CASES), "the engine could not tell two cases apart"
    rules.sort(key=lambda rule: -len(rule["left"]))
    with conversation(tmp_path_factory.mktemp("cases"), encodings=[encoding], rules=rules) as client:
        yield client, encoding, line_break


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_accepted_reads_right(server, case):
    """B34, B35, B36, B40, B42, B45, B46, B48, B51: after accepting, the whole file reads as a person would write it."""
    client, encoding, line_break = server
    file, before = case.file.replace("\n", line_break), case.before.replace("\n", line_break)
    text = file.replace(CURSOR, "")
    uri = f"untitled:{case.name} {len(before)}.{SUFFIXES.get(case.language, case.language)}"
    client.open(uri, text, case.language)
    line, column = cursor(before, encoding)
    unasked = [apply(text, item, encoding) for item in client.inline(uri, line, column, AUTOMATIC)]
    shown = [apply(text, item, encoding) for item in client.inline(uri, line, column, EXPLICIT)]
    assert shown == ([] if case.accepted is None else [case.accepted.replace("\n", line_break)])
    assert unasked in ([], shown)
    client.close_document(uri)


def cursor(before: str, encoding: str) -> tuple[int, int]:
    """Return where a client sees the end of a text."""
    lines = split_lines(before)
    return len(lines) - 1, units(lines[-1], encoding)


def test_no_part_of_a_control_token_is_shown(tmp_path):
    """B44: the tokens of every model family are cut off, whole or broken off anywhere, with all that follows."""
    named = {token for family in FAMILIES for token in (*family.needed, family.begin)} - {"", "<s>", "<filename>"}
    named |= {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|fim_pad|>", "<|cursor|>", "<EOT>", "<fim_pad>"}
    broken = [t[:n] for t in sorted(named) for n in sorted({6, len(t) // 2 + 3, len(t) - 1}) if 6 <= n < len(t)]
    wrong = [*broken, *(f"{t}more = 2\n" for t in sorted(named))]
    # The numbers tell the places apart; a file that names such a token may well be about it.
    rules = [{"left": f"({n})\nx = ", "answer": f"1{answer}"} for n, answer in enumerate(wrong)]
    with conversation(tmp_path, rules=rules) as client:
        for n, answer in enumerate(wrong):
            uri = f"untitled:{n}.ini"
            client.open(uri, f"({n})\nx = ", "ini")
            assert texts(client.inline(uri, 1, 4, EXPLICIT)) == ["1"], answer
            client.close_document(uri)


def test_a_file_with_control_tokens_reaches_the_engine_as_it_is(tmp_path):
    """B45: tokens in the file, in a neighbour and in a file name change neither the texts nor the place of the hole."""
    text = 'MID = "<|fim_middle|>"\nEND = "<|endoftext|>"\nprint(M'
    uri, other = "untitled:<|fim_suffix|>.py", "untitled:other <|file_sep|>.py"
    with conversation(tmp_path, rules=[{"left": "print(M", "answer": "ID)\n"}]) as client:
        client.open(other, 'MID = "<|fim_middle|>"\nPAD = "<|fim_pad|>"\n')
        client.open(uri, text + "\n")
        (item,) = client.inline(uri, 2, 7, EXPLICIT)
        assert apply(text + "\n", item) == text + "ID)\n"
        (asked, *_) = record(tmp_path)
        assert (asked["before"], asked["after"]) == (text, "\n")
        assert [b["text"] for b in asked["buffers"]] == ['MID = "<|fim_middle|>"\nPAD = "<|fim_pad|>"\n']


def test_an_empty_place_gives_no_error(tmp_path):
    """B48: in an empty file nothing is guessed unasked and nothing fails; who asks is answered."""
    with conversation(tmp_path, default="import os\n") as client:
        for n, text in enumerate(("", "\n", "\n\n", "\ufeff", "   ", "\t\n", "\r\n\r\n")):
            uri = f"untitled:new {n}.py"
            client.open(uri, text)
            line, column = cursor(text, "utf-16")
            assert client.inline(uri, line, column, AUTOMATIC) == []
            assert client.inline(uri, 0, 0, AUTOMATIC) == []
            for item in client.inline(uri, line, column, EXPLICIT):
                assert apply(text, item).count("import os") == 1
        assert "Traceback" not in client.stderr


def test_the_nearest_lines_reach_the_engine(tmp_path):
    """B49: of 40,000 lines the engine gets the ones around the cursor, exactly, and no more than it can use."""
    text, line = long_file()
    with conversation(tmp_path, rules=[{"left": "nearest_above_1 = ", "answer": "nearest_above_2\n"}]) as client:
        client.open("untitled:long.py", text)
        column = len("nearest_above_1 = ")
        (item,) = client.inline("untitled:long.py", line, column, EXPLICIT)
        assert item["range"] == span((line, column), (line, column))
        assert item["insertText"] == "nearest_above_2"
        (asked, *_) = record(tmp_path)
        for n in range(1, 6):
            assert f"nearest_above_{n}" in asked["before"]
            assert f"nearest_below_{n}" in asked["after"]
        assert asked["before"] + asked["after"] in text
        assert len(asked["before"] + asked["after"]) < len(text) / 4


def long_file() -> tuple[str, int]:
    """Return 40,000 lines and the number of the one to complete; the names next to it are nowhere else."""
    lines = [f"value_{n} = {n}" for n in range(40_000)]
    middle = 20_000
    for n in range(1, 6):
        lines[middle - n + 1] = f"nearest_above_{n} = {'' if n == 1 else n}"
        lines[middle + n] = f"nearest_below_{n} = {n}"
    return "\n".join(lines) + "\n", middle


def test_a_budget_that_cannot_work_is_refused_at_the_start(tmp_path):
    """B49: contexts and answers of no size are said in one message that names the setting; the rest goes on."""
    options = {"contextTokens": 10, "maxTokens": -1}
    with conversation(tmp_path, options=options, rules=[{"left": "x = ", "answer": "1\n"}]) as client:
        client.wait_for("window/showMessage", lambda told: "contextTokens" in told["message"])
        client.wait_for("window/showMessage", lambda told: "maxTokens" in told["message"])
        client.open("untitled:a.py", "x = ")
        assert texts(client.inline("untitled:a.py", 0, 4)) == ["1"]
        assert len(client.notifications("window/showMessage")) == 2


def test_a_file_is_not_its_own_neighbour(tmp_path):
    """B50: alone, a file has no context; its copy on disk, a link to it and another spelling of it are not used."""
    lines = [f"def function_{n}(): return {n}" for n in range(60)]
    root = tmp_path / "w"
    root.mkdir()
    file = root / "only one.py"
    file.write_text("stale_copy = 1\n" + "\n".join(lines))
    (root / "link.py").symlink_to(file)
    uri = file.as_uri()
    with conversation(tmp_path, roots=[root], rules=[{"left": "call = ", "answer": "function_1()\n"}]) as client:
        client.open(uri, "\n".join([*lines, "call = "]))
        assert texts(client.inline(uri, 60, 7)) == ["function_1()"]
        told = command(client, "explain", uri, {"line": 60, "character": 7})
        assert told["used"] == []
        assert [part["name"] for part in told["prompt"]] == ["prefix", "suffix"]
        client.open((root / "link.py").as_uri(), "as_link = 1\n")
        client.open(uri.replace("%20", " "), "\n".join([*lines, "again = 1", "call = "]))
        assert texts(client.inline(uri, 61, 7)) == ["function_1()"]
        first, second = record(tmp_path)
        assert first["buffers"] == []
        assert second["buffers"] == []
        assert "again = 1" in second["before"]
        assert "stale_copy" not in str(record(tmp_path))


def test_tab_stays_tab(tmp_path):
    """B51: where Tab would indent nothing comes unasked; who asks is answered."""
    rules = [{"left": "def f():\n", "answer": "    return 1\n"}, {"left": "r = a()\n", "answer": "b()\n"}]
    with conversation(tmp_path, rules=rules) as client:
        for n, (file, accepted) in enumerate(
            [
                ("def f():\n█\n", "def f():\n    return 1\n"),
                ("r = a()\n█c()\n", "r = a()\nb()\nc()\n"),
            ]
        ):
            uri, text = f"untitled:{n}.py", file.replace(CURSOR, "")
            client.open(uri, text)
            assert client.inline(uri, 1, 0, AUTOMATIC) == []
            assert [apply(text, item) for item in client.inline(uri, 1, 0, EXPLICIT)] == [accepted]


# -- with the real 0.5B


@pytest.fixture(scope="module")
def real():
    """The server as a person runs it, its smallest model loaded; it answers as soon as a line is finished."""
    if not (models_dir() / REAL).is_file():
        pytest.skip(f"{REAL} is not here; run `foretype pull cpu-small`")
    options = {"profile": "cpu-small", "explicitDeadlineMs": 1, "maxTokens": 24, "notifications": {"status": True}}
    with LspClient.start("-m", "lsp_server") as client:
        client.configuration["foretype"] = {}
        client.initialize(options=options)
        client.wait_for("foretype/status", lambda told: told["state"] in {"ready", "degraded"}, timeout=300)
        yield client


def accepted(client: LspClient, uri: str, file: str, language: str = "python") -> list[str]:
    """Open a file and return what it becomes by each suggestion for its cursor."""
    before, _, after = file.partition(CURSOR)
    client.open(uri, before + after, language)
    items = client.wait_inline(client.request_inline(uri, *cursor(before, "utf-16"), EXPLICIT), timeout=120)
    client.close_document(uri)
    return [apply(before + after, item) for item in items or []]


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "language", "file", "wanted"),
    [
        ("import", "python", "import nump█\n\nx = np.zeros(3)\n", "import numpy"),
        (
            "attribute",
            "python",
            "class A:\n    def __init__(self):\n        self.configuration = 1\n\n"
            "    def f(self):\n        return self.conf█\n",
            "return self.configuration\n",
        ),
        ("number", "python", "one, two, three, four = 1, 2, 3, 4\nprint(one, two, thre█, four)\n", "two, three, four)"),
    ],
)
def test_the_real_model_continues_a_word(real, name, language, file, wanted):
    """B42: `nump|`, `self.conf|` and `thre|` are continued, and the file reads right after accepting."""
    (first, *_) = accepted(real, f"untitled:{name}.py", file, language)
    assert wanted in first


@pytest.mark.real
def test_the_real_model_finds_a_name_among_control_tokens(real):
    """B45: with literal control tokens in the file, a neighbour and the file names, the name is still completed."""
    real.open("untitled:near <|fim_suffix|>.py", 'MID = "<|fim_middle|>"\nEND = "<|endoftext|>"\n')
    file = 'MID = "<|fim_middle|>"\nEND = "<|endoftext|>"\nprint(M█'
    (first, *_) = accepted(real, "untitled:<|fim_middle|>.py", file)
    assert "print(MID" in first
    real.close_document("untitled:near <|fim_suffix|>.py")


@pytest.mark.real
def test_the_real_prompt_keeps_what_is_near(real):
    """B49: the markers and the five lines on both sides survive in the prompt of a 40,000-line file."""
    text, line = long_file()
    real.open("untitled:long.py", text)
    column = len("nearest_above_1 = ")
    told = command(real, "explain", "untitled:long.py", {"line": line, "character": column})
    prompt = "".join(part["text"] for part in told["prompt"])
    for n in range(1, 6):
        assert f"nearest_above_{n}" in prompt
        assert f"nearest_below_{n}" in prompt
    for marker in ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"):
        assert prompt.count(marker) == 1
    assert prompt.rpartition("<|fim_middle|>")[2].endswith(
        "nearest_above_1 ="
    )  # the space is taken back, for the next token may begin with it
    assert sum(part["tokens"] for part in told["prompt"]) <= 1024
    (item, *_) = real.wait_inline(real.request_inline("untitled:long.py", line, column, EXPLICIT), timeout=120)
    assert item["range"] == span((line, column), (line, column))
    real.close_document("untitled:long.py")


@pytest.mark.real
def test_the_real_model_shows_no_control_token(real, data):
    """B44: no suggestion for real holes in six languages, greedy or sampled, has a control token or a part of one."""
    real.configuration["foretype"] = {"explicitDeadlineMs": 120_000}  # up to the alternatives' ends
    real.notify("workspace/didChangeConfiguration", {"settings": None})
    end, suggestions = time.monotonic() + 45, 0
    for n, hole in enumerate(mixed(exercism(data))):
        if n >= 6 and time.monotonic() > end:
            break
        uri = f"untitled:hole {n}/{hole.path}"
        real.open(uri, hole.before + hole.after, hole.language)
        place = cursor(hole.before, "utf-16")
        items = real.wait_inline(real.request_inline(uri, *place, EXPLICIT), timeout=240)
        real.close_document(uri)
        for item in items or []:
            suggestions += 1
            assert not re.search(r"<\||\|>|<｜|｜>|<fim|<file_|<repo|<EO|\ufffd", item["insertText"]), hole.name
            apply(hole.before + hole.after, item)
    assert suggestions >= 6
    real.configuration["foretype"] = {}
    real.notify("workspace/didChangeConfiguration", {"settings": None})
    until(lambda: command(real, "status")["state"] == "ready")


def mixed(holes: list) -> list:
    """Return the holes in an order in which any beginning sees all languages and kinds."""
    step = 617  # has no factor in common with their number
    return [holes[n * step % len(holes)] for n in range(len(holes))]

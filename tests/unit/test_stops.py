"""Where completions end: contexts are written as text with `|` at the cursor."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import StopMode
from engine.core import FinishReason
from engine.stops import StopContext, StopState, finish, scan

MODES: tuple[StopMode, ...] = ("block", "line", "free")


def at(text: str, mode: StopMode = "block", language: str = "") -> StopContext:
    before, after = text.split("|")
    return StopContext(before, after, mode, language)


def run(context: StopContext, generated: str, reason: FinishReason = "stop") -> tuple[str, str]:
    """Feed character by character; return the completion and why it ended."""
    for size in range(len(generated) + 1):
        state = scan(context, generated[:size])
        if state.end is not None:
            assert state.reason is not None
            return generated[: state.end], state.reason
    return generated[: finish(context, generated, reason)], reason


ADD = "def add(a, b):\n    |\n    return a + b\n\ndef sub(a, b):\n    return a - b\n"


# Line mode


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
def test_line_mode_ends_before_the_first_line_break(line_break):
    assert run(at("x = |\n", "line"), f"1{line_break}y = 2") == ("1", "line")


def test_line_mode_at_the_end_of_a_finished_line_is_empty():
    assert run(at("import os|\n", "line"), "\nimport sys\n") == ("", "line")


def test_line_mode_drops_the_rest_of_the_line_when_repeated():
    assert run(at("print(len(|))\n", "line"), "xs))\n") == ("xs", "suffix")


def test_line_mode_keeps_a_closer_that_the_completion_opened():
    assert run(at("foo(|)\n", "line"), "bar(x)\n") == ("bar(x)", "line")


def test_line_mode_does_not_repeat_the_next_line():
    assert run(at(ADD, "line"), "return a + b\n") == ("", "suffix")


def test_line_mode_holds_what_may_be_the_rest_of_the_line():
    context = at("print(len(|))\n", "line")
    assert [scan(context, text).shown for text in ("xs", "xs)", "xs))", "xs))[")] == [2, 2, 2, 5]


# Convergence to the text right of the cursor


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("text", "generated", "kept"),
    [
        ("total = comp|ute(items) + 1\nprint(total)\n", "ute(items) + 1\nprint(total)\n", ""),
        ("# Not |qual to zero\n", "equal to zero\nx = 1\n", "e"),
        ("print(len(|))\n", "xs))\nprint(2)\n", "xs"),
        ("a[b[|]]\n", "0]]\nc\n", "0"),
        ("foo(|)", "a, b)\nbar()\n", "a, b"),
        ("foo(|)\n", "a, b);\nbar()\n", "a, b"),
        ("if (check(|) {\n  go();\n}\n", "x)) {\n  go();\n}\n", "x)"),
        ('    println!("x:| ", x);\n    return x;\n', ' {} ", x);\n    return x;\n', " {}"),
    ],
)
def test_a_repeat_of_the_rest_of_the_line_is_cut(text, generated, kept, mode):
    assert run(at(text, mode), generated) == (kept, "suffix")


@pytest.mark.parametrize(
    ("text", "generated", "kept"),
    [
        (ADD, "return a + b\n\ndef sub(a, b):\n", ""),
        (ADD, "\n    return a + b\n\ndef sub(a, b):\n", ""),
        (ADD, "a = int(a)\n    return a + b\n\ndef sub", "a = int(a)"),
        (ADD, "a = int(a)\r\n    return a + b  \r\n", "a = int(a)"),
        (ADD, "a = int(a)\n\n    return a + b\n", "a = int(a)\n"),  # the model's own blank line stays
        ("def f():\n|    return total(a)\n", "    a = 1\n    return total(a)\n", "    a = 1\n"),
        ("def f():\n|\n\n    return total(a)\n", "    a = 1\n    return total(a)\n", "    a = 1"),
    ],
)
def test_lines_of_the_suffix_are_not_written_again(text, generated, kept):
    assert run(at(text), generated)[0] == kept
    assert run(at(text, "free"), generated) == (kept, "suffix")


def test_a_short_file_end_is_enough_evidence_when_it_all_reappears():
    assert run(at("|\nx = 1\n"), "x = 1\ny = 2\n") == ("", "suffix")


def test_a_short_line_alone_is_no_evidence():
    """Only 'x = 1' reappears; what follows differs, so it is the model's own."""
    context = at("|\nx = 1\ny = compute(x)\n", "free")
    assert run(context, "x = 1\nz = 3\nw = 4\n")[0] == "x = 1\nz = 3\nw = 4\n"


@pytest.mark.parametrize("line", ["pass", "}", "break"])
def test_a_plain_line_counts_only_with_what_follows_it(line):
    context = at(f"if a:\n    |\n    {line}\nreturn compute(a)\n", "free")
    generated = f"first(a)\n    {line}\nsecond(a)\n"
    expected = "first(a)" if line == "}" else generated  # a closer nobody opened is a repeat by itself
    assert run(context, generated)[0] == expected
    assert run(context, f"first(a)\n    {line}\nreturn compute(a)\n") == ("first(a)", "suffix")


def test_a_short_repeat_right_before_the_block_ends_is_cut():
    context = at("for x in xs:\n    if x:\n        |\n        break\nprint(xs)\n")
    assert run(context, "log(x)\n        break\n    return\n") == ("log(x)", "suffix")


def test_a_closer_that_the_completion_opened_is_not_taken_for_the_suffix():
    context = at("namespace n {\n\n|\n}\n")
    generated = "int f() {\n  return 1;\n}\n"
    assert run(context, generated) == (generated, "stop")
    assert run(context, generated + "}\n") == (generated.rstrip(), "suffix")


def test_no_suffix_no_repeat():
    assert run(at("x = |", "free"), "1\ny = 2\n") == ("1\ny = 2\n", "stop")


# Block mode


@pytest.mark.parametrize(
    ("text", "generated", "kept"),
    [
        ("def f():\n    |\n", "a = 1\n\n    return a\n\n\ndef g():\n", "a = 1\n\n    return a"),
        ("\tif a:\n\t\t|\n", "b()\n\t\tc()\n\td()\n", "b()\n\t\tc()"),
        ("    x = |\n", "[\n        1,\n    ]\n    y = 2\n", "[\n        1,\n    ]"),
        ("def f():\n|\n", "    a = 1\n    b = 2\nc = 3\n", "    a = 1\n    b = 2"),
        ("def f():\n|    return 1\n", "    a = 1\nb = 2\n", "    a = 1\n"),
        ("    return x|\n", "\n\ndef g():\n", ""),
    ],
)
def test_block_ends_before_a_dedent(text, generated, kept):
    assert run(at(text, language="python"), generated) == (kept, "block")


def test_block_of_the_cursors_line_ends_with_its_closer():
    generated = "a) {\n    return a;\n  } else {\n    return b;\n  }\n  more();\n"
    assert run(at("  if (|\n"), generated) == (generated[: generated.index("\n  more")], "block")


@pytest.mark.parametrize("end", ["})", "});", "}),"])
def test_a_closer_that_already_stands_there_is_not_doubled(end):
    """Balance counts for more than a trailing ';'."""
    assert run(at("useEffect(() => {|\n})\n"), f"\n  load();\n{end}\n") == ("\n  load();", "suffix")
    assert run(at("useEffect(() => {|})\n"), f"\n  load();\n{end}\n") == ("\n  load();\n", "suffix")


def test_a_body_that_already_stands_there_is_not_doubled():
    """The cursor's line opens a block whose short body and closer follow it."""
    context = at("    if| \n        go();\n    }\n    done();\n")
    assert run(context, " (a) {\n        go();\n    }\n") == (" (a) {", "suffix")


def test_python_header_ends_before_the_line_after_its_body():
    generated = "b):\n    if a:\n        return b\n    else:\n        return a\n\nprint(f(1, 2))\n"
    context = at("def f(a, |\n", language="python")
    assert run(context, generated) == (generated[: generated.index("\n\nprint")], "block")


def test_python_signature_over_several_lines_goes_on_with_its_body():
    generated = "\n    a,\n):\n    return a\n\n\nx = 1\n"
    assert run(at("def f(|\n"), generated) == (generated[: generated.index("\n\n\nx")], "block")


@pytest.mark.parametrize(
    ("generated", "kept"),
    [
        ("import os\nimport sys\n\nx = 1\n\ndef f():\n", "import os\nimport sys\n\nx = 1"),
        ("import os\n\ndefault = 1\n", "import os\n\ndefault = 1\n"),
        ("x = 1\n\n\ny = 2\n", "x = 1"),
        ("def f():\n    return 1\n\nx = f()\n", "def f():\n    return 1"),
        ("try:\n    f()\n\nexcept E:\n    g()\n", "try:\n    f()\n\nexcept E:\n    g()\n"),
        ("int f() {\n  return 1;\n}\n\nint g() {\n", "int f() {\n  return 1;\n}"),
    ],
)
def test_top_level_ends_with_its_unit(generated, kept):
    assert run(at("\n|\n"), generated)[0] == kept


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("text", "generated"),
    [
        ('BASE = "https:|"\n', "//example.org/a"),
        ("Run:\n\n|\n", "```sh\nmake\n```"),
        ("x = a /|/ b\n", "/ 2 /"),
    ],
)
def test_common_strings_are_no_stops(text, generated, mode):
    expected = generated.split("\n", maxsplit=1)[0] if mode == "line" else generated
    assert run(at(text, mode), generated)[0] == expected


# Runaways


def test_the_same_line_four_times_is_cut_after_the_first():
    assert run(at("|", "free"), "stack.pop()\n" * 5) == ("stack.pop()", "block")
    assert run(at("    |\n"), "a = b\n" + "    refresh(a)\n" * 4) == ("a = b\n    refresh(a)", "block")


def test_a_cycle_of_lines_is_cut_after_the_first():
    cycle = "if ready():\n    launch()\n\n"
    assert run(at("|", "free"), cycle * 4) == (cycle.rstrip(), "block")


@pytest.mark.parametrize(
    "table",
    ["".join(f'    ("key{n}", {n}),\n' for n in range(9)), "    [0, 0, 0],\n" * 6, "}\n" * 6],
)
def test_tables_and_closers_are_no_runaways(table):
    assert run(at("|", "free"), table) == (table, "stop")


# Ends from outside


def test_whitespace_alone_becomes_empty_only_at_the_end():
    context = at("result = a()\n|->b()\n", "free")
    assert scan(context, "\n    ") == StopState(0)
    assert finish(context, "\n    ", "stop") == 0


def test_an_end_token_is_trusted():
    assert run(at(ADD), "a = 1\n    ret") == ("a = 1\n    ret", "stop")
    assert run(at("foo(|)\n"), "bar(x)") == ("bar(x)", "stop")


@pytest.mark.parametrize(
    ("text", "generated", "kept"),
    [
        ("print(len(|))\n", "xs))", "xs"),
        ("useEffect(() => {|})\n", "\n  load();\n})", "\n  load();\n"),
        (ADD, "a = 1\n    return a + b", "a = 1"),
        ("total = comp|ute(items) + 1\n", "ute(items) + 1", ""),
    ],
)
def test_an_end_token_after_a_certain_repeat_is_not(text, generated, kept):
    assert run(at(text), generated) == (kept, "stop")


def test_the_token_limit_inside_a_repeat_cuts_it():
    assert run(at(ADD), "a = 1\n    return ", "length") == ("a = 1", "length")
    assert run(at(ADD), "a = 1\n    ret", "length") == ("a = 1\n    ret", "length")


# Streaming


def test_a_line_break_is_held_until_the_next_line_shows_what_it_is():
    context = at("def f():\n    |\n")
    assert [scan(context, "a = 1\n    b"[:size]).shown for size in (4, 5, 6, 10, 11)] == [3, 5, 5, 5, 11]


LINES = [
    "",
    "x = 1",
    "pass",
    "return total",
    "if (a) {",
    "}",
    "})",
    "} else {",
    "foo(a, [",
    "])",
    "def f(a):",
    "else:",
    "):",
    "for item in items: # (",
    'print("(")',
    "don't",
]
texts = st.lists(
    st.tuples(st.sampled_from(["", "    ", "        ", "\t", "  "]), st.sampled_from(LINES)), max_size=6
).map(lambda lines: "\n".join(indent + line for indent, line in lines))
breaks = st.sampled_from(["\n", "\r\n", "\r"])


@st.composite
def streams(draw) -> tuple[StopContext, str, int]:
    """A context, and text that often runs into what stands right of the cursor."""
    before, after, own = draw(texts), draw(texts), draw(texts)
    cut = draw(st.integers(0, len(before)))
    mode = draw(st.sampled_from(MODES))
    language = draw(st.sampled_from(["python", "rust"]))
    overlap = after[: draw(st.integers(0, len(after)))]
    repeat = draw(st.integers(1, 4))
    own = (own + draw(st.sampled_from(["", "\n", " "]))) * repeat + overlap + draw(texts)
    context = StopContext(before[:cut], after.replace("\n", draw(breaks)), mode, language)
    return context, own.replace("\n", draw(breaks)), draw(st.integers(0, 2**16))


@settings(max_examples=100, deadline=None, database=None)
@given(streams())
def test_pieces_do_not_matter_and_nothing_shown_is_taken_back(stream):
    context, generated, seed = stream
    shown, ends = 0, dict[tuple[int, FinishReason | None], int]()
    for size in range(len(generated) + 1):
        state = scan(context, generated[:size])
        assert shown <= state.shown <= size
        shown = state.shown
        for reason in ("stop", "length"):
            assert state.shown <= finish(context, generated[:size], reason) <= size
        if state.end is not None:
            ends[state.end, state.reason] = size
            assert state.shown == state.end
    assert len(ends) <= 1
    pieces, size, state = random.Random(seed), 0, StopState(0)
    while size < len(generated) and state.end is None:
        size = min(len(generated), size + pieces.randint(1, 12))
        state = scan(context, generated[:size])
    assert ends.keys() == ({(state.end, state.reason)} if state.end is not None else set())


@settings(max_examples=100, deadline=None, database=None)
@given(texts, texts, st.sampled_from(MODES))
def test_an_end_token_after_own_text_changes_nothing(before, after, mode):
    assert finish(StopContext(before + "\n", after, mode), "unheard_of(1)", "stop") == len("unheard_of(1)")

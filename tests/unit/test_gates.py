"""Which requests are held back, and which answers shown: buffers are written as text with `|` at the cursor."""

import pytest

from lsp_server.gates import Trigger, held_back, worth_showing
from lsp_server.place import Place, Suggestion

AUTOMATIC, EXPLICIT = Trigger(automatic=True), Trigger(automatic=False)

EMPTY = "the document is empty"
NOTHING_BEFORE = "nothing stands before the cursor"
LONG_LINE = "the line is longer than 2,000 characters"
HELD_KEY = "the same key was pressed again and again"
BLANK_LINES = "the cursor is below many blank lines"
INSIDE_WORD = "the cursor is inside a word"
BEFORE_CODE = "the cursor is in the indentation of existing code"
NOT_INDENTED = "the line is not indented yet"
MUCH_RIGHT = "there is much text right of the cursor"
POPUP = "the popup's item stands in the middle of a word"


def at(text: str, language: str = "python") -> Place:
    before, after = text.split("|", 1)
    return Place("file", language, before, after, before.count("\n"), len(before.rpartition("\n")[2]))


def reason(text: str, language: str = "python") -> str | None:
    return held_back(at(text, language), AUTOMATIC)


# Nothing to go by


@pytest.mark.parametrize("text", ["|", "   |  ", "\n\n|", "\n  \n|\n\t\n"])
def test_an_empty_document_gets_no_guess(text):
    """Without any text an automatic request stays unanswered (B48)."""
    assert reason(text) == EMPTY


@pytest.mark.parametrize("text", ["|import os\n", "|\nimport os\n", "\n  |\n\nimport os\n"])
def test_nothing_above_gets_no_guess(text):
    """At the head of a file, with nothing before the cursor, an automatic request stays unanswered (B48)."""
    assert reason(text) == NOTHING_BEFORE


def test_the_first_letters_of_a_file_are_completed():
    """A word that was begun on the first line is something to go by."""
    assert reason("im|\n") is None


# At the edge of a line


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("result = a()\n|->b()", "php"),
        ("result = a()\n    |->b()", "php"),
        ("def f():\n|    return 1\n", "python"),
        ("def f():\n    |return 1\n", "python"),
        ("def f():\n  |  # why\n    return 1\n", "python"),
        ("if (a) {\n\t|b();\n}\n", "c"),
        ("const a = f(\n  |b,\n)\n", "typescript"),
        ("if (a) {\n  b();\n|}\n", "javascript"),
        ("key: 1\n|other: 2\n", "yaml"),
    ],
)
def test_indentation_before_code_belongs_to_tab(text, language):
    """Where Tab would move code that is there, no suggestion takes the key away (B51)."""
    assert reason(text, language) == BEFORE_CODE


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("f(\n    |)\n", "python"),
        ("a = [\n    1,\n    |]\n", "python"),
        ("function f() {\n    |}\n", "javascript"),
        ("g(() => {\n  |});\n", "typescript"),
    ],
)
def test_a_closer_pushed_down_by_enter_does_not_count_as_code(text, language):
    """Inside a pair that Enter has opened the next element is due, although its closer stands on the same line."""
    assert reason(text, language) is None


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("def f(x):\n    |\n", "python"),
        ("def f(x):\n    y = x\n    |\n    return y\n", "python"),
        ("def f(x):\n    return x\n\n\n|\n", "python"),
        ("def f(x):\n    return x\n|", "python"),
        ("int f(int x) {\n    |\n}\n", "c"),
        ("fn f() {\n    let a = 1;\n    |\n}\n", "rust"),
        ("# Steps:\n|\n", "python"),
        ("// what to do\n|\n", "javascript"),
        ("We need this:\n|\n", "markdown"),
        ("x = 1  # then\n|\n", "python"),
    ],
)
def test_a_blank_line_in_its_place_is_completed(text, language):
    """The blank line after Enter is where suggestions are wanted most."""
    assert reason(text, language) is None


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("def f(x):\n|\n", "python"),
        ("def f(x):  # comment\n|\n", "python"),
        ("class A:\n    def f(self):\n    |\n", "python"),
        ("def f(x):\n|\n    return x\n", "python"),
        ("if (a) {\n|\n}\n", "c"),
        ("if (a) { // why\n|\n}\n", "c"),
        ("const f = () =>\n|\n", "javascript"),
        ("\tfoo(\n\t|\n\t)\n", "go"),
        ("if x then\n|\nend\n", "lua"),
        ("list.each do\n|\nend\n", "ruby"),
    ],
)
def test_a_blank_line_that_must_be_indented_belongs_to_tab(text, language):
    """Below the head of a block, and no deeper than it, Tab is pressed to indent (B51)."""
    assert reason(text, language) == NOT_INDENTED


# In the middle of a line


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("total = comp|ute(items) + 1", "python"),
        ("a = x_|y", "python"),
        ("a = x|_y", "python"),
        ("naïve = né|vé", "python"),
        ("# 你|好", "python"),
        ("cafe\u0301|s = 1", "python"),
        ("echo $|HOME", "shellscript"),
        ("margin-|top: 0", "css"),
    ],
)
def test_the_middle_of_a_word_is_left_alone(text, language):
    """With word characters on both sides an automatic request stays unanswered."""
    assert reason(text, language) == INSIDE_WORD


@pytest.mark.parametrize(
    ("text", "language"),
    [("import nump|", "python"), ("self.conf|)", "python"), ("a -|b", "c"), ("(|x)", "c"), ("😀|x", "python")],
)
def test_the_end_of_a_word_and_the_place_before_one_are_completed(text, language):
    assert reason(text, language) is None


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("foo(| first, second)", "python"),
        ('print("hello |world and more")', "python"),
        ("x = a |// something_else", "python"),
        ("x = |--remaining_items", "c"),
        ("url = |'https://host/path'", "javascript"),
        ("a { |#identifier }", "css"),
    ],
)
def test_much_code_right_of_the_cursor_holds_back(text, language):
    """More than eight characters of code right of the cursor leave no room for ghost text."""
    assert reason(text, language) == MUCH_RIGHT


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("foo(|)", "python"),
        ("foo(|, b)", "python"),
        ("foo([{'a': \"|\"}]);", "javascript"),
        ("foo(|))))))))))))", "javascript"),
        ("x = |          ", "python"),
        ("x = |  # a comment of some length", "python"),
        ("f(|)  // a comment of some length", "go"),
        ("f(|)/* a comment of some length */", "c"),
        ("f(|) -- a comment of some length", "lua"),
        ("(f |) ; a comment of some length", "clojure"),
        ("x = |% a comment of some length", "matlab"),
        ("<b>|<!-- a comment of some length -->", "html"),
        ("x(|12345678)", "python"),
    ],
)
def test_closers_comments_and_little_code_do_not_hold_back(text, language):
    """What closes, ends or explains a line is not much text (B27)."""
    assert reason(text, language) is None


def test_one_character_more_is_too_much():
    assert reason("x(|123456789)") == MUCH_RIGHT


# Machines and fists


def test_a_minified_line_is_left_alone():
    assert reason("a=1;" * 600 + "b=|", "javascript") == LONG_LINE
    assert reason("x = 1\nb = |" + " " * 2_100) == LONG_LINE
    assert reason("a=1;" * 400 + "b=|", "javascript") is None
    assert reason("x = 1\n" * 600 + "b = |") is None


@pytest.mark.parametrize("key", list("x0=-# \t"))
def test_a_held_key_starts_no_work(key):
    """Twenty times the same key is no text that one could continue."""
    assert reason(f"a = 1\nb({key * 20}|") == HELD_KEY
    assert reason(f"a = 1\nb({key * 19}|") is None


def test_a_held_space_bar_is_told_from_deep_indentation():
    """Blanks that begin a line are indentation as long as the line above could explain them."""
    assert reason("a = 1\n" + " " * 30 + "|") == HELD_KEY
    deep = " " * 24
    assert reason(f"{deep}a = 1\n{deep}|") is None
    assert reason(f"{deep}if a:\n{deep}    |") is None
    assert reason("result = some_function(a,\n" + " " * 23 + "|") is None


@pytest.mark.parametrize("line", ["\n", "    \n"])
def test_a_held_enter_starts_no_work(line):
    """Twenty blank lines are a held key, whether the editor indents them or not."""
    assert reason("a = 1\n" + line * 20 + "|") == BLANK_LINES
    assert reason("a = 1\n" + line * 12 + "|") is None


# Who asks


@pytest.mark.parametrize(
    "text",
    [
        "|",
        "\n|import os",
        "a()\n|->b()",
        "comp|ute()",
        "f(| first, second)",
        "a" * 40 + "|",
        "def f():\n|",
        "a" * 3000 + "|",
    ],
)
def test_one_who_asks_is_answered(text):
    """An explicit request passes all guesses about what is wanted (B51)."""
    assert held_back(at(text), AUTOMATIC) is not None
    assert held_back(at(text), EXPLICIT) is None


@pytest.mark.parametrize("automatic", [True, False])
@pytest.mark.parametrize("text", ["format|ted", "items()|ems"])
def test_a_popup_item_inside_a_word_owns_it(text, automatic):
    """A popup's item that stands against the rest of a word leaves nothing to continue (B27)."""
    assert held_back(at(text), Trigger(automatic, popup=True)) == POPUP


def test_a_popup_item_at_a_words_end_is_continued():
    assert held_back(at("format|"), Trigger(automatic=True, popup=True)) is None
    assert held_back(at("a.format|(b)"), Trigger(automatic=True, popup=True)) is None


# Answers


@pytest.mark.parametrize("trigger", [AUTOMATIC, EXPLICIT])
@pytest.mark.parametrize("text", ["", " ", "    ", "\t\n", "\n\n    "])
def test_blank_answers_are_not_shown(text, trigger):
    """An answer of whitespace only is none, whoever asked (B51)."""
    assert not worth_showing(at("x = 1\n|\n"), Suggestion(text), trigger)


def test_an_answer_that_changes_nothing_is_not_shown():
    assert not worth_showing(at("f(|))"), Suggestion("))", replaces=2), AUTOMATIC)
    assert worth_showing(at("f(|))"), Suggestion("x))", replaces=2), AUTOMATIC)


def test_a_popup_row_needs_a_first_line():
    """The classic popup shows the first line only, so a blank one is not offered there."""
    below = Suggestion("\n    return 1")
    assert worth_showing(at("def f():|"), below, AUTOMATIC)
    assert not worth_showing(at("def f():|"), below, Trigger(automatic=True, inline=False))
    assert worth_showing(at("def f():|"), Suggestion(" pass\n"), Trigger(automatic=True, inline=False))


def test_beside_a_popup_nothing_more_is_replaced():
    """With a popup's item selected the range is the item's own: an answer that needs a wider one is withheld (B27)."""
    place, trigger = at("x.format|)"), Trigger(automatic=True, popup=True)
    assert worth_showing(place, Suggestion("(a"), trigger)
    assert not worth_showing(place, Suggestion("(a))", replaces=1), trigger)

"""How the lines around a place are indented."""

from __future__ import annotations

import pytest

from lsp_server.postprocess.indentation import Habit, habit_near, indent_of, lines_above, lines_below, width_of
from tests.unit.test_postprocess import at


@pytest.mark.parametrize(
    ("text", "habit"),
    [
        ("█", None),
        ("x\ny█\n", None),
        ("if x:\n    y\n█\n", Habit(False, 4)),
        ("if x:\n  y\n█\n", Habit(False, 2)),
        ("if x:\n\ty\n█\n", Habit(True)),
        ("█\nif x:\n\ty\n", Habit(True)),
        ("if x:\n   █", Habit(False, 0)),
        ("/**\n * a\n */\nf {\n    g\n}\n█", Habit(False, 4)),
        ("a\n  b\n    c\n        d\n  e\n    f█", Habit(False, 2)),
        ("a\n\tb\nc\n    d\n    █", Habit(False, 4)),
        ("a\n    b\nc\n\td\n\t█", Habit(True)),
        ("a\n\t  b\nc\n    d\n█", Habit(False, 4)),
    ],
)
def test_habits(text, habit):
    """The nearest indented line tells tabs from spaces, the commonest step how many (B40)."""
    assert habit_near(at(text)) == habit


def test_languages_of_tabs():
    """Go and makefiles use tabs even where no line shows it."""
    assert habit_near(at("█", "go")) == Habit(True)
    assert habit_near(at("if x {\n    y\n█", "go")) == Habit(False, 4)


def test_lines_around():
    """Lines are walked away from the cursor, blank ones and the cursor's own left out."""
    place = at("a\n\n b\nc█d\n\ne\n \nf")
    assert list(lines_above(place)) == [" b", "a"]
    assert list(lines_below(place)) == ["e", "f"]
    assert list(lines_above(at("x█"))) == list(lines_below(at("█y"))) == []


def test_widths():
    """A tab counts as four columns, and a width is spelt as the habit has it."""
    assert indent_of("\t  x ") == "\t  "
    assert width_of("\t  x") == 6
    assert Habit(True).spell(6) == "\t  "
    assert Habit(False, 2).spell(6) == "      "

"""Brackets are counted in code only: strings and comments of each family of languages are told apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.postprocess.brackets import Scan, scan


@pytest.mark.parametrize(
    ("language", "text", "stack"),
    [
        ("python", "f(a[1], {", "({"),
        ("python", "'(' + \"[\" # {", "#"),
        ("python", "'(' # {\n[", "["),
        ("python", "rb'(' f'{'", ""),
        ("python", "x = don't", ""),
        ("python", "'it\\'s ('", ""),
        ("python", "'open (\nx(", "("),
        ("python", "x#(", "("),
        ("shellscript", "$# (", "("),
        ("javascript", "a / b // (", "#"),
        ("javascript", "/* ( */ [", "["),
        ("javascript", "`a ${f(", "`{("),
        ("javascript", "`a ${f({})} (`", ""),
        ("javascript", "`\\` (\n(`", ""),
        ("rust", "fn f<'a>(x: &'a str", "("),
        ("rust", "f('(', b'[', '\\'', '\\u{7b}'", "("),
        ("sql", "SELECT ( -- [", "(#"),
        ("lua", "t = { -- }\n", "{"),
        ("haskell", "f' = (", "("),
        ("css", "a { background: url(//x)", "{"),
        ("html", "<p>don't (</p> <!-- ( -->", "("),
        ("html", '<a href="(', '"'),
        ("markdown", "It's \"(", "("),
        ("", "'(", "("),
    ],
)
def test_what_is_open(language, text, stack):
    """The stack holds what is open, innermost last."""
    assert "".join(scan(text, language).stack) == stack


@pytest.mark.parametrize("quote", ['"""', "'''"])
def test_three_quotes(quote):
    """A string of three quotes goes on over lines and over single quotes."""
    inside = scan(f"x = {quote}a ' \" (\n", "python")
    assert inside.stack == (quote,)
    assert inside.in_long_text
    assert scan(f"b{quote} (", "python", inside).stack == ("(",)


def test_strays():
    """A closer without its opener is kept apart, also between brackets of another kind."""
    assert scan("a) ( ] )", "python") == Scan((), ")]")


def test_text_is_long_only_where_it_goes_on():
    """A string or comment that its line ends is no long text."""
    assert scan('"a', "python").in_text
    assert not scan('"a', "python").in_long_text
    assert not scan("# a", "python").in_long_text
    assert scan("/* a", "c").in_long_text
    assert not scan("(", "c").in_text


@given(st.text(alphabet="()[]{}'\"`#/*\\\n $a", max_size=30), st.integers(0, 30), st.sampled_from(["go", "yaml", ""]))
def test_reading_goes_on_at_a_line_break(text, at, language):
    """A text read in two parts, the second from a line break on, leaves what it leaves read at once."""
    one, other = text[:at].rstrip("\\*/") + " ", "\n" + text[at:]
    assert scan(other, language, scan(one, language)) == scan(one + other, language)

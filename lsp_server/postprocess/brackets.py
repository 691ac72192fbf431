"""Brackets, strings and comments of a text, told apart well enough to count brackets.

Knows nothing of cursors, answers or filters. It reads single characters, not grammars: what it cannot tell (a regular
expression of JavaScript, a here-document) it takes for code, and a string that its line does not close ends with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

PAIRS = {"(": ")", "[": "]", "{": "}"}
CLOSERS = tuple(PAIRS.values())

PROSE = frozenset({"markdown", "plaintext", "latex", "tex", "bibtex", "restructuredtext", "git-commit", "mdx", ""})
"""Languages in which brackets and quotes need not pair, and lines need no indentation."""

HASH = frozenset(
    {"python", "ruby", "shellscript", "perl", "r", "elixir", "yaml", "toml", "makefile", "dockerfile", "powershell"}
    | {"julia", "nim", "coffeescript", "cmake", "starlark", "bazel", "cython", "gdscript", "properties", "ini"}
)
"""Languages whose comments begin with '#'."""

_DASHES = frozenset({"sql", "lua", "haskell", "elm", "ada"})
_MARKUP = frozenset({"html", "xml", "svg", "handlebars", "erb", "xsl"})
# Here a lone ' is a lifetime, a prime or a quoted symbol; only a whole character literal counts.
_LONE_QUOTES = frozenset({"rust", "haskell", "elm", "ocaml", "fsharp", "clojure", "lisp", "scheme"})

_LINE = {"#": r"(?<![^\s;,)\]}])\#", "-": "--", "/": "//"}
_BRACKETS = r"[()\[\]{}]"
_CHARACTER = r"'(?:\\[^'\n]{1,10}|[^'\\\n])'"
_QUOTE = r"(?<!\w)[bfruBFRU]{0,2}'"


@dataclass(frozen=True, slots=True)
class Scan:
    """What is open after a text, innermost last: brackets, opening quotes, '/*', and '#' for any comment of one line.

    `strays` are the closers that closed nothing.
    """

    stack: tuple[str, ...] = ()
    strays: str = ""

    @property
    def in_text(self) -> bool:
        """Whether the text ends inside a string or a comment."""
        return bool(self.stack) and self.stack[-1] not in PAIRS

    @property
    def in_long_text(self) -> bool:
        """Whether it ends inside a string or a comment that goes on over line breaks."""
        return self.in_text and self.stack[-1] not in ('"', "'", "#")


def scan(text: str, language: str, start: Scan | None = None) -> Scan:
    """Read `text` from `start` on."""
    start = start or Scan()
    stack, strays, at = list(start.stack), start.strays, 0
    while True:
        inside = stack[-1] if stack and stack[-1] not in PAIRS else ""
        found = (_inside(inside) if inside else _code(language)).search(text, at)
        if not found:
            return Scan(tuple(stack), strays)
        strays += _read(found.group(), inside, stack)
        at = found.end()


def _read(mark: str, inside: str, stack: list[str]) -> str:
    """Apply one mark; return it if it is a closer that closes nothing."""
    if inside:
        if mark == "${":
            stack.append("{")
        elif not mark.startswith("\\"):
            stack.pop()
        return ""
    if mark in CLOSERS:
        if not stack or PAIRS[stack[-1]] != mark:
            return mark
        stack.pop()
    elif not _is_character(mark):
        stack.append(_opener(mark))
    return ""


def _is_character(mark: str) -> bool:
    return len(mark) > 2 and mark.startswith("'") and mark != "'''"


def _opener(mark: str) -> str:
    if mark in ("//", "--"):
        return "#"
    return mark.lstrip("bfruBFRU")


@cache
def _code(language: str) -> re.Pattern[str]:
    """Match whatever changes the state in code."""
    if language in PROSE:
        return re.compile(_BRACKETS)
    if language in _MARKUP:
        return re.compile(rf'<!--|"|{_BRACKETS}')
    if language in _LONE_QUOTES:
        comment = _LINE["-" if language in _DASHES else "/"]
        return re.compile(rf'{comment}|/\*|{_CHARACTER}|"|{_BRACKETS}')
    if language in HASH:
        return re.compile(rf'{_LINE["#"]}|"""|"|{_QUOTE}(?:\'\')?|`|{_BRACKETS}')
    if language == "css":
        return re.compile(rf'/\*|"|{_QUOTE}|{_BRACKETS}')
    comment = _LINE["-" if language in _DASHES else "/"]
    return re.compile(rf'{comment}|/\*|"|{_QUOTE}|`|{_BRACKETS}')


@cache
def _inside(opener: str) -> re.Pattern[str]:
    """Match whatever changes the state inside a string or comment."""
    if opener == "#":
        return re.compile(r"\n")
    if opener in ("/*", "<!--"):
        return re.compile(r"\*/" if opener == "/*" else "-->")
    if opener in ('"""', "'''"):
        return re.compile(rf"\\.|{opener}", re.DOTALL)
    if opener == "`":
        return re.compile(r"\\.|`|\$\{", re.DOTALL)
    return re.compile(rf"\\.|{opener}|\n", re.DOTALL)

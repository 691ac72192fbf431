"""How lines are measured: brackets, indentation, letters and digits."""

from __future__ import annotations

import re
from functools import lru_cache

BREAK = re.compile(r"\r\n|\n|\r")
CLOSERS = (")", "]", "}")
HASH_LANGUAGES = frozenset({"python", "ruby", "shellscript", "perl", "r", "elixir", "yaml", "toml"})
_TAB = 4
_STRINGS = r"""\"(?:\\.|[^"\\])*"?|`(?:\\.|[^`\\])*`|(?<![&<\w])[bfrBFR]{0,2}'(?:\\.|[^'\\])*'"""
_SLASHES = re.compile(_STRINGS + r"|//.*|[()\[\]{}]")
_HASH = re.compile(_STRINGS + r"|\#.*|[()\[\]{}]")


def depth_after(depth: int, text: str, uses_hash: bool) -> int:
    """Open brackets after `text`; a closer of something opened earlier does not count."""
    low, net = brackets(text, uses_hash)
    return depth + net - min(0, depth + low)


@lru_cache(maxsize=512)
def brackets(text: str, uses_hash: bool) -> tuple[int, int]:
    """Lowest and final bracket depth of one line, strings and comments left out."""
    low = net = 0
    for token in (_HASH if uses_hash else _SLASHES).findall(text):
        if token in ("(", "[", "{"):
            net += 1
        elif token in CLOSERS:
            net -= 1
            low = min(low, net)
    return low, net


def indent_width(text: str) -> int:
    """How far a line is indented, a tab counting as four."""
    indent = text[: len(text) - len(text.lstrip())]
    return len(indent) + (_TAB - 1) * indent.count("\t")


def alnum(text: str) -> int:
    """How many letters and digits there are."""
    return sum(map(str.isalnum, text))


def plain(text: str) -> str:
    """A line to compare by: '});' closes what '})' closes, and doubling it would be worse than losing the ';'."""
    return text.rstrip(";,") if text.lstrip().startswith(CLOSERS) else text

"""What begins a comment at the end of a line, by language."""

from __future__ import annotations

import re

_LINE_COMMENTS = {
    "python ruby shellscript fish perl r yaml toml makefile dockerfile elixir julia nix cmake powershell": "#",
    "lua sql haskell elm ada vhdl": "--",
    "lisp clojure scheme racket ini asm": ";",
    "latex tex erlang matlab prolog": "%",
    "html xml markdown": "<!--",
}
_COMMENT = {language: mark for languages, mark in _LINE_COMMENTS.items() for language in languages.split()}


def without_comment(text: str, language: str) -> str:
    """Return a line's text up to its comment."""
    mark = re.escape(_COMMENT[language]) if language in _COMMENT else "//|/\\*"
    # A mark inside a word is none, as in `https://`.
    found = re.search(rf"(?:^|(?<=[\s;,{{)\]}}]))(?:{mark})", text)
    return text[: found.start()] if found else text

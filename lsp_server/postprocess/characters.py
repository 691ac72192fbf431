"""Filters against what was never meant as text: control characters, half characters, the model's control tokens."""

from __future__ import annotations

import re

from lsp_server.place import Place
from lsp_server.postprocess.answer import Answer
from lsp_server.postprocess.brackets import PROSE

# Control characters but tab and line feed, lone surrogates, the byte-order mark and the replacement character.
_NEVER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffd]")

# One pattern per way of spelling, so that a file which holds one token may hold its relatives.
_BARS = re.compile(r"<\|[A-Za-z/][\w▁ .-]{1,40}\|>")
_WIDE_BARS = re.compile(r"<｜[^｜\n<>]{1,40}｜>")
_ANGLES = re.compile(
    r"▁?<(?:fim[_-](?:prefix|suffix|middle|pad)|file_sep|repo_name|reponame|gh_stars|EOT|EOD|EOS|PRE|SUF|MID"
    r"|jupyter_\w+|issue_(?:start|comment|closed)|commit_(?:before|after|msg)|empty_output|endoftext"
    r"|(?:start|end)_of_turn|bos|eos)>"
)
_SQUARES = re.compile(r"\[(?:PREFIX|SUFFIX|MIDDLE|/?INST|AVAILABLE_TOOLS|TOOL_CALLS|control_\d+)\]")
# These are words of HTML, usage texts or tokenizer code as well: only alone at a line's end or start are they tokens.
_DOUBTFUL = re.compile(r"^<filename>(?=\S)|^<(?:s|pad|unk|mask)>|</s>$|<(?:pad|unk)>$", re.MULTILINE)
_MARKUP = PROSE | {"html", "xml", "vue", "svelte", "php", "javascriptreact", "typescriptreact", "handlebars", "erb"}

_HALF_BARS = re.compile(r"<\|(?:[A-Za-z/][\w▁ .-]{0,40}\|?)?$")
_HALF_WIDE_BARS = re.compile(r"<｜[^｜\n<>]{0,40}｜?$")
_HALF_ANGLES = re.compile(r"▁?<(?:fim(?:[_-][a-z]{0,6})?|file_(?:s|se|sep)?|repo_[a-z]{0,4}|repon[a-z]{0,3}|EOT?)$")
_HALF_SQUARES = re.compile(r"\[(?:PREF|PREFI|PREFIX|SUFF|SUFFI|SUFFIX|MIDD|MIDDL|MIDDLE|/?INST)$")
# In a file with such a name it is an index.
_NAMES = re.compile(r"\b(?:PREFIX|SUFFIX|MIDDLE|INST)\b")
# Here a line may well end with this operator.
_PIPES = frozenset({"fsharp", "elm", "ocaml", "haskell", "purescript", "reason", "rescript"})

_TOKENS = (
    (_BARS, _HALF_BARS, _BARS),
    (_WIDE_BARS, _HALF_WIDE_BARS, _WIDE_BARS),
    (_ANGLES, _HALF_ANGLES, _ANGLES),
    (_SQUARES, _HALF_SQUARES, _NAMES),
)


def plain_characters(_: Place, answer: Answer) -> Answer | None:
    """Prevent control characters, halves of characters and carriage returns from getting into the file."""
    text = answer.text.replace("\r\n", "\n").replace("\r", "\n")
    found = _NEVER.search(text)
    return answer.with_text(text).cut(found.start() if found else len(text))


def no_control_tokens(place: Place, answer: Answer) -> Answer | None:
    """Prevent a model's control tokens, whole or cut in half, from being shown as text."""
    ends = [_first(place, answer.text, *patterns) for patterns in _TOKENS]
    found = None if place.language in _MARKUP else _DOUBTFUL.search(answer.text)
    if found and not any(_DOUBTFUL.search(text) for text in (place.before, place.after)):
        ends.append(found.start())
    end = min(ends)
    return answer if end == len(answer.text) else answer.cut(end)


def _first(place: Place, text: str, whole: re.Pattern[str], half: re.Pattern[str], usual: re.Pattern[str]) -> int:
    """Where the first token of one spelling starts, unless the file itself holds what is `usual` for it."""
    found = whole.search(text) or _half(place, text, half)
    if not found or usual.search(place.before) or usual.search(place.after):
        return len(text)
    return found.start()


def _half(place: Place, text: str, half: re.Pattern[str]) -> re.Match[str] | None:
    found = half.search(text)
    return None if found and found.group() == "<|" and place.language in _PIPES else found

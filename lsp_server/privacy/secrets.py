"""Secret-shaped stretches of text: found, and masked without moving anything else.

Pure. Every pattern starts at a place that a plain substring search found and is bounded, so a megabyte of ordinary
code costs about ten milliseconds and no text makes a pattern run away.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lsp_server.privacy.private_keys import private_keys
from lsp_server.privacy.secret_files import secret_file
from lsp_server.privacy.secret_values import looks_random, named_values, placeholder, url_passwords

__all__ = ["holds_secret", "masked", "secret_file"]

Span = tuple[int, int]

_SHORTEST = 24  # characters of an issuer's token, but for Amazon's; shorter words are too many to look at each
_BEFORE = 512  # characters left of a suggestion that may name its value

_WORD_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_WORDS_ONLY = bytes(97 if byte in _WORD_BYTES else 32 for byte in range(256))

# Issuers' token shapes. The strict ones are proof by themselves; words of code can have the shape of the loose ones.
_STRICT = re.compile(
    r"AIza[\w-]{35}|GOCSPX-[\w-]{20,64}|ya29\.[\w-]{20,1024}"
    r"|gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_\w{22,255}"
    r"|(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,255}|whsec_[A-Za-z0-9+/=]{20,255}"
    r"|npm_[A-Za-z0-9]{36}|hf_[A-Za-z0-9]{30,64}(?![\w-])|pypi-AgE[\w-]{40,1024}|rubygems_[0-9a-f]{32,64}"
    r"|SG\.[\w-]{16,64}\.[\w-]{16,64}|do[opr]_v1_[0-9a-f]{40,64}|shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{50,64}|key-[0-9a-f]{32}(?![\w-])|dapi[0-9a-f]{32}(?![\w-])"
    r"|eyJ[\w-]{8,1024}\.eyJ[\w-]{8,4096}\.[\w-]{8,2048}"
)
_AMAZON = re.compile(r"A(?:KIA|SIA|BIA|CCA|ROA|IDA)[A-Z0-9]{16}(?![A-Za-z0-9])")
_LOOSE = re.compile(
    r"(?:sk|gsk|xai|pplx|r8|nvapi|csk|xapp|sbp|ntn|figd|glsa|NRAK|ATATT3|PMAK|dckr_(?:pat|oat)|lin_(?:api|oauth)"
    r"|xox[a-z]|gl(?:pat|dt|rt|rtr|cbt|ptt|ft|soat|oas|agent|imt|ffct)|sntry[su]|sq0[a-z]{3})[_=-]?"
    r"(?P<rest>[\w=-]{16,512})|(?:hvs|hvb|dp\.[a-z]{2})\.(?P<other>[\w-]{20,512})"
)
_STARTS = frozenset(re.findall("..", "AIGOghgiskrkwhnphfpyrudoshAGkedaeygsxappr8nvcssbntfiglNRATPMdclixosnsq"))
_DOTTED_START = re.compile(r"(?<![A-Za-z0-9])(?:ya29|SG\.[\w-]{22}|hv[sb]|dp\.[a-z]{2})\.$")

_VISIBLE = re.compile(r"[^\n]+")


def masked(text: str) -> str:
    """Return the text with asterisks for every secret: same length, same line breaks, all else untouched."""
    pieces: list[str] = []
    done = 0
    for start, end in _merged(_spans(text)):
        pieces += text[done:start], _VISIBLE.sub(lambda match: "*" * len(match.group()), text[start:end])
        done = end
    return "".join((*pieces, text[done:])) if done else text


def holds_secret(text: str, before: str = "") -> bool:
    """Tell whether a suggestion holds a secret; `before` is what stands left of it and may give its value a name."""
    before = before[-_BEFORE:]
    return any(end > len(before) for _, end in _spans(before + text))


def _merged(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield disjoint spans in order."""
    done = 0
    for start, end in sorted(spans):
        if end > done:
            yield max(start, done), end
            done = end


def _spans(text: str) -> Iterator[Span]:
    # One byte for each character, whatever the character: searching bytes is faster and offsets stay true.
    plain = text.encode("latin-1", "replace")
    yield from _tokens(text, plain.translate(_WORDS_ONLY))
    yield from named_values(text, plain.lower())
    if "://" in text:
        yield from url_passwords(text)
    yield from private_keys(text)


def _tokens(text: str, words: bytes) -> Iterator[Span]:
    """Look at each long word for an issuer's shape; `words` has `a` for every character of a word, blanks else."""
    for match in _AMAZON.finditer(text):
        if not text[match.start() - 1 : match.start()].isalnum() and not placeholder(match.group()):
            yield match.span()
    end = 0
    while (start := words.find(b"a" * _SHORTEST, end)) >= 0:
        end = words.find(b" ", start)
        end = end if end >= 0 else len(words)
        if text[start - 1 : start] == ".":
            start = _dotted_start(text, start)
        elif text[start : start + 2] not in _STARTS:
            continue
        if token := _token(text, start):
            yield token.span()
            end = max(end, token.end())


def _dotted_start(text: str, start: int) -> int:
    head = _DOTTED_START.search(text[max(0, start - 32) : start])
    return start - len(head.group()) if head else start


def _token(text: str, start: int) -> re.Match[str] | None:
    match = _STRICT.match(text, start)
    if match:
        return None if placeholder(match.group()) or len(set(match.group())) < 10 else match
    match = _LOOSE.match(text, start)
    if match and not placeholder(match.group()) and looks_random(match["rest"] or match["other"]):
        return match
    return None

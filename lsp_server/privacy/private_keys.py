"""Private keys in a text, whole or cut off at either end by a window over it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

Span = tuple[int, int]

_LONGEST = 32_768  # characters of one key
_START = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----|Private-Lines: \d{1,4}")
_END = re.compile(r"-----END (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_HEADERS = r"(?:(?:\\n|\\r|[\s\"'`+,;])*+[A-Za-z-]{3,20}: [^\n\\]{1,120}){0,6}"
# What a key and the quotes, breaks and comment marks around its lines are made of; code has brackets.
_BODY = re.compile(_HEADERS + rf"[A-Za-z0-9+/=\s\"'`,;\\.#*-]{{0,{_LONGEST}}}+")
_RUN = re.compile(r"[A-Za-z0-9+/=]{32,}")


def private_keys(text: str) -> Iterator[Span]:
    """Yield the bodies of private keys. A marker alone, as code about keys has it, is none."""
    if "PRIVATE KEY" in text or "Private-Lines" in text:
        yield from _after_starts(text)
        yield from _before_ends(text)


def _after_starts(text: str) -> Iterator[Span]:
    done = 0
    for match in _START.finditer(text):
        if match.start() < done:
            continue
        body = _BODY.match(text, match.end())
        done = body.end() if body else match.end()
        marker = text.find("-----END", match.end(), done + 8)
        end = marker if marker >= 0 else _last_run(text, match.end(), done)
        if end > match.end() and _RUN.search(text, match.end(), end):
            yield match.end(), end


def _before_ends(text: str) -> Iterator[Span]:
    """Yield keys whose beginning is cut off: the text is read backwards up to what can be no key."""
    done = 0
    for match in _END.finditer(text):
        first = max(done, match.start() - _LONGEST)
        done = match.end()
        if text.rfind("-----BEGIN", first, match.start()) >= 0:
            continue
        backwards = text[first : match.start()][::-1]
        body = _BODY.match(backwards)
        length = _last_run(backwards, 0, body.end() if body else 0)
        if length:
            yield match.start() - length, match.start()


def _last_run(text: str, start: int, end: int) -> int:
    """Return where the last line of a key without a marker ends: the text's own end, or that of its last long run."""
    runs = [match.end() for match in _RUN.finditer(text, start, end)]
    if not runs:
        return start
    return end if end == len(text) else runs[-1]

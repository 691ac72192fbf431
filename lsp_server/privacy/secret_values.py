"""Values that are secret because of the name or place they stand in: `password = "..."`, headers, connection strings.

Pure. A value counts only if it looks random: words, placeholders and code after such a name are ordinary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Span = tuple[int, int]

_HINTS = (b"passw", b"passphrase", b"pwd", b"secret", b"token", b"key", b"authorization", b"bearer")
_OTHER_WORD = frozenset(bytes([byte]) for byte in b"acefghijmqruwxyz")  # tokenizer, keyword, secretary
# Matched in small letters and bytes, which is several times faster than in text of either case.
_ASSIGNMENT = re.compile(
    rb"""
    (?P<name>passwords?|passwd|passw|passphrase|pwd|secret|token|key)
    (?:[_-]?(?:s|key|value|val|base|string|str|text|plain|live|prod|production|dev|test|staging|old|new|\d{1,3})){0,3}
    ["'`]{0,3} \]? (?:\s{1,4}value)?                        # "NAME": , environ["NAME"] = , key="NAME" value=
    (?:[ ]{0,4}:[ ]{0,4}[a-z_.\[\]|&]{1,32}(?:[ ][a-z_.\[\]|&]{1,32}){0,4}[ ]{0,4}(?==))?     # a type before the value
    (?P<operator>[ \t]{0,24}(?:[:=]{1,3}|=>|<-|\?\?=?|\|\|=?|!==?|,|>)[ \t]{0,24}(?:[(\[]\s{0,48})?|[ \t]{1,4})
    (?:[a-z]{0,2}["'`](?P<quoted>[^\s"'`<>]{6,512}+)(?=["'`]|\Z)
      |(?P<bare>[^\s"'`<>=&:;,()\[\]{}|?]{6,256}+={0,2}+)(?=[\s"'`<>&;,)\]}]|\Z))
    """,
    re.VERBOSE,
)
_HEADER = re.compile(
    rb"authorization[\"'`\]]{0,3}[ \t]{0,8}[:=,(][\s\"'`(f]{0,24}"
    rb"(?:(?:bearer|basic|token|apikey|digest|bot)[ \t]{1,4})?(?P<value>[\w.+/=~:-]{8,4096})"
)
_BEARER = re.compile(rb"bearer[ \t]{1,4}(?P<value>[\w.+/=~-]{12,4096})")
_PATTERNS = {b"authorization": _HEADER, b"bearer": _BEARER}
_PASSWORD_NAMES = (b"passw", b"passphrase", b"pwd")
_URL = re.compile(r"://(?P<user>[^\s/:@\"'`<>]{0,128}):(?P<value>[^\s/@\"'`<>]{1,256})@[\w.\[{$-]")
_KEY_OF = re.compile(
    rb"(?:api|access|private|account|auth|secret|encryption|signing|shared|master|storage|service|client|app|admin|"
    rb"license|subscription|session|deploy|webhook|jwt|hmac|aes|ssh|token|password)[_ -]?$"
)
_PLACEHOLDER = re.compile(
    r"change[-_]?me|your|example|placeholder|dummy|sample|redacted|replace|insert|fake|todo|fixme|default|"
    r"not[-_]?(?:a[-_])?(?:real|secret)|x{4}|\*{3}|\.{3}|1234567890|0123456789|0{8}|abcdefgh|"
    r"^\$|\$[({]|\{\{|\{\w*\}|%[sdr({]|^[{<%]|://|\(\?|\\[.\w]|^(?:password|passwd|pass|pwd|secret|token|test|user|root|admin)\d?$",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"[A-Za-z_]\w*(?:\.|->)[A-Za-z_]")
_VOWEL = re.compile(r"[aeiou]", re.IGNORECASE)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def named_values(text: str, lower: bytes) -> Iterator[Span]:
    """Yield values that a name or a header gives away; `lower` is the text in small letters, a byte a character."""
    for hint in _HINTS:
        find = _PATTERNS.get(hint, _ASSIGNMENT).match
        place = lower.find(hint)
        while place >= 0:
            after = place + len(hint)
            match = find(lower, place) if lower[after : after + 1] not in _OTHER_WORD else None
            span = _secret_span(text, match) if match else None
            if span:
                yield span
            place = lower.find(hint, span[1] if span else after)


def url_passwords(text: str) -> Iterator[Span]:
    """Yield the passwords of URLs; one that repeats the user's name is a public default."""
    place = text.find("://")
    while place >= 0:
        match = _URL.match(text, place)
        if match and match["value"] != match["user"] and not placeholder(match["value"]):
            yield match.span("value")
        place = text.find("://", place + 3)


def placeholder(value: str) -> bool:
    """Tell whether a value only stands for one: `changeme`, `<token>`, `${TOKEN}`."""
    return _PLACEHOLDER.search(value) is not None


def looks_random(value: str) -> bool:
    """Tell a key from a word or a name: some piece of it mixes digits and letters, or small and capital letters."""
    return len(value) >= 8 and any(_is_random(piece) for piece in re.split(r"[^A-Za-z0-9]+", value))


def _is_random(piece: str) -> bool:
    head = piece.rstrip("0123456789")
    if not head or not _has_digit_and_letter(piece):
        return (not head and len(piece) > 12) or _is_mixed(piece)
    if not head.isalpha():
        return True
    short = len(head) == 1 or (len(head) == 2 and _VOWEL.search(head))  # v2, us1; but not zq9
    return not (short or _is_natural(head)) or len(piece) - len(head) > 4


def _is_mixed(letters: str) -> bool:
    """Tell whether a long run of letters jumps between small and capital ones more than camel case does."""
    capitals = sum(map(str.isupper, letters))
    return len(letters) >= 20 and capitals * 4 >= len(letters) and not _is_natural(letters)


def _is_natural(letters: str) -> bool:
    """Tell whether letters can be words in camel case: three or more a word on average."""
    words = _WORD.findall(letters)
    return len(letters) >= 3 * len(words)


def _has_digit_and_letter(value: str) -> bool:
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _secret_span(text: str, match: re.Match[bytes]) -> Span | None:
    start, end = match.span(match.lastgroup or 0)
    judge = _is_secret if match.re is _ASSIGNMENT else _are_credentials
    return (start, end) if judge(match, text[start:end]) else None


def _are_credentials(_: re.Match[bytes], value: str) -> bool:
    return not placeholder(value) and (looks_random(value) or value.endswith("="))


def _is_secret(match: re.Match[bytes], value: str) -> bool:
    quoted = match["quoted"] is not None
    if _is_other_key(match) or placeholder(value) or (not quoted and _ATTRIBUTE.search(value)):
        return False
    operator = match["operator"].strip()
    if quoted and operator not in {b"", b","} and match["name"].startswith(_PASSWORD_NAMES):
        return len(value) >= 6 and _has_digit_and_letter(value)
    return looks_random(value) and (bool(operator) or len(value) >= 16)


def _is_other_key(match: re.Match[bytes]) -> bool:
    """Tell whether the name is a key as in a dictionary, not as for a lock."""
    start = match.start()
    return match["name"] == b"key" and not _KEY_OF.search(match.string[max(0, start - 16) : start])

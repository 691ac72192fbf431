"""Text to token ids and back, with a wall between user text and control tokens.

User text is encoded by a tokenizer that does not know the control tokens at all, so a literal `<|fim_middle|>` in a
file stays eleven characters of text. Control tokens are looked up by name. Bytes, not strings, are the unit on the way
back: one character may be spread over several tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Any

from tokenizers import Tokenizer

_CONTROL = re.compile(r"^(<[^<>\s]+>|\[[A-Z_]+\]|▁<[A-Z]+>)$")
# Gemma has plain words of HTML among its added tokens; they look like control tokens and are text.
_MARKUP = re.compile(r"^</?(table|caption|thead|tbody|tfoot|tr|th|td|h[1-6]|blockquote|strong|em|[bius]|su[bp]|code)>$")
_PADDING = re.compile(r"^\[PAD\d+\]$")  # what reading a GGUF file calls ids that no token has
_CHANGES = frozenset({"Prepend", "NFC", "NFD", "NFKC", "NFKD"})
_NO_TEXT = "\U0010fffe"  # a noncharacter
_BYTE = re.compile(r"^<0x([0-9A-F]{2})>$")


class CodeTokenizer:
    """A fast tokenizer's vocabulary, split into plain text and control tokens."""

    def __init__(self, spec: dict[str, Any]) -> None:
        """Take the parsed content of a `tokenizer.json`."""
        added = spec.get("added_tokens", [])
        self.added: dict[str, int] = {token["content"]: token["id"] for token in added}
        self.controls = frozenset(token["id"] for token in added if _is_control(token))
        self._plain = Tokenizer.from_str(json.dumps(_without_controls(spec, self.controls)))
        vocab: dict[str, int] = self._plain.get_vocab()
        self._token_text = {i: text for text, i in vocab.items() if not _PADDING.match(text)}
        self.size = max([*vocab.values(), *self.added.values()]) + 1
        self._byte_level = _uses_byte_level(spec)

    def control(self, name: str) -> int | None:
        """Return the id of a control token, or None when this vocabulary has no such token."""
        return self.added.get(name)

    def encode(self, text: str) -> list[int]:
        """Encode user text. Never yields a control token."""
        return list(self._encode_cached(text)) if len(text) > 256 else self._encode(text)

    @lru_cache(maxsize=64)  # noqa: B019  (one tokenizer lives as long as its engine)
    def _encode_cached(self, text: str) -> tuple[int, ...]:
        return tuple(self._encode(text))

    def _encode(self, text: str) -> list[int]:
        clean = text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates have no UTF-8
        ids: list[int] = self._plain.encode(clean, add_special_tokens=False).ids
        return ids

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """The bytes each id stands for; empty for control tokens and for ids without text."""
        table = [b""] * self.size
        for i, text in self._token_text.items():
            if i not in self.controls:
                table[i] = self._to_bytes(text)
        for text, i in self.added.items():
            if i not in self.controls:
                table[i] = text.encode() if self._byte_level else self._to_bytes(text)
        return table

    def _to_bytes(self, text: str) -> bytes:
        if self._byte_level:
            table = _byte_of_char()
            return bytes(table[c] for c in text if c in table)
        if match := _BYTE.match(text):
            return bytes([int(match[1], 16)])
        return text.replace("▁", " ").encode()

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Concatenate the bytes of ids."""
        return b"".join(self.token_bytes[i] for i in ids)

    def mismatch(self, other: CodeTokenizer) -> str | None:
        """Say where another vocabulary first differs, token by token, or None. Padded sizes may differ."""
        mine, theirs = {**self._token_text, **_by_id(self.added)}, {**other._token_text, **_by_id(other.added)}
        for i in range(max(self.size, other.size)):
            if mine.get(i) != theirs.get(i):
                return f"token {i} is {mine.get(i)!r} in one and {theirs.get(i)!r} in the other"
        return None


def _by_id(added: dict[str, int]) -> dict[int, str]:
    return {i: text for text, i in added.items()}


def _is_control(token: dict[str, Any]) -> bool:
    text = token["content"]
    return token["special"] or (_CONTROL.match(text) is not None and not _MARKUP.match(text))


def _without_controls(spec: dict[str, Any], controls: frozenset[int]) -> dict[str, Any]:
    """Drop everything that recognises or inserts control tokens or a leading space, or that changes characters."""
    plain = {**spec, "added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
    plain["model"] = _unreachable(spec["model"], controls)
    plain["normalizer"] = _without_changes(spec.get("normalizer"))
    pre: Any = json.loads(json.dumps(spec.get("pre_tokenizer")))
    for step in (pre or {}).get("pretokenizers", [pre] if pre else []):
        if step["type"] == "Metaspace":
            step["prepend_scheme"] = "never"
        if step["type"] == "ByteLevel":
            step["add_prefix_space"] = False
    plain["pre_tokenizer"] = pre
    return plain


def _unreachable(model: dict[str, Any], controls: frozenset[int]) -> dict[str, Any]:
    """Rename control tokens in a BPE vocabulary to what no text spells: merges may lead to some, as to `<s>`."""
    vocab = model["vocab"]
    names = {text for text, i in vocab.items() if i in controls} if isinstance(vocab, dict) else set()
    if model["type"] != "BPE" or not names:
        return model
    merges = [pair.split(" ", 1) if isinstance(pair, str) else pair for pair in model["merges"]]
    return {
        **model,
        "unk_token": None if model.get("unk_token") in names else model.get("unk_token"),
        "vocab": {(f"{_NO_TEXT}{i}" if text in names else text): i for text, i in vocab.items()},
        "merges": [[a, b] for a, b in merges if names.isdisjoint((a, b, a + b))],
    }


def _without_changes(normalizer: Any) -> Any:  # noqa: ANN401  (parsed JSON)
    """Drop a prepended space, and Unicode composition: a file's bytes must come back as they are."""
    if not normalizer or normalizer["type"] in _CHANGES:
        return None
    if normalizer["type"] == "Sequence":
        steps = [step for step in normalizer["normalizers"] if step["type"] not in _CHANGES]
        return {**normalizer, "normalizers": steps}
    return normalizer


def _uses_byte_level(spec: dict[str, Any]) -> bool:
    return "ByteLevel" in json.dumps([spec.get("pre_tokenizer"), spec.get("decoder")])


@lru_cache(maxsize=1)
def _byte_of_char() -> dict[str, int]:
    """GPT-2's reversible map: printable bytes stand for themselves, the others are moved above 255."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    rest = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(rest)}


def complete_utf8(data: bytes) -> int:
    """Length of the longest prefix of `data` that does not end inside a character."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return len(data) if back >= needed else len(data) - back
    return len(data)

"""From a document and a cursor to prompt tokens: anchored fill-in-the-middle within a budget.

In prefix-suffix-middle order every typed character would change the end of the prefix, and the whole suffix behind it
would be computed again. So the prompt is split at an anchor, a line start at or above the cursor:

    [context] <prefix> text[window:anchor] <suffix> text[cursor:end] <middle> text[anchor:cursor]

What was typed since the anchor stands behind the middle marker, as if the model had written it: it is the same hole,
and a keystroke appends one to three tokens to a cached prompt.

Anchor and windows are functions of the text and the cursor alone, in coarse steps: the anchor is the last line whose
number divides by `anchor_lines`, window starts lie on a grid of half a budget. So the same document gives the same
prompt in an editor and at a terminal, and nothing has to be remembered or invalidated. The one thing remembered is
which parts of other buffers were chosen, so that they do not change under the user's hands.

Windows are placed by characters, which is cheap; text that takes more tokens than usual is then cut by tokens, in
coarse steps too. Where [context] stands is a matter of the family; see engine/fim.py.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from engine.context import Chunk, ChunkChooser
from engine.core import CompletionRequest
from engine.errors import ConfigError
from engine.fim import FimTemplate
from engine.tokenizer import CodeTokenizer, complete_utf8

CHARS_PER_TOKEN = 3  # code averages 3.3 with the vocabularies in use; fewer means the window fits more often
MIN_CONTEXT = 64
LONGEST_CHARACTER = 64  # code points: a cut is not moved farther, however many marks are piled on one letter


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """How a prompt is cut. `anchor_lines` 0 splits at the cursor, `healed_tokens` 0 leaves the typed end as it is.

    Of the typed end the last token is healed, or as many tokens of the last word as `healed_tokens` allows: "thre" is
    two tokens, and with the first one left standing the model does not find "three". Other values than the defaults
    are for comparison: docs/prompt-quality.md has the measurements.
    """

    anchor_lines: int = 8
    healed_tokens: int = 4


DEFAULT_STYLE = PromptStyle()


@dataclass(frozen=True, slots=True)
class Segment:
    """A named stretch of the prompt, for explanation: tokens start..end of the prompt and the text they carry.

    Segments follow each other without gaps.
    """

    name: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Window:
    """Offsets into a document: text[start:anchor] is prefix, text[anchor:cursor] typed, text[cursor:end] suffix."""

    start: int
    anchor: int
    cursor: int
    end: int


@dataclass(frozen=True, slots=True)
class PromptPlan:
    """A prompt, and the bytes that token healing took back: the completion must begin with them.

    `typed` are the healed tokens of the typed part, the end of `ids`.
    """

    ids: tuple[int, ...]
    owed: bytes
    typed: tuple[int, ...]
    window: Window
    segments: tuple[Segment, ...]


class _Shares(NamedTuple):
    """How many tokens each part may take; `prefix` is for prefix and typed part together."""

    prefix: int
    suffix: int
    context: int


class PromptPlanner:
    """Plans prompts for one model."""

    def __init__(
        self,
        tokenizer: CodeTokenizer,
        template: FimTemplate,
        context_tokens: int,
        style: PromptStyle = DEFAULT_STYLE,
    ) -> None:
        """Take the budget in tokens; it bounds everything but the room for the answer."""
        if context_tokens < MIN_CONTEXT:
            raise ConfigError(f"context_tokens is {context_tokens}; no prompt fits below {MIN_CONTEXT}, set it higher")
        self._tokenizer, self._template, self._style = tokenizer, template, style
        self._budget = context_tokens
        self._chooser = ChunkChooser()

    def plan(self, request: CompletionRequest) -> PromptPlan:
        """Return the prompt for a request."""
        shares = self._shares(request)
        window = place_window(request.text, request.cursor, shares.prefix, shares.suffix, self._style.anchor_lines)
        chunks = self._chooser.choose(request, window.start, shares.context * CHARS_PER_TOKEN)
        builder = _Builder(self._tokenizer, self._template, shares)
        window = builder.document(request, window, chunks)
        return builder.healed(self._style.healed_tokens, window)

    def _shares(self, request: CompletionRequest) -> _Shares:
        if self._template.order == "prefix":
            return _Shares(self._budget, 0, 0)
        others = any(buffer.path != request.path for buffer in request.buffers)
        context = self._budget * 3 // 10 if others else 0
        rest = self._budget - context
        return _Shares(rest * 7 // 10, rest * 3 // 10, context)

    def forget(self, path: str) -> None:
        """Forget what was chosen for or from a document."""
        self._chooser.forget(path)


class _Builder:
    """Collects ids and the segments they come from."""

    def __init__(self, tokenizer: CodeTokenizer, template: FimTemplate, shares: _Shares) -> None:
        self._tokenizer, self._template, self._shares = tokenizer, template, shares
        self._ids: list[int] = []
        self._segments: list[Segment] = []
        self._typed: list[int] = []
        self._control(template.begin)

    def _control(self, name: str) -> None:
        token = self._tokenizer.control(name) if name else None
        if token is not None:
            self._segments.append(Segment("control", len(self._ids), len(self._ids) + 1, name))
            self._ids.append(token)

    def _text(self, name: str, ids: Sequence[int]) -> None:
        self._segments.append(self._segment(name, len(self._ids), ids))
        self._ids.extend(ids)

    def _segment(self, name: str, start: int, ids: Sequence[int]) -> Segment:
        return Segment(name, start, start + len(ids), self._tokenizer.decode_bytes(ids).decode("utf-8", "replace"))

    def document(self, request: CompletionRequest, window: Window, chunks: Sequence[Chunk]) -> Window:
        """Write other files and the document in the family's order; return the window with its final anchor."""
        encode, table, text = self._tokenizer.encode, self._tokenizer.token_bytes, request.text
        window = self._fitting_anchor(text, window)
        self._typed = encode(text[window.anchor : window.cursor])
        room = self._shares.prefix - _reserve(len(self._typed), self._shares.prefix)
        prefix = keep_end(encode(text[window.start : window.anchor]), room, table)
        suffix = keep_start(encode(text[window.cursor : window.end]), self._shares.suffix, table)
        order, template = self._template.order, self._template
        if order == "spm":
            self._control(template.suffix)
            self._text("suffix", suffix)
        self._open(request.path, self._fitting_blocks(chunks, request.path))
        self._text("prefix", prefix)
        if order == "psm":
            self._control(template.suffix)
            self._text("suffix", suffix)
            self._control(template.middle)
        self._text("typed", self._typed)
        return window

    def _fitting_anchor(self, text: str, window: Window) -> Window:
        """Move the anchor right, in coarse steps, where the typed part takes more than half of the prefix's tokens."""
        most = self._shares.prefix // 2
        ids = self._tokenizer.encode(text[window.anchor : window.cursor])
        if len(ids) <= most:
            return window
        step = max(most // 2, 1)
        moved = self._tokenizer.decode_bytes(ids[: -(-(len(ids) - most) // step) * step])
        anchor = window.anchor + len(moved[: complete_utf8(moved)].decode("utf-8", "replace"))
        return replace(window, anchor=min(safe_cut(text, anchor), window.cursor))

    def _fitting_blocks(self, chunks: Sequence[Chunk], path: str) -> list[tuple[str, list[int]]]:
        """Return paths and ids of the chunks that fit, the most similar first taken; the last taken loses lines."""
        encode = self._tokenizer.encode
        left = self._shares.context - len(encode(self._heading(path)))
        blocks: list[tuple[str, list[int]]] = []
        for chunk in reversed(chunks):
            left -= len(encode(self._heading(chunk.path))) + 1
            ids = encode(chunk.text if chunk.text.endswith("\n") else chunk.text + "\n")
            if len(ids) > left:
                ids = whole_lines(ids[: max(left, 0)], self._tokenizer.token_bytes)
            if not ids:
                break
            left -= len(ids)
            blocks.append((chunk.path, ids))
        return blocks[::-1]

    def _open(self, path: str, blocks: Sequence[tuple[str, list[int]]]) -> None:
        """Write what stands before the document's text."""
        for part in self._template.opening if blocks else ("prefix",):
            if part == "context":
                self._context(blocks)
            elif part == "file":
                self._control(self._template.file)
            elif part == "path":
                self._text("separator", self._tokenizer.encode(self._heading(path)))
            else:
                self._control(self._template.prefix)

    def _context(self, blocks: Sequence[tuple[str, list[int]]]) -> None:
        template, encode = self._template, self._tokenizer.encode
        if template.repo:
            self._control(template.repo)
            self._text("separator", encode("project" + template.repo_end))
        for at, (path, ids) in enumerate(blocks):
            if at or template.file_first:
                self._control(template.file)
            self._text("separator", encode(self._heading(path)))
            self._text("context", ids)

    def _heading(self, path: str) -> str:
        return f"{path}\n" if self._template.file else f"# {path}\n"

    def healed(self, tokens: int, window: Window) -> PromptPlan:
        """Take back the last token of the typed part, and up to `tokens` of them while they are one word.

        Never past a line break.
        """
        table = self._tokenizer.token_bytes
        owed = b""
        while self._typed and tokens and _may_heal(table[self._typed[-1]], owed):
            owed = table[self._typed.pop()] + owed
            self._ids.pop()
            tokens -= 1
        self._segments[-1] = self._segment("typed", len(self._ids) - len(self._typed), self._typed)
        if not self._ids:  # an empty document and a family without a begin token
            self._ids.append(min(self._tokenizer.controls, default=0))
            self._segments.append(Segment("control", 0, 1, ""))
        return PromptPlan(tuple(self._ids), owed, tuple(self._typed), window, tuple(self._segments))


def _may_heal(token: bytes, owed: bytes) -> bool:
    if b"\n" in token or b"\r" in token:
        return False
    return not owed or (_in_word(token[-1:]) and _in_word(owed[:1]))


def _reserve(typed: int, budget: int) -> int:
    """Tokens set aside for the typed part: in coarse steps, so that a keystroke does not move the prefix's start."""
    step = max(budget // 4, 1)
    return (typed // step + 1) * step


def _in_word(byte: bytes) -> bool:
    return byte.isalnum() or byte == b"_" or byte >= b"\x80"


def place_window(text: str, cursor: int, prefix_tokens: int, suffix_tokens: int, anchor_lines: int) -> Window:
    """Choose which part of a document to show, by characters, on a coarse grid; cuts fall between lines if possible."""
    prefix_chars, suffix_chars = prefix_tokens * CHARS_PER_TOKEN, suffix_tokens * CHARS_PER_TOKEN
    anchor = find_anchor(text, cursor, prefix_chars // 2, anchor_lines) if anchor_lines else cursor
    start = 0
    if anchor > prefix_chars:
        step = max(prefix_chars // 2, 1)
        start = -(-(anchor - prefix_chars) // step) * step
        start = _line_start_after(text, start, limit=min(anchor, start + step // 2))
    end = min(len(text), cursor + suffix_chars)
    if end < len(text):
        line_end = text.rfind("\n", cursor + suffix_chars // 2, end)
        end = line_end + 1 if line_end >= 0 else safe_cut(text, end)
    return Window(start, anchor, cursor, end)


def find_anchor(text: str, cursor: int, most: int, anchor_lines: int) -> int:
    """Return the line start that divides prefix from typed text: coarse, and at most `most` characters back."""
    line_start = text.rfind("\n", 0, cursor) + 1
    anchor = line_start
    for _ in range(text.count("\n", 0, cursor) % anchor_lines):
        anchor = text.rfind("\n", 0, anchor - 1) + 1
    if cursor - anchor > most:
        anchor = line_start
    if cursor - anchor > most:  # one very long line
        anchor = min(cursor, safe_cut(text, line_start + (cursor - line_start) // most * most))
    return anchor


def _line_start_after(text: str, at: int, limit: int) -> int:
    line = text.find("\n", at - 1, limit)
    return line + 1 if line >= 0 else safe_cut(text, at)


def safe_cut(text: str, at: int) -> int:
    """Move a cut forward until it does not fall inside a user-perceived character or a CRLF."""
    last = min(len(text), at + LONGEST_CHARACTER)
    while 0 < at < last and _joins(text[at - 1], text[at]):
        at += 1
    return at


def _joins(left: str, right: str) -> bool:
    if left == "\r":
        return right == "\n"
    joiner, skin_tones = "\u200d", range(0x1F3FB, 0x1F400)
    if joiner in (left, right):
        return True
    return unicodedata.category(right).startswith("M") or ord(right) in skin_tones


def _cuts_character(ids: Sequence[int], at: int, table: Sequence[bytes]) -> bool:
    """Whether a cut before the token at `at` falls inside a character or a CRLF."""
    if not 0 < at < len(ids):
        return False
    before, after = (b"".join(table[i] for i in part) for part in (ids[max(0, at - 4) : at], ids[at : at + 4]))
    if after[:1] and after[0] & 0xC0 == 0x80:
        return True
    left, right = before.decode("utf-8", "ignore"), after.decode("utf-8", "ignore")
    return bool(left and right) and _joins(left[-1], right[0])


def keep_end(ids: Sequence[int], most: int, table: Sequence[bytes]) -> list[int]:
    """Drop leading tokens beyond `most`, in coarse steps, without leaving half a character in front."""
    if len(ids) <= most:
        return list(ids)
    step = max(most // 8, 1)
    start = -(-(len(ids) - most) // step) * step
    while _cuts_character(ids, start, table):
        start += 1
    return list(ids[start:])


def keep_start(ids: Sequence[int], most: int, table: Sequence[bytes]) -> list[int]:
    """Drop trailing tokens beyond `most` without leaving half a character at the end."""
    end = min(max(most, 0), len(ids))
    while _cuts_character(ids, end, table):
        end -= 1
    return list(ids[:end])


def whole_lines(ids: Sequence[int], table: Sequence[bytes]) -> list[int]:
    """Drop trailing tokens up to the last that ends a line."""
    end = len(ids)
    while end and not table[ids[end - 1]].endswith(b"\n"):
        end -= 1
    return list(ids[:end])

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
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from engine.context import Chunk, ChunkChooser
from engine.core import CompletionRequest
from engine.errors import ConfigError
from engine.fim import FimTemplate
from engine.tokenizer import CodeTokenizer

CHARS_PER_TOKEN = 3  # code averages 3.3 with the vocabularies in use; fewer means the window fits more often
MIN_CONTEXT = 64


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """How a prompt is cut. `anchor_lines` 0 splits at the cursor, `healed_tokens` 0 leaves the typed end as it is.

    Other values than the defaults are for comparison: docs/prompt-quality.md has the measurements.
    """

    anchor_lines: int = 8
    healed_tokens: int = 1


DEFAULT_STYLE = PromptStyle()


@dataclass(frozen=True, slots=True)
class Segment:
    """A named stretch of the prompt, for explanation: tokens start..end of the prompt and the text they carry."""

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
        context_budget = self._budget * 3 // 10 if request.buffers and self._template.order != "prefix" else 0
        rest = self._budget - context_budget
        shares = (rest, 0) if self._template.order == "prefix" else (rest * 7 // 10, rest * 3 // 10)
        window = place_window(request.text, request.cursor, *shares, self._style.anchor_lines)
        chunks = self._chooser.choose(request, window.start, context_budget * CHARS_PER_TOKEN)
        builder = _Builder(self._tokenizer, self._template)
        builder.context(chunks, request.path)
        builder.document(request.text, window, *shares)
        return builder.healed(self._style.healed_tokens, window)

    def forget(self, path: str) -> None:
        """Forget what was chosen for or from a document."""
        self._chooser.forget(path)


class _Builder:
    """Collects ids and the segments they come from."""

    def __init__(self, tokenizer: CodeTokenizer, template: FimTemplate) -> None:
        self._tokenizer, self._template = tokenizer, template
        self._ids: list[int] = []
        self._segments: list[Segment] = []
        self._typed: list[int] = []
        self._control(template.begin)

    def _control(self, name: str) -> None:
        token = self._tokenizer.control(name) if name else None
        if token is not None:
            self._segments.append(Segment("control", len(self._ids), len(self._ids) + 1, name))
            self._ids.append(token)

    def _text(self, name: str, text: str, ids: Sequence[int]) -> None:
        self._segments.append(Segment(name, len(self._ids), len(self._ids) + len(ids), text))
        self._ids.extend(ids)

    def _encoded(self, name: str, text: str) -> None:
        self._text(name, text, self._tokenizer.encode(text))

    def context(self, chunks: Sequence[Chunk], path: str) -> None:
        """Write other buffers' chunks, each under its path; families without separators get comments."""
        if not chunks:
            return
        template = self._template
        if template.file and template.repo:
            self._control(template.repo)
            self._encoded("separator", "project\n")
        for chunk in chunks:
            self._open_file(chunk.path)
            self._encoded("context", chunk.text if chunk.text.endswith("\n") else chunk.text + "\n")
        self._open_file(path)

    def _open_file(self, path: str) -> None:
        if self._template.file:
            self._control(self._template.file)
            self._encoded("separator", f"{path}\n")
        else:
            self._encoded("separator", f"# {path}\n")

    def document(self, text: str, window: Window, prefix_budget: int, suffix_budget: int) -> None:
        """Write the document around the cursor in the family's order."""
        prefix = text[window.start : window.anchor]
        suffix = text[window.cursor : window.end]
        encode = self._tokenizer.encode
        prefix_ids = keep_end(encode(prefix), prefix_budget, self._tokenizer.token_bytes)
        suffix_ids = keep_start(encode(suffix), suffix_budget, self._tokenizer.token_bytes)
        self._typed = encode(text[window.anchor : window.cursor])[-prefix_budget:]
        t = self._template
        if t.order == "spm":
            self._control(t.suffix)
            self._text("suffix", suffix, suffix_ids)
            self._control(t.prefix)
            self._text("prefix", prefix, prefix_ids)
        else:
            self._control(t.prefix)
            self._text("prefix", prefix, prefix_ids)
            if t.order == "psm":
                self._control(t.suffix)
                self._text("suffix", suffix, suffix_ids)
                self._control(t.middle)
        self._text("typed", text[window.anchor : window.cursor], self._typed)

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
        if not self._ids:  # an empty document and a family without a begin token
            self._ids.append(min(self._tokenizer.controls, default=0))
        return PromptPlan(tuple(self._ids), owed, tuple(self._typed), window, tuple(self._segments))


def _may_heal(token: bytes, owed: bytes) -> bool:
    if token.endswith((b"\n", b"\r")):
        return False
    return not owed or (_in_word(token[-1:]) and _in_word(owed[:1]))


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
        anchor = safe_cut(text, line_start + (cursor - line_start) // most * most)
    return anchor


def _line_start_after(text: str, at: int, limit: int) -> int:
    line = text.find("\n", at - 1, limit)
    return line + 1 if line >= 0 else safe_cut(text, at)


def safe_cut(text: str, at: int) -> int:
    """Move a cut forward until it does not fall inside a user-perceived character or a CRLF."""
    while 0 < at < len(text) and _joins(text[at - 1], text[at]):
        at += 1
    return at


def _joins(left: str, right: str) -> bool:
    if left == "\r":
        return right == "\n"
    joiner, skin_tones = "\u200d", range(0x1F3FB, 0x1F400)
    if joiner in (left, right) or right in "\ufe0e\ufe0f":
        return True
    return unicodedata.combining(right) != 0 or ord(right) in skin_tones


def keep_end(ids: Sequence[int], most: int, table: Sequence[bytes]) -> list[int]:
    """Drop leading tokens beyond `most`, in coarse steps, without leaving half a character in front."""
    if len(ids) <= most:
        return list(ids)
    step = max(most // 4, 1)
    kept = list(ids[-(-(len(ids) - most) // step) * step :])
    while kept and table[kept[0]][:1] and table[kept[0]][0] & 0xC0 == 0x80:
        kept.pop(0)
    return kept


def keep_start(ids: Sequence[int], most: int, table: Sequence[bytes]) -> list[int]:
    """Drop trailing tokens beyond `most` without leaving half a character at the end."""
    kept = list(ids[:most])
    while kept and len(kept) < len(ids) and table[ids[len(kept)]][:1] and table[ids[len(kept)]][0] & 0xC0 == 0x80:
        kept.pop()
    return kept

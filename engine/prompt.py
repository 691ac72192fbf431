"""From a document and a cursor to prompt tokens: anchored fill-in-the-middle within a budget.

In prefix-suffix-middle order every typed character would change the end of the prefix, and the whole suffix behind it
would be computed again. So the prompt is split at an anchor, a line start at or above the cursor:

    [context] <prefix> text[window:anchor] <suffix> text[cursor:end] <middle> text[anchor:cursor]

What was typed since the anchor stands behind the middle marker, as if the model had written it: it is the same hole,
and a keystroke appends one to three tokens to a cached prompt.

The anchor and how much of the document is shown are matters of engine/window.py; text that takes more tokens than usual
is then cut by tokens. The same document gives the same prompt in an editor and at a terminal. The one thing remembered
is which parts of other buffers were chosen, so that they do not change under the user's hands. Where [context] stands
is a matter of the family; see engine/fim.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from engine.context import Chunk, ChunkChooser
from engine.core import CompletionRequest
from engine.cuts import keep_end, keep_start, safe_cut, whole_lines
from engine.errors import ConfigError
from engine.fim import FimTemplate
from engine.tokenizer import CodeTokenizer, complete_utf8
from engine.window import CHARS_PER_TOKEN, Window, place_window

MIN_CONTEXT = 64


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

"""The values that pass between the engine's parts and across its seam: plain data, no behaviour.

Everything here could cross a process border; the cancel token is the only live object in a call.
Importing this file must stay cheap: no torch, no transformers.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Literal

from engine.config import Limits, SamplingParams

Source = Literal["target", "lookup", "model"]
"""Who proposed a token: nobody but the target itself, prompt lookup, or the draft model."""

FinishReason = Literal["stop", "length", "line", "block", "suffix", "cancelled"]
"""Why a completion ended.

stop: the target emitted an end token. length: the token limit. line: single-line mode met a line break.
block: the enclosing block ended. suffix: the text converged to what stands right of the cursor.
cancelled: the cancel token was set.
"""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Another open document: context for the prompt and a source of drafts.

    `version` grows with every edit; the pair (path, version) identifies the text.
    """

    path: str
    version: int
    text: str


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One question to the engine.

    `cursor` is an offset into `text` in code points. `buffers` are ordered most recent first.
    """

    path: str
    language: str
    text: str
    cursor: int
    buffers: tuple[Buffer, ...] = ()
    sampling: SamplingParams = field(default_factory=SamplingParams)
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class TextRun:
    """A stretch of completion text and who proposed it."""

    text: str
    source: Source


@dataclass(frozen=True, slots=True)
class CompletionChunk:
    """A committed run of the completion; the last chunk of a completion carries its `summary`.

    `runs` concatenate to the text that may be shown now; nothing of it is ever taken back.
    """

    runs: tuple[TextRun, ...]
    summary: CompletionSummary | None = None

    @property
    def text(self) -> str:
        """The text of all runs."""
        return "".join(run.text for run in self.runs)


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposed next tokens. `sources[i]` says who proposed `ids[i]`."""

    ids: tuple[int, ...] = ()
    sources: tuple[Source, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Option:
    """One way to do a step as the planner saw it: `length` drafted tokens, `tokens` expected in `ms` milliseconds."""

    name: str
    length: int
    tokens: float
    ms: float

    @property
    def speed(self) -> float:
        """Expected tokens per millisecond."""
        return self.tokens / self.ms


@dataclass(frozen=True, slots=True)
class Round:
    """What one propose-verify-commit step did. Times in milliseconds. `options` is what was weighed against what."""

    draft: Draft
    accepted: int  # how many leading draft tokens the target kept
    emitted: tuple[int, ...]  # accepted draft tokens plus the recovered or bonus token
    rows: int  # positions the target computed in this pass
    draft_ms: float
    verify_ms: float
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadStep:
    """What loading does now, in words a person may read. `done` is how far it is, 0 to 1, None where nobody knows."""

    text: str
    done: float | None = None


@dataclass(slots=True)
class DecodeStats:
    """Counts and times of one completion. Times in milliseconds."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    computed_tokens: int = 0
    target_passes: int = 0
    drafted: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, int] = field(default_factory=dict)
    emitted_tokens: int = 0
    ms: dict[str, float] = field(default_factory=dict)

    @property
    def mean_acceptance_length(self) -> float:
        """Emitted tokens per target pass, bonus token included."""
        return self.emitted_tokens / self.target_passes if self.target_passes else 0.0


@dataclass(frozen=True, slots=True)
class CompletionSummary:
    """What a finished completion was, whole."""

    text: str
    token_ids: tuple[int, ...]
    prompt_token_ids: tuple[int, ...]
    finish_reason: FinishReason
    stats: DecodeStats
    rounds: tuple[Round, ...]


class CancelToken:
    """Set once from any thread; the engine looks at it between passes and prefill chunks."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        """Ask the running completion to stop. Safe from any thread, any number of times."""
        self._event.set()

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._event.is_set()

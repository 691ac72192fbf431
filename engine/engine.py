"""Text in, text out: the engine behind its one method, `complete`.

This is the only place besides prompt building where text and token ids meet. One completion runs at a time; callers
use one thread. Everything that outlives a request is here: models with their caches, tokenised buffers, earlier
completions, and what the planner has learnt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.catalog import models_dir
from engine.config import EngineConfig
from engine.core import (
    CancelToken,
    CompletionChunk,
    CompletionRequest,
    CompletionSummary,
    DecodeStats,
    FinishReason,
    Round,
    Source,
)
from engine.decoder import DecodeJob, SpeculativeDecoder
from engine.drafters import LookupDrafter, ModelDrafter, Tokens
from engine.errors import ConfigError, OutOfMemory, RequestError, is_out_of_memory
from engine.fim import find_template
from engine.healing import Healer
from engine.loader import LoadedModel, Report
from engine.lookup import Corpus, PastCompletions
from engine.model import Cancelled, ModelRunner
from engine.models import LoadedModels, load_models
from engine.planner import Planner
from engine.prompt import DEFAULT_STYLE, PromptPlan, PromptPlanner, PromptStyle
from engine.proposer import Proposer
from engine.stops import StopContext
from engine.text_stream import TextStream
from engine.token_index import TokenIndex
from engine.trace import as_json, rounds_as_json
from engine.verifier import Verifier

Alone = Callable[[], AbstractContextManager[None]]
STOP_CONTEXT = 4000  # characters each side of the cursor that stop rules look at
PAST_CONTEXT = 16  # tokens before a completion that are remembered with it, so that it can be found again


@dataclass(frozen=True, slots=True)
class _Document:
    """A request's text as the model sees it: no byte-order mark, line breaks as a line feed."""

    request: CompletionRequest
    line_break: str


class Engine:
    """Completes code with a target model, drafting from open text and, if there is one, from a draft model."""

    def __init__(
        self,
        models: LoadedModels,
        config: EngineConfig,
        style: PromptStyle = DEFAULT_STYLE,
        sharing: Engine | None = None,
        planner: Planner | None = None,
    ) -> None:
        """Take loaded models; `Engine.load` finds and loads them.

        `sharing` names an engine on the same models whose caches this one uses too: variants compared on one prompt
        need not compute it twice. `planner` chooses among drafts; by default one that knows the models' costs.
        """
        if config.threads:
            torch.set_num_threads(config.threads)
        target = models.target
        context_tokens = config.context_tokens or models.context_tokens
        self.config, self._target, self._load_ms = config, target, models.load_ms
        self.notes: list[str] = list(models.notes)
        tokenizer = target.tokenizer
        template = find_template(tokenizer)
        if template.order == "prefix":
            self.notes.append(f"{target.name} knows no fill-in-the-middle: it sees only the text left of the cursor")
        if context_tokens >= target.network.max_length:
            raise ConfigError(
                f"context_tokens is {context_tokens}, the model holds {target.network.max_length}; set it lower"
            )
        self._planner = PromptPlanner(tokenizer, template, context_tokens, style)
        self._index = TokenIndex(tokenizer.encode)
        self._past = PastCompletions()
        healer = Healer(tokenizer.token_bytes)
        networks = [m.network for m in (target, models.draft) if m is not None]
        runners = [ModelRunner(network, config.cache_slots) for network in networks]
        alone = [getattr(network, "alone", nullcontext) for network in networks]  # where they bring their own threads,
        self._alone: Alone = nullcontext if nullcontext in alone else alone[0]  # all of them, torch's keep out
        self._runners: list[ModelRunner] = sharing._runners if sharing else runners
        self._lookup, self._model = self._choose_drafters(models.draft, healer)
        runner, planner = self._runners[0], planner or Planner(deepcopy(models.costs))
        self._decoder = SpeculativeDecoder(
            runner,
            Verifier(runner, healer, tokenizer.size),
            healer,
            Proposer(self._lookup, self._model, planner, healer),
            planner,
            config.max_draft,
        )

    @classmethod
    def load(cls, config: EngineConfig, report: Report = lambda _: None, models: Path | None = None) -> Engine:
        """Load what `config` asks for. A broken target raises; a broken draft is said once and lookup serves alone."""
        return cls(load_models(config, report, models_dir(models)), config)

    def _choose_drafters(
        self, draft: LoadedModel | None, healer: Healer
    ) -> tuple[LookupDrafter | None, ModelDrafter | None]:
        names = self.config.drafters
        if not getattr(self._target.network, "can_truncate", True):
            if names:
                self.notes.append(f"{self._target.name} cannot roll back its state, so it runs without drafts")
            return None, None
        lookup = LookupDrafter(healer) if "lookup" in names else None
        if draft is None or "model" not in names:
            return lookup, None
        if not getattr(draft.network, "can_truncate", True):
            self.notes.append(f"{draft.name} cannot roll back its state, so it drafts nothing; name another draft")
            return lookup, None
        return lookup, ModelDrafter(self._runners[1], healer, self._target.tokenizer.size)

    def plan(self, request: CompletionRequest) -> PromptPlan:
        """Return the exact prompt a request leads to, with its segments."""
        return self._planner.plan(_normalised(request).request)

    def explain(self, request: CompletionRequest, last: CompletionSummary | None = None) -> dict[str, Any]:
        """Return as plain data the exact prompt of a request and how `last`, a completion of this engine, came about.

        `prompt` lists the segments in order, control tokens by name; joined they are what the target reads.
        """
        plan = self.plan(request)
        prompt = [{"name": s.name, "text": s.text, "tokens": s.end - s.start} for s in plan.segments]
        explained: dict[str, Any] = {"prompt": prompt, "prompt_tokens": len(plan.ids), "model": self._target.name}
        if last is not None:
            explained["last"] = as_json(last) | {"rounds": rounds_as_json(last, self.decode)}
        return explained

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids; control tokens have none, an unfinished character shows as U+FFFD."""
        return self._target.tokenizer.decode_bytes(ids).decode("utf-8", "replace")

    def forget(self, path: str) -> None:
        """Drop everything learnt from a document: it was closed, or may no longer be used."""
        self._index.forget(path)
        self._past.forget(path)
        self._planner.forget(path)
        for runner in self._runners:
            runner.forget(path)

    def catch_up(self, request: CompletionRequest, cancel: CancelToken | None = None) -> None:
        """Let the draft model read a request's prompt in an idle moment, so that it can draft when it is asked.

        In a completion the planner would have to charge that reading to the first draft, which it never pays.
        """
        if self._model is None:
            return
        plan = self._planner.plan(_normalised(request).request)
        for runner in self._runners:
            runner.select(request.path)
        with suppress(Cancelled), self._alone():
            self._model.catch_up(plan.ids, cancel)

    def complete(self, request: CompletionRequest, cancel: CancelToken | None = None) -> Iterator[CompletionChunk]:
        """Yield committed runs of text as they are verified; the last chunk carries the summary.

        Raises RequestError for a request that cannot be served and OutOfMemory when it does not fit; the engine
        stays usable after both.
        """
        try:
            with self._alone():
                yield from self._complete(_normalised(request), cancel or CancelToken())
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            for runner in self._runners:
                runner.forget(request.path)
            raise OutOfMemory("this completion does not fit into memory; lower context_tokens or max_tokens") from error

    def _complete(self, document: _Document, cancel: CancelToken) -> Iterator[CompletionChunk]:
        request = document.request
        completion = _Completion(self._load_ms)
        plan = self._planner.plan(request)
        self._require_room(plan, request)
        for runner in self._runners:
            runner.select(request.path)
        completion.stats.prompt_tokens = len(plan.ids)
        completion.stats.reused_tokens = self._decoder.target.reusable(plan.ids)
        unread = len(plan.ids) - completion.stats.reused_tokens
        local = self._corpora(request, plan)
        stream = TextStream(
            self._target.tokenizer.token_bytes, _stop_context(request), len(plan.owed), document.line_break
        )
        job = DecodeJob(
            plan.ids, local, plan.owed, request.sampling, request.limits.max_tokens, self._target.ends, cancel
        )
        reason: FinishReason = "cancelled"
        if not 0 < request.limits.max_prefill < unread:
            reason = yield from self._stream(job, stream, completion)
            if not completion.prefilled:  # cancelled in the middle of it
                unread = max(0, self._decoder.target.reusable(plan.ids) - completion.stats.reused_tokens)
            completion.stats.computed_tokens = unread
        runs = stream.finish(reason)
        if stream.token_ids:
            self._past.add(request.path, [*local[-PAST_CONTEXT:].tolist(), *stream.token_ids])
        yield CompletionChunk(runs, completion.summary(stream, plan.ids))

    def _stream(
        self, job: DecodeJob, stream: TextStream, completion: _Completion
    ) -> Generator[CompletionChunk, None, FinishReason]:
        try:
            for step in self._decoder.decode(job):
                completion.count(step)
                for at, token in enumerate(step.emitted):
                    source: Source = step.draft.sources[at] if at < step.accepted else "target"
                    if stream.add(token, source):
                        return "stop"  # the stream knows the rule
                if runs := stream.fresh():
                    completion.showed()
                    yield CompletionChunk(runs)
        except Cancelled:
            return "cancelled"
        if job.cancel.cancelled:
            return "cancelled"
        return "length" if len(stream.token_ids) >= job.max_tokens else "stop"

    def _require_room(self, plan: PromptPlan, request: CompletionRequest) -> None:
        most = self._target.network.max_length
        if len(plan.ids) + request.limits.max_tokens > most:
            raise RequestError(
                f"a prompt of {len(plan.ids)} tokens and {request.limits.max_tokens} new ones exceed "
                f"the model's {most}; lower max_tokens or context_tokens"
            )

    def _corpora(self, request: CompletionRequest, plan: PromptPlan) -> Tokens:
        """Hand the lookup drafter what is open; return the document's own tokens before the cursor, healed."""
        index = self._index
        buffers = [buffer for buffer in request.buffers if buffer.path != request.path]
        index.update(request.path, -1, request.text, request.cursor)
        for buffer in buffers:
            index.update(buffer.path, buffer.version, buffer.text)
        index.keep_only({request.path, *(buffer.path for buffer in buffers)})
        before, _ = index.split(request.path, plan.window.anchor)
        _, after = index.split(request.path, request.cursor)
        corpora = [Corpus(after, "after", 0, "start")]
        corpora += [Corpus(index.tokens(b.path), "buffer", rank, "end") for rank, b in enumerate(buffers, 1)]
        corpora += self._past.corpora([request.path, *(b.path for b in buffers)], first_rank=len(corpora))
        if self._lookup is not None:
            self._lookup.corpora = corpora
        return np.concatenate([before, np.asarray(plan.typed, dtype=np.int32)])


class _Completion:
    """Counts and times of one completion under way."""

    def __init__(self, load_ms: float) -> None:
        self.stats = DecodeStats()
        self._rounds: list[Round] = []
        self._began = time.perf_counter()
        self.stats.ms = {"load": load_ms, "prefill": 0.0, "draft": 0.0, "verify": 0.0, "overhead": 0.0}
        self.prefilled = False

    def _since(self) -> float:
        return (time.perf_counter() - self._began) * 1e3

    def count(self, step: Round) -> None:
        stats = self.stats
        stats.target_passes += 1
        stats.emitted_tokens += len(step.emitted)
        self._rounds.append(step)
        stats.ms["draft"] += step.draft_ms
        stats.ms["verify" if self.prefilled else "prefill"] += step.verify_ms
        self.prefilled = True
        for at, source in enumerate(step.draft.sources):
            stats.drafted[source] = stats.drafted.get(source, 0) + 1
            stats.accepted[source] = stats.accepted.get(source, 0) + (at < step.accepted)

    def showed(self) -> None:
        self.stats.ms.setdefault("first_token", self._since())

    def summary(self, stream: TextStream, prompt: tuple[int, ...]) -> CompletionSummary:
        ms = self.stats.ms
        ms["total"] = self._since()
        ms.setdefault("first_token", ms["total"])
        ms["overhead"] = max(0.0, ms["total"] - ms["prefill"] - ms["draft"] - ms["verify"])
        assert stream.reason is not None
        return CompletionSummary(
            stream.text, tuple(stream.token_ids), prompt, stream.reason, self.stats, tuple(self._rounds)
        )


def _normalised(request: CompletionRequest) -> _Document:
    text, cursor = request.text, request.cursor
    if not 0 <= cursor <= len(text):
        raise RequestError(f"cursor {cursor} is outside {request.path}, which has {len(text)} characters")
    before, line_break = text[:cursor], "\r\n" if "\r\n" in text else "\n"
    if before.endswith("\r") and text[cursor : cursor + 1] == "\n":
        before = before[:-1]  # the cursor cannot stand inside a line break
        cursor -= 1
    before, after = _plain(before), text[cursor:].replace("\r\n", "\n")
    buffers = tuple(replace(buffer, text=_plain(buffer.text)) for buffer in request.buffers)
    return _Document(replace(request, text=before + after, cursor=len(before), buffers=buffers), line_break)


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _stop_context(request: CompletionRequest) -> StopContext:
    before = request.text[max(0, request.cursor - STOP_CONTEXT) : request.cursor]
    after = request.text[request.cursor : request.cursor + STOP_CONTEXT]
    return StopContext(before, after, request.limits.stop, request.language)

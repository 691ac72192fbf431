"""Propose, verify, commit: the loop of speculative decoding, on token ids alone.

Invariant after every step: the target's cache holds every committed token but the last.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from engine.config import SamplingParams
from engine.core import CancelToken, Draft, Round, Source
from engine.drafters import DraftContext, Drafter, ModelDrafter, Proposal, Tokens
from engine.healing import Healer
from engine.model import ModelRunner
from engine.planner import Planner
from engine.verifier import Verifier


@dataclass(frozen=True, slots=True)
class DecodeJob:
    """One completion as the loop sees it.

    `local` are the document's own tokens before the cursor (healed like the prompt): what lookup matches against.
    `ends` are ids that finish the text and are never emitted.
    """

    prompt: Sequence[int]
    local: Tokens
    owed: bytes
    params: SamplingParams
    max_tokens: int
    ends: Collection[int]
    cancel: CancelToken


class SpeculativeDecoder:
    """Decodes with one target model, any drafters and a planner that chooses among them."""

    def __init__(
        self,
        target: ModelRunner,
        verifier: Verifier,
        healer: Healer,
        drafters: Sequence[Drafter],
        planner: Planner,
        max_draft: int,
    ) -> None:
        self.target, self._verifier, self._healer = target, verifier, healer
        self._drafters, self._planner, self._max_draft = drafters, planner, max_draft

    def decode(self, job: DecodeJob) -> Iterator[Round]:
        """Yield one round per target pass until an end token or the limit; raises Cancelled from a prefill.

        The last round of an ended text may emit fewer tokens than it accepted: what follows an end token is dropped.
        """
        ids, generated, owed = list(job.prompt), 0, job.owed
        local = job.local
        while generated < job.max_tokens:
            if job.cancel.cancelled:
                return
            context = DraftContext(ids, local, generated, owed, job.params, job.cancel)
            done = self._round(context, min(self._max_draft, job.max_tokens - generated - 1))
            emitted, ended = _before_end(done.emitted, job.ends)
            owed = (self._healer.along(owed, emitted) or [owed])[-1]
            ids.extend(emitted)
            local = np.concatenate([local, np.asarray(emitted, dtype=np.int32)])
            generated += len(emitted)
            self.target.cache.truncate(len(ids) - 1)
            assert ended or self.target.cache.ids == ids[:-1]
            yield Round(done.draft, min(done.accepted, len(emitted)), emitted, done.rows, done.draft_ms, done.verify_ms)
            if ended:
                return

    def _round(self, context: DraftContext, room: int) -> Round:
        began = time.perf_counter()
        source, proposal = self._propose(context, room)
        proposed = time.perf_counter()
        known = len(self.target.cache)
        draft = proposal.ids
        result = self._verifier.verify(
            context.ids, draft, context.owed, context.params, context.generated, context.cancel
        )
        verified = time.perf_counter()
        rows = len(draft) + 1
        if known == len(context.ids) - 1:  # not a prefill: the pass cost what these rows cost
            self._planner.costs.observe_pass(rows, (verified - proposed) * 1e3)
        if draft:
            self._planner.observe(source, proposal.kind, proposal.match_length, result.accepted, len(draft))
        return Round(
            draft=Draft(draft, (source,) * len(draft) if draft else ()),
            accepted=result.accepted,
            emitted=result.emitted,
            rows=rows,
            draft_ms=(proposed - began) * 1e3,
            verify_ms=(verified - proposed) * 1e3,
        )

    def _propose(self, context: DraftContext, room: int) -> tuple[Source, Proposal]:
        """Take the drafter that promises most tokens per millisecond; lookup is asked first, asking it is free."""
        best: tuple[Source, Proposal] = ("target", Proposal())
        best_speed = 0.0
        for drafter in self._drafters:
            if isinstance(drafter, ModelDrafter):
                length, speed = self._planner.model_length(room, drafter.behind(context.ids))
                if not length or speed <= best_speed:
                    continue
                proposal = self._written(drafter, context, room)
            else:
                found = drafter.propose(context, room, _always)
                length, speed = self._planner.lookup_length(found.match_length, found.kind, len(found.ids))
                proposal = Proposal(found.ids[:length], found.kind, found.match_length)
            if speed > best_speed:
                best, best_speed = (drafter.name, proposal), speed
        return best

    def _written(self, drafter: ModelDrafter, context: DraftContext, room: int) -> Proposal:
        drafter.catch_up(context)
        began = time.perf_counter()
        proposal = drafter.propose(context, room, self._planner.worth_extending)
        self._planner.costs.observe_draft(len(proposal.ids), (time.perf_counter() - began) * 1e3)
        return proposal


def _always(_: Sequence[float]) -> bool:
    return True


def _before_end(emitted: tuple[int, ...], ends: Collection[int]) -> tuple[tuple[int, ...], bool]:
    for at, token in enumerate(emitted):
        if token in ends:
            return emitted[:at], True
    return emitted, False

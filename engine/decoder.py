"""Propose, verify, commit: the loop of speculative decoding, on token ids alone.

Invariant after every step: the target's cache holds every committed token but the last.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.config import SamplingParams
from engine.core import CancelToken, Draft, Round
from engine.drafters import DraftContext, Tokens
from engine.healing import Healer
from engine.kv_cache import common_prefix
from engine.model import ModelRunner
from engine.planner import Planner
from engine.proposer import Plan, Proposer
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
    """Decodes with one target model and whatever is proposed to it."""

    def __init__(
        self,
        target: ModelRunner,
        verifier: Verifier,
        healer: Healer,
        proposer: Proposer,
        planner: Planner,
        max_draft: int,
    ) -> None:
        self.target, self._verifier, self._healer = target, verifier, healer
        self._proposer, self._planner, self._max_draft = proposer, planner, max_draft

    def decode(self, job: DecodeJob) -> Iterator[Round]:
        """Yield one round per target pass until an end token or the limit; raises Cancelled from a prefill.

        The last round of an ended text may emit fewer tokens than it accepted: what follows an end token is dropped.
        """
        ids, generated, owed = list(job.prompt), 0, job.owed
        local = job.local
        self._planner.acceptance.begin()
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
            yield replace(done, accepted=min(done.accepted, len(emitted)), emitted=emitted)
            if ended:
                return

    def _round(self, context: DraftContext, room: int) -> Round:
        began = time.perf_counter()
        plan = self._proposer.propose(context, room)
        proposed = time.perf_counter()
        known = len(self.target.cache)
        draft = plan.proposal.ids
        result = self._verifier.verify(
            context.ids, draft, context.owed, context.params, context.generated, context.cancel
        )
        verified = time.perf_counter()
        rows = len(draft) + 1
        if known == len(context.ids) - 1:  # not a prefill: the pass cost what these rows cost
            self._planner.costs.observe_target(rows, (verified - proposed) * 1e3)
        self._learn(plan, result.emitted)
        return Round(
            draft=Draft(draft, tuple(evidence.source for evidence in plan.proposal.evidence)),
            accepted=result.accepted,
            emitted=result.emitted,
            rows=rows,
            draft_ms=(proposed - began) * 1e3,
            verify_ms=(verified - proposed) * 1e3,
            options=plan.options,
        )

    def _learn(self, plan: Plan, emitted: Sequence[int]) -> None:
        """Judge all that was proposed by the text as far as it is known now, verified or not."""
        for proposal in plan.seen:
            kept = common_prefix(proposal.ids, emitted)
            self._planner.acceptance.judge(proposal.evidence, kept, len(emitted))


def _before_end(emitted: tuple[int, ...], ends: Collection[int]) -> tuple[tuple[int, ...], bool]:
    for at, token in enumerate(emitted):
        if token in ends:
            return emitted[:at], True
    return emitted, False

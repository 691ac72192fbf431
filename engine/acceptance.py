"""How likely a proposed token is to be kept, by the evidence it was proposed on, learnt from every token judged.

A copied token's evidence is where it was copied from and how many tokens before it matched, those copied before it
included: a long copy that has held so far will likely hold on. A written token's evidence is the draft model's own
probability, which is calibrated here, and whether a copy says the same. Classes fade, so that a change of text shows.

Text that nothing predicts comes by the completion: names at random after a loop that copies itself. So each completion
also finds out how far each family of classes holds what it promises, within a few tokens, and forgets it when it ends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.core import Source

PRIOR_WEIGHT = 10.0  # how many judged tokens a prior counts for
FORGET = 0.995  # weight of a class's past at each judgement
FADE = 0.98  # per step in which the draft model could have been asked and was not
LONG = 6  # matched tokens from which a copy is trusted apart from shorter ones: those fail often and mean little
TRUST_WEIGHT = 0.6  # how many promised tokens a completion's first trust in a source counts for
TRUST_MEMORY = 0.95  # weight of a completion's past in it, at each judgement

MATCHED = (1, 2, 3, 4, 6, 8, 12, 20, 32)  # classes of matched tokens, each from this number on
CONFIDENT = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.995)  # classes of the draft model's probability
# Priors are shares seen on 59 holes of the benchmark's suites (Qwen2.5-Coder 1.5B, drafts by its 0.5B).
COPIED_PRIORS = (0.43, 0.47, 0.5, 0.72, 0.77, 0.88, 0.91, 0.95, 0.97)  # by class of matched tokens
AFTER_PRIORS = (0.52, 0.68, 0.7, 0.77, 0.9, 0.93, 0.94, 0.96, 0.97)  # of what stands right of the cursor
WRITTEN_PRIORS = (0.32, 0.4, 0.62, 0.79, 0.8, 0.93, 0.94, 0.95, 0.98)  # by class of probability
AGREED_PRIORS = (0.35, 0.75, 0.82, 0.94, 0.95, 0.97, 0.97, 0.99, 0.99)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a token was proposed: by whom, the class it is counted in, and what is believed of the class at first.

    A completion trusts all classes of one `family` alike.
    """

    source: Source
    key: str
    prior: float
    family: str


def copied(kind: str, matched: int) -> Evidence:
    """Return the evidence of a token copied from a corpus of `kind` after `matched` equal tokens."""
    at = bisect_right(MATCHED, max(matched, 1)) - 1
    priors = AFTER_PRIORS if kind == "after" else COPIED_PRIORS
    family = "copied/long" if matched >= LONG else "copied/short"
    return Evidence("lookup", f"copied/{kind}/{MATCHED[at]}", priors[at], family)


def written(confidence: float, agreed: bool = False) -> Evidence:
    """Return the evidence of a token that the draft model gave the probability `confidence`."""
    at = bisect_right(CONFIDENT, confidence) - 1
    kind, priors = ("agreed", AGREED_PRIORS) if agreed else ("written", WRITTEN_PRIORS)
    return Evidence("model", f"{kind}/{CONFIDENT[at]}", priors[at], "written")


ANY_WRITTEN = Evidence("model", "written", 0.85, "written")
"""A token the draft model has not written yet."""


@dataclass(slots=True)
class Acceptance:
    """Running acceptance per judged token, by evidence."""

    counts: dict[str, tuple[float, float]] = field(default_factory=dict)  # kept, judged
    here: dict[str, tuple[float, float]] = field(default_factory=dict)  # kept, promised in this completion

    def begin(self) -> None:
        """Begin another completion: all families are trusted anew."""
        self.here.clear()

    def rate(self, evidence: Evidence) -> float:
        """Return the estimated probability that a token is kept, given that those before it were."""
        kept, promised = self.here.get(evidence.family, (0.0, 0.0))
        trust = (kept + TRUST_WEIGHT) / (promised + TRUST_WEIGHT)
        return self._promise(evidence) * min(trust, 1.0)

    def _promise(self, evidence: Evidence) -> float:
        kept, judged = self.counts.get(evidence.key, (0.0, 0.0))
        return (kept + evidence.prior * PRIOR_WEIGHT) / (judged + PRIOR_WEIGHT)

    def judge(self, chain: Sequence[Evidence], kept: int, known: int) -> None:
        """Take in a chain of which the first `kept` tokens are right and `known` tokens of the text are known.

        Tokens after the first mistake, and those beyond the text, were never judged.
        """
        for at, evidence in enumerate(chain[: min(kept + 1, known)]):
            right, promised = self.here.get(evidence.family, (0.0, 0.0))
            self.here[evidence.family] = (
                right * TRUST_MEMORY + (at < kept),
                promised * TRUST_MEMORY + self._promise(evidence),
            )
            self._count(evidence.key, at < kept)
            if evidence.source == "model":
                self._count(ANY_WRITTEN.key, at < kept)

    def fade(self, evidence: Evidence) -> None:
        """Believe a little less in what was seen: a source that is no longer asked must get another try some day."""
        for seen, key in ((self.counts, evidence.key), (self.here, evidence.family)):
            kept, judged = seen.get(key, (0.0, 0.0))
            seen[key] = (kept * FADE, judged * FADE)

    def _count(self, key: str, kept: bool) -> None:
        old_kept, old_judged = self.counts.get(key, (0.0, 0.0))
        self.counts[key] = (old_kept * FORGET + kept, old_judged * FORGET + 1)

"""Whether verification computes what plain decoding computes, logit by logit.

A text is first decoded plainly, one row a pass. Then it is verified as drafts of several lengths, each ending in a
wrong token that is rolled back. In exact mode all logits must have the same bits. Where they need not, every token that
differs should be a near-tie: its gap is told from the plain logits alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

import torch
from torch import Tensor

from engine.bench.gpu_budget import Deadline
from engine.model import ForwardModel

LENGTHS = (1, 2, 4, 7, 12)  # drafted tokens, the wrong one included
Mode = Literal["exact", "fast"]


@dataclass(slots=True)
class Agreement:
    """One model in one mode: rows compared, and the top-2 gaps of their plain logits.

    `missed` are the gaps of those whose first choice was another.
    """

    model: str
    mode: Mode
    rows: int = 0
    other_bits: int = 0
    largest: float = 0.0
    gaps: list[float] = field(default_factory=list)
    missed: list[float] = field(default_factory=list)

    @property
    def mismatch_rate(self) -> float:
        """Share of rows whose first choice was another."""
        return len(self.missed) / self.rows if self.rows else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return {
            "model": self.model,
            "mode": self.mode,
            "rows": self.rows,
            "rows_with_other_bits": self.other_bits,
            "largest_difference": self.largest,
            "token_mismatch_rate": round(self.mismatch_rate, 6),
            "largest_gap_at_a_mismatch": max(self.missed, default=None),
            "median_gap": median(self.gaps) if self.gaps else None,
        }


@torch.inference_mode()
def compare(
    into: Agreement, network: ForwardModel, prompt: Sequence[int], tokens: int, vocab: int, deadline: Deadline
) -> None:
    """Decode `tokens` tokens after `prompt` and verify them; ids from `vocab` on are padding and never chosen."""
    ids, plain = _decode(network, prompt, tokens, vocab)
    best = plain.topk(2, dim=-1).values
    gaps = (best[:, 0] - best[:, 1]).tolist()
    for length in LENGTHS:
        if deadline.over:
            return
        at = 0
        cache = network.new_cache()
        network.forward(prompt, cache, 1)
        while at < tokens - 1:
            kept = ids[at : min(at + length, tokens - 1)]
            wrong = (ids[at + len(kept)] + 1) % vocab
            found = network.forward([*kept, wrong], cache, len(kept) + 1)[:-1, :vocab]
            cache.truncate(len(prompt) + at + len(kept))
            behind = slice(at + 1, at + 1 + len(kept))
            _count(into, plain[behind], found, gaps[behind])
            at += len(kept)


def _decode(network: ForwardModel, prompt: Sequence[int], tokens: int, vocab: int) -> tuple[list[int], Tensor]:
    """Return a greedy text and the logits [tokens, vocab] that chose it."""
    cache = network.new_cache()
    logits = [network.forward(prompt, cache, 1)[:, :vocab]]
    ids = [int(logits[0].argmax())]
    while len(ids) < tokens:
        logits.append(network.forward(ids[-1:], cache, 1)[:, :vocab])
        ids.append(int(logits[-1].argmax()))
    return ids, torch.cat(logits)


def _count(into: Agreement, plain: Tensor, found: Tensor, gaps: Sequence[float]) -> None:
    into.rows += len(plain)
    into.gaps += gaps
    into.other_bits += int((plain != found).any(dim=-1).sum())
    into.largest = max(into.largest, float((plain - found).abs().max()))
    other = (plain.argmax(dim=-1) != found.argmax(dim=-1)).tolist()
    into.missed += [gap for gap, differs in zip(gaps, other, strict=True) if differs]

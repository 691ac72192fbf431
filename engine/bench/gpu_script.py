"""A text given in advance, so that any share of drafts can be made right.

Random weights write a text that runs into loops, and near-ties between kernels would end a scripted drafter's luck.
Here every pass costs what it costs, and whatever it computes, the next token of the script gets the highest logit: for
us and for every peer alike. A draft is the script with tokens spoilt at random.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.acceptance import written
from engine.drafters import DraftContext, Proposal
from engine.gpu.model import GpuModel
from engine.kv_cache import KVCache
from engine.model import ForwardModel

HIGH = 1e4
FIRST = 1  # id 0 is left to peers as an end token that never comes


class Script:
    """A prompt of random ids and the text that follows it, `spare` tokens longer than anybody may write."""

    def __init__(self, vocab: int, prompt: int, tokens: int, spare: int = 64, seed: int = 0) -> None:
        self._rng = random.Random(seed)  # noqa: S311  (repeatable ids, no secret)
        self._vocab, self.tokens = vocab, tokens
        text = [self._id() for _ in range(tokens + spare)]
        self._luck = self._shuffled(tokens) + self._shuffled(spare)
        self._wrong = [self._other(token) for token in text]
        self.text = text
        self.prompt = [self._id() for _ in range(prompt)]

    def _shuffled(self, count: int) -> list[float]:
        """Return evenly spaced numbers in random order: the share below any bound is what it says."""
        numbers = [(at + 0.5) / count for at in range(count)]
        self._rng.shuffle(numbers)
        return numbers

    def _id(self) -> int:
        return self._rng.randrange(FIRST, self._vocab)

    def _other(self, token: int) -> int:
        return FIRST + (token - FIRST + self._rng.randrange(1, self._vocab - FIRST)) % (self._vocab - FIRST)

    def spoilt(self, acceptance: float) -> list[int]:
        """Return the text with each token right by this probability; the same places whoever asks."""
        each = zip(self.text, self._wrong, self._luck, strict=True)
        return [right if luck < acceptance else wrong for right, wrong, luck in each]

    def prompt_with(self, acceptance: float) -> list[int]:
        """Return the prompt with a spoilt copy of the text at its end, for those who copy from prompts."""
        return [*self.prompt[: -self.tokens], *self.spoilt(acceptance)[: self.tokens]]


class ScriptedTarget:
    """A network whose logits prefer the script's next token, after its own pass at its full cost."""

    def __init__(self, inner: ForwardModel, ids: Sequence[int], device: torch.device) -> None:
        """`ids` are prompt and text together."""
        self._inner = inner
        self._wanted = torch.tensor(list(ids), device=device)
        self.vocab_size, self.max_length, self.row_exact = inner.vocab_size, inner.max_length, inner.row_exact

    def new_cache(self) -> KVCache:
        """Return an empty cache."""
        return self._inner.new_cache()

    @torch.inference_mode()
    def forward(self, ids: Sequence[int], cache: KVCache, last: int) -> Tensor:
        """Run the network's pass and raise the script's tokens in its logits."""
        logits = self._inner.forward(ids, cache, last)
        end = len(cache) + 1
        return raise_wanted(logits, self._wanted[end - last : end])


def raise_wanted(logits: Tensor, wanted: Tensor) -> Tensor:
    """Give each row of logits [rows, vocab] its wanted token [rows], in place."""
    return logits.scatter_(-1, wanted[:, None], HIGH)


class ScriptedDrafter:
    """Proposes the script's tokens, spoilt as asked; a draft model, if given, writes first and is not listened to."""

    def __init__(self, prompt: int, tokens: Sequence[int], length: int, model: GpuModel | None = None) -> None:
        self._prompt, self._tokens, self._length = prompt, tokens, length
        self._model = model
        self._cache = model.new_cache() if model else None

    def propose(self, context: DraftContext, limit: int) -> Proposal:
        """Return the next tokens; always as many are written, so that no recording is made for a text's end."""
        at = len(context.ids) - self._prompt
        ids = self._tokens[at : at + self._length]
        if self._model is not None and self._cache is not None:
            self._model.write(context.ids, self._cache, self._length)
            # As if it had written them: what is kept of them it need not read again.
            self._cache.ids[len(context.ids) :] = ids[:-1]
        ids = ids[:limit]
        return Proposal(tuple(ids), (written(1.0),) * len(ids))

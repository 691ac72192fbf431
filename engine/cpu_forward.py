"""A lean int8 forward pass for the Llama family (Llama, Qwen2, Mistral without window) on a CPU.

Row-exact: the logits of a position have the same bits however many rows share its pass and however its prefix was
chunked. That holds because integer products do not depend on order, everything elementwise works within a row, and
attention sums over keys at fixed places (see attention). One formula serves all row counts: the smallest difference in
a scale would flip a code.

The rows of the weights of queries and keys were interleaved when they were prepared, so that RoPE turns neighbours.
Constant factors (1/127 of the activations, the softmax's scale) are in the packed weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from engine.arithmetic import Arithmetic
from engine.kv_cache import KVCache
from engine.layers import Activations, LeanLayer, Linear
from engine.lean_shape import LeanShape


class LeanModel:
    """The forward pass over packed weights. One pass at a time."""

    row_exact = True
    prefill_rows = (16, 32, 64, 128, 256)

    def __init__(
        self,
        shape: LeanShape,
        embedding: Tensor,  # [vocab, hidden], any float type; may be memory-mapped
        layers: Sequence[LeanLayer],
        final_norm: Tensor,  # [hidden]
        head: Linear,  # [rows, hidden] -> [rows, vocab]
        rope: Tensor,  # [max_length, head_dim / 2] complex64
        arithmetic: Arithmetic,
    ) -> None:
        self.shape = shape
        self.vocab_size = shape.vocab
        self.max_length = shape.max_length
        self._embedding = embedding
        self.layers = layers
        self._final_norm = final_norm
        self.head = head
        self.arithmetic = arithmetic
        self._stack = arithmetic.stack(shape, layers, rope)

    def alone(self) -> AbstractContextManager[None]:
        """Return what a completion should run in: see Arithmetic."""
        return self.arithmetic.alone()

    def new_cache(self) -> KVCache:
        """Return an empty cache for this model."""
        return self._stack.new_cache()

    @torch.inference_mode()
    def forward(self, ids: Sequence[int], cache: KVCache, last: int) -> Tensor:
        """Append `ids` to the cache and return the logits of the last `last` of them, float32 [last, vocab]."""
        with self.arithmetic.passing():
            x, change = self._run(ids, cache, last)
            _, q, scale = self.arithmetic.normed(x, change, self._final_norm)
            return self._logits(q, scale, cache)

    @torch.inference_mode()
    def prefill(self, ids: Sequence[int], cache: KVCache) -> None:
        """Append `ids` to the cache; the head, a fifth of all weights, is not read for nothing."""
        with self.arithmetic.passing():
            self._run(ids, cache, 1)

    def _run(self, ids: Sequence[int], cache: KVCache, last: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        x, change = self._stack.run(self._embedding[torch.tensor(ids)].float(), cache, last)
        cache.extend(ids)
        return x, change

    def _logits(self, q: Activations, scale: Tensor, cache: KVCache) -> Tensor:
        """[rows, vocab] from normed and rounded rows [rows, hidden] and their scale [rows, 1]."""
        return self.head(q).mul_(scale)

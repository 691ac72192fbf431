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
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.arithmetic import Activations, Arithmetic, Linear
from engine.kv_cache import KVCache
from engine.lean_shape import LeanShape


@dataclass(frozen=True, slots=True)
class LeanLayer:
    """One layer's packed weights. Each linear takes activations scaled to +-127 and returns their products / 127."""

    input_norm: Tensor  # [hidden]
    qkv: Linear  # [rows, hidden] -> [rows, (heads + 2 kv_heads) head_dim]
    qkv_bias: Tensor  # [(heads + 2 kv_heads) head_dim], zeros where the model has none
    out: Linear  # [rows, heads head_dim] -> [rows, hidden]
    post_norm: Tensor  # [hidden]
    gate_up: Linear  # [rows, hidden] -> [rows, 2 intermediate]
    down: Linear  # [rows, intermediate] -> [rows, hidden]


class LeanModel:
    """The forward pass over packed weights. One pass at a time."""

    row_exact = True

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
        self._attention = arithmetic.attention(shape, rope)

    def alone(self) -> AbstractContextManager[None]:
        """Return what a completion should run in: see Arithmetic."""
        return self.arithmetic.alone()

    def new_cache(self) -> KVCache:
        """Return an empty cache for this model."""
        return self._attention.new_cache()

    @torch.inference_mode()
    def forward(self, ids: Sequence[int], cache: KVCache, last: int) -> Tensor:
        """Append `ids` to the cache and return the logits of the last `last` of them, float32 [last, vocab]."""
        with self.arithmetic.passing():
            return self._forward(ids, cache, last)

    def _forward(self, ids: Sequence[int], cache: KVCache, last: int) -> Tensor:
        rows = len(ids)
        step = self._attention.begin(cache, rows)
        between = self.arithmetic
        x = self._embedding[torch.tensor(ids)].float()
        change: tuple[Tensor, Tensor] | None = None  # what the last product adds to x, and the scale of its rows
        for index, layer in enumerate(self.layers):
            x, q, scale = between.normed(x, change, layer.input_norm)
            attended = step.attend(index, layer.qkv(q), scale, layer.qkv_bias)
            if index == len(self.layers) - 1:  # of what stands before the last rows, no one needs more than its keys
                x, attended = x[rows - last :], attended[rows - last :]
            q, scale = between.rounded(attended)
            x, q, scale = between.normed(x, (layer.out(q), scale), layer.post_norm)
            q, scale = between.gated(layer.gate_up(q), scale)
            change = layer.down(q), scale
        cache.extend(ids)
        _, q, scale = between.normed(x, change, self._final_norm)
        return self._logits(q, scale, cache)

    def _logits(self, q: Activations, scale: Tensor, cache: KVCache) -> Tensor:
        """[rows, vocab] from normed and rounded rows [rows, hidden] and their scale [rows, 1]."""
        return self.head(q).mul_(scale)

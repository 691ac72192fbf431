"""A lean int8 forward pass for the Llama family (Llama, Qwen2, Mistral without window) on a CPU.

Row-exact: the logits of a position have the same bits however many rows share its pass and however its prefix was
chunked. That holds because integer products do not depend on order (see int8_linear), everything elementwise works
within a row, and keys are padded to whole blocks of 256, so that every sum over keys has the same length and place
(MKL splits a sum by its length: with keys padded to 64, lengths of 192 gave other bits than 256 on an AVX2 machine).
One formula serves all row counts: the smallest difference in a scale would flip a code.

RoPE is one complex product on adjacent pairs of q and k together: the rows of their weights were interleaved when the
weights were prepared. Constant factors (1/127 of the activations, the softmax's scale) are in the packed weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.arithmetic import Activations, Arithmetic, Linear
from engine.exact_rows import exact_bmm, least_rows
from engine.kv_cache import KVCache

KEY_BLOCK = 256  # scores cover whole blocks; probabilities x values is summed block by block


@dataclass(frozen=True, slots=True)
class LeanShape:
    """Sizes of a model of the Llama family."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    eps: float
    max_length: int

    @property
    def group(self) -> int:
        """Query heads per key/value head."""
        return self.heads // self.kv_heads


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


class LeanCache(KVCache):
    """float32 keys, transposed for the score product, and values of all layers.

    Unused positions hold finite numbers: the padded tail meets probability zero, and 0 x inf would spoil the row.
    """

    def __init__(self, shape: LeanShape) -> None:
        super().__init__()
        self.shape = shape
        self.keys = torch.zeros(shape.layers, shape.kv_heads, shape.head_dim, 0)
        self.values = torch.zeros(shape.layers, shape.kv_heads, 0, shape.head_dim)

    @torch.inference_mode()
    def _grow(self, capacity: int) -> None:
        s = self.shape
        keys = torch.zeros(s.layers, s.kv_heads, s.head_dim, capacity)
        values = torch.zeros(s.layers, s.kv_heads, capacity, s.head_dim)
        keys[..., : self.capacity] = self.keys
        values[:, :, : self.capacity] = self.values
        self.keys, self.values = keys, values


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
        self._rope = rope
        self.arithmetic = arithmetic

    def new_cache(self) -> LeanCache:
        """Return an empty cache for this model."""
        return LeanCache(self.shape)

    @torch.inference_mode()
    def forward(self, ids: Sequence[int], cache: KVCache, last: int) -> Tensor:
        """Append `ids` to the cache and return the logits of the last `last` of them, float32 [last, vocab]."""
        assert isinstance(cache, LeanCache)
        with self.arithmetic.passing(len(ids)):
            return self._forward(ids, cache, last)

    def _forward(self, ids: Sequence[int], cache: LeanCache, last: int) -> Tensor:
        start, rows = len(cache), len(ids)
        step = _Step(self.shape, cache, start, rows, self._rope)
        between = self.arithmetic
        x = self._embedding[torch.tensor(ids)].float()
        change: tuple[Tensor, Tensor] | None = None  # what the last product adds to x, and the scale of its rows
        for index, layer in enumerate(self.layers):
            x, q, scale = between.normed(x, change, layer.input_norm)
            qkv = torch.addcmul(layer.qkv_bias, layer.qkv(q), scale)
            q, scale = between.rounded(step.attend(index, qkv))
            x, q, scale = between.normed(x, (layer.out(q), scale), layer.post_norm)
            q, scale = between.gated(layer.gate_up(q), scale)
            change = layer.down(q), scale
        cache.extend(ids)
        assert change is not None
        change = change[0][rows - last :], change[1][rows - last :]
        _, q, scale = between.normed(x[rows - last :], change, self._final_norm)
        return self._logits(q, scale, cache)

    def _logits(self, q: Activations, scale: Tensor, cache: KVCache) -> Tensor:
        """[rows, vocab] from normed and rounded rows [rows, hidden] and their scale [rows, 1]."""
        return self.head(q).mul_(scale)


class _Step:
    """What all layers of one pass share: positions, rotations, mask, and the attention itself."""

    def __init__(self, shape: LeanShape, cache: LeanCache, start: int, rows: int, rope: Tensor) -> None:
        self.shape, self.start, self.rows = shape, start, rows
        self.least = least_rows(shape.kv_heads, shape.group, shape.head_dim)
        self.end = start + rows
        self.padded = -(-self.end // KEY_BLOCK) * KEY_BLOCK
        cache.reserve(self.padded)
        self.keys = cache.keys[..., : self.padded].unbind(0)
        self.values = cache.values[:, :, : self.padded].unbind(0)
        self.rope = rope[start : self.end, None]
        new = torch.arange(start, self.padded)
        own = torch.arange(start, self.end)[:, None]
        mask = torch.zeros(rows, self.padded - start).masked_fill_(new > own, float("-inf"))
        self.mask = mask.repeat_interleave(shape.group, dim=0)  # [rows group, padded - start]

    def attend(self, index: int, qkv: Tensor) -> Tensor:
        """Store this layer's keys and values, return attention output [rows, heads head_dim]."""
        s, rows = self.shape, self.rows
        turned = s.heads + s.kv_heads
        heads = qkv.view(rows, turned + s.kv_heads, s.head_dim)
        qk = _rotate(heads[:, :turned], self.rope)
        keys, values = self.keys[index], self.values[index]
        keys[:, :, self.start : self.end].copy_(qk[:, s.heads :].permute(1, 2, 0))
        values[:, self.start : self.end].copy_(heads[:, turned:].transpose(0, 1))
        q = qk[:, : s.heads].view(rows, s.kv_heads, s.group, s.head_dim).transpose(0, 1)
        scores = exact_bmm(q.reshape(s.kv_heads, rows * s.group, s.head_dim), keys, self.least, s.group)
        scores[:, :, self.start :].add_(self.mask)
        mixed = self._weighted(torch.softmax(scores, dim=-1), values)
        mixed = mixed.view(s.kv_heads, rows, s.group, s.head_dim).transpose(0, 1)
        return mixed.reshape(rows, s.heads * s.head_dim)

    def _weighted(self, probabilities: Tensor, values: Tensor) -> Tensor:
        """[kv, m, keys] x [kv, keys, head_dim], block by block at fixed places: the length must not matter."""
        blocks = zip(torch.split(probabilities, KEY_BLOCK, -1), torch.split(values, KEY_BLOCK, 1), strict=True)
        products = [exact_bmm(p, v, self.least, self.shape.group) for p, v in blocks]
        total = products[0]
        for product in products[1:]:
            total += product
        return total


def _rotate(x: Tensor, rope: Tensor) -> Tensor:
    """Rotate adjacent pairs of [rows, heads, head_dim] by complex [rows, 1, head_dim / 2]."""
    pairs = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rope).flatten(-2)

"""A lean model that writes only the ids code is made of: the draft model without most of its last, largest product.

Byte-pair vocabularies number frequent tokens first, so most of a text lies in the lowest ids (FR-Spec, Zhao et al.,
2025, cuts a draft's head to frequent tokens likewise). What is missing are rare names, and a rare name that code uses
nearly always stands in what the model has read: those ids are scored beside the common ones, a few rows of floats.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from engine.arithmetic import LEVELS, Arithmetic
from engine.cpu_forward import LeanModel
from engine.kv_cache import KVCache
from engine.layers import Activations, LeanLayer, Linear
from engine.lean_shape import LeanShape

COMMON = 32_768
"""Ids below this are always scored. 16,384 would cost about as much, the product is small by then."""


class CutHeadModel(LeanModel):
    """Logits of ids that are neither common, nor read, nor among `always` are minus infinity."""

    def __init__(
        self,
        shape: LeanShape,
        embedding: Tensor,  # [vocab, hidden]
        layers: Sequence[LeanLayer],
        final_norm: Tensor,  # [hidden]
        common: Linear,  # [rows, hidden] -> [rows, COMMON]
        rope: Tensor,  # [max_length, head_dim / 2] complex64
        arithmetic: Arithmetic,
        codes: Tensor,  # [vocab, hidden] int8, the whole head; may be memory-mapped
        scale: Tensor,  # [vocab]
        always: Sequence[int],
    ) -> None:
        super().__init__(shape, embedding, layers, final_norm, common, rope, arithmetic)
        self._codes, self._scale = codes, scale
        self._always = np.array([i for i in always if COMMON <= i < shape.vocab], dtype=np.int64)

    def _logits(self, q: Activations, scale: Tensor, cache: KVCache) -> Tensor:
        read = np.asarray(cache.ids, dtype=np.int64)
        rare = torch.from_numpy(np.union1d(read[read >= COMMON], self._always))
        out = torch.full((len(scale), self.vocab_size), float("-inf"))
        out[:, :COMMON] = super()._logits(q, scale, cache)
        own = (self.arithmetic.floats(q) * (scale / LEVELS)) @ self._codes[rare].float().t()
        out[:, rare] = own * self._scale[rare]
        return out

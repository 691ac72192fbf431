"""A model's layers run step by step: each product, and what stands between two, is a call of its own."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from engine.arithmetic import Arithmetic
from engine.attention import Attention
from engine.kv_cache import KVCache
from engine.layers import LeanLayer


class SteppedStack:
    """Layers on any arithmetic with any attention; see Stack."""

    def __init__(self, arithmetic: Arithmetic, attention: Attention, layers: Sequence[LeanLayer]) -> None:
        self._between, self._attention, self._layers = arithmetic, attention, layers

    def new_cache(self) -> KVCache:
        """See Stack."""
        return self._attention.new_cache()

    def run(self, x: Tensor, cache: KVCache, last: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """See Stack."""
        rows, between = len(x), self._between
        step = self._attention.begin(cache, rows)
        change: tuple[Tensor, Tensor] | None = None  # what the last product adds to x, and the scale of its rows
        for index, layer in enumerate(self._layers):
            x, q, scale = between.normed(x, change, layer.input_norm)
            attended = step.attend(index, layer.qkv(q), scale, layer.qkv_bias)
            if index == len(self._layers) - 1:  # of the rows before the last ones no one needs more than their keys
                x, attended = x[rows - last :], attended[rows - last :]
            q, scale = between.rounded(attended)
            x, q, scale = between.normed(x, (layer.out(q), scale), layer.post_norm)
            q, scale = between.gated(layer.gate_up(q), scale)
            change = layer.down(q), scale
        assert change is not None
        return x, change

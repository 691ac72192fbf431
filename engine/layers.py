"""The layers of a model of the Llama family: their packed weights, and what runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from engine.kv_cache import KVCache

Activations = Any
"""Rounded rows, as an Arithmetic returns them and its linears take them; the next call may reuse their memory."""

Linear = Callable[[Activations], Tensor]
"""Multiplies rows [rows, in] with a packed weight: float32 [rows, out], to be multiplied by the rows' scale."""


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


class Stack(Protocol):
    """All layers of a model, one after the other."""

    def new_cache(self) -> KVCache:
        """Return an empty cache for them."""
        ...

    def run(self, x: Tensor, cache: KVCache, last: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Carry x, float32 [rows, hidden], through the layers; what the cache holds stands before it.

        Stores the rows' keys and values. Returns of the last `last` rows what x became, the product that the last layer
        has yet to add to it, and that product's scale. x is changed.
        """
        ...

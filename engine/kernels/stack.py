"""A model's layers as one compiled call (see stack_ir)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from engine.kernels.attention import KernelAttention
from engine.kernels.kernels import GroupLinear, Kernels
from engine.kernels.stack_ir import LAYER, LINEARS, PASS
from engine.kv_cache import KVCache
from engine.layers import LeanLayer
from engine.lean_shape import LeanShape


class CompiledStack:
    """Layers whose linears are all GroupLinears; see Stack."""

    def __init__(
        self, kernels: Kernels, attention: KernelAttention, shape: LeanShape, layers: Sequence[LeanLayer], eps: float
    ) -> None:
        self._kernels, self._attention, self._layers, self._eps = kernels, attention, layers, eps
        self._heads = shape.heads * shape.head_dim
        self._sizes = {
            "hidden": shape.hidden,
            "heads": self._heads,
            "intermediate": shape.intermediate,
            "layers": len(layers),
        }
        linears = _linears(layers[0])
        self._sizes |= {f"{name}_stride": linear.stride for name, linear in linears.items()}
        self._width = max(linears["qkv"].stride, linears["gate_up"].stride)
        self._words = np.array([[words[name] for name in LAYER] for words in map(_words, layers)], dtype=np.int64)

    def new_cache(self) -> KVCache:
        """See Stack."""
        return self._attention.new_cache()

    def run(self, x: Tensor, cache: KVCache, last: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """See Stack."""
        rows, hidden = x.shape
        step = self._attention.begin(cache, rows)
        delta = torch.empty(rows, hidden)  # room enough: a width that is multiplied is a multiple of 64, of whole tiles
        product = torch.empty(rows, self._width)
        room, scales = torch.empty(hidden), torch.empty(4, rows, 1)
        codes, sums = self._kernels.room(rows * max(hidden, self._heads, self._sizes["intermediate"]))
        keys, values = step.bytes_of_a_layer
        facts = self._sizes | {
            "x": x.data_ptr(),
            "delta": delta.data_ptr(),
            "product": product.data_ptr(),
            "attended": step.out.data_ptr(),
            "room": room.data_ptr(),
            "codes": codes,
            "sums": sums,
            "scale": scales.data_ptr(),
            "attention": step.words(product),
            "rope": step.rope.data_ptr(),
            "rows": rows,
            "last": last,
            "keys": keys,
            "values": values,
        }
        words = np.array([facts[name] for name in PASS], dtype=np.int64)
        places = self._kernels.team.job, self._words.ctypes.data, words.ctypes.data
        self._kernels.library.layers(*places, self._eps)
        return x[rows - last :], (delta[:last], scales[3, :last])


def _linears(layer: LeanLayer) -> dict[str, GroupLinear]:
    return {name: getattr(layer, name) for name in LINEARS}


def _words(layer: LeanLayer) -> dict[str, int]:
    def parts() -> Iterator[tuple[str, int]]:
        for name, linear in _linears(layer).items():
            yield f"{name}_parts", linear.words
            yield f"{name}_count", linear.count

    norms = {name: getattr(layer, name).data_ptr() for name in ("input_norm", "qkv_bias", "post_norm")}
    return norms | dict(parts())

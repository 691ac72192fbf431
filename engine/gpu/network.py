"""The forward pass of the Llama family over given linears and kernels: rows of activations in, rows out.

Knows neither graphs nor documents. What it calls has fixed addresses and no decisions that depend on data, so that a
pass can be recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from engine.gpu.attention import Attention, prompt
from engine.gpu.kernels import Kernels
from engine.gpu.kv_store import Pair
from engine.gpu.linears import Linear
from engine.gpu.shape import ModelShape
from engine.gpu.step import Step


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's weights."""

    input_norm: Tensor  # [hidden]
    qkv: Linear
    out: Linear
    post_norm: Tensor  # [hidden]
    gate_up: Linear
    down: Linear

    @property
    def linears(self) -> tuple[Linear, ...]:
        """The four matrix products."""
        return self.qkv, self.out, self.gate_up, self.down


@dataclass(frozen=True, slots=True)
class Network:
    """All weights, and the pass over them. The embedding may lie in the machine's memory, where its rows are read."""

    shape: ModelShape
    embedding: Tensor  # [vocab, hidden]
    layers: Sequence[Layer]
    final_norm: Tensor  # [hidden]
    head: Linear
    kernels: Kernels
    host_embedding: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of weights that a pass reads; of the embedding it reads a few rows."""
        return self.head.nbytes + sum(linear.nbytes for layer in self.layers for linear in layer.linears)

    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings [rows, hidden] of ids [rows], both where the embedding is."""
        return F.embedding(ids, self.embedding)

    def run(self, x: Tensor, step: Step, caches: Sequence[Pair]) -> Tensor:
        """Take embeddings [rows, hidden] through all layers, storing keys and values; return normed [rows, hidden]."""
        kernels, eps = self.kernels, self.shape.eps
        attend: Attention = kernels.attend if step.begin is None else prompt
        normed = kernels.norm(x, self.layers[0].input_norm, eps)
        following = [layer.input_norm for layer in self.layers[1:]] + [self.final_norm]
        for layer, (keys, values), next_norm in zip(self.layers, caches, following, strict=True):
            queries = kernels.rotate_store(layer.qkv(normed), keys, values, step)
            mixed = attend(queries, keys, values, step)
            x, normed = kernels.add_norm(x, layer.out(mixed), layer.post_norm, eps)
            x, normed = kernels.add_norm(x, layer.down(kernels.gate(layer.gate_up(normed))), next_norm, eps)
        return normed

    def logits(self, normed: Tensor) -> Tensor:
        """Return logits [rows, vocab] of normed rows."""
        return self.head(normed)

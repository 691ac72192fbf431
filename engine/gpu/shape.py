"""The sizes of a model of the Llama family, as plain numbers: what weights, caches and memory plans are made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.lean_shape import LeanShape

ATTENTION = "model.layers.{}.self_attn."
MLP = "model.layers.{}.mlp."


@dataclass(frozen=True, slots=True)
class ModelShape(LeanShape):
    """Sizes and rotation frequencies of a model. `tied`: the output head is the embedding."""

    qkv_bias: bool
    tied: bool
    inv_freq: tuple[float, ...]  # [head_dim / 2]
    rope_scaling: float

    @classmethod
    def from_config(cls, config: Any) -> ModelShape:  # noqa: ANN401  (transformers is untyped)
        """Read a transformers configuration of a family that `prepare.lean_obstacle` lets pass."""
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        from engine.prepare import sizes_of

        rotary = LlamaRotaryEmbedding(config=config)  # its family shares one rotation, scaled ones included
        return cls(
            **sizes_of(config),
            qkv_bias=config.model_type == "qwen2",
            tied=bool(config.tie_word_embeddings),
            inv_freq=tuple(rotary.inv_freq.tolist()),
            rope_scaling=float(rotary.attention_scaling),
        )

    @property
    def qkv_width(self) -> int:
        """Width of the fused projection: all queries, then keys, then values."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def matrices(self) -> tuple[tuple[int, int], ...]:
        """The four matrices of a layer as [out, in]: qkv, attention output, gate with up, down."""
        return (
            (self.qkv_width, self.hidden),
            (self.hidden, self.heads * self.head_dim),
            (2 * self.intermediate, self.hidden),
            (self.hidden, self.intermediate),
        )

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield every weight's name, as transformers calls it, and its shape."""
        yield "model.embed_tokens.weight", (self.vocab, self.hidden)
        for index in range(self.layers):
            yield from self._layer(index)
        yield "model.norm.weight", (self.hidden,)
        if not self.tied:
            yield "lm_head.weight", (self.vocab, self.hidden)

    def _layer(self, index: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        attention, mlp = ATTENTION.format(index), MLP.format(index)
        for name, heads in (("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads)):
            yield f"{attention}{name}_proj.weight", (heads * self.head_dim, self.hidden)
            if self.qkv_bias:
                yield f"{attention}{name}_proj.bias", (heads * self.head_dim,)
        yield f"{attention}o_proj.weight", (self.hidden, self.heads * self.head_dim)
        for name in ("gate", "up"):
            yield f"{mlp}{name}_proj.weight", (self.intermediate, self.hidden)
        yield f"{mlp}down_proj.weight", (self.hidden, self.intermediate)
        for name in ("input", "post_attention"):
            yield f"model.layers.{index}.{name}_layernorm.weight", (self.hidden,)

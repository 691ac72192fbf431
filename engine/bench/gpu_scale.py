"""How large the card's suites are: true shapes on a card, tiny ones on a processor, the same script on both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from engine.gpu import card
from engine.gpu.linears import GpuDtype
from engine.gpu.shape import ModelShape

THETA = 1_000_000.0  # rotation base of Qwen2.5-Coder
MIB = 1024**2
TINY = "tiny shapes on the CPU: shows that the script runs, the figures mean nothing for a card"


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes of a run. `target` and `draft` are keys of `shapes`; `tokens` are decoded in each timed run.

    `rows` are measured of the target in this order, `few_rows` of every other model; `further` is measured last.
    """

    device: str
    shapes: Mapping[str, ModelShape]
    further: tuple[tuple[str, GpuDtype], ...]
    rows: tuple[int, ...]
    few_rows: tuple[int, ...]
    eager_rows: tuple[int, ...]
    written: tuple[int, ...]  # draft tokens in one recording
    prompt: int
    tokens: int
    repeats: int
    queued: int  # passes sent off before waiting for them
    keys: tuple[int, ...]
    copied_bytes: int
    seconds: float
    target: str = "7B"
    draft: str = "0.5B"

    @property
    def on_card(self) -> bool:
        """Whether the figures are a card's."""
        return self.device != "cpu"


def qwen(
    layers: int, hidden: int, intermediate: int, heads: int, kv_heads: int, vocab: int, tied: bool = False
) -> ModelShape:
    """Return the shape of a model of the Qwen2.5 family."""
    width = hidden // heads
    frequencies = tuple(THETA ** (-2 * at / width) for at in range(width // 2))
    return ModelShape(
        layers=layers,
        hidden=hidden,
        intermediate=intermediate,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=width,
        vocab=vocab,
        eps=1e-6,
        max_length=32768,
        qkv_bias=True,
        tied=tied,
        inv_freq=frequencies,
        rope_scaling=1.0,
    )


def choose_scale() -> Scale:
    """Return the full scale where there is a card, the tiny one where not."""
    return full_scale() if card.usable() else tiny_scale()


def full_scale() -> Scale:
    """Return true shapes of Qwen2.5-Coder and a time limit below eight minutes."""
    first = (1, 2, 4, 5, 8, 16, 32, 64)
    return Scale(
        device="cuda",
        shapes={
            "0.5B": qwen(24, 896, 4864, 14, 2, 151936, tied=True),
            "7B": qwen(28, 3584, 18944, 28, 4, 152064),
            "14B": qwen(48, 5120, 13824, 40, 8, 152064),
            "32B": qwen(64, 5120, 27648, 40, 8, 152064),
        },
        further=(("7B", "bfloat16"), ("14B", "nf4"), ("32B", "nf4"), ("14B", "bfloat16"), ("32B", "bfloat16")),
        rows=(*first, *(rows for rows in range(1, 65) if rows not in first)),
        few_rows=(1, 5, 2, 4, 8, 16, 32, 64, 3, 6, 7, 10, 12, 20, 24, 48),
        eager_rows=(1, 5, 16),
        written=(1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16),
        prompt=512,
        tokens=128,
        repeats=2,
        queued=8,
        keys=(2048, 8192),
        copied_bytes=2048 * MIB,
        seconds=430.0,
    )


def tiny_scale() -> Scale:
    """Return shapes that a processor runs in seconds, with every code path of the full scale."""
    return Scale(
        device="cpu",
        shapes={
            "0.5B": qwen(1, 64, 128, 4, 2, 512, tied=True),
            "7B": qwen(2, 128, 256, 4, 2, 512),
            "14B": qwen(2, 128, 256, 8, 4, 512),
            "32B": qwen(3, 128, 256, 8, 4, 512),
        },
        further=(("7B", "bfloat16"), ("14B", "nf4"), ("32B", "nf4")),
        rows=(1, 2, 4, 5, 8, 16, 64),
        few_rows=(1, 5, 16),
        eager_rows=(1, 5),
        written=(1, 4, 8),
        prompt=64,
        tokens=16,
        repeats=1,
        queued=2,
        keys=(256, 512),
        copied_bytes=8 * MIB,
        seconds=75.0,
    )


def free_memory() -> None:
    """Give back what models that are no longer needed have taken."""
    import gc

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()

"""A card, or a plain word that there is none."""

from __future__ import annotations

import pytest

from engine.gpu import card
from engine.gpu.build import random_model
from engine.gpu.model import GpuOptions
from engine.gpu.shape import ModelShape


@pytest.fixture(autouse=True)
def _card():
    if not card.usable():
        pytest.skip("no CUDA card from compute capability 8.0 on is here")


def wide_shape(layers: int = 2, tied: bool = False) -> ModelShape:
    """Return a few layers of Qwen2.5-Coder-7B's widths: the kernels chosen are the real ones."""
    frequencies = tuple(1e6 ** (-2 * at / 128) for at in range(64))
    return ModelShape(layers, 3584, 18_944, 28, 4, 128, 8192, 1e-6, 8192, True, tied, frequencies, 1.0)


def wide_model(dtype: str = "nf4", tied: bool = False, **options):
    """Return a model of these widths on the card, with sizes given rather than measured."""
    return random_model(wide_shape(tied=tied), dtype, "cuda", GpuOptions(**({"rows": (1, 2, 5, 8, 16)} | options)))

"""Whether other kernels compute what torch's do: tried out once at load, before anything is built on them."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.gpu.kernels import TORCH, Kernels
from engine.gpu.shape import ModelShape
from engine.gpu.step import Rotation, Step

KEYS = 700  # more than two stretches, the last one begun
ROWS = 5
TOLERANCE = 0.03  # of bfloat16 results around one


@torch.inference_mode()
def try_out(kernels: Kernels, device: torch.device, head_dim: int, dtype: torch.dtype = torch.bfloat16) -> None:
    """Raise RuntimeError unless `kernels` agree with torch's on random numbers."""
    for name, ours, theirs in zip(
        ("norm", "sum", "rotation", "keys", "values", "attention", "gate"),
        _results(kernels, device, head_dim, dtype),
        _results(TORCH, device, head_dim, dtype),
        strict=True,
    ):
        if not torch.allclose(ours.float(), theirs.float(), atol=TOLERANCE, rtol=TOLERANCE):
            raise RuntimeError(f"its {name} differs by {float((ours.float() - theirs.float()).abs().max()):.3g}")


def _results(kernels: Kernels, device: torch.device, head_dim: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    generator = torch.Generator(device).manual_seed(0)

    def noise(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, device=device, dtype=dtype)

    heads, kv_heads = 6, 2
    keys, values = noise(kv_heads, KEYS + 68, head_dim), noise(kv_heads, KEYS + 68, head_dim)
    positions = torch.arange(KEYS, KEYS + ROWS, device=device)
    step = Step(positions, Rotation(_shape(head_dim), KEYS + 68, device), KEYS + 68)
    total, normed = kernels.add_norm(noise(ROWS, 96), noise(ROWS, 96), noise(96), 1e-6)
    queries = kernels.rotate_store(noise(ROWS, (heads + 2 * kv_heads) * head_dim), keys, values, step)
    mixed = kernels.attend(queries, keys, values, step)
    return normed, total, queries, keys, values, mixed, kernels.gate(noise(ROWS, 320))


def _shape(head_dim: int) -> ModelShape:
    frequencies = tuple(10_000.0 ** (-2 * at / head_dim) for at in range(head_dim // 2))
    return ModelShape(1, 96, 160, 6, 2, head_dim, 8, 1e-6, KEYS + 68, False, True, frequencies, 1.0)

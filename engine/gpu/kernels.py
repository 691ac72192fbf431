"""What a layer does between its matrix products, as functions that can be exchanged and measured.

In a recorded graph each kernel costs some two microseconds however little it does, and a 7B layer's matrices in 4 bits
take thirty: the plain functions here are what a graph should not be made of where Triton can be had.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.gpu.attention import Attention, fused
from engine.gpu.step import Step

log = logging.getLogger(__name__)

KernelChoice = Literal["auto", "torch", "triton"]


@dataclass(frozen=True, slots=True)
class Kernels:
    """The functions of one make. `reach_step` is how coarse the buckets of keys are that `attend` likes."""

    name: str
    norm: Callable[[Tensor, Tensor, float], Tensor]
    """RMS-norm of x [rows, hidden] by a weight [hidden]."""
    add_norm: Callable[[Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor]]
    """x + delta, and its norm."""
    rotate_store: Callable[[Tensor, Tensor, Tensor, Step], Tensor]
    """Rotate fused qkv [rows, qkv_width], store keys and values [kv_heads, capacity, head_dim] at the step's positions;
    return queries [rows, heads, head_dim]."""
    attend: Attention
    gate: Callable[[Tensor], Tensor]
    """silu(gate) * up of [rows, 2 intermediate]."""
    reach_step: int


def _norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return F.rms_norm(x, weight.shape, weight, eps)


def _add_norm(x: Tensor, delta: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    total = x + delta
    return total, _norm(total, weight, eps)


def _rotate_store(qkv: Tensor, keys: Tensor, values: Tensor, step: Step) -> Tensor:
    kv_heads, _, head_dim = keys.shape
    heads = qkv.view(step.rows, -1, head_dim)
    first, second = heads[:, :-kv_heads].float().chunk(2, dim=-1)
    cos, sin = step.cos[:, None], step.sin[:, None]
    rotated = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(qkv.dtype)
    keys.index_copy_(1, step.positions, rotated[:, -kv_heads:].transpose(0, 1))
    values.index_copy_(1, step.positions, heads[:, -kv_heads:].transpose(0, 1))
    return rotated[:, :-kv_heads]


def _gate(both: Tensor) -> Tensor:
    gate, up = both.chunk(2, dim=-1)
    return F.silu(gate) * up


TORCH = Kernels("torch", _norm, _add_norm, _rotate_store, fused, _gate, reach_step=2)


def choose_kernels(choice: KernelChoice, device: torch.device, dtype: torch.dtype, head_dim: int) -> Kernels:
    """Return the kernels asked for; auto is Triton's in bfloat16, if it is installed and works here."""
    suited = device.type == "cuda" and dtype == torch.bfloat16 and head_dim & (head_dim - 1) == 0
    if choice == "torch" or (choice == "auto" and not suited):
        return TORCH
    try:
        from engine.gpu.trial import try_out
        from engine.gpu.triton_kernels import TRITON

        try_out(TRITON, device, head_dim)
    except Exception as error:  # no Triton, no compiler for its launchers, a card it does not know
        if choice == "triton":
            raise
        log.warning("Triton's kernels cannot be used here (%s); passes run on torch's, which are slower", error)
        return TORCH
    return TRITON

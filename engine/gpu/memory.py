"""What models take on a card, counted before anything is loaded. Pure arithmetic in bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.gpu.linears import BLOCK, GpuDtype
from engine.gpu.shape import ModelShape

MIB = 1024**2
NESTED = 256  # scales that share a scale in NF4
FLOATS = {"nf4": 2, "int8": 2, "bfloat16": 2, "float32": 4}  # bytes of an activation, by weight format
ROWS = 1024  # of the longest piece of a prompt
RECORDED = 160 * MIB  # recordings and the libraries' own workspace
SPARE = 0.03  # share of the free memory that is left alone: allocations have gaps, and a desktop wants some too


@dataclass(frozen=True, slots=True)
class Demand:
    """What one model asks of a card. The embedding may stay outside; 0 when the head shares it."""

    weights: int
    embedding: int
    workspace: int
    token: int  # keys and values of one token


@dataclass(frozen=True, slots=True)
class Fit:
    """What fits: with a draft model or without, the target's embedding on the card or outside, caches put aside."""

    draft: bool
    host_embedding: bool
    put_aside: int


def demand(shape: ModelShape, dtype: GpuDtype) -> Demand:
    """Count what a model takes with its weights in `dtype`."""
    size = FLOATS[dtype]
    matrices = shape.layers * sum(_matrix(*matrix, dtype) for matrix in shape.matrices)
    table = shape.vocab * shape.hidden * size
    return Demand(
        weights=matrices + table,
        embedding=0 if shape.tied else table,
        workspace=_workspace(shape, dtype),
        token=2 * shape.layers * shape.kv_heads * shape.head_dim * size,
    )


def _matrix(rows: int, columns: int, dtype: GpuDtype) -> int:
    count = rows * columns
    if dtype == "nf4":
        return count // 2 + count // BLOCK + 4 * (count // BLOCK // NESTED)
    return count + 4 * rows if dtype == "int8" else count * FLOATS[dtype]


def _workspace(shape: ModelShape, dtype: GpuDtype) -> int:
    """Count the activations of a piece of a prompt, a matrix on its way to or from 4 bits, and what is recorded."""
    size = FLOATS[dtype] + (12 if dtype == "int8" else 0)  # integer sums, and their floats
    activations = ROWS * size * (3 * shape.intermediate + shape.qkv_width + 4 * shape.hidden)
    unpacked = max(rows * columns for rows, columns in shape.matrices) * FLOATS[dtype]
    return activations + unpacked + RECORDED


def fit(target: Demand, draft: Demand | None, tokens: int, documents: int, free: int) -> Fit | None:
    """Return what of a pair fits into `free` bytes with `tokens` positions, or None when the target alone does not.

    First go the caches of further documents, then the embedding moves out, then the draft model stays away.
    """
    usable = int(free * (1 - SPARE))
    for with_draft, host in _choices(target, draft):
        pair = [target, draft] if with_draft and draft else [target]
        left = usable - need(pair, tokens) + (target.embedding if host else 0)
        if left >= 0:
            each = tokens * sum(model.token for model in pair)
            return Fit(with_draft, host, min(documents - 1, left // each))
    return None


def need(models: Iterable[Demand], tokens: int) -> int:
    """Return what models take in all, with `tokens` positions each."""
    return sum(model.weights + model.embedding + model.workspace + tokens * model.token for model in models)


def least(target: Demand, tokens: int) -> int:
    """Return what the target takes alone with its embedding outside."""
    return need([target], tokens) - target.embedding


def _choices(target: Demand, draft: Demand | None) -> list[tuple[bool, bool]]:
    with_draft = [True, False] if draft else [False]
    outside = [False, True] if target.embedding else [False]
    return [(drafted, host) for drafted in with_draft for host in outside]

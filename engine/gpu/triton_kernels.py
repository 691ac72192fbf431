"""The kernels of a layer in Triton: each does in one launch what takes torch five to ten.

Attention splits the keys into stretches of a fixed length and sums the stretches up at fixed places. So a row's bits
depend on its own position alone, not on how many keys the pass reaches over nor on the rows beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.gpu.kernels import Kernels
from engine.gpu.step import Step

SPLIT = 256  # keys of a stretch, which one program reads
BLOCK = tl.constexpr(64)  # keys of one product
MERGED = 16  # stretches that are summed up at a time
TILES = (16, 32, 64)  # rows of one product; sixteen is the least that tensor cores take
HIDDEN = tl.constexpr(-1e30)  # a masked score: finite, so that what is masked whole gives no NaN
GATE_BLOCK = 1024

# Arguments are pointers and numbers of Triton's language, which has no types to say so.
_jit: Callable[[Callable[..., None]], Any] = triton.jit


@_jit
def _norm_kernel(
    x: tl.tensor,
    delta: tl.tensor,
    weight: tl.tensor,
    total: tl.tensor,
    normed: tl.tensor,
    width: tl.tensor,
    eps: tl.tensor,
    add: tl.constexpr,
    block: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * width
    at = tl.arange(0, block)
    live = at < width
    value = tl.load(x + row + at, mask=live, other=0.0).to(tl.float32)
    if add:
        value += tl.load(delta + row + at, mask=live, other=0.0).to(tl.float32)
        kept = value.to(total.dtype.element_ty)
        tl.store(total + row + at, kept, mask=live)
        value = kept.to(tl.float32)
    inverse = 1.0 / tl.sqrt(tl.sum(value * value, axis=0) / width + eps)
    scaled = value * inverse * tl.load(weight + at, mask=live, other=0.0).to(tl.float32)
    tl.store(normed + row + at, scaled.to(normed.dtype.element_ty), mask=live)


@_jit
def _rotate_store_kernel(
    qkv: tl.tensor,
    cos: tl.tensor,
    sin: tl.tensor,
    positions: tl.tensor,
    queries: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    capacity: tl.tensor,
    heads: tl.constexpr,
    kv_heads: tl.constexpr,
    half: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    at = tl.arange(0, half)
    source = qkv + (row * (heads + 2 * kv_heads) + head) * (2 * half) + at
    first = tl.load(source).to(tl.float32)
    second = tl.load(source + half).to(tl.float32)
    turned = head < heads + kv_heads
    c = tl.where(turned, tl.load(cos + row * half + at), 1.0)
    s = tl.where(turned, tl.load(sin + row * half + at), 0.0)
    left = (first * c - second * s).to(queries.dtype.element_ty)
    right = (second * c + first * s).to(queries.dtype.element_ty)
    position = tl.load(positions + row)
    if head < heads:
        goal = queries + (row * heads + head) * (2 * half) + at
    elif head < heads + kv_heads:
        goal = keys + ((head - heads) * capacity + position) * (2 * half) + at
    else:
        goal = values + ((head - heads - kv_heads) * capacity + position) * (2 * half) + at
    tl.store(goal, left)
    tl.store(goal + half, right)


@_jit
def _attend_kernel(
    q: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    positions: tl.tensor,
    parts: tl.tensor,
    tops: tl.tensor,
    sums: tl.tensor,
    rows: tl.tensor,
    capacity: tl.tensor,
    scale: tl.tensor,
    heads: tl.constexpr,
    group: tl.constexpr,
    width: tl.constexpr,
    tile: tl.constexpr,
    split: tl.constexpr,
) -> None:
    kv_head = tl.program_id(0)
    m = tl.program_id(1) * tile + tl.arange(0, tile)
    begin = tl.program_id(2) * split
    row = m // group
    live = row < rows
    slot = row * heads + kv_head * group + m % group
    first = tl.load(positions).to(tl.int32)  # rows stand at consecutive positions
    last = first + tl.minimum((tl.program_id(1) * tile + tile - 1) // group, rows - 1)
    if begin <= last:
        at = tl.arange(0, width)
        query = tl.load(q + slot[:, None] * width + at[None, :], mask=live[:, None], other=0.0)
        mixed = tl.zeros((tile, width), tl.float32)
        top = tl.full((tile,), HIDDEN, tl.float32)
        total = tl.zeros((tile,), tl.float32)
        base = kv_head.to(tl.int64) * capacity * width
        end = tl.minimum(begin + split, last + 1)
        for start in range(begin, end, BLOCK):
            n = start + tl.arange(0, BLOCK)
            there = n < end
            key = tl.load(keys + base + n[None, :] * width + at[:, None], mask=there[None, :], other=0.0)
            score = tl.dot(query, key, input_precision="ieee") * scale
            score = tl.where(n[None, :] <= (first + row)[:, None], score, HIDDEN)
            higher = tl.maximum(top, tl.max(score, axis=1))
            weight = tl.exp(score - higher[:, None])
            fade = tl.exp(top - higher)
            value = tl.load(values + base + n[:, None] * width + at[None, :], mask=there[:, None], other=0.0)
            mixed = mixed * fade[:, None] + tl.dot(weight.to(value.dtype), value, input_precision="ieee")
            total = total * fade + tl.sum(weight, axis=1)
            top = higher
        place = tl.program_id(2) * rows * heads + slot
        tl.store(parts + place[:, None].to(tl.int64) * width + at[None, :], mixed, mask=live[:, None])
        tl.store(tops + place, top, mask=live)
        tl.store(sums + place, total, mask=live)


@_jit
def _merge_kernel(
    parts: tl.tensor,
    tops: tl.tensor,
    sums: tl.tensor,
    positions: tl.tensor,
    out: tl.tensor,
    slots: tl.tensor,
    heads: tl.constexpr,
    width: tl.constexpr,
    split: tl.constexpr,
    merged: tl.constexpr,
) -> None:
    slot = tl.program_id(0)
    count = (tl.load(positions).to(tl.int32) + slot // heads) // split + 1
    at = tl.arange(0, width)
    mixed = tl.zeros((width,), tl.float32)
    top = tl.full((1,), HIDDEN, tl.float32)
    total = tl.zeros((1,), tl.float32)
    for start in range(0, count, merged):
        stretch = start + tl.arange(0, merged)
        seen = stretch < count
        place = stretch * slots + slot
        tops_here = tl.load(tops + place, mask=seen, other=HIDDEN)
        higher = tl.maximum(top, tl.max(tops_here, axis=0))
        share = tl.where(seen, tl.exp(tops_here - higher), 0.0)
        fade = tl.exp(top - higher)
        part = tl.load(parts + place[:, None].to(tl.int64) * width + at[None, :], mask=seen[:, None], other=0.0)
        mixed = mixed * fade + tl.sum(part * share[:, None], axis=0)
        total = total * fade + tl.sum(tl.load(sums + place, mask=seen, other=0.0) * share, axis=0)
        top = higher
    tl.store(out + slot.to(tl.int64) * width + at, (mixed / total).to(out.dtype.element_ty))


@_jit
def _gate_kernel(both: tl.tensor, out: tl.tensor, width: tl.tensor, block: tl.constexpr) -> None:
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * block + tl.arange(0, block)
    live = at < width
    gate = tl.load(both + row * 2 * width + at, mask=live, other=0.0).to(tl.float32)
    up = tl.load(both + row * 2 * width + width + at, mask=live, other=0.0).to(tl.float32)
    tl.store(out + row * width + at, (gate / (1.0 + tl.exp(-gate)) * up).to(out.dtype.element_ty), mask=live)


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMS-norm of x [rows, hidden]."""
    normed = torch.empty_like(x)
    _launch_norm(x, x, weight, x, normed, eps, add=False)
    return normed


def add_norm(x: Tensor, delta: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return x + delta and its RMS-norm."""
    total, normed = torch.empty_like(x), torch.empty_like(x)
    _launch_norm(x, delta, weight, total, normed, eps, add=True)
    return total, normed


def _launch_norm(
    x: Tensor, delta: Tensor, weight: Tensor, total: Tensor, normed: Tensor, eps: float, add: bool
) -> None:
    rows, width = x.shape
    block = triton.next_power_of_2(width)
    _norm_kernel[(rows,)](x, delta, weight, total, normed, width, eps, add=add, block=block, num_warps=8)


def rotate_store(qkv: Tensor, keys: Tensor, values: Tensor, step: Step) -> Tensor:
    """Rotate, store keys and values, return queries [rows, heads, head_dim]."""
    kv_heads, capacity, width = keys.shape
    heads = qkv.shape[1] // width - 2 * kv_heads
    queries = qkv.new_empty(step.rows, heads, width)
    _rotate_store_kernel[(step.rows, heads + 2 * kv_heads)](
        qkv,
        step.cos,
        step.sin,
        step.positions,
        queries,
        keys,
        values,
        capacity,
        heads=heads,
        kv_heads=kv_heads,
        half=width // 2,
        num_warps=1,
    )
    return queries


def attend(q: Tensor, keys: Tensor, values: Tensor, step: Step) -> Tensor:
    """Attend from a few rows to all keys up to their own positions; keys beyond cost nothing, whatever the reach."""
    rows, heads, width = q.shape
    kv_heads, capacity, _ = keys.shape
    group = heads // kv_heads
    tile = next((size for size in TILES if size >= rows * group), TILES[-1])
    splits = triton.cdiv(step.reach, SPLIT)
    parts = q.new_empty(splits, rows * heads, width, dtype=torch.float32)
    tops = q.new_empty(splits, rows * heads, dtype=torch.float32)
    sums = torch.empty_like(tops)
    out = q.new_empty(rows, heads * width)
    _attend_kernel[(kv_heads, triton.cdiv(rows * group, tile), splits)](
        q,
        keys,
        values,
        step.positions,
        parts,
        tops,
        sums,
        rows,
        capacity,
        width**-0.5,
        heads=heads,
        group=group,
        width=width,
        tile=tile,
        split=SPLIT,
        num_warps=4,
    )
    _merge_kernel[(rows * heads,)](
        parts,
        tops,
        sums,
        step.positions,
        out,
        rows * heads,
        heads=heads,
        width=width,
        split=SPLIT,
        merged=MERGED,
        num_warps=2,
    )
    return out


def gate(both: Tensor) -> Tensor:
    """silu(gate) * up of [rows, 2 intermediate]."""
    rows, width = len(both), both.shape[1] // 2
    out = both.new_empty(rows, width)
    _gate_kernel[(rows, triton.cdiv(width, GATE_BLOCK))](both, out, width, block=GATE_BLOCK, num_warps=4)
    return out


TRITON = Kernels("triton", norm, add_norm, rotate_store, attend, gate, reach_step=4)

"""How many rows an attention product needs before their number stops showing in its bits.

MKL multiplies a few rows by another kernel than many, and a product is split over threads, so that a thread may be
left with few. Measured here (AVX2, 1 and 2 threads): fewer than 4 rows a thread differ, any more agree. That is
observed, not promised, so it is tried out when a model is loaded, with its shapes and this machine's threads.
"""

from __future__ import annotations

import logging
from functools import cache

import torch
from torch import Tensor

log = logging.getLogger(__name__)

CANDIDATES = (4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
KEYS = 256  # one block of keys
MANY = 64  # rows of the product that the small ones must agree with
FALLBACK = 0
"""No number is enough: attention must then be computed row by row."""


def least_rows(kv_heads: int, group: int, head_dim: int) -> int:
    """Return how many rows to pad each head's products to, or FALLBACK. About 0.1 s, once per shape."""
    return _least_rows(kv_heads, group, head_dim, torch.get_num_threads())


@cache
def _least_rows(kv_heads: int, group: int, head_dim: int, threads: int) -> int:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(kv_heads, MANY * group, head_dim, generator=generator)
    keys = torch.randn(kv_heads, head_dim, KEYS, generator=generator)
    values = torch.randn(kv_heads, KEYS, head_dim, generator=generator)
    for least in CANDIDATES:
        if _agrees(q, keys, values, group, least):
            return least
    log.warning("attention products are not row-exact with %d threads; computing them row by row", threads)
    return FALLBACK


@cache
def threads_show(threads: int) -> bool:
    """Whether a product of many rows has other bits on so many threads than on one."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(2, size, 128, generator=generator) for size in (6 * MANY, KEYS))
    found = []
    for number in (threads, 1):
        torch.set_num_threads(number)
        scores = torch.bmm(a, b.transpose(1, 2))
        found.append((scores, torch.bmm(scores, b)))
    torch.set_num_threads(threads)
    return not all(torch.equal(*pair) for pair in zip(*found, strict=True))


def _agrees(q: Tensor, keys: Tensor, values: Tensor, group: int, least: int) -> bool:
    scores = torch.bmm(q, keys)
    mixed = torch.bmm(scores, values)
    for rows in (*range(1, 18), 32, 33):
        for start in range(0, MANY - rows + 1, max(rows, 7)):
            own = slice(start * group, (start + rows) * group)
            if not torch.equal(exact_bmm(q[:, own], keys, least, group), scores[:, own]):
                return False
            if not torch.equal(exact_bmm(scores[:, own], values, least, group), mixed[:, own]):
                return False
    return True


def exact_bmm(a: Tensor, b: Tensor, least: int, group: int) -> Tensor:
    """Multiply [heads, rows x group, n] x [heads, n, m] so that a row's bits do not depend on the others.

    `least` comes from `least_rows`: missing rows are padded and cut off again; with FALLBACK every row goes alone.
    """
    rows = a.shape[1]
    if least == FALLBACK:
        return torch.cat([torch.bmm(part, b) for part in torch.split(a, group, dim=1)], dim=1)
    if rows >= least:
        return torch.bmm(a, b)
    return torch.bmm(torch.nn.functional.pad(a, (0, 0, 0, least - rows)), b)[:, :rows]

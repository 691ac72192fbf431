"""Find out whether the compiled kernels run here, and compute what they should."""

from __future__ import annotations

import logging
import threading
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.arithmetic import Arithmetic
from engine.attention import Attention, TorchAttention
from engine.kernels.arithmetic import KernelArithmetic
from engine.kernels.attention import KernelAttention
from engine.kernels.group_codes import GROUP, GroupCodes
from engine.kernels.kernels import Kernels, Part
from engine.kernels.layout import FORMS, pack
from engine.kernels.library import Library, suits
from engine.lean_shape import LeanShape
from engine.torch_arithmetic import TorchArithmetic

log = logging.getLogger(__name__)
_one = threading.Lock()  # whoever else asks meanwhile waits, and does not compile as well


def find_kernels() -> Kernels | None:
    """Compile the kernels and try them out, once per process; None where that is not possible."""
    with _one:
        return _found()


def begin() -> None:
    """Compile in the background: it takes more than a second, and so does what else precedes a model's weights."""
    threading.Thread(target=find_kernels, name="compile", daemon=True).start()


@cache
def _found() -> Kernels | None:
    try:
        if not suits():
            return None
        kernels = Kernels(Library())
        if not _is_right(kernels):
            log.warning("compiled kernels compute something else on this processor; using torch's operators")
            return None
    except Exception as error:  # whatever llvmlite or LLVM find wrong here; torch's operators do the same
        log.info("no compiled kernels (%s); using torch's operators", error)
        return None
    return kernels


def _is_right(kernels: Kernels) -> bool:
    """Compare with other arithmetic: the products with the largest codes too, all of it alone and among other rows."""
    with kernels.team.passing(), torch.inference_mode():
        return all(_multiplies(kernels, bits) for bits in FORMS) and _fills_between(kernels) and _attends(kernels)


def _multiplies(kernels: Kernels, bits: int) -> bool:
    random = np.random.default_rng(0)
    codes = random.integers(0, 2**bits, (40, 320), dtype=np.uint8)
    codes[0], codes[1] = 2**bits - 1, 0
    steps = random.integers(0, 128, (40, 320 // GROUP[bits]), dtype=np.uint8)
    factors, more = (random.random((40, 2)).astype(np.float16) for _ in range(2))
    offsets = random.integers(-128, 128, steps.shape, dtype=np.int8)
    weight = GroupCodes(bits, codes, steps, factors, *((offsets, more) if bits == 4 else ()))
    rows = torch.from_numpy(random.integers(-127, 128, (13, 320)).astype(np.float32))
    rows[0], rows[1], rows[:, 0] = 127.0, -127.0, 127.0
    want = rows.double() @ torch.from_numpy(weight.floats()).T
    linear = kernels.linear([Part(bits, pack(weight), 40)], 320)
    arithmetic = KernelArithmetic(kernels, 0.0)
    got, *alone = (linear(arithmetic.rounded(part)[0]) for part in (rows, *torch.split(rows, 1)))
    return torch.equal(torch.cat(alone), got) and bool((got - want).abs().max() <= 1e-5 * want.abs().max())


def _fills_between(kernels: Kernels) -> bool:
    """Compare with torch's operators: codes may differ by one where a number lies between two."""
    generator = torch.Generator().manual_seed(0)
    x, product, weight = (torch.randn(size, generator=generator) for size in ((5, 128), (5, 128), (128,)))
    both, scale = 4 * torch.randn(5, 256, generator=generator), torch.rand(5, 1, generator=generator)
    own, torchs = KernelArithmetic(kernels, 1e-6), TorchArithmetic(1e-6)

    def results(arithmetic: Arithmetic, rows: slice) -> list[Tensor]:
        def normed(change: tuple[Tensor, Tensor] | None) -> tuple[Any, Tensor]:
            return arithmetic.normed(x[rows].clone(), change, weight)[1:]

        found = []
        for kind in range(4):  # one after the other: the next takes the memory of the last
            if kind < 2:
                q, size = normed((product[rows], scale[rows]) if kind else None)
            else:
                q, size = (
                    arithmetic.gated(both[rows].clone(), scale[rows]) if kind == 2 else arithmetic.rounded(x[rows])
                )
            found += [arithmetic.floats(q), size]
        return found

    whole, want = results(own, slice(None)), results(torchs, slice(None))
    alone = [torch.cat(parts) for parts in zip(*(results(own, slice(at, at + 1)) for at in range(5)), strict=True)]
    near = [bool((got - a).abs().max() <= 1) for got, a in zip(whole[::2], want[::2], strict=True)]
    near += [torch.allclose(got, a, rtol=1e-5) for got, a in zip(whole[1::2], want[1::2], strict=True)]
    return all(near) and all(torch.equal(one, among) for one, among in zip(alone, whole, strict=True))


def _attends(kernels: Kernels) -> bool:
    """Compare with torch's operators: 140 rows at once and in parts; keys and values are kept in half precision."""
    shape = LeanShape(1, 0, 0, heads=7, kv_heads=1, head_dim=32, vocab=0, eps=0.0, max_length=140)
    generator = torch.Generator().manual_seed(0)
    product, scale, bias = (torch.randn(size, generator=generator) for size in ((140, 288), (140, 1), (288,)))
    rope = torch.polar(torch.ones(140, 16), torch.randn(140, 16, generator=generator))

    def answers(attention: Attention, sizes: tuple[int, ...]) -> Tensor:
        cache, found = attention.new_cache(), []
        for rows in torch.split(torch.arange(140), list(sizes)):
            step = attention.begin(cache, len(rows))
            found.append(step.attend(0, product[rows], scale[rows], bias))
            cache.extend([0] * len(rows))
        return torch.cat(found)

    whole, parts = (answers(KernelAttention(kernels, shape, rope), sizes) for sizes in ((140,), (129, 1, 10)))
    want = answers(TorchAttention(shape, rope), (140,))
    return torch.equal(whole, parts) and bool((whole - want).abs().max() <= 5e-3 * want.abs().max())

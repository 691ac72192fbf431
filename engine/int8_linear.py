"""Integer matrix products whose result for a row does not depend on the rows beside it.

Weights are int8 codes per output channel, activations are quantised per row, sums are integers: their order does
not matter, so one row gives the same bits alone and among others. Three backends compute the same integers:

    fbgemm   eager x86 kernels; fastest without VNNI
    onednn   the kernels behind torch.compile's quantised linears; fastest with VNNI
    float    float32 products of integers in blocks short enough to stay below 2^24: exact on any processor

Processors without VNNI add two 8-bit products in a saturating 16-bit register. Codes of 8 bits overflow it, codes of
7 bits cannot (255 * 63 * 2 < 2^15). `choose_backend` finds out by trying, with the worst inputs, what is exact
here and takes the fastest. It must not know about models.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from engine.arithmetic import LEVELS
from engine.layers import Linear

log = logging.getLogger(__name__)

BackendName = Literal["fbgemm", "onednn", "float"]
ZERO_POINT = 128  # activations travel as uint8
PIECE = 20_480  # rows of a weight that are packed at a time


@dataclass(frozen=True, slots=True)
class Backend:
    """An exact way to multiply, and the largest weight code it stays exact for (63 or 127)."""

    name: BackendName
    levels: int

    def pack(self, codes: Tensor, scale: Tensor) -> Linear:
        """Make a linear from int8 `codes` [out, in] and float32 `scale` [out]."""
        return _PACKERS[self.name](codes, scale)


def quantise_weight(weight: Tensor, levels: int) -> tuple[Tensor, Tensor]:
    """Return int8 codes [out, in] within +-levels and float32 scale [out] of a float weight [out, in]."""
    weight = weight.float()
    scale = weight.abs().amax(dim=1).clamp_min_(1e-12) / levels
    return torch.round(weight / scale[:, None]).clamp_(-levels, levels).to(torch.int8), scale


def _pack_fbgemm(codes: Tensor, scale: Tensor) -> Linear:
    # Packing walks the weight column by column: beyond some 20,000 rows each step misses the cache (9 to 29 ns).
    pieces = [
        _pack_fbgemm_piece(*part) for part in zip(torch.split(codes, PIECE), torch.split(scale, PIECE), strict=True)
    ]
    op = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default
    only = pieces[0] if len(pieces) == 1 else None

    def linear(x: Tensor) -> Tensor:
        if only is not None:
            return op(x, 1.0, ZERO_POINT, only)  # type: ignore[no-any-return]  # operators are untyped
        return torch.cat([op(x, 1.0, ZERO_POINT, piece) for piece in pieces], dim=1)

    return linear


def _pack_fbgemm_piece(codes: Tensor, scale: Tensor) -> Any:  # noqa: ANN401  (an opaque class of torch)
    zeros = torch.zeros(len(scale), dtype=torch.long)
    quantised = torch._make_per_channel_quantized_tensor(codes, scale.double(), zeros, 0)
    torch.backends.quantized.engine = "fbgemm"  # process-wide; nothing else here uses quantised engines
    return torch.ops.quantized.linear_prepack(quantised, None)


def _pack_onednn(codes: Tensor, scale: Tensor) -> Linear:
    packed = torch.ops.onednn.qlinear_prepack(codes, None)
    zeros = torch.zeros(len(scale), dtype=torch.int32)
    op = torch.ops.onednn.qlinear_pointwise.default
    offset = torch.full((1, codes.shape[1]), ZERO_POINT + 0.5)

    def linear(x: Tensor) -> Tensor:
        q = (x + offset).to(torch.uint8)  # truncation after +0.5 rounds to nearest
        return op(  # type: ignore[no-any-return]  # operators are untyped
            q, 1.0, ZERO_POINT, packed, scale, zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )

    return linear


def _pack_float(codes: Tensor, scale: Tensor) -> Linear:
    block = 2**24 // (LEVELS * LEVELS)  # partial sums stay integers that float32 holds
    blocks = [part.float().t().contiguous() for part in torch.split(codes, block, dim=1)]
    starts = range(0, codes.shape[1], block)

    def linear(x: Tensor) -> Tensor:
        q = torch.round(x)
        total = torch.zeros(len(x), len(scale), dtype=torch.float64)
        for start, weight in zip(starts, blocks, strict=True):
            total += q[:, start : start + block] @ weight
        return (total * scale).float()

    return linear


_PACKERS: dict[BackendName, Callable[[Tensor, Tensor], Linear]] = {
    "fbgemm": _pack_fbgemm,
    "onednn": _pack_onednn,
    "float": _pack_float,
}


@cache
def choose_backend() -> Backend:
    """Take the fastest backend that is exact on this processor (about 0.1 s, once per process)."""
    with warnings.catch_warnings():
        # torch says, once, that eager quantised tensors will go; when they have, the next backend is taken.
        warnings.simplefilter("ignore")
        candidates = [b for name in ("fbgemm", "onednn") if (b := _exact_form(name)) is not None]
    if not candidates:
        log.warning("no fast integer product is exact on this processor; using the slower float form")
        return Backend("float", LEVELS)
    chosen = min(candidates, key=_cost)
    log.info("int8 backend %s, weight codes within +-%d", chosen.name, chosen.levels)
    return chosen


def _exact_form(name: BackendName) -> Backend | None:
    for levels in (127, 63):
        backend = Backend(name, levels)
        try:
            if _is_exact(backend):
                return backend
        except (RuntimeError, AttributeError, NotImplementedError) as error:
            log.debug("int8 backend %s is not usable here: %s", name, error)
            return None
    return None


def _is_exact(backend: Backend) -> bool:
    """Compare with 64-bit integers, on random and on the most extreme inputs, alone and among other rows."""
    generator = torch.Generator().manual_seed(0)
    for width, out in ((256, 96), (2048, 64)):
        codes = torch.randint(-backend.levels, backend.levels + 1, (out, width), generator=generator).to(torch.int8)
        codes[0], codes[1] = backend.levels, -backend.levels
        rows = torch.randint(-127, 128, (33, width), generator=generator).float()
        rows[0], rows[1] = 127.0, -127.0
        want = (rows.double() @ codes.double().t()).float()
        linear = backend.pack(codes, torch.ones(out))
        if any(not torch.equal(linear(rows[:n]), want[:n]) for n in (1, 2, 3, 8, 13, 33)):
            return False
    return True


def _cost(backend: Backend) -> float:
    """Seconds for one 1-row and one 8-row product over more weights than a small cache holds."""
    codes = torch.ones(2048, 8192, dtype=torch.int8)
    linear = backend.pack(codes, torch.ones(2048))
    total = 0.0
    for rows in (1, 8):
        x: Any = torch.ones(rows, 8192)
        times = []
        for _ in range(4):
            start = time.perf_counter()
            linear(x)
            times.append(time.perf_counter() - start)
        total += min(times)
    return total

"""How a packed weight lies in memory: tiles of 8 output channels, in groups of 32 inputs.

A group of a tile holds unsigned codes u and for each channel a scale s and an offset m in half precision, so that
w = s u + m. Codes have 7 bits in a byte, four inputs of a channel side by side; or 4 bits (as llama.cpp's Q4_K has),
low halves of bytes for a group's first 16 inputs, high ones for the rest.
"""

from __future__ import annotations

import mmap
from contextlib import suppress

import numpy as np
import numpy.typing as npt

GROUP = 32  # inputs that share a scale
TILE = 8  # output channels side by side
CODE_BYTES = {4: 128, 7: 256}  # of a group of a tile, by bits
STRIDE = {bits: size + 4 * TILE for bits, size in CODE_BYTES.items()}  # with scales and offsets
AHEAD = 2048  # bytes that are fetched before they are needed

Bytes = npt.NDArray[np.uint8]
Halves = npt.NDArray[np.float16]


def pack(codes: Bytes, scale: Halves, offset: Halves, bits: int) -> Bytes:
    """Lay out codes [out, in], and scale and offset [out, in / 32], as the kernels read them."""
    size = CODE_BYTES[bits]
    filled: Bytes = np.pad(codes, ((0, -len(codes) % TILE), (0, 0)))
    tiles, groups = len(filled) // TILE, filled.shape[1] // GROUP
    quads = filled.reshape(tiles, TILE, groups, 8, 4).transpose(0, 2, 3, 1, 4)
    out = aligned(tiles * groups * STRIDE[bits])
    shaped = out.reshape(tiles, groups, STRIDE[bits])
    joined = quads[:, :, :4] | quads[:, :, 4:] << np.uint8(4) if bits == 4 else quads
    shaped[..., :size] = joined.reshape(tiles, groups, size)
    for at, half in ((size, scale), (size + 2 * TILE, offset)):
        lanes = np.pad(half, ((0, -len(half) % TILE), (0, 0))).reshape(tiles, TILE, groups).transpose(0, 2, 1)
        shaped[..., at : at + 2 * TILE] = np.ascontiguousarray(lanes).view(np.uint8)
    return out


def aligned(size: int) -> Bytes:
    """Return `size` bytes of memory that begin a page, on large pages where the system has them."""
    memory = mmap.mmap(-1, max(size, 1) + AHEAD + STRIDE[7])  # what is fetched ahead at the end is there too
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel built without them says no
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=np.uint8, count=size)

"""How a packed weight lies in memory: tiles of 8 output channels, in super-blocks of 256 inputs (see GroupCodes).

Inputs go in pairs of two groups. A quad of bytes, which one instruction multiplies and adds up in twos, holds two
neighbours out of a pair's first 32 inputs and the two that stand 32 behind them. So the 16-bit sums of a channel belong
to two groups and stand side by side as these groups' steps do: one more instruction multiplies them with the steps and
adds them up.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from engine.kernels.group_codes import SUPER, Bytes, GroupCodes

PAIR = 64  # inputs of a pair; a width must be a multiple of it, and may end within a super-block
PAIRS = SUPER // PAIR
QUADS = 8  # of a half of a pair: 16 inputs of either group
HALVES = SUPER // (4 * QUADS)
TILE = 8  # output channels side by side
VECTOR = 4 * TILE  # bytes of a quad of a tile
FACTOR = 2 * TILE  # bytes of a factor of a tile
AHEAD = 2048  # bytes that are fetched before they are needed


@dataclass(frozen=True, slots=True)
class Form:
    """Bytes of a super-block of a tile: its factors, then for each pair two halves of codes, steps, and offsets."""

    bits: int
    codes: int  # of half a pair
    steps: int  # of a pair
    offsets: bool = False  # as many as steps; then there is a second factor, too

    @property
    def step_at(self) -> int:
        """Where a pair's steps are."""
        return 2 * self.codes

    @property
    def offset_at(self) -> int:
        """Where a pair's offsets are."""
        return self.step_at + self.steps

    @property
    def pair(self) -> int:
        """Bytes of a pair, so that the next one's codes are aligned."""
        return _whole(self.offset_at + self.steps * self.offsets)

    @property
    def factors(self) -> int:
        """Bytes of factors, likewise."""
        return _whole(FACTOR * (1 + self.offsets))

    @property
    def stride(self) -> int:
        """Bytes of the whole."""
        return self.factors + PAIRS * self.pair

    def tile(self, inputs: int) -> int:
        """Return the bytes of a tile; its last super-block may have fewer pairs."""
        return -(-inputs // SUPER) * self.factors + inputs // PAIR * self.pair


def _whole(size: int) -> int:
    return -(-size // VECTOR) * VECTOR


FORMS = {
    4: Form(4, codes=QUADS * VECTOR // 2, steps=2 * TILE, offsets=True),
    6: Form(6, codes=QUADS * VECTOR * 3 // 4, steps=4 * TILE),
    7: Form(7, codes=QUADS * VECTOR, steps=2 * TILE),
}


def size_of(bits: int, channels: int, inputs: int) -> int:
    """Return the bytes of a packed weight."""
    return -(-channels // TILE) * FORMS[bits].tile(inputs)


def pack(weight: GroupCodes) -> Bytes:
    """Lay out a weight as the kernels read it."""
    form, inputs = FORMS[weight.bits], weight.codes.shape[1]
    filled = weight.filled(TILE)
    tiles, supers = len(filled.codes) // TILE, filled.factors.shape[1]
    blocks = np.zeros((tiles, supers, form.stride), np.uint8)
    pairs = blocks[..., form.factors :].reshape(tiles, supers, PAIRS, form.pair)
    twos = filled.codes.reshape(tiles, TILE, supers, PAIRS, 2, 2, QUADS, 2)
    quads = twos.transpose(0, 2, 3, 5, 6, 1, 4, 7).reshape(tiles, supers, PAIRS, 2, QUADS, VECTOR)
    pairs[..., : form.step_at] = _squeezed(quads, weight.bits).reshape(tiles, supers, PAIRS, -1)
    pairs[..., form.step_at : form.offset_at] = _side_by_side(filled.steps.view(np.uint8), tiles, supers)
    factors = [filled.factors]
    if filled.offsets is not None and filled.offset_factors is not None:
        offsets = _side_by_side(filled.offsets.view(np.uint8), tiles, supers)
        pairs[..., form.offset_at : form.offset_at + form.steps] = offsets
        factors.append(filled.offset_factors)
    for at, factor in enumerate(factors):
        lanes = np.ascontiguousarray(factor.reshape(tiles, TILE, supers).transpose(0, 2, 1)).view(np.uint8)
        blocks[..., FACTOR * at : FACTOR * (at + 1)] = lanes
    out = aligned(size_of(weight.bits, *weight.codes.shape))
    out.reshape(tiles, -1)[:] = blocks.reshape(tiles, -1)[:, : form.tile(inputs)]
    return out


def _squeezed(quads: Bytes, bits: int) -> Bytes:
    """4 bits of quads that are four places apart share a byte; 2 more bits of four neighbours share one behind them."""
    if bits not in (4, 6):
        return quads
    nibbles = quads[..., :4, :] & np.uint8(15) | quads[..., 4:, :] << np.uint8(4)
    if bits == 4:
        return nibbles
    fours = (quads >> np.uint8(4)).reshape(*quads.shape[:4], 2, 4, VECTOR)
    rest = np.bitwise_or.reduce([fours[..., at, :] << np.uint8(2 * at) for at in range(4)])
    return np.concatenate([nibbles, rest], axis=-2)


def _side_by_side(steps: Bytes, tiles: int, supers: int) -> Bytes:
    """Steps of a pair's two halves stand together, channel by channel; of four groups the first and third do."""
    apart = steps.reshape(tiles, TILE, supers, PAIRS, 2, -1)
    return apart.transpose(0, 2, 3, 5, 1, 4).reshape(tiles, supers, PAIRS, -1)


def aligned(size: int) -> Bytes:
    """Return `size` bytes of memory that begin a page, on large pages where the system has them."""
    memory = mmap.mmap(-1, max(size, 1) + AHEAD + max(form.stride for form in FORMS.values()))  # and what is fetched
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel built without them says no
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=np.uint8, count=size)

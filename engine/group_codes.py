"""Weights as unsigned codes by groups of 32 inputs: w = scale x code + offset."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.kernels.layout import GROUP

PIECE = 8192  # output channels that are rounded at a time: a head's floats, several times over, would not fit
BITS = 7  # of codes made here: the largest that two products of 8 bits may have in a 16-bit sum
Half = npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class GroupCodes:
    """Codes [out, in], and for each group of 32 inputs a scale and an offset [out, in / 32]."""

    bits: int
    codes: npt.NDArray[np.uint8]
    scale: Half
    offset: Half

    def rows(self, order: npt.NDArray[np.int64]) -> GroupCodes:
        """Return the output channels in another order."""
        return GroupCodes(self.bits, self.codes[order], self.scale[order], self.offset[order])

    def followed_by(self, *others: GroupCodes) -> GroupCodes:
        """Return these output channels and those of others behind them."""
        return GroupCodes(
            self.bits,
            np.concatenate([self.codes, *(other.codes for other in others)]),
            np.concatenate([self.scale, *(other.scale for other in others)]),
            np.concatenate([self.offset, *(other.offset for other in others)]),
        )


def quantise(weight: npt.NDArray[np.float32]) -> GroupCodes:
    """Round a float32 weight [out, in] to 7 bits between the least and the largest value of each group."""
    first, *more = (_quantise(weight[at : at + PIECE]) for at in range(0, len(weight), PIECE))
    return first.followed_by(*more)


def _quantise(weight: npt.NDArray[np.float32]) -> GroupCodes:
    groups = weight.reshape(len(weight), -1, GROUP)
    most = 2**BITS - 1
    low, high = groups.min(axis=-1), groups.max(axis=-1)
    offset = low.astype(np.float16)
    reach = np.maximum(high - offset.astype(np.float32), 0.0)
    scale = (np.maximum(reach, 1e-7) / most).astype(np.float16)
    step = np.maximum(scale.astype(np.float32), 1e-7)[..., None]
    codes = np.clip(np.rint((groups - offset.astype(np.float32)[..., None]) / step), 0, most)
    return GroupCodes(BITS, codes.astype(np.uint8).reshape(weight.shape), scale, offset)

"""Weights as unsigned codes by groups of 32 inputs: w = scale x code + offset."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.kernels.layout import GROUP

PIECE = 8192  # output channels that are rounded at a time: a head's floats, several times over, would not fit
BITS = 7  # of codes made here: the largest that two products of 8 bits may have in a 16-bit sum
COARSE = 4  # bits whose scales are worth fitting to the codes
FITS = 2
Half = npt.NDArray[np.float16]
Floats = npt.NDArray[np.float32]


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


def quantise(weight: npt.NDArray[np.float32], bits: int = BITS) -> GroupCodes:
    """Round a float32 weight [out, in] to codes of so many bits, with a scale and an offset for each group."""
    first, *more = (_quantise(weight[at : at + PIECE], bits) for at in range(0, len(weight), PIECE))
    return first.followed_by(*more)


def _quantise(weight: npt.NDArray[np.float32], bits: int) -> GroupCodes:
    groups = weight.reshape(len(weight), -1, GROUP)
    most = 2**bits - 1
    low, high = groups.min(axis=-1), groups.max(axis=-1)
    offset = low.astype(np.float16)
    reach = high - offset.astype(np.float32)  # from the offset as it is kept, so that the largest value is in reach
    scale = (np.maximum(reach, 1e-7) / most).astype(np.float16)
    codes = _codes(groups, scale, offset, most)
    for _ in range(FITS if bits <= COARSE else 0):
        scale, offset = _fitted(groups, codes, scale, offset)
        codes = _codes(groups, scale, offset, most)
    return GroupCodes(bits, codes.astype(np.uint8).reshape(weight.shape), scale, offset)


def _codes(groups: Floats, scale: Half, offset: Half, most: int) -> Floats:
    step = np.maximum(scale.astype(np.float32), 1e-7)[..., None]
    codes: Floats = np.clip(np.rint((groups - offset.astype(np.float32)[..., None]) / step), 0, most)
    return codes


def _fitted(groups: Floats, codes: Floats, scale: Half, offset: Half) -> tuple[Half, Half]:
    """Return the scale and offset of the least square error for these codes; where all are alike, those there were."""
    mean, weights = codes.mean(axis=-1), groups.mean(axis=-1)
    apart = codes - mean[..., None]
    spread = np.einsum("...i,...i", apart, apart)
    found = np.einsum("...i,...i", apart, groups) / np.maximum(spread, 1e-7)
    slope = np.where((spread > 0) & (found > 0), found, scale.astype(np.float32))
    base = np.where(spread > 0, weights - slope * mean, offset.astype(np.float32))
    return slope.astype(np.float16), base.astype(np.float16)

"""Round a weight of floats to codes in groups (see kernels.group_codes)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.kernels.group_codes import GROUP, SUPER, ZERO, Bytes, GroupCodes, Halves

PIECE = 8192  # output channels that are rounded at a time: a head's floats, several times over, would not fit
BITS = 7  # of codes made here: the largest that two products of 8 bits may have in a 16-bit sum
COARSE = 4  # bits whose steps are worth fitting to the codes
FITS = 2
STEP = 255  # the largest
OFFSET = 127  # the largest, of either sign
LEAST = 1e-7
Floats = npt.NDArray[np.float32]


def quantise(weight: Floats, bits: int = BITS) -> GroupCodes:
    """Round a float32 weight [out, in] to codes of 7 or of 4 bits."""
    rounded = _coarse if bits == COARSE else _fine
    first, *more = (rounded(weight[at : at + PIECE]) for at in range(0, len(weight), PIECE))
    return first.followed_by(*more)


def _fine(weight: Floats) -> GroupCodes:
    """Round to 7 bits about zero."""
    zero = ZERO[BITS]
    groups = weight.reshape(len(weight), -1, GROUP[BITS])
    wanted = np.abs(groups).max(axis=-1) / (zero - 1)
    factors = _factors(wanted, STEP)
    steps = np.ceil(wanted / _spread(factors, wanted)).clip(0, STEP)  # up: the largest stays in reach
    codes = np.rint(groups / _sizes(steps, factors)[..., None]) + zero
    return GroupCodes(BITS, _bytes(codes.clip(1, 2 * zero - 1)), steps.astype(np.uint8), factors)


def _coarse(weight: Floats) -> GroupCodes:
    """Round to 4 bits with offsets, and fit steps and offsets to the codes by the least square error."""
    groups = weight.reshape(len(weight), -1, GROUP[COARSE])
    bases = groups.min(axis=-1)
    sizes = (groups.max(axis=-1) - bases) / 15
    found = _with_offsets(groups, sizes, bases)
    for _ in range(FITS):
        sizes, bases = _fitted(groups, found.codes.reshape(groups.shape).astype(np.float32), sizes, bases)
        found = _with_offsets(groups, sizes, bases)
    return found


def _with_offsets(groups: Floats, sizes: Floats, bases: Floats) -> GroupCodes:
    """Round to 4 bits with steps as near to `sizes`, and offsets as near to `bases`, as their bits allow."""
    factors, more = _factors(sizes, STEP), _factors(np.abs(bases), OFFSET)
    steps = np.rint(sizes / _spread(factors, sizes)).clip(0, STEP)
    offsets = np.rint(bases / _spread(more, bases)).clip(-OFFSET, OFFSET)
    base = offsets * _spread(more, bases)
    codes = np.rint((groups - base[..., None]) / _sizes(steps, factors)[..., None]).clip(0, 15)
    return GroupCodes(COARSE, _bytes(codes), steps.astype(np.uint8), factors, offsets.astype(np.int8), more)


def _factors(sizes: Floats, most: int) -> Halves:
    """Return for each super-block the factor that brings the largest size in it to `most`; zeros get one, too."""
    each = SUPER // GROUP[BITS]
    padded = np.pad(sizes, ((0, 0), (0, -sizes.shape[1] % each)))
    largest = padded.reshape(len(sizes), -1, each).max(axis=-1)
    factors: Halves = np.maximum(largest / most, LEAST).astype(np.float16)
    return factors


def _spread(factors: Halves, groups: Floats) -> Floats:
    """Return each group's factor; none is zero."""
    each = np.repeat(factors.astype(np.float32), SUPER // GROUP[BITS], axis=1)[:, : groups.shape[1]]
    return np.maximum(each, LEAST)


def _sizes(steps: Floats, factors: Halves) -> Floats:
    """Return what one code more adds; not zero, so that it can divide."""
    sizes: Floats = np.maximum(steps * _spread(factors, steps), LEAST)
    return sizes


def _bytes(codes: Floats) -> Bytes:
    return codes.astype(np.uint8).reshape(len(codes), -1)


def _fitted(groups: Floats, codes: Floats, sizes: Floats, bases: Floats) -> tuple[Floats, Floats]:
    """Return the size and base of the least square error for these codes; where all are alike, those there were."""
    mean, weights = codes.mean(axis=-1), groups.mean(axis=-1)
    apart = codes - mean[..., None]
    spread = np.einsum("...i,...i", apart, apart)
    found = np.einsum("...i,...i", apart, groups) / np.maximum(spread, LEAST)
    slope = np.where((spread > 0) & (found > 0), found, sizes)
    return slope, np.where(spread > 0, weights - slope * mean, bases)

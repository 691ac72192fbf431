"""A weight as integer codes with steps on two levels, as llama.cpp's k-quants have them (ggml-quants).

Groups of inputs have 8-bit steps, and super-blocks of 256 inputs a factor for all their steps:

    weight = factor x step x (code - ZERO[bits])  +  offset factor x offset

Codes of 4 bits have offsets and no zero: Q4_K as it stands in a file. 6 bits in groups of 16 are Q6_K as it stands
there. 7 bits serve whatever comes in another form.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

SUPER = 256  # inputs of a super-block; a row's last may be shorter
GROUP = {4: 32, 6: 16, 7: 32}  # inputs that share a step, by bits
ZERO = {4: 0, 6: 32, 7: 64}

Bytes = npt.NDArray[np.uint8]
Steps = npt.NDArray[np.int8]
Halves = npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class GroupCodes:
    """Codes [out, in]; steps and offsets [out, groups]; factors [out, super-blocks]."""

    bits: int
    codes: Bytes
    steps: Bytes | Steps  # signed with 6 bits
    factors: Halves
    offsets: Steps | None = None
    offset_factors: Halves | None = None

    def rows(self, order: npt.NDArray[np.int64]) -> GroupCodes:
        """Return the output channels in another order."""
        return self._with(part[order] for part in self._parts())

    def followed_by(self, *others: GroupCodes) -> GroupCodes:
        """Return these output channels and those of others, of the same bits, behind them."""
        return self._with(map(np.concatenate, zip(self._parts(), *(other._parts() for other in others), strict=True)))

    def filled(self, channels: int) -> GroupCodes:
        """Return it with zeros behind it, up to whole super-blocks and a multiple of so many channels."""
        supers, more = self.factors.shape[1], -len(self.codes) % channels
        widths = (supers * SUPER, *[supers * SUPER // GROUP[self.bits], supers] * 2)
        sizes = zip(self._parts(), widths, strict=False)
        return self._with(np.pad(part, ((0, more), (0, width - part.shape[1]))) for part, width in sizes)

    def floats(self) -> npt.NDArray[np.float64]:
        """Return the weight [out, in]."""
        width, group = self.codes.shape[1], GROUP[self.bits]
        factors = np.repeat(self.factors.astype(float), SUPER // group, axis=1)[:, : width // group]
        steps = np.repeat(factors * self.steps, group, axis=1)
        found: npt.NDArray[np.float64] = steps * (self.codes.astype(float) - ZERO[self.bits])
        if self.offsets is not None and self.offset_factors is not None:
            more = np.repeat(self.offset_factors.astype(float), SUPER // group, axis=1)[:, : width // group]
            found += np.repeat(more * self.offsets, group, axis=1)
        return found

    def _parts(self) -> list[npt.NDArray[Any]]:
        found = self.codes, self.steps, self.factors, self.offsets, self.offset_factors
        return [part for part in found if part is not None]

    def _with(self, parts: Iterable[npt.NDArray[Any]]) -> GroupCodes:
        return GroupCodes(self.bits, *parts)

"""The compiled functions at work: linears, and the memory that rounded rows pass through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from engine.kernels.group_codes import Bytes
from engine.kernels.layout import PAIR, TILE
from engine.kernels.library import Library
from engine.kernels.products_ir import WORDS
from engine.kernels.team import Team

CHUNKS = 16  # of one job: enough that a thread which is held up keeps nobody waiting for long
PART = ("kind", "weight", "tiles", "chunk", "channel", "factor")  # words that describe a part to the kernel


@dataclass(frozen=True, slots=True)
class Part:
    """Some output channels of a linear: packed codes of so many bits, and a factor on all results."""

    bits: int
    packed: Bytes
    channels: int
    factor: float = 1.0


class Rounded(NamedTuple):
    """Says that rows were rounded; their codes are in the kernels' memory until the next are."""

    rows: int
    width: int


class GroupLinear:
    """A linear whose weight lies in groups: maps rows that a KernelArithmetic rounded last to float32 [rows, out]."""

    def __init__(self, kernels: Kernels, parts: Sequence[Part], inputs: int) -> None:
        self._kernels, self._kept = kernels, tuple(parts)
        self.inputs, self.outputs = inputs, sum(part.channels for part in parts)
        self.stride = sum(-(-part.channels // TILE) * TILE for part in parts)  # room for a row of products
        self._words = np.array(list(_words(parts)), dtype=np.int64)
        self.words, self.count = self._words.ctypes.data, len(self._words)

    def __call__(self, q: Rounded) -> Tensor:
        """Multiply the rows."""
        out = torch.empty(q.rows, self.stride)
        kernels = self._kernels
        places = kernels.team.job, *kernels.rounded.at, out.data_ptr(), self.words
        kernels.library.linear(*places, self.count, self.inputs, q.rows, self.stride)
        return out if self.stride == self.outputs else out[:, : self.outputs]


def _words(parts: Sequence[Part]) -> Iterator[list[int]]:
    channel = 0
    for part in parts:
        tiles = -(-part.channels // TILE)
        factor = int(np.float32(part.factor).view(np.int32))
        yield [part.bits, part.packed.ctypes.data, tiles, -(-tiles // CHUNKS), channel, factor]
        channel += TILE * tiles


class Kernels:
    """The compiled functions, the memory that rounded rows pass through, and the team."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.team = Team(library)
        self.rounded = _Codes(0)

    def linear(self, parts: Sequence[Part], inputs: int) -> GroupLinear:
        """Make a linear of parts whose channels stand one after another; all but the last fill whole tiles."""
        return GroupLinear(self, parts, inputs)

    def room(self, size: int) -> tuple[int, int]:
        """Return where so many codes, and their sums, go."""
        if self.rounded.size < size:
            self.rounded = _Codes(size)
        return self.rounded.at


class _Codes:
    """int8 codes and sums of rows between the arithmetic that rounds them and the linear that multiplies them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.codes = torch.empty(size, dtype=torch.int8)
        self.sums = torch.empty(size // PAIR * WORDS, dtype=torch.int32)
        self.at = self.codes.data_ptr(), self.sums.data_ptr()

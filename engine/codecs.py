"""Two ways to keep a linear's weight as integers, and to multiply with it: by groups of inputs, or by whole channels.

Compiled kernels read weights in groups, with the codes a GGUF file has where it has them (see kernels.layout). Where
they cannot run, torch's own operators multiply int8 codes of whole output channels (see int8_linear).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import torch
from torch import Tensor

from engine.arithmetic import LEVELS, Arithmetic
from engine.group_codes import BITS, COARSE, quantise
from engine.int8_linear import Backend, choose_backend, quantise_weight
from engine.kernels.arithmetic import KernelArithmetic
from engine.kernels.find import find_kernels
from engine.kernels.group_codes import GroupCodes
from engine.kernels.kernels import Kernels, Part
from engine.kernels.layout import aligned, pack, size_of
from engine.layers import Linear
from engine.torch_arithmetic import TorchArithmetic

Read = Callable[[str], Tensor]
"""Returns a tensor of the prepared file by its name."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some output channels of a linear: a weight [out, in], its codes where a file has them, a factor on results."""

    weight: Tensor
    codes: GroupCodes | None = None
    factor: float = 1.0


class Codec(Protocol):
    """Keeps linears and brings them back."""

    @property
    def name(self) -> str:
        """What the prepared file is called by."""
        ...

    @property
    def how(self) -> str:
        """Say in a few words how it multiplies, for people."""
        ...

    def reads(self, name: str) -> bool:
        """Whether it understands a file that the codec of this name wrote."""
        ...

    def encode(self, name: str, pieces: Sequence[Piece]) -> dict[str, Tensor]:
        """Return the tensors that keep a linear under its name."""
        ...

    def decode(self, name: str, read: Read, rows: int | None = None) -> Linear:
        """Return the linear, or its first `rows` output channels; its results are divided by 127."""
        ...

    def arithmetic(self, eps: float) -> Arithmetic:
        """Return what computes between its linears."""
        ...


class GroupCodec:
    """Codes by groups of inputs, for the compiled kernels."""

    how = "compiled kernels, 4-bit to 7-bit codes in groups"

    def __init__(self, kernels: Kernels, bits: int = BITS) -> None:
        """Take the kernels, and the bits of codes that no file has."""
        self._kernels, self._bits = kernels, bits
        self.name = f"int{4 if bits == COARSE else 8}-groups"

    def reads(self, name: str) -> bool:
        """Whether it is a file of its own."""
        return name == self.name

    def encode(self, name: str, pieces: Sequence[Piece]) -> dict[str, Tensor]:
        """Neighbours of one kind are kept as one."""
        kept: dict[str, Tensor] = {}
        for at, (codes, factor) in enumerate(_merged(pieces, self._bits)):
            facts = [codes.bits, *codes.codes.shape, factor]
            kept[f"{name}.{at}"] = torch.from_numpy(pack(codes))
            kept[f"{name}.{at}.facts"] = torch.tensor(facts, dtype=torch.float64)
        kept[f"{name}.parts"] = torch.tensor(at + 1)
        return kept

    def decode(self, name: str, read: Read, rows: int | None = None) -> Linear:
        """Copy what is kept into memory of its own."""
        parts, inputs = [], 0
        for at in range(int(read(f"{name}.parts"))):
            bits, channels, inputs, factor = read(f"{name}.{at}.facts").tolist()
            channels = min(int(channels), rows or int(channels))
            stored = read(f"{name}.{at}").numpy()
            size = size_of(int(bits), channels, int(inputs))
            packed = aligned(size)
            packed[:] = stored[:size]
            parts.append(Part(int(bits), packed, channels, factor / LEVELS))
        return self._kernels.linear(parts, int(inputs))

    def arithmetic(self, eps: float) -> Arithmetic:
        """Use compiled kernels, too."""
        return KernelArithmetic(self._kernels, eps)


def _merged(pieces: Sequence[Piece], bits: int) -> list[tuple[GroupCodes, float]]:
    merged: list[tuple[GroupCodes, float]] = []
    for piece in pieces:
        codes = piece.codes or quantise(piece.weight.float().numpy(), bits)
        if merged and merged[-1][1] == piece.factor and merged[-1][0].bits == codes.bits:
            merged[-1] = (merged[-1][0].followed_by(codes), piece.factor)
        else:
            merged.append((codes, piece.factor))
    return merged


class ChannelCodec:
    """int8 codes by output channel, for torch's operators."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.name = f"int8-{backend.levels}"
        self.how = f"torch's {backend.name}, codes within ±{backend.levels} by channel"

    def reads(self, name: str) -> bool:
        """Whether no code is larger than is exact here."""
        kind, _, levels = name.partition("-")
        return kind == "int8" and levels.isdigit() and int(levels) <= self.backend.levels

    def encode(self, name: str, pieces: Sequence[Piece]) -> dict[str, Tensor]:
        """Quantise the pieces together."""
        codes, scale = quantise_weight(torch.cat([piece.weight for piece in pieces]), self.backend.levels)
        factors = torch.cat([torch.full((len(piece.weight),), piece.factor) for piece in pieces])
        return {f"{name}.codes": codes, f"{name}.scale": scale * factors}

    def decode(self, name: str, read: Read, rows: int | None = None) -> Linear:
        """Pack for the operator."""
        return self.backend.pack(read(f"{name}.codes")[:rows], read(f"{name}.scale")[:rows] / LEVELS)

    def arithmetic(self, eps: float) -> Arithmetic:
        """Use torch's operators, too."""
        return TorchArithmetic(eps)


@cache
def choose_codec(drafts: bool = False) -> Codec:
    """Take the compiled kernels where they run, else the fastest exact operator of torch.

    A model that only `drafts` has 4-bit codes throughout: it may err now and then, and what it costs is reading them.
    """
    kernels = find_kernels()
    if kernels is None:
        return ChannelCodec(choose_backend())
    return GroupCodec(kernels, COARSE if drafts else BITS)

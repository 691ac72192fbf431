"""The codes of a GGUF file's weights as they stand there, where their form is one that our kernels multiply.

These are Q4_K and Q6_K: super-blocks of 256 inputs whose groups have steps of 6 and 8 bits (llama.cpp, ggml-quants).
Nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from engine.kernels.group_codes import SUPER, Bytes, GroupCodes

PLAIN = ("qwen2",)  # architectures whose rows stand in the file in the order that transformers has


class GgufCodes:
    """A file's tensors by name; without a file there are none."""

    def __init__(self, path: Path | None = None) -> None:
        self._tensors: dict[str, Any] = {}
        if path is None:
            return
        import gguf

        reader = gguf.GGUFReader(str(path))
        architecture = reader.fields["general.architecture"].contents()
        if architecture in PLAIN:
            self._tensors = {t.name: t for t in reader.tensors if t.tensor_type.name in UNPACK}

    def of(self, name: str) -> GroupCodes | None:
        """Return a tensor's codes, None where the file has none of these kinds."""
        tensor = self._tensors.get(name)
        if tensor is None:
            return None
        return UNPACK[tensor.tensor_type.name](np.asarray(tensor.data).reshape(int(tensor.shape[1]), -1))


def unpack_q4_k(data: Bytes) -> GroupCodes:
    """Return the codes of rows [out, in / 256 x 144]: two factors, 12 bytes of steps and offsets, 128 of codes."""
    out = len(data)
    blocks = data.reshape(out, -1, 144)
    factors = np.ascontiguousarray(blocks[..., :4]).view(np.float16)
    packed, pairs = blocks[..., 4:16], blocks[..., 16:].reshape(out, -1, SUPER // 64, 32)
    codes = np.stack([pairs & 15, pairs >> 4], axis=3).reshape(out, -1)  # 64 inputs: the low halves, then the high ones
    first, second, third = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    steps = np.concatenate([first & 63, third & 15 | first >> 6 << 4], axis=-1).reshape(out, -1)
    offsets = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=-1).reshape(out, -1)
    return GroupCodes(4, codes, steps, factors[..., 0], offsets.view(np.int8), -factors[..., 1])


def unpack_q6_k(data: Bytes) -> GroupCodes:
    """Return the codes of rows [out, in / 256 x 210]: low halves of codes, high quarters, 16 steps, a factor."""
    out = len(data)
    blocks = data.reshape(out, -1, 210)
    low = blocks[..., :128].reshape(out, -1, 2, 2, 32)  # of 128 inputs: 64 in low halves of bytes, 64 in high
    high = blocks[..., 128:192].reshape(out, -1, 2, 1, 32)  # four codes a byte, 32 inputs apart
    halves = np.concatenate([low & 15, low >> 4], axis=3)
    quarters = np.concatenate([high >> shift & 3 for shift in (0, 2, 4, 6)], axis=3)
    steps = blocks[..., 192:208].reshape(out, -1).view(np.int8)
    factors = np.ascontiguousarray(blocks[..., 208:]).view(np.float16)
    return GroupCodes(6, (halves | quarters << 4).reshape(out, -1), steps, factors[..., 0])


UNPACK: dict[str, Callable[[Bytes], GroupCodes]] = {"Q4_K": unpack_q4_k, "Q6_K": unpack_q6_k}

"""The codes of a GGUF file's weights as they stand there, where their form is one that our kernels multiply.

That is Q4_K: super-blocks of 256 inputs, each with two half-precision factors and, for every 32 inputs, 6 bits of scale
and 6 of offset (llama.cpp, ggml-quants). Taken over, the weights are those of the file to 11 bits of scale.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.group_codes import GroupCodes
from engine.kernels.layout import GROUP

SUPER = 256  # inputs of a super-block
SIZE = 144  # its bytes: two halves, 12 bytes of scales, 128 of codes
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
            wanted = gguf.GGMLQuantizationType.Q4_K
            self._tensors = {t.name: t for t in reader.tensors if t.tensor_type == wanted}

    def of(self, name: str) -> GroupCodes | None:
        """Return a tensor's codes, None where the file has none of this kind."""
        tensor = self._tensors.get(name)
        if tensor is None:
            return None
        return unpack_q4_k(np.asarray(tensor.data).reshape(int(tensor.shape[1]), -1))


def unpack_q4_k(data: npt.NDArray[np.uint8]) -> GroupCodes:
    """Return the codes of rows of bytes [out, in / 256 x 144]."""
    out = len(data)
    blocks = data.reshape(out, -1, SIZE)
    factors = np.ascontiguousarray(blocks[..., :4]).view(np.float16).astype(np.float32)
    packed, pairs = blocks[..., 4:16], blocks[..., 16:].reshape(out, -1, SUPER // 64, GROUP)
    codes = np.stack([pairs & 15, pairs >> 4], axis=3).reshape(out, -1)  # 64 inputs: the low halves, then the high ones
    first, second, third = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    scales = np.concatenate([first & 63, third & 15 | first >> 6 << 4], axis=-1)
    offsets = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=-1)
    scale = (factors[..., :1] * scales).reshape(out, -1)
    offset = (-factors[..., 1:] * offsets).reshape(out, -1)
    return GroupCodes(4, codes, scale.astype(np.float16), offset.astype(np.float16))

"""Where weights come from, one tensor at a time and straight onto the device: safetensors files, or random numbers.

A source must be able to give one matrix without holding the others: a 32B model is quantised matrix by matrix on a card
that could never hold it whole.
"""

from __future__ import annotations

import json
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import safe_open
from torch import Tensor

from engine.errors import ModelLoadError
from engine.gpu.shape import ModelShape
from engine.weights_check import INDEX, SINGLE

SPREAD = 0.02  # standard deviation of random matrices, as models are initialised


class WeightSource(Protocol):
    """Gives weights by the names transformers gives them."""

    def get(self, name: str) -> Tensor:
        """Return one weight on the device, in the type passes are computed in."""
        ...


class FolderWeights:
    """The safetensors files of a model folder. Use it in a `with`: the files stay open meanwhile."""

    def __init__(self, folder: Path, shape: ModelShape, device: torch.device, dtype: torch.dtype) -> None:
        """Raise ModelLoadError when a weight is missing or has another size than `shape` says."""
        self._folder, self._device, self._dtype = folder, device, dtype
        self._stack = ExitStack()
        self._open: dict[str, Any] = {}
        self._files = _files(folder)
        self._require(shape)

    def __enter__(self) -> FolderWeights:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.clear()
        self._stack.close()

    def get(self, name: str) -> Tensor:
        """Return one weight on the device."""
        tensor: Tensor = self._file(name).get_tensor(name)
        return tensor.to(self._device, self._dtype)

    def _file(self, name: str) -> Any:  # noqa: ANN401  (safetensors is untyped)
        file = self._files[name]
        if file not in self._open:
            self._open[file] = self._stack.enter_context(safe_open(self._folder / file, "pt"))
        return self._open[file]

    def _require(self, shape: ModelShape) -> None:
        wanted = dict(shape.tensors())
        if lacking := sorted(wanted.keys() - self._files.keys()):
            raise ModelLoadError(
                f"{self._folder} lacks {len(lacking)} of its model's weights ({lacking[0]}); fetch it again"
            )
        for name, size in wanted.items():
            found = tuple(self._file(name).get_slice(name).get_shape())
            if found != size:
                raise ModelLoadError(
                    f"{self._folder} has {name} as {list(found)}, its config.json says {list(size)}; fetch it again"
                )


def _files(folder: Path) -> dict[str, str]:
    """Map each weight to the file that holds it."""
    if (folder / INDEX).is_file():
        files: dict[str, str] = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"]
        return files
    with safe_open(folder / SINGLE, "pt") as file:
        return dict.fromkeys(file.keys(), SINGLE)


class RandomWeights:
    """Numbers instead of a checkpoint, for measuring: a name always gives the same tensor, whoever asks and when."""

    def __init__(self, shape: ModelShape, device: torch.device, dtype: torch.dtype, seed: int = 0) -> None:
        self._sizes = dict(shape.tensors())
        self._device, self._dtype, self._seed = device, dtype, seed

    def get(self, name: str) -> Tensor:
        """Return one weight: norms near one, everything else around zero."""
        generator = torch.Generator(self._device).manual_seed(zlib.crc32(name.encode()) + self._seed)
        noise = torch.empty(self._sizes[name], device=self._device, dtype=self._dtype)
        noise.normal_(std=SPREAD, generator=generator)
        return noise.add_(1.0) if name.endswith("norm.weight") else noise

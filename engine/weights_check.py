"""Cheap checks of weight files before a library opens them: a wrong file costs one sentence, not a deep trace.

Reads headers and sizes only, never the weights; must not know where files come from. No torch, no transformers.
"""

from __future__ import annotations

import json
import math
import mmap
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engine.errors import ModelLoadError

FIX = "fetch it again, for example with `foretype pull`"

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")

MAX_SAFETENSORS_HEADER = 100_000_000  # bytes; the format's own limit

# GGUF value kinds: bytes of the plain ones, then the two of variable length.
GGUF_PLAIN = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
GGUF_STRING = 8
GGUF_ARRAY = 9
GGUF_ALIGNMENT = 32
GGUF_MAX_DIMENSIONS = 8


def inspect_gguf(path: Path) -> None:
    """Raise ModelLoadError unless the file is a GGUF with all its tensors in it."""
    if _head(path)[:4] != b"GGUF":
        raise _fault(path, "is no GGUF file")
    size = path.stat().st_size
    try:
        end = _gguf_end(path)
    except (struct.error, IndexError, OverflowError):  # the walk left the file
        raise _fault(path, "is cut off inside its header") from None
    except ValueError as error:
        raise _fault(path, f"has a GGUF header that cannot be read ({error})") from None
    _require_length(path, size, end)


def inspect_folder(path: Path) -> None:
    """Raise ModelLoadError unless the folder holds a configuration, whole safetensors weights and a tokenizer."""
    if not path.is_dir():
        raise _fault(path, "is not a folder" if path.exists() else "does not exist")
    _read_json(_require(path / "config.json"))
    for shard in _shards(path):
        inspect_safetensors(shard)
    tokenizer = next((path / name for name in TOKENIZERS if (path / name).exists()), None)
    if tokenizer is None:
        raise _fault(path, f"has no tokenizer (none of {', '.join(TOKENIZERS)})")
    _head(tokenizer)


def inspect_safetensors(path: Path) -> None:
    """Raise ModelLoadError unless the file's length is what its own header says."""
    length = int.from_bytes(_head(path)[:8], "little")
    if length > MAX_SAFETENSORS_HEADER:
        raise _fault(path, "is no safetensors file")
    size = path.stat().st_size
    if size < 8 + length:
        raise _fault(path, "is cut off inside its header")
    with path.open("rb") as file:
        file.seek(8)
        raw = file.read(length)
    try:
        ends = [int(entry["data_offsets"][1]) for name, entry in json.loads(raw).items() if name != "__metadata__"]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise _fault(path, "has a safetensors header that cannot be read") from None
    _require_length(path, size, 8 + length + max(ends, default=0))


def _fault(path: Path, fault: str, fix: str = FIX) -> ModelLoadError:
    return ModelLoadError(f"{path} {fault}; {fix}")


def _require(path: Path) -> Path:
    if not path.exists():
        raise _fault(path, "is missing")
    return path


def _require_length(path: Path, size: int, wanted: int) -> None:
    if size < wanted:
        raise _fault(path, f"is cut off: {size} of {wanted} bytes are there")


def _head(path: Path) -> bytes:
    """Read the first bytes of what should be a weight file, refusing what can be no such file at all."""
    if path.is_dir():
        raise _fault(path, "is a folder, not a file", "name the file inside it")
    try:
        with _require(path).open("rb") as file:
            head = file.read(512)
    except OSError as error:
        raise _fault(path, f"cannot be read ({error.strerror})", "check its permissions") from None
    if not head:
        raise _fault(path, "is empty")
    if head.lstrip().startswith(b"<"):
        raise _fault(path, "is a web page, not a model file")
    return head


def _read_json(path: Path) -> dict[str, Any]:
    _head(path)
    try:
        value = json.loads(path.read_bytes())
    except ValueError:
        raise _fault(path, "is not valid JSON") from None
    if not isinstance(value, dict):
        raise _fault(path, "holds no JSON object")
    return value


def _shards(folder: Path) -> Iterable[Path]:
    """List the weight files of a folder, as its index or the one customary name gives them."""
    if (folder / INDEX).exists():
        names = _read_json(folder / INDEX).get("weight_map")
        if not isinstance(names, dict) or not names or not all(isinstance(n, str) for n in names.values()):
            raise _fault(folder / INDEX, "lists no weights")
        return [folder / name for name in sorted(set(names.values()))]
    if (folder / SINGLE).exists():
        return [folder / SINGLE]
    if any(folder.glob("*.safetensors")):
        raise _fault(folder / INDEX, "is missing")
    if any(found for pattern in PICKLES for found in folder.glob(pattern)):
        raise _fault(
            folder, "holds only pickled weights", "only safetensors and GGUF are read, take a model in one of them"
        )
    raise _fault(folder, "holds no safetensors weights")


class _Cursor:
    """Walks a GGUF header. Reading past the end of the file raises struct.error."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def number(self, layout: str) -> int:
        (value,) = struct.unpack_from(f"<{layout}", self.data, self.at)
        self.at += struct.calcsize(f"<{layout}")
        return int(value)

    def text(self) -> bytes:
        start = self.skip_text()
        return self.data[start : self.at]

    def skip_text(self) -> int:
        length = self.number("Q")
        self.at += length
        return self.at - length

    def skip_value(self, kind: int) -> None:
        if kind == GGUF_STRING:
            self.skip_text()
        elif kind == GGUF_ARRAY:
            self._skip_array(self.number("I"), self.number("Q"))
        else:
            self.at += _plain_bytes(kind)

    def _skip_array(self, kind: int, count: int) -> None:
        if kind == GGUF_STRING:
            data, at, read = self.data, self.at, struct.Struct("<Q").unpack_from  # 300,000 words: a second otherwise
            for _ in range(count):
                at += 8 + read(data, at)[0]
            self.at = at
        else:
            self.at += count * _plain_bytes(kind)


def _plain_bytes(kind: int) -> int:
    if kind not in GGUF_PLAIN:
        raise ValueError(f"value kind {kind}")
    return GGUF_PLAIN[kind]


def _gguf_end(path: Path) -> int:
    """Compute where the last tensor ends, in bytes from the start of the file."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        cursor = _Cursor(data)
        cursor.at = 4
        if (version := cursor.number("I")) not in (2, 3):
            raise ValueError(f"version {version}")
        tensors, values = cursor.number("Q"), cursor.number("Q")
        if not tensors:
            raise ValueError("no tensors")
        alignment = _skip_values(cursor, values)
        end = max(_tensor_end(cursor) for _ in range(tensors))
        return cursor.at + -cursor.at % alignment + end


def _skip_values(cursor: _Cursor, count: int) -> int:
    """Pass over the key-value pairs and return the one that matters here, the alignment of the data."""
    alignment = GGUF_ALIGNMENT
    for _ in range(count):
        key, kind = cursor.text(), cursor.number("I")
        start = cursor.at
        cursor.skip_value(kind)
        if key == b"general.alignment":
            (alignment,) = struct.unpack_from("<I", cursor.data, start)
    if not alignment:
        raise ValueError("alignment 0")
    return alignment


def _tensor_end(cursor: _Cursor) -> int:
    """Read one tensor's entry and return where it ends, in bytes from the start of the data."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    cursor.text()
    if (dimensions := cursor.number("I")) > GGUF_MAX_DIMENSIONS:
        raise ValueError(f"{dimensions} dimensions")
    elements = math.prod(cursor.number("Q") for _ in range(dimensions))
    block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(cursor.number("I"))]
    data_bytes: int = elements // block * block_bytes
    return cursor.number("Q") + data_bytes

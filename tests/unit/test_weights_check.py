"""Broken weights are named in one sentence before any library opens them (case B67)."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import ModelLoadError
from engine.weights_check import inspect_folder, inspect_gguf, inspect_safetensors

F32, Q4_K = 0, 12


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def tensor(name: str, dims: tuple[int, ...], kind: int, offset: int) -> bytes:
    shape = struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
    return text(name) + shape + struct.pack("<IQ", kind, offset)


def gguf(version: int = 3, kind: int = F32, alignment: int = 32, data: int = 64 + 144) -> bytes:
    """Write a file with one plain tensor of 64 bytes and one quantised block of 144 behind it."""
    values = [
        text("general.architecture") + struct.pack("<I", 8) + text("qwen2"),
        text("tokenizer.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc"),
        text("tokenizer.types") + struct.pack("<IIQ3i", 9, 5, 3, 1, 1, 1),
        text("general.alignment") + struct.pack("<II", 4, alignment),
    ]
    tensors = [tensor("norm", (16,), kind, 0), tensor("weight", (256, 1), Q4_K, 64)]
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values)) + b"".join(values + tensors)
    return head + bytes(-len(head) % (alignment or 32)) + bytes(data)


def safetensors(data: int = 8, header: bytes | None = None) -> bytes:
    entry = {"__metadata__": {"format": "pt"}, "w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    raw = json.dumps(entry).encode() if header is None else header
    return len(raw).to_bytes(8, "little") + raw + bytes(data)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Lay out a whole model folder of two shards."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "a.safetensors").write_bytes(safetensors())
    (tmp_path / "b.safetensors").write_bytes(safetensors())
    index = {"weight_map": {"x": "a.safetensors", "y": "b.safetensors", "z": "a.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    return tmp_path


def refused(check: Callable[[Path], None], path: Path, fault: str) -> None:
    with pytest.raises(ModelLoadError) as caught:
        check(path)
    message = str(caught.value)
    assert fault in message
    assert str(path.name) in message
    assert "; " in message
    assert "\n" not in message


def test_a_whole_gguf_passes(tmp_path: Path) -> None:
    """A GGUF whose tensors all lie inside the file is accepted, whatever its alignment."""
    for alignment in (32, 64):
        path = tmp_path / f"{alignment}.gguf"
        path.write_bytes(gguf(alignment=alignment))
        inspect_gguf(path)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "is empty"),
        (b"\n <!DOCTYPE html><html>", "is a web page"),
        (b"\x80\x02}q\x00", "is no GGUF file"),
        (gguf()[:-1], "is cut off: 527 of 528 bytes are there"),
        (gguf()[:200], "is cut off inside its header"),
        (gguf()[:9], "is cut off inside its header"),
        (gguf(version=1), "version 1"),
        (gguf(kind=99), "99 is not a valid"),
        (gguf(alignment=0), "alignment 0"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "no tensors"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text("k") + struct.pack("<I", 77), "value kind 77"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + struct.pack("<Q", 2**64 - 1), "is cut off inside its header"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text("t") + struct.pack("<I", 2**31), "dimensions"),
    ],
)
def test_a_broken_gguf_is_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    """Each way of being broken gives one sentence with the file, the fault and the fix."""
    path = tmp_path / "weights.gguf"
    path.write_bytes(content)
    refused(inspect_gguf, path, fault)


def test_every_cut_of_a_gguf_is_noticed(tmp_path: Path) -> None:
    """A file cut anywhere is refused, never taken and never a library's own error."""
    whole = gguf()
    path = tmp_path / "cut.gguf"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelLoadError):
            inspect_gguf(path)


def test_a_missing_gguf_and_a_folder_are_refused(tmp_path: Path) -> None:
    """No file, or a folder of that name, is said in so many words."""
    refused(inspect_gguf, tmp_path / "none.gguf", "is missing")
    refused(inspect_gguf, tmp_path, "is a folder")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_gguf_is_refused(tmp_path: Path) -> None:
    """A file without read permission is said to be that."""
    path = tmp_path / "secret.gguf"
    path.write_bytes(gguf())
    path.chmod(0)
    refused(inspect_gguf, path, "cannot be read")


def test_a_whole_folder_passes(model: Path) -> None:
    """A folder with configuration, every shard and a tokenizer is accepted."""
    inspect_folder(model)


def test_a_folder_with_one_file_of_weights_passes(model: Path) -> None:
    """A small model has one file and no index."""
    (model / "model.safetensors.index.json").unlink()
    (model / "model.safetensors").write_bytes(safetensors())
    inspect_folder(model)


@pytest.mark.parametrize("name", ["config.json", "b.safetensors"])
def test_a_missing_file_is_named(model: Path, name: str) -> None:
    """A folder that lacks its configuration or one shard is refused by the name of that file."""
    (model / name).unlink()
    with pytest.raises(ModelLoadError, match=f"{name} is missing; fetch it again"):
        inspect_folder(model)


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("b.safetensors", safetensors()[:-1], "b.safetensors is cut off: "),
        ("b.safetensors", safetensors()[:20], "b.safetensors is cut off inside its header"),
        ("b.safetensors", b"", "b.safetensors is empty"),
        ("b.safetensors", b"<html>", "b.safetensors is a web page"),
        ("b.safetensors", b"version https://git-lfs", "b.safetensors is no safetensors file"),
        ("b.safetensors", safetensors(header=b"[]"), "b.safetensors has a safetensors header that cannot be read"),
        ("b.safetensors", safetensors(header=b'{"w": 1}'), "b.safetensors has a safetensors header"),
        ("config.json", b"", "config.json is empty"),
        ("config.json", b"<!DOCTYPE html>", "config.json is a web page"),
        ("config.json", b"{", "config.json is not valid JSON"),
        ("config.json", b"[]", "config.json holds no JSON object"),
        ("tokenizer.json", b"", "tokenizer.json is empty"),
        ("model.safetensors.index.json", b"{}", "index.json lists no weights"),
        ("model.safetensors.index.json", b'{"weight_map": {"x": 1}}', "index.json lists no weights"),
    ],
)
def test_a_broken_file_in_a_folder_is_named(model: Path, name: str, content: bytes, fault: str) -> None:
    """One broken file spoils the folder, and the message says which and how."""
    (model / name).write_bytes(content)
    with pytest.raises(ModelLoadError, match=fault):
        inspect_folder(model)


def test_weights_without_their_index_are_refused(model: Path) -> None:
    """Shards alone do not say whether all are there."""
    (model / "model.safetensors.index.json").unlink()
    with pytest.raises(ModelLoadError, match=r"index\.json is missing"):
        inspect_folder(model)


def test_a_folder_without_tokenizer_is_refused(model: Path) -> None:
    """Good weights are of no use without a tokenizer, and the message lists the names looked for."""
    (model / "tokenizer.json").unlink()
    refused(inspect_folder, model, "has no tokenizer (none of tokenizer.json, tokenizer.model, vocab.json)")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_pickled_weights_are_refused(tmp_path: Path, name: str) -> None:
    """A pickle can run code, so a folder with nothing else is refused by policy, not by accident."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / name).write_bytes(b"\x80\x02")
    refused(inspect_folder, tmp_path, "only safetensors and GGUF are read")


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    """Nothing there, a file in its place, or a folder without weights: each has its own sentence."""
    refused(inspect_folder, tmp_path / "none", "does not exist")
    (tmp_path / "config.json").write_text("{}")
    refused(inspect_folder, tmp_path / "config.json", "is not a folder")
    refused(inspect_folder, tmp_path, "holds no safetensors weights")


def test_a_longer_safetensors_file_passes(tmp_path: Path) -> None:
    """Bytes behind the last tensor harm nobody."""
    path = tmp_path / "a.safetensors"
    path.write_bytes(safetensors(data=9))
    inspect_safetensors(path)

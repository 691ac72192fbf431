"""Files that are made once and kept: written beside their place and moved there whole, or made anew when damaged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from engine.errors import ModelLoadError
from engine.weights_check import inspect_safetensors


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write beside `path` and move into place, so that an interrupted conversion leaves nothing half-done."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def is_whole(path: Path) -> bool:
    """Whether a safetensors file is there and complete."""
    try:
        inspect_safetensors(path)
    except ModelLoadError:
        return False
    return True


def kept_json(path: Path, make: Callable[[], str]) -> dict[str, Any]:
    """Return the JSON object kept at `path`, made now unless it is there and whole."""
    with suppress(OSError, ValueError):
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return kept
    text = make()
    write_text(path, text)
    made: dict[str, Any] = json.loads(text)
    return made


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")

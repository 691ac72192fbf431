"""What a figure stands on: processor, memory, versions, models."""

from __future__ import annotations

import hashlib
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from engine.catalog import GIB
from engine.errors import EngineError
from engine.model_source import find_source
from engine.models import LoadedModels
from engine.processor import cpuinfo, processor_name

PACKAGES = ("foretype", "torch", "transformers", "tokenizers", "numpy", "llama-cpp-python")
FLAGS = ("avx2", "f16c", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8", "amx_bf16", "asimd", "i8mm")
HASHED = 4 * GIB  # larger files would cost more than they tell
WEIGHTS = (".gguf", ".safetensors")


def describe_machine() -> dict[str, Any]:
    """Return the machine and the versions as plain data."""
    import torch

    info = cpuinfo()
    flags = set((info.get("flags") or info.get("Features") or "").split())
    memory = psutil.virtual_memory()
    return {
        "processor": processor_name(),
        "cores": psutil.cpu_count(logical=False) or os.cpu_count(),
        "logical_cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "flags": [flag for flag in FLAGS if flag in flags],
        "torch_capability": torch.backends.cpu.get_cpu_capability(),
        "memory_gib": round(memory.total / GIB, 1),
        "free_memory_gib": round(memory.available / GIB, 1),
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def describe_models(models: LoadedModels, folder: Path) -> list[dict[str, Any]]:
    """Return each model's role, name and weight files with their SHA-256."""
    roles = {"target": models.target, "draft": models.draft}
    return [
        {"role": role, "name": Path(model.name).name, "files": _weights(model.name, folder)}
        for role, model in roles.items()
        if model is not None
    ]


def _weights(name: str, folder: Path) -> list[dict[str, Any]]:
    try:
        files = find_source(name, folder).files
    except EngineError:
        return []
    weights = [file for file in files if file.suffix in WEIGHTS]
    return [{"name": f.name, "bytes": f.stat().st_size, "sha256": _digest(f)} for f in weights]


def _digest(path: Path) -> str | None:
    if path.stat().st_size > HASHED:
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

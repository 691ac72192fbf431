"""Where a model's files are: its name resolved to a folder or to one GGUF file, looked over before it is read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.catalog import ModelRepository, load_catalog
from engine.pull import pull_repository
from engine.weights_check import inspect_folder, inspect_gguf

READ = (".safetensors", ".json", ".model", ".txt")
"""What of a folder is read: weights, configuration, end tokens, and a tokenizer in one of its forms."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model's files are: a folder, or one GGUF file in it."""

    folder: Path
    gguf: str | None = None

    @property
    def path(self) -> Path:
        """The file or folder a message should name."""
        return self.folder / self.gguf if self.gguf else self.folder

    @property
    def files(self) -> list[Path]:
        """The files whose change makes a prepared copy stale."""
        return [self.path] if self.gguf else sorted(f for f in self.folder.iterdir() if f.suffix in READ)

    @property
    def options(self) -> dict[str, Any]:
        """How transformers wants it named."""
        where: dict[str, Any] = {
            "pretrained_model_name_or_path": str(self.folder),
            "trust_remote_code": False,
            "local_files_only": True,  # what is not here is a fault to be said, not a reason to ask the network
        }
        return where | ({"gguf_file": self.gguf} if self.gguf else {})


def find_source(name: str, models: Path) -> Source:
    """Resolve a model's name and look its files over; a hub id that is not there yet is fetched."""
    file = load_catalog().files.get(name)
    path = file.path_in(models) if file else Path(name).expanduser()
    if file or path.suffix == ".gguf":
        inspect_gguf(path)
        return Source(path.parent.resolve(), path.name)
    if not path.exists() and _is_hub_id(name):
        path = pull_repository(ModelRepository(name, 0), models)
    inspect_folder(path)
    return Source(path.resolve())


def _is_hub_id(name: str) -> bool:
    return name.count("/") == 1 and not name.startswith((".", "/", "~")) and "\\" not in name

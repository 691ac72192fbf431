"""The named models: which profiles exist, what files they need, and which one suits this machine.

Knows names, sizes and hashes; must not know how a file is fetched (`pull`) or loaded. Importing it must stay cheap:
no torch.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import platformdirs
import psutil

from engine.errors import ConfigError

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One weight file that `sha256` pins down, wherever it comes from.

    `parts` are the requirements (NAME==VERSION) of the packages that hold it cut in pieces, in the order of the pieces.
    """

    name: str
    size: int  # bytes
    sha256: str
    hub: str
    parts: tuple[str, ...]

    def path_in(self, folder: Path) -> Path:
        """Where the file lies below the models folder."""
        return folder / self.name


@dataclass(frozen=True, slots=True)
class ModelRepository:
    """A whole repository on the model hub: configuration, tokenizer and safetensors shards."""

    name: str
    size: int  # bytes, about

    def path_in(self, folder: Path) -> Path:
        """Where the repository's folder lies below the models folder."""
        return folder / f"models--{self.name.replace('/', '--')}"


Weights = ModelFile | ModelRepository


@dataclass(frozen=True, slots=True)
class Profile:
    """A target with its draft, and the machine they are meant for. `min_gib` counts RAM or VRAM as `memory` says."""

    name: str
    title: str
    target: Weights
    draft: Weights | None
    memory: Literal["ram", "vram"]
    min_gib: float
    dtype: Literal["int8", "nf4"]
    context_tokens: int

    @property
    def weights(self) -> tuple[Weights, ...]:
        """Everything the profile needs on disk, target first."""
        return (self.target,) if self.draft is None else (self.target, self.draft)


@dataclass(frozen=True, slots=True)
class Catalog:
    """All files and profiles by name."""

    files: Mapping[str, ModelFile]
    profiles: Mapping[str, Profile]

    def profile(self, name: str) -> Profile:
        """Look a profile up by its name; `auto` is not one of them, see `resolve_profile`."""
        if name not in self.profiles:
            known = ", ".join(["auto", *self.profiles])
            raise ConfigError(f"profile is {name!r}; set it to one of {known}")
        return self.profiles[name]


@dataclass(frozen=True, slots=True)
class Machine:
    """What the choice of a profile depends on. `vram_gib` is None without a CUDA device."""

    ram_gib: float
    vram_gib: float | None = None
    device: str = "cpu"

    def __str__(self) -> str:
        if self.vram_gib is None:
            return f"{self.ram_gib:.0f} GiB of memory and no CUDA device"
        return f"{self.device} with {self.vram_gib:.0f} GiB and {self.ram_gib:.0f} GiB of memory"


@cache
def load_catalog() -> Catalog:
    """Read the catalogue that ships with the package."""
    return parse_catalog((resources.files("engine") / "catalog.toml").read_text(encoding="utf-8"))


def parse_catalog(text: str) -> Catalog:
    """Build a catalogue from TOML text."""
    table = tomllib.loads(text)
    files = {name: _model_file(name, entry) for name, entry in table["files"].items()}
    repositories = {name: ModelRepository(name, **entry) for name, entry in table["repositories"].items()}
    known: dict[str, Weights] = {**files, **repositories}
    profiles = {name: _profile(name, entry, known) for name, entry in table["profiles"].items()}
    return Catalog(files, profiles)


def _model_file(name: str, entry: Mapping[str, Any]) -> ModelFile:
    parts = entry["parts"]
    numbers = range(1, parts["count"] + 1)
    requirements = tuple(f"{parts['prefix']}{number}=={parts['version']}" for number in numbers)
    return ModelFile(name, entry["size"], entry["sha256"], entry["hub"], requirements)


def _profile(name: str, entry: Mapping[str, Any], known: Mapping[str, Weights]) -> Profile:
    draft = entry.get("draft")
    return Profile(
        name=name,
        title=entry["title"],
        target=known[entry["target"]],
        draft=known[draft] if draft else None,
        memory=entry["memory"],
        min_gib=entry["min_gib"],
        dtype=entry["dtype"],
        context_tokens=entry["context_tokens"],
    )


def models_dir(override: Path | None = None) -> Path:
    """Return the folder that holds all weights: the given one, or Foretype's part of the user's cache."""
    return override.expanduser() if override else platformdirs.user_cache_path("foretype", appauthor=False) / "models"


def resolve_profile(name: str) -> tuple[Profile, str]:
    """Look up a profile, `auto` included, and say in one sentence why it is this one."""
    if name == "auto":
        return choose_profile(detect_machine())
    profile = load_catalog().profile(name)
    return profile, f"the settings ask for {name}: {profile.title}"


def choose_profile(machine: Machine) -> tuple[Profile, str]:
    """Pick the largest profile that fits the machine, and say in one sentence why."""
    profiles = load_catalog().profiles.values()
    fits = [p for p in profiles if p.min_gib <= _memory_for(p, machine)]
    if not fits:
        smallest = min((p for p in profiles if p.memory == "ram"), key=lambda p: p.min_gib)
        return smallest, f"{machine}: less than any profile wants, {smallest.title} comes closest"
    best = max(fits, key=lambda p: (p.memory == "vram", p.min_gib))
    return best, f"{machine}: {best.title} fits"


def next_smaller(profile: Profile) -> Profile:
    """Return the profile to fall back to: the next smaller one for a card, then the largest that needs none."""
    profiles = load_catalog().profiles.values()
    smaller = [p for p in profiles if p.memory == profile.memory and p.min_gib < profile.min_gib]
    return max(smaller or [p for p in profiles if p.memory == "ram"], key=lambda p: p.min_gib)


def _memory_for(profile: Profile, machine: Machine) -> float:
    return machine.ram_gib if profile.memory == "ram" else machine.vram_gib or 0.0


def detect_machine() -> Machine:
    """Measure this machine's memory in total, not what is free now: the choice must not depend on open programs."""
    from engine.gpu import card

    ram_gib = psutil.virtual_memory().total / GIB
    return Machine(ram_gib, card.total_bytes() / GIB, card.name()) if card.usable() else Machine(ram_gib)

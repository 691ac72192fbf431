"""Where the models of an engine run, and how much of a card each may take."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from engine.catalog import GIB, Profile, next_smaller
from engine.config import Dtype, EngineConfig
from engine.errors import ConfigError, ModelLoadError, OutOfMemory
from engine.gpu import card
from engine.gpu.linears import BLOCK, GpuDtype
from engine.gpu.memory import demand, fit, least, need
from engine.gpu.model import GpuOptions
from engine.gpu.shape import ModelShape

Device = Literal["cpu", "cuda"]
ROOM = 1024  # positions beside the prompt's: the completion, its drafts, and padding


@dataclass(frozen=True, slots=True)
class Placing:
    """How one model is put on a card."""

    dtype: GpuDtype
    options: GpuOptions
    host_embedding: bool = False
    device: str = "cuda"

    @property
    def label(self) -> str:
        """Name the card and what passes cost on it depends on, fit for a file's name."""
        kind = card.name() if self.device == "cuda" else self.device
        parts = [*re.findall("[a-z0-9]+", kind.lower()), self.dtype, *(["exact"] if self.options.exact else [])]
        return "-".join(parts)


@dataclass(frozen=True, slots=True)
class Placings:
    """Both models' places. `fault` says why there is none for a draft model that was asked for."""

    target: Placing
    draft: Placing | None = None
    fault: str = ""


def choose_device(config: EngineConfig, profile: Profile, card: bool) -> Device:
    """Decide where to run: on the card, if there is one and nothing says otherwise. Raises ConfigError."""
    if config.device == "cuda" and not card:
        raise ConfigError("device is cuda and no CUDA card from compute capability 8.0 on is there; set it to cpu")
    if config.device != "auto":
        return config.device
    named = config.target is None or config.profile != "auto"  # the profile decides, not the target's name
    return "cuda" if card and (profile.memory == "vram" or not named) else "cpu"


def card_dtype(dtype: Dtype, shape: ModelShape | None) -> GpuDtype:
    """Return the target's weight format on a card: auto is nf4 where our forward and its kernels know the model."""
    if shape is None:
        return "bfloat16" if dtype == "auto" else dtype
    odd = next((width for _, width in shape.matrices if width % BLOCK), 0)
    if dtype == "auto":
        return "bfloat16" if odd else "nf4"
    if dtype == "nf4" and odd:
        raise ModelLoadError(f"a width of {odd} is no multiple of {BLOCK}, as dtype nf4 needs; set dtype to bfloat16")
    return dtype


def place(
    config: EngineConfig,
    profile: Profile,
    target: ModelShape | None,
    draft: ModelShape | None,
    dtype: GpuDtype,
    free: int,
) -> Placings:
    """Plan a card's memory before anything is loaded; raises OutOfMemory when the target does not fit.

    A shape is None where only transformers' own modules can run a model: what those take nobody knows before.
    """
    tokens = (config.context_tokens or profile.context_tokens) + ROOM
    draft_dtype: GpuDtype = "float32" if dtype == "float32" else "bfloat16"
    if target is None:
        return Placings(Placing(dtype, GpuOptions()), Placing(draft_dtype, GpuOptions(capacity=tokens)))
    wanted, beside = demand(target, dtype), demand(draft, draft_dtype) if draft else None
    found = fit(wanted, beside, tokens, config.cache_slots, free)
    if found is None:
        raise OutOfMemory(_too_little(config, profile, least(wanted, tokens), free, dtype))
    options = GpuOptions(exact=config.exact, capacity=tokens, put_aside=found.put_aside)
    placing = Placing(dtype, options, found.host_embedding)
    if beside is None or found.draft:
        # Drafts decide no token: the draft model need not be exact.
        own = GpuOptions(capacity=tokens, put_aside=found.put_aside)
        return Placings(placing, Placing(draft_dtype, own))
    wants = _gib(need([beside], tokens))
    return Placings(
        placing,
        fault=f"beside the target it needs about {wants} GiB of the card's memory, which are not free; choose a "
        "smaller profile to have one",
    )


def _too_little(config: EngineConfig, profile: Profile, needed: int, free: int, dtype: GpuDtype) -> str:
    what = config.target or profile.title
    way = f"choose profile {next_smaller(profile).name}"
    if config.target is not None:
        way = "choose a smaller model" if dtype == "nf4" else "set dtype to nf4 or choose a smaller model"
    return f"{what} needs about {_gib(needed)} GiB of the card's memory and {_gib(free)} are free; {way}"


def _gib(count: int) -> str:
    return f"{count / GIB:.1f}"

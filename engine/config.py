"""Settings of the engine and of one completion: frozen, validated where they are made.

Importing this file must stay cheap: no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from engine.errors import ConfigError

StopMode = Literal["block", "line", "free"]
"""block: stop where the enclosing block ends. line: stop at the first line break. free: only the model decides."""

Dtype = Literal["auto", "int8", "float32", "bfloat16", "nf4"]
Device = Literal["auto", "cpu", "cuda"]
DrafterName = Literal["lookup", "model"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen. `temperature` 0 is greedy; `top_k` 0 and `top_p` 1 switch those filters off."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature <= 10.0:
            raise ConfigError(f"temperature is {self.temperature}; set it between 0 (greedy) and 10")
        if not 0.0 < self.top_p <= 1.0:
            raise ConfigError(f"top_p is {self.top_p}; set it above 0 and at most 1 (1 keeps every token)")
        if self.top_k < 0:
            raise ConfigError(f"top_k is {self.top_k}; set it to 0 (keeps every token) or more")
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed is {self.seed}; set it between 0 and 2^63 - 1")


@dataclass(frozen=True, slots=True)
class Limits:
    """When a completion ends at the latest.

    `max_prefill` above 0 gives up, before anything is computed, when more prompt tokens than this are not in the cache:
    work done ahead of being asked must not cost the person who types their warm cache.
    """

    max_tokens: int = 128
    stop: StopMode = "block"
    max_prefill: int = 0

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ConfigError(f"max_tokens is {self.max_tokens}; set it to 1 or more")
        if self.max_prefill < 0:
            raise ConfigError(f"max_prefill is {self.max_prefill}; set it to 0 (no limit) or more")
        if self.stop not in get_args(StopMode):
            raise ConfigError(f"stop is {self.stop!r}; set it to one of {', '.join(get_args(StopMode))}")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What the engine loads and how much it may use.

    `target` and `draft` override the profile's models: a hub id, a folder, or a GGUF file. `draft` "" means none.
    `context_tokens` bounds the prompt (code around the cursor plus other buffers); 0 takes the profile's value.
    `max_draft` is the longest draft ever verified in one pass; `cache_slots` how many documents keep their KV cache.
    `exact` makes drafts leave every bit of a text alone on a card too, where by default they may change a near-tie; on
    a processor they always do.
    """

    profile: str = "auto"
    target: str | None = None
    draft: str | None = None
    dtype: Dtype = "auto"
    device: Device = "auto"
    exact: bool = False
    drafters: tuple[DrafterName, ...] = ("lookup", "model")
    context_tokens: int = 0
    max_draft: int = 16
    cache_slots: int = 4
    threads: int = 0  # 0: torch's own choice

    def __post_init__(self) -> None:
        if self.dtype not in get_args(Dtype):
            raise ConfigError(f"dtype is {self.dtype!r}; set it to one of {', '.join(get_args(Dtype))}")
        if self.device not in get_args(Device):
            raise ConfigError(f"device is {self.device!r}; set it to one of {', '.join(get_args(Device))}")
        if not isinstance(self.exact, bool):
            raise ConfigError(f"exact is {self.exact!r}; set it to true or false")
        for name in self.drafters:
            if name not in get_args(DrafterName):
                raise ConfigError(f"drafters has {name!r}; use lookup, model, both separated by a comma, or none")
        if self.context_tokens and self.context_tokens < 64:
            raise ConfigError(f"context_tokens is {self.context_tokens}; below 64 no prompt fits, set it higher")
        if not 0 <= self.max_draft <= 31:
            raise ConfigError(f"max_draft is {self.max_draft}; set it between 0 and 31")
        if self.cache_slots < 1:
            raise ConfigError(f"cache_slots is {self.cache_slots}; set it to 1 or more")
        if self.threads < 0:
            raise ConfigError(f"threads is {self.threads}; set it to 0 (automatic) or more")

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> EngineConfig:
        """Build from plain settings; a name that does not exist is an error that lists those that do."""
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ConfigError(f"unknown setting {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        plain = dict(values)
        if "drafters" in plain:
            plain["drafters"] = tuple(plain["drafters"])
        return cls(**plain)

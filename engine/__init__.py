"""The speculative-decoding engine of Foretype: public names, importable without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.config import EngineConfig, Limits, SamplingParams
from engine.core import (
    Buffer,
    CancelToken,
    CompletionChunk,
    CompletionRequest,
    CompletionSummary,
    DecodeStats,
    LoadStep,
    TextRun,
)
from engine.errors import ConfigError, EngineError, ModelLoadError, OutOfMemory, PullError, RequestError

if TYPE_CHECKING:
    from engine.engine import Engine

__all__ = [
    "Buffer",
    "CancelToken",
    "CompletionChunk",
    "CompletionRequest",
    "CompletionSummary",
    "ConfigError",
    "DecodeStats",
    "Engine",
    "EngineConfig",
    "EngineError",
    "Limits",
    "LoadStep",
    "ModelLoadError",
    "OutOfMemory",
    "PullError",
    "RequestError",
    "SamplingParams",
    "TextRun",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401  (what a module holds)
    """Import the engine proper, and with it torch, only when it is asked for."""
    if name == "Engine":
        from engine.engine import Engine

        return Engine
    raise AttributeError(f"module 'engine' has no attribute {name!r}")

"""The server's settings: one frozen value, read from the client's camelCase JSON.

A name that does not exist and a value that cannot be are said in plain words, and the default serves instead: a
mistyped setting must not cost the person their completions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from engine import ConfigError, EngineConfig

ENGINE_NAMES = ("profile", "target", "draft", "drafters", "context_tokens", "threads")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a person may change. Times in milliseconds; the empty string and 0 leave the choice to the engine."""

    enable: bool = True
    languages: Mapping[str, bool] = field(default_factory=dict)  # by language id; what is not named is on
    exclude: tuple[str, ...] = ()  # patterns as in .gitignore; they add to the built-in rules
    related_files: bool = True
    automatic_deadline_ms: int = 300
    explicit_deadline_ms: int = 2000
    debounce: bool = True
    max_tokens: int = 128
    profile: str = "auto"
    target: str = ""
    draft: str = "auto"  # auto: the profile's; empty: none
    drafters: tuple[str, ...] = ("lookup", "model")
    context_tokens: int = 0
    threads: int = 0

    def engine_config(self) -> EngineConfig:
        """Return the engine's part."""
        return EngineConfig.from_mapping({name: _for_engine(name, getattr(self, name)) for name in ENGINE_NAMES})

    def language_on(self, language: str) -> bool:
        """Whether completions are wanted in a language."""
        return self.languages.get(language, True)


def read_settings(values: object) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings in `values`, and a sentence for everything in it that could not be taken."""
    if values is None:
        return Settings(), ()
    if not isinstance(values, Mapping):
        return Settings(), ("the settings are no object of names and values; the defaults are used",)
    known = {_camel(f.name): f.name for f in fields(Settings)}
    unknown = sorted(str(name) for name in values if name not in known)
    complaints = [f"unknown setting {', '.join(unknown)}; known are {', '.join(sorted(known))}"] if unknown else []
    taken: dict[str, Any] = {}
    for shown, name in known.items():
        if values.get(shown) is None:  # an editor sends null for what nobody set
            continue
        try:
            taken[name] = _checked(name, values[shown])
        except (TypeError, ValueError, ConfigError) as error:
            complaints.append(f"{shown}: {error}; the default is used")
    return Settings(**taken), tuple(complaints)


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def _checked(name: str, value: object) -> object:
    default = getattr(Settings(), name)
    checked = _CHECKS[type(default)](value)
    if name in ENGINE_NAMES:
        EngineConfig.from_mapping({name: _for_engine(name, checked)})
    return checked


def _for_engine(name: str, value: Any) -> Any:  # noqa: ANN401  (a field's value)
    if (name, value) in {("target", ""), ("draft", "auto")}:
        return None
    return value


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("set it to true or false")
    return value


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**31:
        raise ValueError("set it to a whole number, 0 or more")
    return int(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("set it to a text in quotes")
    return value


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError("set it to a list of texts")
    return tuple(_text(entry) for entry in value)


def _switches(value: object) -> dict[str, bool]:
    if not isinstance(value, Mapping):
        raise TypeError('set it to an object such as {"markdown": false}')
    return {_text(name): _switch(on) for name, on in value.items()}


_CHECKS: dict[type, Callable[[object], object]] = {
    bool: _switch,
    int: _number,
    str: _text,
    tuple: _names,
    dict: _switches,
}

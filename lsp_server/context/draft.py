"""A context, and one in the making: what is in it, why, and what was refused by which rule."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine import Buffer

MAX_CHARS = 2_000_000  # of all texts together
_REPORTED = 32  # refusals named for each request


@dataclass(frozen=True, slots=True)
class Used:
    """A text that was used: where it comes from, why, and how long it is."""

    path: str
    why: str
    characters: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A text that was not used, and the rule."""

    path: str
    rule: str


@dataclass(frozen=True, slots=True)
class Context:
    """The texts for one request, the most relevant first, and an account of them.

    `dropped` names buffers of earlier contexts that are no longer allowed: whoever learnt from them must forget them.
    """

    buffers: tuple[Buffer, ...] = ()
    used: tuple[Used, ...] = ()
    refused: tuple[Refused, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(slots=True)
class ContextDraft:
    """A context in the making. `files` holds the identities of the files that are in it or must not come in."""

    files: set[str]
    left: int = MAX_CHARS
    _buffers: list[Buffer] = field(default_factory=list)
    _used: list[Used] = field(default_factory=list)
    _refused: list[Refused] = field(default_factory=list)

    def add(self, buffer: Buffer, name: str, why: str) -> bool:
        """Take a text in if it says anything and fits; tell whether it came in."""
        if not buffer.text.strip() or len(buffer.text) > self.left:
            return False
        self.left -= len(buffer.text)
        self._buffers.append(buffer)
        self._used.append(Used(name, why, len(buffer.text)))
        return True

    def refuse(self, name: str, rule: str) -> None:
        """Note why a text did not come in."""
        if len(self._refused) < _REPORTED:
            self._refused.append(Refused(name, rule))

    def finished(self, dropped: tuple[str, ...]) -> Context:
        """Return the context."""
        return Context(tuple(self._buffers), tuple(self._used), tuple(self._refused), dropped)

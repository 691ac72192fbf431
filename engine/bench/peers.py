"""Other engines on the same prompts, the same weights and the same limits, so that ours is measured against them.

A peer gets token ids and gives token ids with the time each was there. It cannot heal: where our prompt took the last
word back, the tokens that spell it again are given to the peer as part of its prompt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil

from engine.bench.run import Opening, Run
from engine.catalog import GIB
from engine.errors import ConfigError
from engine.holes import Hole

Decode = Callable[[Sequence[int]], str]


@dataclass(frozen=True, slots=True)
class PeerRun:
    """The ids a peer wrote, an end token included, and the second of the performance counter each was there."""

    ids: tuple[int, ...]
    stamps: tuple[float, ...]


class Peer(Protocol):
    """One engine in one mode."""

    name: str
    family: str

    def generate(self, prompt: Sequence[int], most: int, ends: Collection[int]) -> PeerRun:
        """Write at most `most` tokens, greedily, up to and including one of `ends`."""
        ...


@dataclass(frozen=True, slots=True)
class PeerJob:
    """What peers are opened for: weights by the names and folder the engine found them, and how long texts get."""

    target: str
    draft: str | None
    models: Path
    threads: int
    context_tokens: int  # of a prompt and its completion together


@dataclass(slots=True)
class OpenedPeers:
    """Peers that could be opened, facts about each family, and sentences about those that could not."""

    peers: list[Peer]
    facts: dict[str, Any]
    missing: list[str]


Opener = Callable[[PeerJob], tuple[list[Peer], dict[str, Any]]]


def open_peers(job: PeerJob, openers: dict[str, Opener], tell: Callable[[str], None]) -> OpenedPeers:
    """Open each family of peers; one that cannot be opened is said and left out."""
    opened = OpenedPeers([], {}, [])
    for family, open_family in openers.items():
        tell(f"opening {family}…")
        try:
            peers, facts = open_family(job)
        except Exception as error:  # whatever another engine raises, ours is still worth measuring
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            opened.missing.append(f"{family} left out: {reason}")
            continue
        opened.peers += peers
        opened.facts[family] = facts
    if not opened.peers:
        raise ConfigError(f"no peer could be opened ({'; '.join(opened.missing)}); leave --peers away")
    return opened


def all_openers() -> dict[str, Opener]:
    """Return the families of peers there are."""
    from engine.bench.peer_llamacpp import open_llamacpp
    from engine.bench.peer_transformers import open_transformers

    return {"transformers": open_transformers, "llama.cpp": open_llamacpp}


def require_memory(what: str, needed: float) -> None:
    """Refuse to load what would not fit beside all that is resident."""
    free = psutil.virtual_memory().available
    if needed > free:
        raise ConfigError(f"{what} needs about {needed / GIB:.1f} GiB of memory and {free / GIB:.1f} are free")


class PeerContestant:
    """A peer on our holes."""

    def __init__(self, peer: Peer, most: int, ends: Collection[int], decode: Decode) -> None:
        self.peer = peer
        self._most, self._ends, self._decode = most, ends, decode

    @property
    def name(self) -> str:
        """The peer's name."""
        return self.peer.name

    def run(self, hole: Hole, opening: Opening) -> Run:
        """Let the peer write what our engine wrote, from the same ids on."""
        most = self._most - len(opening.spelt)
        if most < 1:
            return Run(opening.spelt, self._decode(opening.spelt), 0, 0.0)
        done = self.peer.generate([*opening.prompt, *opening.spelt], most, self._ends)
        ended = bool(done.ids) and done.ids[-1] in self._ends
        ids = (*opening.spelt, *(done.ids[:-1] if ended else done.ids))
        later = sum(stamp > done.stamps[0] for stamp in done.stamps)
        ms = (done.stamps[-1] - done.stamps[0]) * 1e3 if later else 0.0
        return Run(ids, self._decode(ids), later, ms, prompt_tokens=len(opening.prompt) + len(opening.spelt))

    def forget(self, path: str) -> None:
        """Nothing of a document is kept here."""


def now() -> float:
    """Return the performance counter's second."""
    return time.perf_counter()

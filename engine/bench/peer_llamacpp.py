"""llama.cpp through llama-cpp-python as a peer: plain and with its prompt lookup, on the original GGUF file."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Sequence
from typing import Any

from engine.bench.peers import Peer, PeerJob, PeerRun, now, require_memory
from engine.errors import ConfigError
from engine.model_source import find_source

FAMILY = "llama.cpp"
LOOKUP_TOKENS = (2, 10)  # what the package's documentation names for a CPU, and its default
MEMORY = 2.5  # sizes of the file: weights once; a cache for each mode and all logits where it drafts


class LlamaPeer:
    """A llama.cpp context in one mode; it keeps a prompt it has read as long as the next begins alike."""

    family = FAMILY

    def __init__(self, name: str, llama: Any) -> None:  # noqa: ANN401  (llama-cpp-python is untyped to us)
        self.name, self._llama = name, llama

    def generate(self, prompt: Sequence[int], most: int, ends: Collection[int]) -> PeerRun:
        """Write greedily, stopped from outside: the binding's generator knows no limit."""
        ids: list[int] = []
        stamps: list[float] = []
        tokens = self._llama.generate(list(prompt), temp=0.0, repeat_penalty=1.0)
        try:
            for token in tokens:
                ids.append(int(token))
                stamps.append(now())
                if ids[-1] in ends or len(ids) >= most:
                    break
        finally:
            tokens.close()
        return PeerRun(tuple(ids), tuple(stamps))


def open_llamacpp(job: PeerJob) -> tuple[list[Peer], dict[str, Any]]:
    """Open the target's file, mapped into memory once for all modes."""
    source = find_source(job.target, job.models)
    if source.gguf is None:
        raise ConfigError("llama.cpp reads GGUF files and the target is none")
    module, speculative = _binding()
    require_memory(source.gguf, MEMORY * source.path.stat().st_size)

    def opened(**mode: Any) -> Any:  # noqa: ANN401  (llama-cpp-python is untyped to us)
        return module.Llama(
            model_path=str(source.path),
            n_ctx=job.context_tokens,
            n_threads=job.threads,
            n_threads_batch=job.threads,
            verbose=False,
            **mode,
        )

    peers: list[Peer] = [LlamaPeer(FAMILY, opened())]
    for count in LOOKUP_TOKENS:
        # Without logits_all the binding keeps room for one batch only and drafts run past its end.
        mode = {"draft_model": speculative.LlamaPromptLookupDecoding(num_pred_tokens=count), "logits_all": True}
        peers.append(LlamaPeer(f"{FAMILY} lookup {count}", opened(**mode)))
    return peers, {"file": source.gguf, "threads": job.threads, "num_pred_tokens": list(LOOKUP_TOKENS)}


def _binding() -> tuple[Any, Any]:
    try:
        return importlib.import_module("llama_cpp"), importlib.import_module("llama_cpp.llama_speculative")
    except ImportError as error:
        raise ConfigError("llama-cpp-python is not installed; install foretype[bench]") from error

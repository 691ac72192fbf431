"""transformers' `generate` as a peer: plain, with prompt lookup, and assisted by the draft model.

All three settings are the library's documented ones. Weights are the engine's own files, de-quantised and rounded to
bf16; whether they run as bf16 or as float32 is decided by what is faster on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor

from engine.bench.peers import Peer, PeerJob, PeerRun, now, require_memory
from engine.hf_forward import HfModel
from engine.loader import load
from engine.model_source import find_source

FAMILY = "transformers"
LOOKUP_TOKENS = 10  # of the library's documentation
PROBES = 3
FLOAT_SIZES = 7.0  # a four-bit file's weights take this many times its size in float32


class _Stamps:
    """What `generate` hands tokens to; the first call carries the prompt."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.stamps: list[float] = []
        self._prompt_seen = False

    def put(self, tokens: Tensor) -> None:
        """Take in the tokens of one step."""
        if self._prompt_seen:
            fresh = tokens.flatten().tolist()
            self.ids += fresh
            self.stamps += [now()] * len(fresh)
        self._prompt_seen = True

    def end(self) -> None:
        """Nothing is held back."""


class TransformersPeer:
    """`generate` in one mode."""

    family = FAMILY

    def __init__(self, name: str, module: Any, **mode: Any) -> None:  # noqa: ANN401  (transformers is untyped)
        self.name, self._module, self._mode = name, module, mode

    def generate(self, prompt: Sequence[int], most: int, ends: Collection[int]) -> PeerRun:
        """Write greedily; whatever defaults the model's files bring do not count."""
        import transformers

        ids = torch.tensor([list(prompt)])
        config = transformers.GenerationConfig(
            max_new_tokens=most, do_sample=False, eos_token_id=sorted(ends), pad_token_id=min(ends)
        )
        stamps = _Stamps()
        with torch.inference_mode():
            self._module.generate(
                ids, attention_mask=torch.ones_like(ids), generation_config=config, streamer=stamps, **self._mode
            )
        return PeerRun(tuple(stamps.ids), tuple(stamps.stamps))


def open_transformers(job: PeerJob) -> tuple[list[Peer], dict[str, Any]]:
    """Load target and draft as transformers' own modules."""
    target = _module(job.target, job)
    dtype, probe = _faster_type(target)
    peers: list[Peer] = [
        TransformersPeer(FAMILY, target),
        TransformersPeer(f"{FAMILY} lookup", target, prompt_lookup_num_tokens=LOOKUP_TOKENS),
    ]
    if job.draft is not None:
        draft = _module(job.draft, job).to(dtype)
        peers.append(TransformersPeer(f"{FAMILY} assisted", target, assistant_model=draft))
    facts = {"dtype": str(dtype).removeprefix("torch."), "one_row_ms": probe, "prompt_lookup_num_tokens": LOOKUP_TOKENS}
    return peers, facts


def _module(name: str, job: PeerJob) -> Any:  # noqa: ANN401  (transformers is untyped)
    source = find_source(name, job.models)
    weights = [file for file in source.files if file.suffix in (".gguf", ".safetensors")]
    size = sum(file.stat().st_size for file in weights)
    require_memory(f"{source.path.name} in float32", size * (FLOAT_SIZES if source.gguf else 2.0))
    network = load(name, "float32", job.models, lambda _: None).network
    assert isinstance(network, HfModel)
    return network.module


def _faster_type(module: Any) -> tuple[torch.dtype, dict[str, float]]:  # noqa: ANN401  (transformers is untyped)
    """Time one-row passes in bf16 and in float32; leave the module in the faster type, rounded to bf16 either way."""
    times = {dtype: _one_row_ms(module.to(dtype)) for dtype in (torch.bfloat16, torch.float32)}
    best = min(times, key=lambda dtype: times[dtype])
    module.to(best)
    return best, {str(dtype).removeprefix("torch."): round(ms, 2) for dtype, ms in times.items()}


@torch.inference_mode()
def _one_row_ms(module: Any) -> float:  # noqa: ANN401  (transformers is untyped)
    def timed() -> float:
        began = now()
        module(input_ids=torch.tensor([[0]]), use_cache=False)
        return (now() - began) * 1e3

    return _median_of(timed)


def _median_of(timed: Callable[[], float]) -> float:
    timed()
    return median(timed() for _ in range(PROBES))

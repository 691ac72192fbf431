"""transformers' `generate` on the same random weights: plain, assisted by the draft model, and with prompt lookup.

Its modules are built on the device from the very tensors our models were made of, 4-bit matrices by bitsandbytes'
own layer as the library's loader makes them. Their logits are raised to the script's tokens like ours.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from engine.bench.gpu_scale import THETA
from engine.bench.gpu_script import raise_wanted
from engine.gpu.linears import BLOCK, GpuDtype, compute_dtype
from engine.gpu.shape import ModelShape
from engine.gpu.weights import RandomWeights, WeightSource

LOOKUP_TOKENS = 10  # of the library's documentation
ASSISTED_TOKENS = 5  # to begin with; its heuristic goes up by 2 after a full acceptance and down by 1 otherwise
END = 0  # no script has it
CACHE_NAMES = ("cache", "past_key_values")  # of an output's cache, today's and that of earlier 5.x releases


def peer_module(shape: ModelShape, dtype: GpuDtype, device: torch.device, vocab: int) -> Any:  # noqa: ANN401  (transformers is untyped)
    """Return transformers' module with random weights; `vocab` rows in its table, as its target has."""
    import transformers

    kind = compute_dtype(dtype)
    config = transformers.Qwen2Config(
        vocab_size=vocab,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=shape.max_length,
        rms_norm_eps=shape.eps,
        tie_word_embeddings=shape.tied,
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
    )
    with torch.device("meta"):
        module = transformers.AutoModelForCausalLM.from_config(config, dtype=kind)
    source = _Widened(RandomWeights(shape, device, kind), vocab)
    for name, _ in shape.tensors():
        _put(module, name, source.get(name), dtype)
    module.model.rotary_emb = type(module.model.rotary_emb)(config=config).to(device)
    if shape.tied:
        module.tie_weights()
    return module.eval()


class _Widened:
    """Weights whose table of words has so many rows: assistants must have as many as their target."""

    def __init__(self, source: WeightSource, vocab: int) -> None:
        self._source, self._vocab = source, vocab

    def get(self, name: str) -> Tensor:
        weight = self._source.get(name)
        if name == "model.embed_tokens.weight" and len(weight) < self._vocab:
            weight = torch.cat([weight, weight.new_zeros(self._vocab - len(weight), weight.shape[1])])
        return weight


def _put(module: nn.Module, name: str, weight: Tensor, dtype: GpuDtype) -> None:
    path, _, kind = name.rpartition(".")
    owner = module.get_submodule(path)
    matrix = dtype == "nf4" and kind == "weight" and path.endswith("_proj")
    parent, _, own = path.rpartition(".")
    if not matrix:
        setattr(owner, kind, nn.Parameter(weight, requires_grad=False))
        return
    assert isinstance(owner, nn.Linear)
    setattr(module.get_submodule(parent), own, _four_bits(owner, weight))


def _four_bits(linear: nn.Linear, weight: Tensor) -> nn.Module:
    import bitsandbytes

    biased = linear.bias is not None
    layer: nn.Module = bitsandbytes.nn.Linear4bit(
        linear.in_features,
        linear.out_features,
        bias=biased,
        compute_dtype=weight.dtype,
        quant_type="nf4",
        device="meta",
    )
    four = bitsandbytes.nn.Params4bit(weight, requires_grad=False, quant_type="nf4", blocksize=BLOCK, module=layer)
    layer.weight = four.to(weight.device)
    if biased:
        layer.bias = linear.bias
    return layer


class Prompter:
    """Raises the logits of a module to the tokens wanted next, wherever its cache stands."""

    def __init__(self, module: nn.Module) -> None:
        self.wanted: Tensor | None = None  # of every position
        module.register_forward_hook(self._raise)

    def _raise(self, _: nn.Module, __: object, output: Any) -> None:  # noqa: ANN401  (transformers is untyped)
        if self.wanted is not None:
            name = next(name for name in CACHE_NAMES if name in output)
            end = output[name].get_seq_length() + 1
            rows = output.logits.shape[1]
            raise_wanted(output.logits[0], self.wanted[end - rows : end])


class _Stamps:
    """Notes when the prompt had been read and when the last token was there."""

    def __init__(self) -> None:
        self._calls = self.tokens = 0
        self.first = self.last = 0.0

    def put(self, tokens: Tensor) -> None:
        """Take the prompt, then the tokens of each step; those of the first step are not counted."""
        self._calls += 1
        self.last = time.perf_counter()
        if self._calls > 2:
            self.tokens += tokens.numel()
        else:
            self.first = self.last

    def end(self) -> None:
        """Nothing is held back."""


class TransformersPair:
    """Target and assistant as transformers runs them."""

    def __init__(self, target: Any, draft: Any, device: torch.device) -> None:  # noqa: ANN401  (transformers is untyped)
        self._target, self._draft, self._device = target, draft, device
        self._script, self._spoilt = Prompter(target), Prompter(draft)

    def plain(self, prompt: Sequence[int], text: Sequence[int], tokens: int) -> tuple[int, float]:
        """Write `tokens` tokens; return how many were timed and their milliseconds."""
        return self._generate(prompt, text, tokens)

    def lookup(self, prompt: Sequence[int], text: Sequence[int], tokens: int) -> tuple[int, float]:
        """The same with prompt lookup."""
        return self._generate(prompt, text, tokens, lookup=LOOKUP_TOKENS)

    def assisted(
        self, prompt: Sequence[int], text: Sequence[int], tokens: int, spoilt: Sequence[int]
    ) -> tuple[int, float]:
        """The same assisted by the draft model, which would write `spoilt`."""
        settings = self._draft.generation_config
        settings.num_assistant_tokens, settings.num_assistant_tokens_schedule = ASSISTED_TOKENS, "heuristic"
        settings.assistant_confidence_threshold = 0.0  # its raised logits always are sure
        self._spoilt.wanted = self._all(prompt, spoilt)
        return self._generate(prompt, text, tokens, draft=self._draft)

    def _all(self, prompt: Sequence[int], text: Sequence[int]) -> Tensor:
        return torch.tensor([*prompt, *text], device=self._device)

    @torch.inference_mode()
    def _generate(
        self,
        prompt: Sequence[int],
        text: Sequence[int],
        tokens: int,
        lookup: int | None = None,
        draft: object = None,
    ) -> tuple[int, float]:
        import transformers

        self._script.wanted = self._all(prompt, text)
        ids = self._all(prompt, [])[None]
        config = transformers.GenerationConfig(
            max_new_tokens=tokens,
            do_sample=False,
            eos_token_id=END,
            pad_token_id=END,
            prompt_lookup_num_tokens=lookup,
        )
        stamps = _Stamps()
        written = self._target.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            generation_config=config,
            streamer=stamps,
            assistant_model=draft,
        )
        assert written[0, len(prompt) :].tolist() == list(text[:tokens])
        return stamps.tokens, (stamps.last - stamps.first) * 1e3


def open_pair(target: ModelShape, draft: ModelShape, device: torch.device) -> TransformersPair:
    """Build target in 4 bits and draft in bfloat16."""
    make = partial(peer_module, device=device, vocab=target.vocab)
    return TransformersPair(make(target, "nf4"), make(draft, "bfloat16"), device)

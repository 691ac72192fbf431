"""Any causal model of transformers behind the same interface as the lean forward, in float32 or bf16.

Not row-exact: torch's attention and matrix products choose other kernels for other row counts. In float32 the text is
still the plain text unless two logits tie to within rounding. Keys and values live in preallocated buffers; rollback
is a length. Sliding-window layers keep every position, so a rollback never misses any: the window is the mask's work.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache

from engine.errors import ModelLoadError
from engine.kv_cache import MIN_CAPACITY, KVCache

CROPPABLE = ("full_attention", "sliding_attention", "chunked_attention")  # kinds of layers that a length cuts back
CACHE_NAMES = ("cache", "past_key_values")  # renamed in transformers 5.24


class PreallocatedLayer(CacheLayerMixin):  # type: ignore[misc]  # transformers is untyped
    """One layer's keys and values [1, kv_heads, capacity, head_dim], of which the first `length` count."""

    is_sliding = False
    is_croppable = True

    def __init__(self) -> None:
        super().__init__()
        self.length = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Allocate for the shapes of the first states."""
        self.keys = self._room_for(key_states, MIN_CAPACITY)
        self.values = self._room_for(value_states, MIN_CAPACITY)
        self.is_initialized = True

    @staticmethod
    def _room_for(states: Tensor, capacity: int) -> Tensor:
        return states.new_zeros(*states.shape[:2], capacity, states.shape[3])

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Append states [1, kv_heads, rows, head_dim] and return all that count."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.length + key_states.shape[2]
        while end > self.keys.shape[2]:
            self.keys = torch.cat([self.keys, torch.zeros_like(self.keys)], dim=2)
            self.values = torch.cat([self.values, torch.zeros_like(self.values)], dim=2)
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_mask_sizes(self, query_length: int | Tensor) -> tuple[int, int]:
        """Return how many keys a query of this length meets, and where they begin."""
        rows = query_length if isinstance(query_length, int) else query_length.shape[0]
        return self.length + rows, 0

    def get_seq_length(self) -> int:
        """Return how many positions count."""
        return self.length

    def get_max_length(self) -> int:
        """No limit of its own."""
        return -1

    get_max_cache_shape = get_max_length  # its name in earlier 5.x releases


class HfCache(KVCache):
    """A transformers cache of preallocated layers, or transformers' own where layers are recurrent."""

    def __init__(self, config: Any, can_truncate: bool) -> None:  # noqa: ANN401  (transformers is untyped)
        super().__init__()
        self._config = config
        self.can_truncate = can_truncate
        self.inner = self._new_inner()

    def _new_inner(self) -> Any:  # noqa: ANN401  (transformers is untyped)
        if not self.can_truncate:
            return DynamicCache(config=self._config)
        return Cache(layers=[PreallocatedLayer() for _ in range(self._config.num_hidden_layers)])

    def truncate(self, length: int) -> None:
        """Forget every position from `length` on; recurrent layers forget everything."""
        super().truncate(length)
        if self.can_truncate:
            for layer in self.inner.layers:
                layer.length = len(self.ids)

    def clear(self) -> None:
        """Start afresh: recurrent layers cannot be cut back."""
        self.inner = self._new_inner()

    def _grow(self, capacity: int) -> None:
        """Layers grow by themselves."""


class HfModel:
    """A transformers causal language model.

    Recurrent ones run as transformers' own generation runs them: a prompt in one pass, then single tokens. In longer
    later passes some restart their convolution, and some keep their state in the module, whatever cache is passed.
    """

    row_exact = False

    def __init__(self, model: Any) -> None:  # noqa: ANN401  (transformers is untyped)
        self.module = model.eval()
        self.vocab_size: int = model.config.vocab_size
        self.max_length: int = getattr(model.config, "max_position_embeddings", 2**31)
        self.can_truncate = not is_recurrent(model)
        names = inspect.signature(model.forward).parameters
        self._takes_positions = "position_ids" in names
        self._cache_name = next((name for name in CACHE_NAMES if name in names), "")
        if not self._cache_name:  # it would swallow ours unseen and know nothing of the text before
            raise ModelLoadError(f"{model.config.model_type} keeps its state in no cache; name a model of another kind")
        self._latest: weakref.ref[KVCache] | None = None

    def new_cache(self) -> HfCache:
        """Return an empty cache for this model."""
        return HfCache(self.module.config, self.can_truncate)

    @torch.inference_mode()
    def forward(self, ids: Sequence[int], cache: KVCache, last: int) -> Tensor:
        """Append `ids` to the cache and return the logits of the last `last` of them, float32 [last, vocab]."""
        assert isinstance(cache, HfCache)
        if not self.can_truncate:
            ids = self._started_over(ids, cache)
        out = self.module(
            input_ids=torch.tensor([list(ids)], device=self.module.device),
            use_cache=True,
            logits_to_keep=last,
            **self._places(len(cache), len(ids)),
            **{self._cache_name: cache.inner},
        )
        cache.extend(ids)
        logits: Tensor = out.logits[0].float()
        return logits

    def _started_over(self, ids: Sequence[int], cache: KVCache) -> Sequence[int]:
        """Return what to feed a recurrent model: one more token where it stands, or everything from the start."""
        here = self._latest is not None and self._latest() is cache
        self._latest = weakref.ref(cache)
        if not len(cache) or (here and len(ids) == 1):
            return ids
        whole = [*cache.ids, *ids]
        cache.truncate(0)
        return whole

    def _places(self, start: int, rows: int) -> dict[str, Tensor]:
        """Say where the rows stand: some models count from 0 in every pass when nobody tells them."""
        if not self._takes_positions:
            return {}
        return {"position_ids": torch.arange(start, start + rows, device=self.module.device)[None]}


def is_recurrent(model: Any) -> bool:  # noqa: ANN401  (transformers is untyped)
    """Whether some layer keeps a running state that cannot be cut back to a length (Mamba, linear attention)."""
    kinds = getattr(model.config, "layer_types", None) or ()
    # `_is_stateful` is what transformers' own speculative decoding goes by; short convolutions lack it.
    return bool(model._is_stateful) or any(kind not in CROPPABLE for kind in kinds)

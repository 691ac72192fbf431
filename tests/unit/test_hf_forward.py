"""transformers' own modules behind our cache: windows that roll back (B79), and states that cannot (B80)."""

from __future__ import annotations

import gc
import random
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.config import SamplingParams
from engine.core import CancelToken
from engine.decoder import DecodeJob, SpeculativeDecoder
from engine.errors import ModelLoadError
from engine.healing import Healer
from engine.loader import load
from engine.model import ModelRunner
from engine.verifier import Verifier
from tests.fakes import EagerPlanner, ScriptedDrafter, proposer_of
from tests.tiny_models import (
    SIZES,
    TEXT,
    ask,
    causal,
    make_engine,
    mistral,
    one_sentence,
    quietly,
    qwen2,
    random_ids,
    save,
)


@pytest.fixture
def models(tmp_path) -> Path:
    """An empty models folder; what is prepared goes beside it."""
    return tmp_path / "models"


# Sliding windows (B79)

WINDOWED = {
    "qwen2": lambda: qwen2(use_sliding_window=True, sliding_window=16, max_window_layers=1, num_hidden_layers=3),
    "mistral": lambda: mistral(sliding_window=16, num_hidden_layers=3),
}


@pytest.fixture(scope="module", params=WINDOWED)
def windowed(request, tiny, tmp_path_factory):
    """A model whose layers look back 16 positions, loaded in float32 and as transformers' own module."""
    place = tmp_path_factory.mktemp(request.param)
    module = causal(WINDOWED[request.param]()).float().eval()
    folder = save(module, place / "model", tiny)
    return load(str(folder), "float32", place / "models", quietly), module


def _plain(module, ids: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return module(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


def test_a_full_window_rolls_back_and_refills(windowed):
    """After roll-backs to any place and refills in any portions, logits are those of a pass without a cache (B79)."""
    loaded, module = windowed
    rng = random.Random(11)
    runner = ModelRunner(loaded.network)
    ids = random_ids(40)
    torch.testing.assert_close(runner.logits(ids, last=40), _plain(module, ids), atol=5e-5, rtol=1e-4)
    for _ in range(30):
        keep = rng.randrange(len(ids))
        ids = [*ids[:keep], *random_ids(rng.randrange(1, 40), rng.randrange(10**6))]
        at, want = keep, _plain(module, ids)
        while at < len(ids):
            rows = rng.randrange(1, min(9, len(ids) - at) + 1)
            at += rows
            got = runner.logits(ids[:at], last=rows)
            torch.testing.assert_close(got, want[at - rows : at], atol=5e-5, rtol=1e-4)
        assert runner.cache.ids == ids


def test_windows_matter_to_these_models(windowed):
    """A change 16 positions back shows and one beyond all layers' reach does not: the window is really there."""
    _, module = windowed
    ids = random_ids(80)
    far, near = [ids[0] ^ 1, *ids[1:]], [*ids[:70], ids[70] ^ 1, *ids[71:]]
    whole = _plain(module, ids)[-1]
    assert not torch.allclose(whole, _plain(module, near)[-1], atol=1e-2)
    if module.config.model_type == "mistral":  # the other has a layer without a window
        torch.testing.assert_close(whole, _plain(module, far)[-1])


@pytest.mark.parametrize("rule", ["right", "wrong", "random"])
def test_drafts_across_a_window_leave_the_text_alone(windowed, rule):
    """With a prompt of 40 tokens, drafts of 8 that are kept or thrown away at any place change nothing (B79)."""
    loaded, _ = windowed
    healer = Healer(loaded.tokenizer.token_bytes)
    prompt = random_ids(40, seed=2)

    def decode(drafters) -> list[int]:
        runner = ModelRunner(loaded.network)
        verifier = Verifier(runner, healer, loaded.tokenizer.size)
        planner = EagerPlanner()
        decoder = SpeculativeDecoder(runner, verifier, healer, proposer_of(drafters, planner, healer), planner, 8)
        local = np.asarray(prompt, dtype=np.int32)
        job = DecodeJob(prompt, local, b"", SamplingParams(), 32, (), CancelToken())
        return [token for step in decoder.decode(job) for token in step.emitted]

    truth = decode([])
    for seed in range(6):
        assert decode([ScriptedDrafter(rule, 8, truth, seed)]) == truth


# Models that cannot roll back (B80)


def _mamba():
    from transformers import MambaConfig

    return MambaConfig(vocab_size=640, hidden_size=64, num_hidden_layers=2, state_size=8)


def _bamba():
    from transformers import BambaConfig

    mamba = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16, "mamba_chunk_size": 16}
    return BambaConfig(**SIZES, attn_layer_indices=[1], **mamba)


def _lfm2():
    from transformers import Lfm2Config

    return Lfm2Config(**SIZES, layer_types=["conv", "full_attention"])


def _recurrent_gemma():
    from transformers import RecurrentGemmaConfig

    sizes = SIZES | {"num_hidden_layers": 3, "num_key_value_heads": 1}
    return RecurrentGemmaConfig(**sizes, lru_width=64, attention_window_size=16)


RECURRENT = {"mamba": _mamba, "bamba": _bamba, "lfm2": _lfm2, "recurrent-gemma": _recurrent_gemma}
LONG = TEXT * 3  # more tokens than a prefill chunk


@pytest.fixture(scope="module", params=RECURRENT)
def recurrent(request, tiny, tmp_path_factory) -> Path:
    """A random model with layers that keep a running state."""
    model = causal(RECURRENT[request.param]()).float()
    return save(model, tmp_path_factory.mktemp(request.param) / "model", tiny)


def test_a_recurrent_model_runs_without_drafts(recurrent, tiny, models):
    """A model that cannot roll back is noticed at load and said once; nothing is drafted for it (B80)."""
    engine = make_engine(recurrent, models, dtype="float32", draft=str(tiny))
    assert sum("runs without drafts" in note for note in engine.notes) == 1
    done = ask(engine, LONG)
    assert done.token_ids
    assert done.stats.drafted == {}
    assert done.stats.target_passes >= len(done.token_ids)


def test_no_drafters_no_note_about_drafts(recurrent, models):
    """Who asked for no drafts is not told that there are none."""
    engine = make_engine(recurrent, models, dtype="float32", drafters=())
    assert not any("drafts" in note and "without" in note for note in engine.notes)


def test_a_recurrent_model_after_edits(recurrent, models):
    """Edits anywhere, accepted text and a switch between documents give what a fresh engine gives (B80)."""
    engine = make_engine(recurrent, models, dtype="float32")
    fresh = lambda text: ask(make_engine(recurrent, models, dtype="float32"), text).token_ids  # noqa: E731
    first = ask(engine, LONG)
    accepted = LONG + first.text + "x = 1"
    edited = LONG.replace("width", "breadth", 1)
    for text, path in ((edited, "a.py"), (accepted, "a.py"), (LONG, "b.py"), (accepted, "a.py"), (LONG[:-9], "a.py")):
        done = ask(engine, text, path)
        assert done.token_ids == fresh(text)
        assert done.stats.reused_tokens == 0


@pytest.mark.parametrize("between", [False, True])
def test_a_running_state_keeps_up_with_any_portions(recurrent, models, between):
    """However ids arrive, alone or with another document between, logits are those of a pass without a cache (B80)."""
    network = load(str(recurrent), "float32", models, quietly).network
    ids = random_ids(90)
    want = _plain(network.module, ids)
    for portions in ([90], [60, *[1] * 30], [40, 50], [64, 3, 3, 20]):
        cache, other, at = network.new_cache(), network.new_cache(), 0
        for rows in portions:
            got = network.forward(ids[at : at + rows], cache, rows)
            torch.testing.assert_close(got, want[at : at + rows], atol=5e-5, rtol=1e-4)
            at += rows
            if between:
                network.forward([7], other, 1)
        assert cache.ids == ids


def test_a_dropped_cache_is_freed(recurrent, models):
    """A model holds on to no cache that nobody else has: what runs out of memory can give some back."""
    network = load(str(recurrent), "float32", models, quietly).network
    cache = network.new_cache()
    network.forward([1, 2, 3], cache, 1)
    dropped = weakref.ref(cache)
    del cache
    gc.collect()
    assert dropped() is None


def test_a_model_without_a_cache_is_refused(tiny, models, tmp_path):
    """A model that keeps its state outside any cache would forget the text before: it is refused at load."""
    from transformers import RwkvConfig

    folder = save(causal(RwkvConfig(vocab_size=640, hidden_size=64, num_hidden_layers=2)), tmp_path / "rwkv", tiny)
    with pytest.raises(ModelLoadError, match="rwkv keeps its state in no cache; name a model of another kind"):
        load(str(folder), "float32", models, quietly)


def test_a_model_that_cannot_run_here_is_refused_at_load(tiny, models, tmp_path):
    """A network whose first pass fails is a load error with the model's name, not a crash at the first keystroke."""
    from transformers import xLSTMConfig

    config = xLSTMConfig(vocab_size=640, hidden_size=64, num_hidden_layers=2, num_heads=4)
    folder = save(causal(config), tmp_path / "xlstm", tiny)
    with pytest.raises(ModelLoadError) as caught:
        load(str(folder), "float32", models, quietly)
    assert str(folder) in str(caught.value)
    assert one_sentence(str(caught.value))

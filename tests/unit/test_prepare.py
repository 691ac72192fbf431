"""Which models the int8 forward takes, and that it computes what transformers computes for them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine import prepare
from engine.loader import load
from tests.tiny_models import causal, correlation, llama, logits, mistral, quietly, qwen2, random_ids, save


@pytest.fixture
def models(tmp_path) -> Path:
    """An empty models folder; what is prepared goes beside it."""
    return tmp_path / "models"


LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 256}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}


@pytest.mark.parametrize(
    ("config", "obstacle"),
    [
        (qwen2, None),
        (lambda: qwen2(use_sliding_window=False, sliding_window=16), None),
        (lambda: qwen2(use_sliding_window=True, sliding_window=16, max_window_layers=1), "sliding-window layers"),
        (mistral, None),
        (lambda: mistral(sliding_window=16), "a sliding window"),
        (lambda: llama(rope_parameters=LLAMA3), None),
        (lambda: llama(rope_parameters=LINEAR), None),
        (lambda: llama(rope_parameters=YARN), "rope type yarn"),
        (lambda: llama(rope_parameters=DYNAMIC), "rope type dynamic"),
        (lambda: llama(hidden_act="gelu"), "activation gelu"),
        (lambda: llama(attention_bias=True), "a bias on the attention output"),
        (lambda: llama(mlp_bias=True), "biases in the MLP"),
        (lambda: llama(hidden_size=72), "widths that are no multiple of 64"),
        (lambda: llama(intermediate_size=100), "widths that are no multiple of 64"),
        (lambda: llama(head_dim=8), "widths that are no multiple of 64"),
    ],
)
def test_what_keeps_a_model_from_int8(config, obstacle):
    """Whatever the int8 forward does not compute is found in the configuration, and nothing else is refused."""
    assert prepare.lean_obstacle(config()) == obstacle


FAMILIES = {
    "qwen2": qwen2,
    "qwen2-tied": lambda: qwen2(tie_word_embeddings=True),
    "llama3": lambda: llama(rope_parameters=LLAMA3, tie_word_embeddings=True),
    "llama-linear": lambda: llama(rope_parameters=LINEAR),
    "llama-all-heads": lambda: llama(num_key_value_heads=4),
    "mistral": mistral,
    "mistral-wide-heads": lambda: mistral(head_dim=32, num_key_value_heads=1),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_int8_computes_what_transformers_computes(tiny, models, tmp_path, name):
    """On random ids the int8 logits follow transformers' float32 logits closely, at every position of a long text."""
    torch.manual_seed(3)
    model = causal(FAMILIES[name]()).float()
    folder = save(model, tmp_path / name, tiny)
    ids = random_ids(300)
    with torch.inference_mode():
        want = model.eval()(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
    got = logits(load(str(folder), "int8", models, quietly).network, ids)
    assert correlation(want, got) > 0.99
    assert correlation(want[200:], got[200:]) > 0.99
    assert float((want.argmax(-1) == got.argmax(-1)).float().mean()) > 0.85

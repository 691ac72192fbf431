"""Shared fixtures: tiny random models made on the spot, the real 0.5B where it was pulled, evaluation data."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import textwrap
from pathlib import Path

import pytest

from engine.catalog import models_dir

REAL = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"


def pytest_addoption(parser):
    parser.addoption("--data", default="../shared/eval-data", help="folder of the evaluation data")


@pytest.fixture(scope="session")
def data(request) -> Path:
    """The evaluation data, or a skip that says how to name it."""
    folder = Path(request.config.getoption("--data"))
    if not folder.is_dir():
        pytest.skip(f"no evaluation data at {folder}; name its folder with --data")
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> Path:
    """A folder with a random Qwen2-shaped model and its tokenizer."""
    return make_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny_draft(tmp_path_factory) -> Path:
    """A smaller random model with the same vocabulary as `tiny`."""
    return make_model(tmp_path_factory.mktemp("tiny-draft"), seed=1, num_hidden_layers=1)


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Tiny models gain nothing from a second thread and lose a lot to waiting for it."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def real_models(_real_models):
    """The real 0.5B with lookup only, on all of torch's threads: bits must hold where the product runs."""
    import torch

    torch.set_num_threads(os.cpu_count() or 1)
    yield _real_models
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def _real_models():
    from engine.config import EngineConfig
    from engine.models import load_models

    if not (models_dir() / REAL).is_file():
        pytest.skip(f"{REAL} is not here; run `foretype pull cpu-small`")
    return load_models(EngineConfig(profile="cpu-small"), lambda _: None, models_dir())


def make_tokenizer() -> dict:
    """A byte-level BPE vocabulary trained on Python sources, with Qwen's control tokens, as parsed JSON."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    words = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(words), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[],
        show_progress=False,
    )
    sources = [inspect.getsource(module) for module in (argparse, textwrap)]  # text that does not change meanwhile
    tokenizer.train_from_iterator(sources, trainer)
    names = ["endoftext", "fim_prefix", "fim_middle", "fim_suffix", "fim_pad", "repo_name", "file_sep"]
    tokenizer.add_special_tokens([f"<|{name}|>" for name in names])
    return json.loads(tokenizer.to_str())


def make_model(folder: Path, seed: int = 0, tokenizer: dict | None = None, **changes) -> Path:
    """Write a random model of the Qwen2 family: config.json, model.safetensors, tokenizer.json."""
    import torch
    from safetensors.torch import save_file
    from transformers import Qwen2Config, Qwen2ForCausalLM

    spec = tokenizer or make_tokenizer()
    size = len(spec["model"]["vocab"]) + len(spec["added_tokens"])
    values = {
        "vocab_size": size + 5,  # padded, as real models are
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
        "eos_token_id": spec["added_tokens"][0]["id"],
    }
    config = Qwen2Config(**(values | changes))
    torch.manual_seed(seed)
    model = Qwen2ForCausalLM(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.15)
    save_file({k: v.contiguous().clone() for k, v in model.state_dict().items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    (folder / "tokenizer.json").write_text(json.dumps(spec))
    return folder

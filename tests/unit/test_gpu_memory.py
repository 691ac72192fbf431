"""What fits on which card, what gives way first, and the words for what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from engine.catalog import GIB, load_catalog
from engine.config import EngineConfig
from engine.errors import ConfigError, ModelLoadError, OutOfMemory
from engine.gpu.build import random_model
from engine.gpu.memory import demand, fit, least, need
from engine.gpu.placing import ROOM, card_dtype, choose_device, place
from engine.gpu.shape import ModelShape
from tests.gpu_models import OPTIONS
from tests.tiny_models import one_sentence, qwen2

TINY = ModelShape.from_config(qwen2())


def coder(layers: int, hidden: int, intermediate: int, heads: int, kv_heads: int, vocab: int = 152_064) -> ModelShape:
    """Return a Qwen2.5-Coder of these sizes."""
    width = hidden // heads
    tied = vocab < 152_000
    return ModelShape(
        layers,
        hidden,
        intermediate,
        heads,
        kv_heads,
        width,
        vocab,
        1e-6,
        32_768,
        True,
        tied,
        (1.0,) * (width // 2),
        1.0,
    )


HALF = coder(24, 896, 4864, 14, 2, 151_936)
SEVEN = coder(28, 3584, 18_944, 28, 4)
FOURTEEN = coder(48, 5120, 13_824, 40, 8)
THIRTY_TWO = coder(64, 5120, 27_648, 40, 8)
PROFILES = load_catalog().profiles
DEFAULTS = EngineConfig()


@pytest.mark.parametrize("dtype", ["nf4", "int8", "bfloat16", "float32"])
@pytest.mark.parametrize("tied", [False, True])
def test_weights_take_what_was_counted(dtype, tied):
    """The count is the real model's bytes, but for norms, biases and the last begun block of scales."""
    shape = ModelShape.from_config(qwen2(tie_word_embeddings=tied, num_hidden_layers=3))
    model = random_model(shape, dtype, "cpu", OPTIONS)
    counted = demand(shape, dtype)
    assert counted.weights == pytest.approx(model.weight_bytes, rel=0.01)
    assert counted.embedding == (0 if tied else model.network.embedding.nbytes)
    keys, values = model.passes.store.buffers
    assert counted.token * model.capacity == keys.nbytes + values.nbytes


def test_the_true_sizes_are_those_of_the_books():
    """Bytes of the true shapes agree with what is known of the models, in GB."""
    assert demand(HALF, "bfloat16").weights / 1e9 == pytest.approx(0.99, abs=0.02)
    assert demand(SEVEN, "nf4").weights / 1e9 == pytest.approx(4.46, abs=0.05)
    assert demand(FOURTEEN, "nf4").weights / 1e9 == pytest.approx(8.37, abs=0.1)
    assert demand(THIRTY_TWO, "nf4").weights / 1e9 == pytest.approx(17.7, abs=0.3)
    assert demand(SEVEN, "nf4").token == 56 * 1024
    assert demand(THIRTY_TWO, "bfloat16").token == 256 * 1024


@pytest.mark.parametrize(
    ("profile", "shape", "free"),
    [("gpu-8gb", SEVEN, 7.4), ("gpu-16gb", FOURTEEN, 15.0), ("gpu-24gb", THIRTY_TWO, 23.2)],
)
def test_every_profile_fits_its_card_with_its_draft(profile, shape, free):
    """What a card of a profile's size has free beside a desktop holds target, draft and context."""
    tokens = PROFILES[profile].context_tokens + ROOM
    found = fit(demand(shape, "nf4"), demand(HALF, "bfloat16"), tokens, 4, int(free * GIB))
    assert found is not None and found.draft


def test_things_give_way_in_their_order():
    """First further documents' caches, then the embedding, then the draft model; then nothing is left to give."""
    target, draft = demand(SEVEN, "nf4"), demand(HALF, "bfloat16")
    whole = need([target, draft], 5000)
    each = 5000 * (target.token + draft.token)

    def found(free: float, beside=draft):
        fits = fit(target, beside, 5000, 4, int(free / 0.97) + 2)
        return fits and (fits.draft, fits.host_embedding, fits.put_aside)

    assert found(whole + 9 * each) == (True, False, 3)
    assert found(whole + 1.5 * each) == (True, False, 1)
    assert found(whole) == (True, False, 0)
    assert found(whole - target.embedding) == (True, True, 0)
    alone = need([target], 5000)
    assert found(alone)[0] is False
    assert found(alone - target.embedding)[:2] == (False, True)
    assert found(alone - target.embedding - 10**6) is None
    assert found(alone, None)[:2] == (False, False)
    assert least(target, 5000) == alone - target.embedding


def _place(free: float, config=DEFAULTS, profile="gpu-16gb", dtype="nf4"):
    return place(config, PROFILES[profile], FOURTEEN, HALF, dtype, int(free * GIB))


def test_a_card_that_is_large_enough_takes_both():
    """The draft model is never quantised nor exact; both know the context, and what is exact is passed on."""
    placings = _place(40, EngineConfig(exact=True, context_tokens=3000, cache_slots=6))
    target, draft = placings.target, placings.draft
    assert (target.dtype, draft.dtype, placings.fault) == ("nf4", "bfloat16", "")
    assert target.options.exact and not draft.options.exact
    assert target.options.capacity == draft.options.capacity == 3000 + ROOM
    assert target.options.put_aside == draft.options.put_aside == 5
    assert target.device == "cuda" and not target.host_embedding
    assert _place(80, dtype="float32").draft.dtype == "float32"


def test_too_little_memory_for_the_draft_leaves_the_target():
    """The draft model is dropped with a reason, the target stays."""
    placings = _place(11.0)
    assert placings.draft is None
    assert "beside the target it needs about 1." in placings.fault and one_sentence(placings.fault)


@pytest.mark.parametrize(
    ("profile", "next_one"), [("gpu-24gb", "gpu-16gb"), ("gpu-16gb", "gpu-8gb"), ("gpu-8gb", "cpu")]
)
def test_too_little_memory_for_the_target_names_the_next_profile(profile, next_one):
    with pytest.raises(OutOfMemory, match=f"are free; choose profile {next_one}$") as caught:
        _place(5.0, profile=profile)
    assert one_sentence(str(caught.value)) and "and 5.0 are free" in str(caught.value)


@pytest.mark.parametrize(("dtype", "way"), [("nf4", "choose a smaller model"), ("bfloat16", "set dtype to nf4 or")])
def test_too_little_memory_for_a_model_of_ones_own(dtype, way):
    with pytest.raises(OutOfMemory, match=way):
        _place(5.0, EngineConfig(target="my/model"), dtype=dtype)


def test_unknown_models_are_tried_without_a_plan():
    """What only transformers' modules can run is loaded as it is; its draft is, too."""
    placings = place(EngineConfig(), PROFILES["gpu-8gb"], None, HALF, "bfloat16", 0)
    assert placings.target.dtype == "bfloat16" and placings.draft is not None
    assert place(EngineConfig(), PROFILES["gpu-24gb"], SEVEN, None, "nf4", 20 * GIB).draft is not None


CASES = [
    ({}, "gpu-8gb", True, "cuda"),
    ({}, "cpu", True, "cpu"),
    ({}, "cpu", False, "cpu"),
    ({"target": "x/y"}, "cpu", True, "cuda"),
    ({"target": "x/y", "profile": "cpu"}, "cpu", True, "cpu"),
    ({"target": "x/y", "profile": "gpu-8gb"}, "gpu-8gb", True, "cuda"),
    ({"target": "x/y"}, "cpu", False, "cpu"),
    ({"device": "cpu"}, "gpu-8gb", True, "cpu"),
    ({"device": "cuda"}, "cpu", True, "cuda"),
]


@pytest.mark.parametrize(("settings", "profile", "card", "device"), CASES)
def test_where_an_engine_runs(settings, profile, card, device):
    """On the card when a profile for cards is used or a model is named freely, unless the settings say where."""
    assert choose_device(EngineConfig(**settings), PROFILES[profile], card) == device


def test_a_card_that_is_not_there_is_said():
    with pytest.raises(ConfigError, match=r"device is cuda and no CUDA card .* is there; set it to cpu"):
        choose_device(EngineConfig(device="cuda"), PROFILES["cpu"], card=False)


def test_formats_on_a_card():
    """Left to choose, it is nf4 where the widths allow it; a wish is granted or refused in plain words."""
    odd = replace(TINY, intermediate=96)
    assert card_dtype("auto", TINY) == "nf4"
    assert card_dtype("auto", odd) == card_dtype("auto", None) == "bfloat16"
    assert card_dtype("int8", odd) == "int8"
    assert card_dtype("nf4", None) == "nf4"
    with pytest.raises(ModelLoadError, match=r"a width of 96 is no multiple of 64, .*; set dtype to bfloat16"):
        card_dtype("nf4", odd)


def test_settings_for_cards_are_checked():
    for settings, words in (({"device": "gpu"}, "device is 'gpu'"), ({"exact": "yes"}, "exact is 'yes'")):
        with pytest.raises(ConfigError, match=words) as caught:
            EngineConfig.from_mapping(settings)
        assert one_sentence(str(caught.value))


def test_a_label_names_what_costs_depend_on(monkeypatch):
    """Costs kept for one card, format and mode are not taken for another's."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA GeForce RTX 4090")
    assert _place(40).target.label == "nvidia-geforce-rtx-4090-nf4"
    assert _place(40, EngineConfig(exact=True)).target.label == "nvidia-geforce-rtx-4090-nf4-exact"

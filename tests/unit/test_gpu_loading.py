"""From a folder to a model on a card, here on the CPU: formats, faults, memory that runs out, and whole completions."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine import models as loading
from engine.config import EngineConfig, Limits, SamplingParams
from engine.core import CompletionRequest
from engine.engine import Engine
from engine.errors import ModelLoadError, OutOfMemory
from engine.gpu import card, placing
from engine.gpu.build import build_network, folder_model, random_model
from engine.gpu.kernels import TORCH
from engine.gpu.linears import FloatLinear
from engine.gpu.memory import demand, need
from engine.gpu.model import GpuModel, GpuOptions
from engine.gpu.placing import Placing, Placings
from engine.gpu.shape import ModelShape
from engine.gpu.weights import RandomWeights
from engine.loader import load, survey
from engine.models import LoadedModels
from tests.conftest import make_model, make_tokenizer
from tests.fakes import EagerPlanner
from tests.gpu_models import OPTIONS
from tests.tiny_models import (
    TEXT,
    ask,
    correlation,
    logits,
    make_engine,
    one_sentence,
    quietly,
    qwen2,
    random_ids,
    write_gguf,
)

ON_CPU = Placing("float32", OPTIONS, device="cpu")


@pytest.fixture
def models(tmp_path) -> Path:
    """An empty models folder; what is prepared goes beside it."""
    return tmp_path / "models"


@pytest.fixture
def own(tiny, tmp_path) -> Path:
    """A copy of the tiny model that a test may spoil."""
    return Path(shutil.copytree(tiny, tmp_path / "own"))


def put(folder: Path, models: Path, place: Placing = ON_CPU):
    return load(str(folder), "auto", models, quietly, placing=place)


# From files to logits


@pytest.mark.parametrize(("dtype", "alike"), [("float32", 0.9999), ("bfloat16", 0.999), ("int8", 0.995), ("nf4", 0.97)])
def test_every_format_computes_the_same_model(tiny, models, dtype, alike):
    """A folder's logits follow those of transformers in float32, as nearly as the format allows."""
    want = logits(load(str(tiny), "float32", models, quietly).network, random_ids(48))
    loaded = put(tiny, models, replace(ON_CPU, dtype=dtype))
    assert isinstance(loaded.network, GpuModel)
    assert correlation(logits(loaded.network, random_ids(48)), want) > alike
    assert loaded.tokenizer.controls <= loaded.ends


def test_a_gguf_is_the_model_it_was_made_from(tmp_path, models):
    """A GGUF is converted to safetensors once and read like a folder."""
    spec = make_tokenizer()
    (tmp_path / "folder").mkdir()
    size = len(spec["model"]["vocab"]) + len(spec["added_tokens"])
    folder = make_model(tmp_path / "folder", tokenizer=spec, vocab_size=size)
    write_gguf(folder, tmp_path / "tiny.gguf")
    place = replace(ON_CPU, dtype="bfloat16")
    ours, theirs = (
        logits(put(path, models, place).network, random_ids(40)) for path in (folder, tmp_path / "tiny.gguf")
    )
    assert torch.equal(ours, theirs)


def test_sharded_weights_load_like_one_file(tiny, own, models):
    """Weights in two files with an index are found where the index says."""
    state = load_file(own / "model.safetensors")
    names = sorted(state)
    for file, half in (("a.safetensors", names[::2]), ("b.safetensors", names[1::2])):
        save_file({name: state[name] for name in half}, own / file, {"format": "pt"})
    where = {name: f"{'ab'[at % 2]}.safetensors" for at, name in enumerate(names)}
    (own / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    (own / "model.safetensors").unlink()
    assert torch.equal(*(logits(put(folder, models).network, random_ids(20)) for folder in (tiny, own)))


def test_an_embedding_outside_is_taken_there(tiny, models):
    """The embedding is left in the machine's memory, unless the head is the same matrix."""
    outside = put(tiny, models, replace(ON_CPU, host_embedding=True)).network
    assert outside.network.host_embedding
    assert torch.equal(logits(outside, random_ids(8)), logits(put(tiny, models).network, random_ids(8)))
    tied = ModelShape.from_config(qwen2(tie_word_embeddings=True))
    source = RandomWeights(tied, torch.device("cpu"), torch.float32)
    assert not build_network(tied, source, FloatLinear, TORCH, host_embedding=True).host_embedding


def test_loading_says_how_far_it_is(tiny, models):
    """Progress rises from nothing to the last layer."""
    heard = []
    load(str(tiny), "auto", models, heard.append, placing=ON_CPU)
    done = [step.done for step in heard if step.done is not None]
    assert done == sorted(done) and done[0] == 0.0 and done[-1] > 0.6
    assert {step.text for step in heard} == {f"loading {tiny}"}


def test_only_ids_of_the_tokenizer_are_drafted(tiny, models):
    """A model's padding of the vocabulary is not written."""
    loaded = put(tiny, models)
    assert loaded.network.passes._tokens == loaded.tokenizer.size < loaded.network.vocab_size


@pytest.mark.parametrize("exact", [False, True])
def test_fast_mode_says_that_near_ties_may_turn(tiny, models, exact):
    """What is not exact says so in a note; what is has nothing to note."""
    options = replace(OPTIONS, exact=exact, rows=(8,))
    notes = put(tiny, models, replace(ON_CPU, options=options)).notes
    assert [("on a card: where logits nearly tie" in note) for note in notes] == [True] * (not exact)


def test_sizes_are_found_out_once(tiny, models, monkeypatch):
    """A survey reads the configuration and keeps what it found; a later one needs no transformers."""
    first = survey(str(tiny), models, quietly)
    assert (first.layers, first.hidden, first.qkv_bias, first.tied) == (2, 64, True, False)
    monkeypatch.setattr(ModelShape, "from_config", lambda _: pytest.fail("read again"))
    assert survey(str(tiny), models, quietly) == first


def test_other_families_run_in_transformers_modules(tiny, own, models):
    """What our forward does not know has no shape, and is loaded for the card with transformers."""
    config = json.loads((own / "config.json").read_text()) | {"use_sliding_window": True, "sliding_window": 16}
    config |= {"layer_types": ["sliding_attention"] * 2}
    (own / "config.json").write_text(json.dumps(config))
    assert survey(str(own), models, quietly) is None
    loaded = put(own, models)
    assert not isinstance(loaded.network, GpuModel)
    assert "in transformers' modules" in loaded.notes[0]


def test_weights_that_lack_a_tensor_are_refused(own, models):
    """One sentence names a missing weight before anything is on the card."""
    state = load_file(own / "model.safetensors")
    del state["model.layers.1.mlp.up_proj.weight"]
    save_file(state, own / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelLoadError, match=r"own lacks 1 of its model's weights \(.*1.mlp.up_proj.weight\); fetch"):
        put(own, models)


def test_weights_of_another_size_are_refused(own, models):
    """One sentence names a weight whose size is not the configuration's."""
    config = json.loads((own / "config.json").read_text()) | {"intermediate_size": 192}
    (own / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelLoadError, match=r"as \[128, 64\], its config.json says \[192, 64\]; fetch") as caught:
        put(own, models)
    assert one_sentence(str(caught.value))


def test_random_weights_are_the_same_whenever_asked():
    """A name stands for one tensor; another seed or name for another, and norms are near one."""
    shape = ModelShape.from_config(qwen2())
    first, other = (RandomWeights(shape, torch.device("cpu"), torch.float32, seed) for seed in (0, 1))
    up, gate = (f"model.layers.0.mlp.{name}_proj.weight" for name in ("up", "gate"))
    assert torch.equal(first.get(up), first.get(up))
    assert not torch.equal(first.get(up), other.get(up))
    assert not torch.equal(first.get(up), first.get(gate))
    assert float(first.get("model.norm.weight").mean()) == pytest.approx(1.0, abs=0.02)
    assert isinstance(random_model(shape, "float32", "cpu"), GpuModel)


# Engines


def engine_on(target: Path, models: Path, draft: Path | None = None, place: Placing = ON_CPU, planner=None) -> Engine:
    pair = LoadedModels(put(target, models, place), put(draft, models) if draft else None, 512)
    return Engine(pair, EngineConfig(target=str(target), context_tokens=512), planner=planner)


def test_an_engine_writes_the_same_text(tiny, tiny_draft, models):
    """On the card's path, plain, with lookup and with the draft loop, the text is that of transformers' modules."""
    want = ask(make_engine(tiny, models, dtype="float32", drafters=()))
    alone = ask(engine_on(tiny, models, planner=EagerPlanner()))
    drafted = ask(engine_on(tiny, models, tiny_draft, planner=EagerPlanner()))
    assert alone.text == drafted.text == want.text
    assert drafted.stats.drafted.get("model", 0) > 0
    by_itself = ask(engine_on(tiny, models, tiny, planner=EagerPlanner()))
    assert by_itself.text == want.text
    assert by_itself.stats.accepted["model"] == by_itself.stats.drafted["model"] > 0


def test_sampled_text_does_not_depend_on_drafts(tiny, tiny_draft, models):
    """Sampling takes the drafter's single steps; the seed's text is the same with and without it."""

    def sampled(engine):
        request = CompletionRequest(
            "a.py", "python", TEXT, len(TEXT), sampling=SamplingParams(0.8, seed=5), limits=Limits(24, "free")
        )
        return list(engine.complete(request))[-1].summary.text

    plain = sampled(engine_on(tiny, models))
    assert sampled(engine_on(tiny, models, tiny_draft, planner=EagerPlanner())) == plain


SAYINGS = [
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
]


def out_of_memory(*_: object) -> None:
    raise SAYINGS[0]


def fail_once(monkeypatch, owner, name: str, error: Exception = SAYINGS[0]) -> None:
    inner = getattr(owner, name)

    def once(*arguments):
        monkeypatch.setattr(owner, name, inner)
        raise error

    monkeypatch.setattr(owner, name, once)


@pytest.mark.parametrize(
    ("where", "text", "error"), [("read", TEXT * 8, SAYINGS[0]), *(("decide", TEXT + "w", error) for error in SAYINGS)]
)
def test_memory_that_runs_out_costs_one_completion(tiny, models, monkeypatch, where, text, error):
    """The request is refused in one sentence, everything cached is given back, and the next one works."""
    engine = engine_on(tiny, models)
    network = engine._target.network
    want, other = ask(engine).text, ask(engine, "x = 1\n", "b.py").text
    network.passes.store.attach(network.new_cache(), 900)
    assert network.capacity == 1024
    fail_once(monkeypatch, network.passes, where, error)
    with pytest.raises(OutOfMemory) as caught:
        ask(engine, text)
    assert one_sentence(str(caught.value))
    assert network.capacity == 256 and network.passes.store._aside == {}
    assert ask(engine).text == want
    assert ask(engine, "x = 1\n", "b.py").text == other


def test_memory_that_runs_out_while_drafting_costs_one_completion(tiny, tiny_draft, models, monkeypatch):
    """The draft model's recordings can be what does not fit, too."""
    engine = engine_on(tiny, models, tiny_draft, planner=EagerPlanner())
    want = ask(engine).text
    fail_once(monkeypatch, engine._runners[1].model.passes, "write")
    with pytest.raises(OutOfMemory):
        ask(engine, TEXT * 2)
    assert ask(engine).text == want


def test_a_full_card_forgets_documents_instead_of_failing(tiny, models, monkeypatch):
    """When a cache cannot be put aside, it is dropped, oldest first; completions go on."""
    engine = engine_on(tiny, models)
    want = [ask(engine, TEXT, f"{name}.py").text for name in "ab"]
    caches = engine._runners[0]._caches
    monkeypatch.setattr(torch.Tensor, "clone", out_of_memory)
    network = engine._target.network
    network.passes.store.attach(network.new_cache(), 10)
    assert [len(caches[name]) for name in ("a.py", "b.py")] == [0, 0]
    monkeypatch.undo()
    assert [ask(engine, TEXT, f"{name}.py").text for name in "ab"] == want


# Whole pairs


@pytest.fixture
def on_a_card(monkeypatch):
    """Pretend that this machine has a card, of which the CPU does the work."""
    free = {"bytes": 8 * 2**30}
    monkeypatch.setattr(card, "usable", lambda: True)
    monkeypatch.setattr(card, "free_bytes", lambda: free["bytes"])
    monkeypatch.setattr(card, "total_bytes", lambda: 24 * 2**30)
    monkeypatch.setattr(card, "name", lambda: "Card")

    def on_cpu(*arguments):
        found = placing.place(*arguments)
        places = [place and replace(place, device="cpu") for place in (found.target, found.draft)]
        return Placings(*places, found.fault)

    monkeypatch.setattr(loading, "place", on_cpu)
    return free


def test_a_pair_is_placed_and_loaded(tiny, tiny_draft, models, on_a_card):
    """Both models come onto the card in their formats; costs are those the models measured, at the sizes they use."""
    config = EngineConfig(target=str(tiny), draft=str(tiny_draft), context_tokens=512, cache_slots=2)
    pair = loading.load_models(config, quietly, models)
    target, draft = pair.target.network, pair.draft.network
    assert target.passes.network.layers[0].qkv.nbytes < draft.passes.network.layers[0].qkv.nbytes
    assert target.options.put_aside == draft.options.put_aside == 1
    assert target.capacity == draft.capacity == 1536
    assert set(pair.costs.target.points) == set(target.row_costs())
    assert len(ask(Engine(pair, config)).token_ids) > 0


def test_exactness_is_passed_to_the_target(tiny, models, on_a_card):
    pair = loading.load_models(EngineConfig(target=str(tiny), context_tokens=512, exact=True), quietly, models)
    assert pair.target.network.row_exact and pair.notes == ()


def test_a_draft_that_does_not_fit_is_said(tiny, tiny_draft, models, on_a_card):
    """Lookup serves alone, and a note says why."""
    shapes = [survey(str(folder), models, quietly) for folder in (tiny, tiny_draft)]
    on_a_card["bytes"] = int(need([demand(shapes[0], "nf4")], 1536) / 0.97) + 1000
    config = EngineConfig(target=str(tiny), draft=str(tiny_draft), context_tokens=512)
    pair = loading.load_models(config, quietly, models)
    assert pair.draft is None
    assert [note for note in pair.notes if "no draft model, prompt lookup alone: beside the target" in note]


def test_a_broken_draft_is_said_on_a_card_too(tiny, own, models, on_a_card):
    """The plan is made without it, and loading names its fault."""
    (own / "model.safetensors").write_bytes(b"")
    config = EngineConfig(target=str(tiny), draft=str(own), context_tokens=512)
    pair = loading.load_models(config, quietly, models)
    assert pair.draft is None
    assert [note for note in pair.notes if "model.safetensors is empty" in note]


def test_a_profile_for_processors_stays_there(tiny, models, on_a_card):
    """A card in the machine does not take over what the settings give to the processor."""
    pair = loading.load_models(EngineConfig(target=str(tiny), device="cpu", drafters=()), quietly, models)
    assert not isinstance(pair.target.network, GpuModel)


def test_a_folder_is_read_without_a_plan(tiny):
    """The constructor that a bench uses needs a folder and a shape."""
    shape = ModelShape.from_config(_config(tiny))
    assert folder_model(tiny, shape, "float32", "cpu", GpuOptions(rows=(1,))).vocab_size == shape.vocab


def _config(folder: Path):
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(folder)

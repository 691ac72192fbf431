"""From a folder to a network that runs: weight formats, the prepared copy, broken and odd models, other families."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from engine import prepare
from engine.codecs import ChannelCodec, GroupCodec, choose_codec
from engine.config import EngineConfig
from engine.core import CompletionRequest
from engine.errors import ConfigError, ModelLoadError, OutOfMemory
from engine.int8_linear import Backend
from engine.load_report import once_each
from engine.loader import load
from engine.models import load_models
from tests.conftest import make_model, make_tokenizer
from tests.fakes import EagerPlanner
from tests.tiny_models import (
    SIZES,
    TEXT,
    ask,
    correlation,
    logits,
    make_engine,
    one_sentence,
    quietly,
    random_ids,
    save,
    write_gguf,
)


def words_into(heard: list[str]):
    """Return a report of loading that keeps each step's words once."""
    return once_each(lambda line: heard.append(line.removesuffix("…")))


@pytest.fixture
def models(tmp_path) -> Path:
    """An empty models folder; what is prepared goes beside it."""
    return tmp_path / "models"


@pytest.fixture
def own(tiny, tmp_path) -> Path:
    """A copy of the tiny model that a test may spoil."""
    return Path(shutil.copytree(tiny, tmp_path / "own"))


def prepared(models: Path, pattern: str) -> list[Path]:
    return sorted((models.parent / "prepared").glob(f"*/{pattern}"))


# Weight formats


@pytest.mark.parametrize("dtype", ["int8", "float32", "bfloat16"])
def test_every_dtype_loads(tiny, models, dtype):
    """A folder loads in each weight format, and only int8 promises the same bits in every pass."""
    loaded = load(str(tiny), dtype, models, quietly)
    assert loaded.network.vocab_size > loaded.tokenizer.size
    assert loaded.network.row_exact == (dtype == "int8")
    assert [note for note in loaded.notes if "transformers' modules" in note] == list(loaded.notes)
    assert len(loaded.notes) == (dtype != "int8")
    assert loaded.tokenizer.controls <= loaded.ends
    if dtype != "int8":
        assert loaded.network.module.dtype == getattr(torch, dtype)


def test_auto_is_int8_where_the_family_allows_it(tiny, models):
    """Without a wish, a model of the Llama family runs in int8 and there is nothing to note."""
    loaded = load(str(tiny), "auto", models, quietly)
    assert loaded.network.row_exact
    assert loaded.notes == ()


def test_all_formats_compute_the_same_model(tiny, models):
    """int8 and bfloat16 logits follow those of float32."""
    ids = random_ids(48)
    exact, *others = (logits(load(str(tiny), d, models, quietly).network, ids) for d in ("float32", "int8", "bfloat16"))
    for other in others:
        assert correlation(exact, other) > 0.995


def test_nf4_without_cuda_names_the_way_out(tiny, models, monkeypatch):
    """4-bit weights need a CUDA device; without one the message says what to set instead."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="dtype nf4 needs a CUDA device") as caught:
        load(str(tiny), "nf4", models, quietly)
    assert one_sentence(str(caught.value))


# The prepared copy


def test_weights_are_converted_once(tiny, models):
    """The first load converts, says so and keeps the result; the second only reads it."""
    first, second = [], []
    once = logits(load(str(tiny), "int8", models, words_into(first)).network, [1, 2, 3])
    (kept,) = prepared(models, "int8-*.safetensors")
    written = kept.stat().st_mtime_ns
    again = logits(load(str(tiny), "int8", models, words_into(second)).network, [1, 2, 3])
    assert sum("converting" in line for line in first) == 1
    assert second == [f"loading {tiny}"]
    assert kept.stat().st_mtime_ns == written
    assert torch.equal(once, again)


def test_a_prepared_model_needs_no_transformers(tiny, models):
    """A later start reads the prepared copy without importing transformers, which takes seconds."""
    load(str(tiny), "int8", models, quietly)
    code = (
        "import sys; from pathlib import Path; from engine.loader import load;"
        f"load({str(tiny)!r}, 'auto', Path({str(models)!r}), lambda _: None); print('transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_changed_weights_are_converted_anew(tiny, own, models):
    """When the weight file is another one, the model is that one and not the prepared copy of the old."""
    before = logits(load(str(own), "int8", models, quietly).network, [1, 2, 3])
    make_model(own, seed=5, tokenizer=json.loads((own / "tokenizer.json").read_text()))
    heard = []
    after = logits(load(str(own), "int8", models, words_into(heard)).network, [1, 2, 3])
    assert any("converting" in line for line in heard)
    assert not torch.equal(before, after)
    fresh = logits(load(str(own), "int8", models.parent / "elsewhere" / "models", quietly).network, [1, 2, 3])
    assert torch.equal(after, fresh)


def test_what_was_prepared_from_an_older_file_is_deleted(tiny, own, models):
    """A copy of weights that are no longer there goes when their successor is prepared; other models keep theirs."""
    load(str(tiny), "int8", models, quietly)
    load(str(own), "int8", models, quietly)
    others = prepared(models, "int8-*.safetensors")
    make_model(own, seed=5, tokenizer=json.loads((own / "tokenizer.json").read_text()))
    load(str(own), "int8", models, quietly)
    after = prepared(models, "int8-*.safetensors")
    assert len(others) == len(after) == 2
    assert len(set(others) & set(after)) == 1


def test_a_changed_configuration_is_noticed(own, models):
    """End ids are read again when a configuration file appears beside the same weights."""
    before = load(str(own), "int8", models, quietly).ends
    (own / "generation_config.json").write_text('{"eos_token_id": [17, 18]}')
    assert load(str(own), "int8", models, quietly).ends == before | {17, 18}


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 7 // 10])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _garble(path: Path) -> None:
    path.write_bytes(b"\xff" * 16 + path.read_bytes()[16:])


def _relabel(**labels: str | None):
    """Write the same tensors with other metadata."""

    def spoil(path: Path) -> None:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() | labels
        save_file(load_file(path), path, {name: value for name, value in metadata.items() if value is not None})

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        _cut,
        _empty,
        _garble,
        _relabel(format="0"),
        _relabel(format=None),
        _relabel(codec="int8-255"),
        _relabel(codec=None),
        _relabel(codec="int8-many"),
    ],
    ids=["cut", "empty", "garbled", "older", "unlabelled", "too-many-levels", "no-codec", "odd-levels"],
)
def test_a_spoilt_prepared_copy_is_made_again(tiny, models, spoil):
    """A prepared file that is cut, garbled or of another make is converted anew, and the user waits but once."""
    good = logits(load(str(tiny), "int8", models, quietly).network, [1, 2, 3])
    (kept,) = prepared(models, "int8-*.safetensors")
    spoil(kept)
    heard = []
    assert torch.equal(logits(load(str(tiny), "int8", models, words_into(heard)).network, [1, 2, 3]), good)
    assert any("converting" in line for line in heard)
    assert prepare.is_current(kept, choose_codec())


def test_spoilt_notes_of_a_prepared_copy_are_made_again(own, models):
    """A facts file that a power cut left empty does not lock the user out."""
    ends = load(str(own), "int8", models, quietly).ends
    (facts,) = prepared(models, "facts-*.json")
    facts.write_bytes(b"")
    assert load(str(own), "int8", models, quietly).ends == ends


def test_fewer_levels_suit_every_processor(tiny, models):
    """Codes of 7 bits run where 8 are exact too, codes of 8 bits do not run where only 7 are."""
    load(str(tiny), "int8", models, quietly)
    (kept,) = prepared(models, "int8-*.safetensors")
    for levels, allowed in ((63, 127), (63, 63), (127, 127)):
        _relabel(codec=f"int8-{levels}")(kept)
        assert prepare.is_current(kept, ChannelCodec(Backend("float", allowed)))
    assert not prepare.is_current(kept, ChannelCodec(Backend("float", 63)))


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_conversion_leaves_nothing(tiny, models, monkeypatch, error):
    """A conversion that stops half-way leaves no file that a next start could take for whole, nor its beginning."""

    def stop(tensors, path, metadata):
        Path(path).write_bytes(b"half")
        raise error("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(prepare, "save_file", stop)
        with pytest.raises((KeyboardInterrupt, ModelLoadError)):
            load(str(tiny), "int8", models, quietly)
    assert prepared(models, "int8-*") == []
    assert load(str(tiny), "int8", models, quietly).network.row_exact


def test_a_killed_conversion_is_begun_anew(tiny, models):
    """What a killed process left beside the place of the prepared file is written over."""
    load(str(tiny), "int8", models, quietly)
    (kept,) = prepared(models, "int8-*.safetensors")
    kept.replace(kept.with_name(f"{kept.name}.partial"))
    heard = []
    load(str(tiny), "int8", models, words_into(heard))
    assert any("converting" in line for line in heard)
    assert prepared(models, "int8-*") == [kept]


def test_a_model_that_drafts_is_prepared_apart(tiny, models):
    """One model as target and as draft: two sets of weights, the draft's the smaller one, each with its own costs."""
    target, draft = (load(str(tiny), "int8", models, quietly, drafts=drafts) for drafts in (False, True))
    assert target.prepared != draft.prepared
    sizes = [sum(path.stat().st_size for path in kept.prepared.glob("int*-*.safetensors")) for kept in (target, draft)]
    assert sizes[1] < sizes[0] or not isinstance(choose_codec(), GroupCodec)
    heard = []
    for drafts in (False, True):
        load(str(tiny), "int8", models, words_into(heard), drafts=drafts)
    assert not any("converting" in line for line in heard)


def test_what_another_version_prepared_is_cleared_away(tiny, models, monkeypatch):
    """When a draft's copy is made, a target's copy goes if no version in use can read it, and stays if this one can."""
    target = load(str(tiny), "int8", models, quietly).prepared
    (kept,) = target.glob("int*-*.safetensors")
    load(str(tiny), "int8", models, quietly, drafts=True)
    assert kept.is_file()
    monkeypatch.setattr(prepare, "FORMAT", "next")
    load(str(tiny), "int8", models, quietly, drafts=True)
    assert not kept.exists()


def test_two_models_of_one_name_do_not_share_a_prepared_copy(tiny, tiny_draft, tmp_path, models):
    """Folders that are called alike in different places are prepared apart."""
    twins = [shutil.copytree(f, tmp_path / side / "coder-1.5b") for f, side in ((tiny, "left"), (tiny_draft, "right"))]
    for twin in twins:
        load(str(twin), "int8", models, quietly)
    folders = [path.parent.name for path in prepared(models, "int8-*.safetensors")]
    assert len(set(folders)) == 2
    assert all(name.startswith("coder-1.5b-") for name in folders)


# GGUF files


@pytest.fixture(scope="module")
def twins(tmp_path_factory) -> tuple[Path, Path]:
    """One model as a folder and as a GGUF file; a GGUF knows no padding of the vocabulary."""
    spec = make_tokenizer()
    place = tmp_path_factory.mktemp("twins")
    (place / "folder").mkdir()
    size = len(spec["model"]["vocab"]) + len(spec["added_tokens"])
    folder = make_model(place / "folder", tokenizer=spec, vocab_size=size)
    write_gguf(folder, place / "tiny.gguf")
    return folder, place / "tiny.gguf"


@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float32"])
def test_a_gguf_is_the_model_it_was_made_from(twins, models, dtype, capfd):
    """A GGUF gives the folder's logits, tokens and ends, is converted once, and draws no bar of a library."""
    folder, gguf = (load(str(path), dtype, models, quietly) for path in twins)
    ids = random_ids(60)
    if dtype == "float32":  # a GGUF is kept as bfloat16
        assert correlation(logits(folder.network, ids), logits(gguf.network, ids)) > 0.999
    else:
        assert torch.equal(logits(folder.network, ids), logits(gguf.network, ids))
    assert gguf.ends == folder.ends
    assert gguf.tokenizer.mismatch(folder.tokenizer) is None
    text = TEXT + "\tüber = '🦀'  # 12345\r\n"
    assert gguf.tokenizer.encode(text) == folder.tokenizer.encode(text)
    again = []
    load(str(twins[1]), dtype, models, words_into(again))
    assert again == [f"loading {twins[1]}"]
    assert "%" not in capfd.readouterr().err


def test_a_cut_copy_of_a_gguf_is_made_again(twins, models):
    """A converted bfloat16 copy that a full disk cut short is made again instead of refusing the good GGUF."""
    good = logits(load(str(twins[1]), "bfloat16", models, quietly).network, [1, 2, 3])
    _cut(prepared(models, "bf16/model.safetensors")[0])
    assert torch.equal(logits(load(str(twins[1]), "bfloat16", models, quietly).network, [1, 2, 3]), good)


def test_a_cut_gguf_is_named(twins, models, tmp_path):
    """A GGUF that lacks its end is named in one sentence, as a target and as a draft (B67)."""
    cut = Path(shutil.copy(twins[1], tmp_path / "cut.gguf"))
    _cut(cut)
    with pytest.raises(ModelLoadError, match=r"cut.gguf is cut off: \d+ of \d+ bytes are there; fetch it again"):
        load(str(cut), "auto", models, quietly)
    engine = make_engine(twins[0], models, draft=str(cut))
    assert sum("prompt lookup alone" in note for note in engine.notes) == 1


# Broken models (B67)


def _shard(folder: Path) -> None:
    """Split the weights in two shards with an index, then lose one."""
    state = load_file(folder / "model.safetensors")
    names = sorted(state)
    halves = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, half in halves.items():
        save_file({name: state[name] for name in half}, folder / file, {"format": "pt"})
    weight_map = {name: file for file, half in halves.items() for name in half}
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()


def _lose_shard(folder: Path) -> None:
    _shard(folder)
    (folder / "b.safetensors").unlink()


BROKEN = {
    "missing": (lambda f: (f / "model.safetensors").unlink(), "own", "holds no safetensors weights"),
    "cut": (lambda f: _cut(f / "model.safetensors"), "model.safetensors", "is cut off"),
    "zero": (lambda f: _empty(f / "model.safetensors"), "model.safetensors", "is empty"),
    "html": (
        lambda f: (f / "model.safetensors").write_text("<!DOCTYPE html><html>404</html>"),
        "model.safetensors",
        "is a web page",
    ),
    "shard": (_lose_shard, "b.safetensors", "is missing"),
    "tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "own", "has no tokenizer"),
    "cut tokenizer": (lambda f: _cut(f / "tokenizer.json"), "tokenizer.json", "is no tokenizer"),
    "folder": (shutil.rmtree, "own", "does not exist"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_target_is_named_in_one_sentence(own, models, name):
    """A file that is missing, cut, empty or a web page is named with its fault and the way to mend it."""
    spoil, file, fault = BROKEN[name]
    spoil(own)
    with pytest.raises(ModelLoadError) as caught:
        load(str(own), "auto", models, quietly)
    message = str(caught.value)
    assert f"{file} {fault}" in message
    assert one_sentence(message)


def test_a_mended_target_loads(tiny, own, models):
    """Once the file is whole again, the same name loads."""
    _cut(own / "model.safetensors")
    with pytest.raises(ModelLoadError):
        load(str(own), "auto", models, quietly)
    shutil.copy(tiny / "model.safetensors", own)
    assert load(str(own), "auto", models, quietly).network.row_exact


def test_sharded_weights_load_like_one_file(own, tiny, models):
    """A model in two shards computes what it computes in one file."""
    _shard(own)
    assert torch.equal(
        logits(load(str(own), "int8", models, quietly).network, [4, 5, 6]),
        logits(load(str(tiny), "int8", models, quietly).network, [4, 5, 6]),
    )


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_weights_that_lack_a_tensor_are_refused(own, models, dtype):
    """Whole files that lack one of the model's tensors give one sentence, not a network with random numbers in it."""
    state = load_file(own / "model.safetensors")
    del state["model.layers.1.mlp.up_proj.weight"]
    save_file(state, own / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelLoadError, match=r"own lacks 1 of its model's weights \(.*1.mlp.up_proj.weight\); fetch"):
        load(str(own), dtype, models, quietly)
    assert prepared(models, "int8-*") == []


def test_weights_of_other_sizes_are_refused(own, models):
    """Weights that do not fit the configuration are named in one sentence."""
    config = json.loads((own / "config.json").read_text()) | {"intermediate_size": 96}
    (own / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelLoadError) as caught:
        load(str(own), "int8", models, quietly)
    assert str(own) in str(caught.value)
    assert one_sentence(str(caught.value))


def test_pickled_weights_are_refused_unread(own, models, tmp_path):
    """A folder with pickled weights alone is refused, and the pickle is never opened."""
    ran = tmp_path / "ran"

    class Bomb:
        def __reduce__(self):
            return Path.touch, (ran,)

    (own / "model.safetensors").unlink()
    (own / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ModelLoadError, match="own holds only pickled weights; only safetensors and GGUF"):
        load(str(own), "auto", models, quietly)
    assert not ran.exists()


# Code in model folders


def _plant(folder: Path, ran: Path, **changes) -> None:
    """Add a module to a model folder that leaves a trace when it runs, and name it in the configuration."""
    (folder / "evil.py").write_text(
        f"from pathlib import Path\nPath({str(ran)!r}).touch()\n"
        "from transformers import Qwen2Config as Config, Qwen2ForCausalLM as Model, PreTrainedTokenizer as Tokenizer\n"
    )
    config = json.loads((folder / "config.json").read_text())
    config |= {"auto_map": {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}} | changes
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
def test_code_beside_a_known_model_never_runs(own, models, tmp_path, dtype):
    """A model of a known family that brings code of its own runs by the library's code."""
    _plant(own, tmp_path / "ran")
    assert logits(load(str(own), dtype, models, quietly).network, [1, 2]).isfinite().all()
    assert not (tmp_path / "ran").exists()


def test_a_model_that_is_only_code_is_refused(own, models, tmp_path):
    """A model that the library does not know is refused, and its code does not run."""
    _plant(own, tmp_path / "ran", model_type="evil")
    with pytest.raises(ModelLoadError) as caught:
        load(str(own), "auto", models, quietly)
    assert one_sentence(str(caught.value))
    assert str(own) in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_a_tokenizer_in_its_older_form_is_converted_once(own, models, tmp_path, tiny):
    """A vocabulary and merges without tokenizer.json give the same ids; code named beside them never runs."""
    spec = json.loads((own / "tokenizer.json").read_text())
    (own / "tokenizer.json").unlink()
    (own / "vocab.json").write_text(json.dumps(spec["model"]["vocab"]))
    (own / "merges.txt").write_text("#version: 0.2\n" + "\n".join(" ".join(m) for m in spec["model"]["merges"]) + "\n")
    added = {str(t["id"]): t for t in spec["added_tokens"]}
    _plant(own, tmp_path / "ran")
    tokenizer = {
        "tokenizer_class": "Qwen2Tokenizer",
        "auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]},
        "added_tokens_decoder": added,
    }
    (own / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    heard = []
    converted = load(str(own), "int8", models, words_into(heard)).tokenizer
    assert any("tokenizer" in line for line in heard)
    assert not (tmp_path / "ran").exists()
    original = load(str(tiny), "int8", models, quietly).tokenizer
    text = TEXT + "\tüber = '🦀'  # 12345\r\n"
    assert converted.encode(text) == original.encode(text)
    assert converted.control("<|fim_middle|>") == original.control("<|fim_middle|>")
    again = []
    load(str(own), "int8", models, words_into(again))
    assert again == [f"loading {own}"]


# Odd models


def test_a_model_without_fill_in_the_middle_completes_from_the_left(own, models):
    """Without the markers the engine says so once, shows the model the text on the left alone, and completes (B71)."""
    spec = json.loads((own / "tokenizer.json").read_text())
    for token in spec["added_tokens"]:
        token["content"] = token["content"].replace("fim_", "chat_").replace("file_sep", "turn")
    (own / "tokenizer.json").write_text(json.dumps(spec))
    engine = make_engine(own, models)
    assert sum("knows no fill-in-the-middle" in note for note in engine.notes) == 1
    request = CompletionRequest("a.py", "python", TEXT + "\n\nprint(volume(1, 2, 3))\n", len(TEXT))
    shown = engine.decode(engine.plan(request).ids)
    assert "print" not in shown
    assert "def area" in shown
    assert ask(engine).token_ids


SAMPLING = {"do_sample": True, "temperature": 0.3, "top_k": 5, "repetition_penalty": 1.9, "no_repeat_ngram_size": 2}


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_the_folders_sampling_defaults_change_nothing(own, models, dtype):
    """Greedy text is the same with and without temperature and penalties in generation_config.json (B72)."""
    truth = ask(make_engine(own, models, dtype=dtype)).token_ids
    (own / "generation_config.json").write_text(json.dumps(SAMPLING))
    assert ask(make_engine(own, models, dtype=dtype)).token_ids == truth
    assert len(truth) > 5


def test_all_end_ids_are_honoured(own, models):
    """The ids of config.json and of generation_config.json, one or several, each end the text (B72)."""
    truth = ask(make_engine(own, models)).token_ids
    first = {token: truth.index(token) for token in truth}  # where each token of the text appears first
    places = sorted(first.values())[1:4]
    for place in places:
        (own / "generation_config.json").write_text(json.dumps(SAMPLING | {"eos_token_id": [9999, truth[place]]}))
        done = ask(make_engine(own, models))
        assert done.token_ids == truth[:place]
        assert done.finish_reason == "stop"
    config = json.loads((own / "config.json").read_text()) | {"eos_token_id": [truth[places[0]], 9999]}
    (own / "config.json").write_text(json.dumps(config))
    (own / "generation_config.json").write_text(json.dumps({"eos_token_id": truth[places[2]]}))
    assert ask(make_engine(own, models)).token_ids == truth[: places[0]]


# Drafts


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_draft_leaves_lookup_alone(tiny, own, models, name):
    """With a broken draft the target serves with lookup, and the fault is said once (B67)."""
    spoil, file, fault = BROKEN[name]
    spoil(own)
    engine = make_engine(tiny, models, draft=str(own))
    (note,) = [note for note in engine.notes if "prompt lookup alone" in note]
    assert f"{file} {fault}" in note
    done = ask(engine)
    assert done.token_ids == ask(make_engine(tiny, models, drafters=())).token_ids
    assert "model" not in done.stats.drafted


def test_memory_that_others_need_is_not_taken(tiny, tiny_draft, models, monkeypatch):
    """Too little free memory is said before weights are read (B33); without room for the draft, lookup serves."""
    config = EngineConfig(target=str(tiny), draft=str(tiny_draft), dtype="int8")
    load_models(config, quietly, models)  # prepared, so that all that is needed is the copy in memory
    free = psutil.virtual_memory()
    sizes = iter([2**40, 2**40, 1000])  # the choice of a profile, the target, the draft
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free._replace(available=next(sizes)))
    loaded = load_models(config, quietly, models)
    assert loaded.draft is None
    assert "no draft model, prompt lookup alone" in loaded.notes[0]
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free._replace(available=1000))
    with pytest.raises(OutOfMemory, match=r"GiB of memory and 0\.0 are free; close") as raised:
        load_models(config, quietly, models)
    assert one_sentence(str(raised.value))


def test_a_draft_of_another_vocabulary_is_not_used(tiny, models, tmp_path):
    """A draft whose tokens mean something else is said once, with the first difference, and lookup serves alone."""
    spec = make_tokenizer()
    spec["added_tokens"][1]["content"] = "<|other|>"
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    make_model(stranger, tokenizer=spec)
    engine = make_engine(tiny, models, draft=str(stranger))
    (note,) = [note for note in engine.notes if "prompt lookup alone" in note]
    assert "'<|fim_prefix|>' in one and '<|other|>' in the other" in note
    assert ask(engine).token_ids == ask(make_engine(tiny, models, drafters=())).token_ids


def test_a_draft_padded_to_another_size_is_fine(tiny, models, tmp_path):
    """Vocabularies that differ only in padding go together, and the text stays the target's."""
    padded = tmp_path / "padded"
    padded.mkdir()
    spec = json.loads((tiny / "tokenizer.json").read_text())
    make_model(padded, seed=3, tokenizer=spec, vocab_size=700, num_hidden_layers=1)
    engine = make_engine(tiny, models, EagerPlanner(), draft=str(padded))
    assert engine.notes == []
    done = ask(engine)
    assert done.stats.drafted.get("model")
    assert done.token_ids == ask(make_engine(tiny, models, drafters=())).token_ids


def test_a_draft_is_loaded_only_when_asked_for(tiny, tiny_draft, models):
    """Without the model drafter, or with an empty name, the draft is not even opened."""
    for settings in ({"drafters": ("lookup",), "draft": str(tiny_draft)}, {"draft": ""}, {}):
        loaded = load_models(EngineConfig(target=str(tiny), **settings), quietly, models)
        assert loaded.draft is None
        assert loaded.notes == ()
    loaded = load_models(EngineConfig(target=str(tiny), draft=str(tiny_draft)), quietly, models)
    assert loaded.draft is not None
    assert loaded.load_ms > 0


# Other families


def _gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(vocab_size=640, n_embd=64, n_layer=2, n_head=4, n_positions=1024))


def _starcoder2():
    from transformers import Starcoder2Config, Starcoder2ForCausalLM

    return Starcoder2ForCausalLM(Starcoder2Config(**SIZES, sliding_window=None))


@pytest.mark.parametrize("make", [_gpt2, _starcoder2])
def test_another_family_runs_in_bfloat16(tiny, models, tmp_path, make):
    """int8 is refused by name; left to itself the model runs in bfloat16 and a note says what that means."""
    folder = save(make(), tmp_path / "other", tiny)
    with pytest.raises(ModelLoadError, match=r"cannot run in int8 \(model type .*\); set dtype to bfloat16 or float32"):
        load(str(folder), "int8", models, quietly)
    engine = make_engine(folder, models)
    assert engine._target.network.module.dtype == torch.bfloat16
    assert sum("transformers' modules" in note for note in engine.notes) == 1
    assert ask(engine).token_ids
    assert ask(make_engine(folder, models, dtype="float32")).token_ids

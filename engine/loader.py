"""From the name of a model to a network ready to run and its tokenizer.

A name is a file of the catalogue, a GGUF file, a folder, or a hub id. What is slow to read is converted once into a
prepared folder beside the models: tokenizer, configuration, end tokens, and weights as int8 or bf16 safetensors. What
runs on a card is read from safetensors matrix by matrix. Only safetensors and GGUF are read, and no code from a model
folder ever runs.
"""

from __future__ import annotations

import glob
import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock
from safetensors.torch import save_file

from engine import prepare
from engine.catalog import GIB
from engine.codecs import choose_codec
from engine.config import Dtype
from engine.core import LoadStep
from engine.errors import EngineError, ModelLoadError, OutOfMemory, is_out_of_memory
from engine.gguf_codes import GgufCodes
from engine.gpu.build import folder_model
from engine.gpu.placing import Placing
from engine.gpu.shape import ModelShape
from engine.hf_reader import close_reader, end_ids, plain_config, read_module, transformers_module
from engine.kept_files import is_whole, kept_json, replacing, write_text
from engine.kernels import find
from engine.model import ForwardModel
from engine.model_source import Source, find_source
from engine.tokenizer import CodeTokenizer

log = logging.getLogger(__name__)

CONVERTING = 4  # a conversion's memory, in sizes of a four-bit file: it holds the weights in 16 and in 8 bits

Report = Callable[[LoadStep], None]
"""Told in a few words what is going on; loading a model for the first time takes a minute."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A network, its vocabulary, the ids that end a text, and plain words about anything unusual.

    `prepared` is the folder that keeps what was once computed for this model.
    """

    name: str
    network: ForwardModel
    tokenizer: CodeTokenizer
    ends: frozenset[int]
    notes: tuple[str, ...] = ()
    prepared: Path | None = None


def load(
    name: str, dtype: Dtype, models: Path, report: Report, drafts: bool = False, placing: Placing | None = None
) -> LoadedModel:
    """Load a model by name, on a card if `placing` says how, in whose weight format it then is.

    Elsewhere `dtype` auto is int8 where the family allows it and bfloat16 where not. A model that `drafts` may leave
    out ids which code hardly uses.
    """
    if placing is None and dtype in ("int8", "auto"):
        find.begin()
    with _loading(name, models, report, drafts) as loading:
        return loading.load(dtype) if placing is None else loading.load_on_card(placing)


def survey(name: str, models: Path, report: Report) -> ModelShape | None:
    """Find out a model's sizes without loading it; None when only transformers' own modules can run it."""
    with _loading(name, models, report) as loading:
        return loading.shape()


@contextmanager
def _loading(name: str, models: Path, report: Report, drafts: bool = False) -> Iterator[_Loading]:
    source = find_source(name, models)
    with _explained(source):
        prepared = _prepared_folder(source, models)
        with FileLock(prepared / "lock"):  # two windows must not convert the same model at once
            _clear_older(prepared, source)
            try:
                yield _Loading(name, source, prepared, report, drafts)
            finally:
                close_reader()


@contextmanager
def _explained(source: Source) -> Iterator[None]:
    """Turn whatever a library raises into one sentence that names the file."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise OutOfMemory(f"{source.path} does not fit into memory; choose a smaller profile or model") from error
        reason = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
        raise ModelLoadError(
            f"{source.path} could not be read as a causal language model ({reason}); fetch it again or name another"
        ) from error


def _prepared_folder(source: Source, models: Path) -> Path:
    stamp = hashlib.sha256()
    for file in source.files:
        status = file.stat()
        stamp.update(f"{file}|{status.st_size}|{status.st_mtime_ns}\n".encode())
    name = source.path.stem if source.gguf else source.path.name  # a folder's "-1.5B" is no suffix
    folder = models.parent / "prepared" / f"{name}-{stamp.hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _clear_older(folder: Path, source: Source) -> None:
    """Delete what was prepared from the same file when it was another one: up to gigabytes. Once for each folder."""
    mark = folder / "source.txt"
    if mark.is_file():
        return
    write_text(mark, str(source.path))
    name = folder.name.rpartition("-")[0]
    for other in folder.parent.glob(f"{glob.escape(name)}-*/{mark.name}"):
        with suppress(OSError):  # another window may be at it, too
            if other != mark and other.read_text(encoding="utf-8") == str(source.path):
                shutil.rmtree(other.parent, ignore_errors=True)


class _Loading:
    """One model on its way into memory."""

    def __init__(self, name: str, source: Source, prepared: Path, report: Report, drafts: bool = False) -> None:
        self._name, self._source, self._prepared, self._report = name, source, prepared, report
        self._drafts = drafts
        self._kept = prepared / "draft" if drafts else prepared  # weights and costs are others in this part
        self._kept.mkdir(exist_ok=True)

    def load(self, dtype: Dtype) -> LoadedModel:
        facts = self._facts()
        obstacle = facts["obstacle"]
        notes: tuple[str, ...] = ()
        if dtype == "int8" and obstacle:
            raise ModelLoadError(
                f"{self._source.path} cannot run in int8 ({obstacle}); set dtype to bfloat16 or float32"
            )
        tokenizer = self._tokenizer()
        ends = tokenizer.controls | frozenset(facts["ends"])
        if dtype == "int8" or (dtype == "auto" and not obstacle):
            network = self._int8(ends)
        else:
            network = self._transformers("bfloat16" if dtype == "auto" else dtype)
            network.forward([0], network.new_cache(), 1)  # what cannot run is said now, not at the first keystroke
            notes = (
                f"{self._name} runs in transformers' modules: where logits nearly tie, drafts may change its text",
            )
        return LoadedModel(self._name, network, tokenizer, ends, notes, self._kept)

    def load_on_card(self, placing: Placing) -> LoadedModel:
        """Load for a card; what its costs depend on is in the name of the folder that keeps them."""
        shape, tokenizer = self.shape(), self._tokenizer()
        ends = tokenizer.controls | frozenset(self._facts()["ends"])
        if shape is None:
            network = self._transformers(placing.dtype, placing.device)
            network.forward([0], network.new_cache(), 1)
            how = "in transformers' modules"
        else:
            network = self._lean_on_card(shape, placing, tokenizer.size)
            how = "on a card"
        notes = (f"{self._name} runs {how}: where logits nearly tie, drafts may change its text",)
        kept = self._prepared / placing.label
        kept.mkdir(exist_ok=True)
        return LoadedModel(self._name, network, tokenizer, ends, () if network.row_exact else notes, kept)

    def shape(self) -> ModelShape | None:
        """Return the sizes, kept like the facts."""

        def read() -> str:
            config = transformers_module().AutoConfig.from_pretrained(**self._source.options)
            quantised = not self._source.gguf and getattr(config, "quantization_config", None) is not None
            known = not quantised and not prepare.lean_obstacle(config)
            return json.dumps(asdict(ModelShape.from_config(config)) if known else {})

        sizes = kept_json(self._prepared / f"shape-{prepare.FORMAT}.json", read)
        return ModelShape(**sizes | {"inv_freq": tuple(sizes["inv_freq"])}) if sizes else None

    def _lean_on_card(self, shape: ModelShape, placing: Placing, tokens: int) -> ForwardModel:
        folder = self._bf16_folder() if self._source.gguf else self._source.folder
        options = replace(placing.options, tokens=tokens)

        def progress(done: float) -> None:
            self._say(f"loading {self._name}", done)

        progress(0.0)
        return folder_model(folder, shape, placing.dtype, placing.device, options, placing.host_embedding, progress)

    def _say(self, text: str, done: float | None = None) -> None:
        self._report(LoadStep(text, done))

    def _facts(self) -> dict[str, Any]:
        """What the configuration says, kept so that a later start need not import transformers (4 s) to know it."""

        def read() -> str:
            config = transformers_module().AutoConfig.from_pretrained(**self._source.options)
            write_text(self._prepared / "config.json", json.dumps(plain_config(config)))
            return json.dumps({"obstacle": prepare.lean_obstacle(config), "ends": end_ids(self._source, config)})

        return kept_json(self._prepared / f"facts-{prepare.FORMAT}.json", read)

    def _tokenizer(self) -> CodeTokenizer:
        own = self._source.folder / "tokenizer.json"
        if not self._source.gguf and own.is_file():
            return _own_tokenizer(own)
        kept = self._prepared / "tokenizer.json"

        def convert() -> str:
            self._say(f"reading the tokenizer of {self._name}")
            fast = transformers_module().AutoTokenizer.from_pretrained(**self._source.options)
            text: str = fast.backend_tokenizer.to_str()
            return text

        with suppress(OSError, ValueError):
            return _tokenizer_of(kept.read_text(encoding="utf-8"))
        text = convert()
        write_text(kept, text)
        return _tokenizer_of(text)

    def _int8(self, ends: frozenset[int]) -> ForwardModel:
        codec = choose_codec(self._drafts)
        path = self._kept / f"{codec.name}.safetensors"
        if not prepare.is_current(path, codec):
            self._say(
                f"converting {self._name} {'to draft with' if self._drafts else 'to int8'}, once (about a minute)"
            )
            self._require_memory(CONVERTING * sum(file.stat().st_size for file in self._source.files))
            model = read_module(self._source, "bfloat16")
            with replacing(path) as partial:
                prepare.prepare(model, codec, partial, self._gguf_codes(), self._drafts)
            for other in set(self._prepared.rglob("int*-*.safetensors")) - {path}:
                if other.parent == path.parent or not prepare.is_current(other):
                    with suppress(OSError):  # where it is in use it stays
                        other.unlink()  # what another version made takes gigabytes
        self._require_memory(path.stat().st_size)

        def progress(done: float) -> None:
            self._say(f"loading {self._name}", done)

        return prepare.read_lean(path, codec, progress, ends if self._drafts else None)

    def _gguf_codes(self) -> GgufCodes | None:
        return GgufCodes(self._source.path) if self._source.gguf else None

    def _require_memory(self, needed: float) -> None:
        """Refuse to begin what would push other programs, or another window's engine, out of memory."""
        free = psutil.virtual_memory().available
        if needed > free:
            raise OutOfMemory(
                f"{self._name} needs about {needed / GIB:.1f} GiB of memory and {free / GIB:.1f} are free; close what "
                "takes it, such as another editor's engine, or choose a smaller profile"
            )

    def _transformers(self, dtype: Dtype, device: str = "cpu") -> ForwardModel:
        from engine.hf_forward import HfModel

        if self._source.gguf and dtype != "nf4":
            own = Source(self._bf16_folder())
            self._say(f"loading {self._name}")
            return HfModel(read_module(own, dtype, device))
        self._say(f"loading {self._name}")
        return HfModel(read_module(self._source, dtype, device))

    def _bf16_folder(self) -> Path:
        """Return a folder with a GGUF's weights as safetensors, converted once."""
        folder = self._prepared / "bf16"
        weights = folder / "model.safetensors"
        if not is_whole(weights):
            self._say(f"converting {self._name}, once (about a minute)")
            folder.mkdir(exist_ok=True)
            state = read_module(self._source, "bfloat16").state_dict()
            write_text(folder / "config.json", (self._prepared / "config.json").read_text(encoding="utf-8"))
            with replacing(weights) as partial:
                save_file({k: v.contiguous().clone() for k, v in state.items()}, partial, {"format": "pt"})
        return folder


@lru_cache(maxsize=1)
def _tokenizer_of(text: str) -> CodeTokenizer:
    """Make a tokenizer of a file's text: a draft model mostly has its target's, and making one takes two seconds."""
    return CodeTokenizer(json.loads(text))


def _own_tokenizer(path: Path) -> CodeTokenizer:
    try:
        return _tokenizer_of(path.read_text(encoding="utf-8"))
    except Exception as error:  # the tokenizers library raises Exception itself
        raise ModelLoadError(f"{path} is no tokenizer that can be read ({error}); fetch it again") from error

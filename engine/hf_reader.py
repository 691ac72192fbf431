"""What transformers reads for us: a configuration, a tokenizer, and a network with all of its weights.

Importing this file is cheap; transformers takes seconds to import and is, when something has to be read.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from functools import lru_cache
from typing import Any

import torch

from engine.config import Dtype
from engine.errors import ConfigError, ModelLoadError
from engine.gpu.linears import require_bitsandbytes
from engine.model_source import Source


def read_module(source: Source, dtype: Dtype, device: str = "cpu") -> Any:  # noqa: ANN401  (transformers is untyped)
    """Read a causal language model with its weights; raises ModelLoadError when some are missing."""
    transformers = transformers_module()
    options = source.options | {"use_safetensors": True if not source.gguf else None}
    if dtype == "nf4":
        options["quantization_config"] = _nf4(transformers, device)
    elif source.gguf and hasattr(transformers, "GgufConfig"):
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    kind = torch.float32 if dtype == "float32" else torch.bfloat16
    if device != "cpu":
        options["device_map"] = {"": device}
    model, found = transformers.AutoModelForCausalLM.from_pretrained(**options, dtype=kind, output_loading_info=True)
    if lacking := sorted(found["missing_keys"]):  # the library would go on with random numbers
        raise ModelLoadError(
            f"{source.path} lacks {len(lacking)} of its model's weights ({lacking[0]}); fetch it again"
        )
    return model


def end_ids(source: Source, config: Any) -> list[int]:  # noqa: ANN401  (transformers is untyped)
    """All ids the model's files call an end; its sampling defaults are deliberately not read."""
    ends = [config.eos_token_id]
    generation = source.folder / "generation_config.json"
    if not source.gguf and generation.is_file():
        ends.append(json.loads(generation.read_text(encoding="utf-8")).get("eos_token_id"))
    flat = [i for end in ends for i in (end if isinstance(end, list) else [end])]
    return [i for i in flat if i is not None]


def _nf4(transformers: Any, device: str) -> Any:  # noqa: ANN401  (transformers is untyped)
    if device == "cpu":
        raise ConfigError("dtype nf4 needs a CUDA device and none is used; choose profile cpu or dtype int8")
    require_bitsandbytes("nf4")
    # The compute type defaults to float32, for which bitsandbytes has no 4-bit tensor-core kernel.
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )


def transformers_module() -> Any:  # noqa: ANN401  (transformers is untyped)
    """Import transformers and keep it from writing to the terminal."""
    import transformers

    with suppress(ImportError):  # no public place
        from transformers import modeling_gguf_pytorch_utils

        # Reading a GGUF draws a bar that cannot be switched off: tqdm reads its settings when torch imports it.
        modeling_gguf_pytorch_utils.tqdm = lambda tensors, **_: tensors
    _share_reader()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def _share_reader() -> None:
    """Let one reader serve all who read a GGUF file: its 300,000 words take 14 s, and transformers asks four times."""
    import gguf

    if not hasattr(gguf.GGUFReader, "cache_clear"):
        gguf.GGUFReader = lru_cache(maxsize=1)(gguf.GGUFReader)


def close_reader() -> None:
    """Let go of the file that was read last."""
    reader = getattr(sys.modules.get("gguf"), "GGUFReader", None)
    if reader is not None and hasattr(reader, "cache_clear"):
        reader.cache_clear()


def plain_config(config: Any) -> dict[str, Any]:  # noqa: ANN401  (transformers is untyped)
    """Return a configuration as JSON values, as a folder of converted weights keeps it."""
    values = json.loads(config.to_json_string(use_diff=False))
    values.pop("quantization_config", None)  # describes the GGUF file, not the converted weights
    return {key: value for key, value in values.items() if value is not None}

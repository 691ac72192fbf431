"""From a transformers model of the Llama family to prepared int8 weights, and from those to a LeanModel.

Prepared weights are one safetensors file: int8 codes and scales of fused linears, norms, the embedding, the rotation
frequencies, and the sizes as metadata. Reading it takes seconds where converting a GGUF takes a minute.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.cpu_forward import LeanLayer, LeanModel, LeanShape
from engine.cut_head import COMMON, CutHeadModel
from engine.int8_linear import ACTIVATION_LEVELS, Backend, Linear, quantise_weight

FORMAT = "1"  # raise it when the file's meaning or `lean_obstacle` changes: what is older is then prepared anew
FAMILY = ("qwen2", "llama", "mistral")
LINEARS = ("qkv", "out", "gate_up", "down")
SUPPORTED_ROPE = ("default", "linear", "llama3")


def lean_obstacle(config: Any) -> str | None:  # noqa: ANN401  (transformers configurations are untyped)
    """Say what keeps a transformers configuration from the lean forward, or None."""
    if config.model_type not in FAMILY:
        return f"model type {config.model_type}"
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if getattr(config, "hidden_act", "silu") != "silu":
        return f"activation {config.hidden_act}"
    if any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or ()):
        return "sliding-window layers"
    if config.model_type == "mistral" and getattr(config, "sliding_window", None):
        return "a sliding window"
    if rope not in SUPPORTED_ROPE:
        return f"rope type {rope}"
    if getattr(config, "mlp_bias", False):
        return "biases in the MLP"
    if config.model_type != "qwen2" and getattr(config, "attention_bias", False):
        return "a bias on the attention output"
    if config.hidden_size % 32 or config.intermediate_size % 32 or head_dim % 16:
        return "widths that are no multiple of 32"
    return None


@torch.inference_mode()
def prepare(model: nn.Module, backend: Backend, path: Path) -> None:
    """Quantise a transformers causal model and write it to `path`."""
    config: Any = model.config
    shape = LeanShape(**sizes_of(config))
    state = model.state_dict()
    tensors = {"embedding": state["model.embed_tokens.weight"].to(torch.bfloat16)}
    tensors["final_norm"] = state["model.norm.weight"].float()
    rotary: Any = model.get_submodule("model.rotary_emb")
    tensors["inv_freq"] = rotary.inv_freq.float()
    head = state.get("lm_head.weight", state["model.embed_tokens.weight"])
    tensors["head.codes"], tensors["head.scale"] = quantise_weight(head, backend.levels)
    for index in range(shape.layers):
        tensors.update(_prepare_layer(state, f"model.layers.{index}.", f"layers.{index}.", shape, backend))
    metadata = {
        "format": FORMAT,
        "levels": str(backend.levels),
        "shape": json.dumps(asdict(shape)),
        "rope_scaling": str(float(getattr(rotary, "attention_scaling", 1.0))),
    }
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata)


def sizes_of(config: Any) -> dict[str, Any]:  # noqa: ANN401  (transformers is untyped)
    """Return the sizes in a configuration that `lean_obstacle` lets pass, by the names that shapes have for them."""
    return {
        "layers": config.num_hidden_layers,
        "hidden": config.hidden_size,
        "intermediate": config.intermediate_size,
        "heads": config.num_attention_heads,
        "kv_heads": config.num_key_value_heads,
        "head_dim": getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        "vocab": config.vocab_size,
        "eps": config.rms_norm_eps,
        "max_length": config.max_position_embeddings,
    }


def _prepare_layer(
    state: dict[str, Tensor], source: str, target: str, shape: LeanShape, backend: Backend
) -> Iterator[tuple[str, Tensor]]:
    def read(name: str) -> Tensor:
        return state[source + name].float()

    rotated = [
        _interleave(read(f"self_attn.{name}_proj.weight"), count, shape.head_dim)
        for name, count in (("q", shape.heads), ("k", shape.kv_heads))
    ]
    fused = {
        "qkv": torch.cat([*rotated, read("self_attn.v_proj.weight")]),
        "out": read("self_attn.o_proj.weight"),
        "gate_up": torch.cat([read("mlp.gate_proj.weight"), read("mlp.up_proj.weight")]),
        "down": read("mlp.down_proj.weight"),
    }
    for name, weight in fused.items():
        codes, scale = quantise_weight(weight, backend.levels)
        yield f"{target}{name}.codes", codes
        yield f"{target}{name}.scale", scale
    yield target + "qkv_bias", _fused_bias(state, source, shape)
    yield target + "input_norm", read("input_layernorm.weight")
    yield target + "post_norm", read("post_attention_layernorm.weight")


def _fused_bias(state: dict[str, Tensor], source: str, shape: LeanShape) -> Tensor:
    parts = []
    for name, heads in (("q", shape.heads), ("k", shape.kv_heads), ("v", shape.kv_heads)):
        bias = state.get(f"{source}self_attn.{name}_proj.bias")
        flat = torch.zeros(heads * shape.head_dim) if bias is None else bias.float()
        parts.append(flat if name == "v" else _interleave(flat[:, None], heads, shape.head_dim)[:, 0])
    return torch.cat(parts)


def _interleave(weight: Tensor, heads: int, head_dim: int) -> Tensor:
    """Reorder rows [heads head_dim, in] so that the two halves RoPE pairs up come to stand side by side."""
    halves = weight.view(heads, 2, head_dim // 2, -1)
    return halves.transpose(1, 2).reshape(heads * head_dim, -1)


def is_current(path: Path, backend: Backend) -> bool:
    """Whether `path` holds prepared weights that this code and this processor can use."""
    if not path.is_file():
        return False
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            return metadata["format"] == FORMAT and int(metadata["levels"]) <= backend.levels
    except Exception:  # cut off, of another make, or no such file at all
        return False


def read_lean(
    path: Path,
    backend: Backend,
    progress: Callable[[float], None] = lambda _: None,
    ends: Collection[int] | None = None,
) -> LeanModel:
    """Pack the prepared weights of `path` for the forward pass; `progress` hears how far it is, 0 to 1.

    With `ends`, the ids that end a text, it becomes a draft model whose head is cut to common ids, those it has read,
    and these.
    """
    with safe_open(path, "pt") as file, ThreadPoolExecutor(torch.get_num_threads()) as pool:
        metadata = file.metadata()
        shape = LeanShape(**json.loads(metadata["shape"]))
        cut = ends is not None and shape.vocab > COMMON

        def linear(name: str, rows: int | None = None) -> Future[Linear]:
            scale = file.get_tensor(f"{name}.scale")[:rows] / ACTIVATION_LEVELS
            if name.endswith(".qkv"):
                _scale_queries(scale, shape)
            return pool.submit(backend.pack, file.get_tensor(f"{name}.codes")[:rows], scale)

        parts = [[linear(f"layers.{index}.{name}") for name in LINEARS] for index in range(shape.layers)]
        head = linear("head", COMMON if cut else None)
        layers = []
        for index, part in enumerate(parts):
            progress(index / shape.layers)
            layers.append(_layer(file, f"layers.{index}.", part, shape))
        rope = _rope(file.get_tensor("inv_freq"), shape.max_length, float(metadata["rope_scaling"]))
        embedding, final_norm = file.get_tensor("embedding"), file.get_tensor("final_norm")
        if not cut:
            return LeanModel(shape, embedding, layers, final_norm, head.result(), rope)
        whole = file.get_tensor("head.codes"), file.get_tensor("head.scale")
        return CutHeadModel(shape, embedding, layers, final_norm, head.result(), rope, *whole, sorted(ends or ()))


def _scale_queries(rows: Tensor, shape: LeanShape) -> None:
    """Put the softmax's scale into the queries' part of a fused scale or bias, in place."""
    rows[: shape.heads * shape.head_dim] *= shape.head_dim**-0.5


def _layer(
    file: Any,  # noqa: ANN401  (safetensors is untyped)
    at: str,
    parts: Sequence[Future[Linear]],
    shape: LeanShape,
) -> LeanLayer:
    bias = file.get_tensor(at + "qkv_bias")
    _scale_queries(bias, shape)
    qkv, out, gate_up, down = (part.result() for part in parts)
    return LeanLayer(
        input_norm=file.get_tensor(at + "input_norm"),
        qkv=qkv,
        qkv_bias=bias,
        out=out,
        post_norm=file.get_tensor(at + "post_norm"),
        gate_up=gate_up,
        down=down,
    )


def _rope(inv_freq: Tensor, length: int, scaling: float) -> Tensor:
    angles = torch.outer(torch.arange(length, dtype=torch.float32), inv_freq)
    return torch.polar(torch.full_like(angles, scaling), angles)

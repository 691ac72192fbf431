"""From a transformers model of the Llama family to prepared integer weights, and from those to a LeanModel.

Prepared weights are one safetensors file: the codes of fused linears as a codec wants them, norms, the embedding, the
rotation frequencies, and the sizes as metadata. Reading it takes seconds where converting a GGUF takes a minute.
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

from engine.codecs import Codec, Piece
from engine.cpu_forward import LeanModel
from engine.cut_head import COMMON, CutHeadModel
from engine.gguf_codes import GgufCodes
from engine.int8_linear import quantise_weight
from engine.layers import LeanLayer, Linear
from engine.lean_shape import LeanShape

FORMAT = "4"  # raise it when the file's meaning or `lean_obstacle` changes: what is older is then prepared anew
FAMILY = ("qwen2", "llama", "mistral")
LINEARS = ("qkv", "out", "gate_up", "down")
SUPPORTED_ROPE = ("default", "linear", "llama3")
HEAD_LEVELS = 127  # of the codes by which a draft model scores its rare ids


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
    attended = config.num_attention_heads * head_dim
    if any(width % 64 for width in (config.hidden_size, config.intermediate_size, attended)) or head_dim % 16:
        return "widths that are no multiple of 64"
    return None


@torch.inference_mode()
def prepare(model: nn.Module, codec: Codec, path: Path, gguf: GgufCodes | None = None, drafts: bool = False) -> None:
    """Encode a transformers causal model and write it to `path`; codes a GGUF file has already are taken over.

    One that `drafts` keeps its head a second time, so that its rare ids can be scored one by one.
    """
    config: Any = model.config
    shape = LeanShape(**sizes_of(config))
    state = model.state_dict()
    tensors = {"embedding": state["model.embed_tokens.weight"].to(torch.bfloat16)}
    tensors["final_norm"] = state["model.norm.weight"].float()
    rotary: Any = model.get_submodule("model.rotary_emb")
    tensors["inv_freq"] = rotary.inv_freq.float()
    head = state.get("lm_head.weight", state["model.embed_tokens.weight"])
    if drafts and shape.vocab > COMMON:
        tensors["rare.codes"], tensors["rare.scale"] = quantise_weight(head, HEAD_LEVELS)
    found = gguf or GgufCodes()
    tensors |= codec.encode("head", [Piece(head, found.of("output.weight"))])
    for index in range(shape.layers):
        at = f"layers.{index}."
        tensors.update(_floats(state, index, at, shape))
        for name, pieces in _pieces(state, index, shape, found).items():
            tensors |= codec.encode(at + name, pieces)
    metadata = {
        "format": FORMAT,
        "codec": codec.name,
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


def _pieces(state: dict[str, Tensor], index: int, shape: LeanShape, gguf: GgufCodes) -> dict[str, list[Piece]]:
    """Return what each fused linear of a layer is put together from; the softmax's scale is in the queries."""

    def piece(name: str, short: str, factor: float = 1.0, heads: int = 0) -> Piece:
        weight = state[f"model.layers.{index}.{name}_proj.weight"].float()
        order = _interleaved(heads, shape.head_dim) if heads else torch.arange(len(weight))
        codes = gguf.of(f"blk.{index}.{short}.weight")
        return Piece(weight[order], codes.rows(order.numpy()) if codes else None, factor)

    return {
        "qkv": [
            piece("self_attn.q", "attn_q", shape.head_dim**-0.5, shape.heads),
            piece("self_attn.k", "attn_k", heads=shape.kv_heads),
            piece("self_attn.v", "attn_v"),
        ],
        "out": [piece("self_attn.o", "attn_output")],
        "gate_up": [piece("mlp.gate", "ffn_gate"), piece("mlp.up", "ffn_up")],
        "down": [piece("mlp.down", "ffn_down")],
    }


def _floats(state: dict[str, Tensor], index: int, target: str, shape: LeanShape) -> Iterator[tuple[str, Tensor]]:
    source = f"model.layers.{index}."
    yield target + "qkv_bias", _fused_bias(state, source, shape)
    yield target + "input_norm", state[source + "input_layernorm.weight"].float()
    yield target + "post_norm", state[source + "post_attention_layernorm.weight"].float()


def _fused_bias(state: dict[str, Tensor], source: str, shape: LeanShape) -> Tensor:
    parts = []
    for name, heads in (("q", shape.heads), ("k", shape.kv_heads), ("v", shape.kv_heads)):
        bias = state.get(f"{source}self_attn.{name}_proj.bias")
        flat = torch.zeros(heads * shape.head_dim) if bias is None else bias.float()
        parts.append(flat if name == "v" else flat[_interleaved(heads, shape.head_dim)])
    parts[0] = parts[0] * shape.head_dim**-0.5
    return torch.cat(parts)


def _interleaved(heads: int, head_dim: int) -> Tensor:
    """Return the order of rows in which the two halves of a head that RoPE pairs up stand side by side."""
    return torch.arange(heads * head_dim).view(heads, 2, head_dim // 2).transpose(1, 2).flatten()


def is_current(path: Path, codec: Codec | None = None) -> bool:
    """Whether `path` holds prepared weights that this code can use, and this processor with `codec`."""
    if not path.is_file():
        return False
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            return metadata["format"] == FORMAT and (codec is None or codec.reads(metadata["codec"]))
    except Exception:  # cut off, of another make, or no such file at all
        return False


def read_lean(
    path: Path,
    codec: Codec,
    progress: Callable[[float], None] = lambda _: None,
    ends: Collection[int] | None = None,
) -> LeanModel:
    """Bring the prepared weights of `path` into memory for the forward pass; `progress` hears how far it is, 0 to 1.

    With `ends`, the ids that end a text, it becomes a draft model whose head is cut to common ids, those it has read,
    and these.
    """
    with safe_open(path, "pt") as file, ThreadPoolExecutor(torch.get_num_threads()) as pool:
        metadata = file.metadata()
        shape = LeanShape(**json.loads(metadata["shape"]))
        cut = ends is not None and shape.vocab > COMMON

        def linear(name: str, rows: int | None = None) -> Future[Linear]:
            return pool.submit(codec.decode, name, file.get_tensor, rows)

        parts = [[linear(f"layers.{index}.{name}") for name in LINEARS] for index in range(shape.layers)]
        head = linear("head", COMMON if cut else None)
        layers = []
        for index, part in enumerate(parts):
            progress(index / shape.layers)
            layers.append(_layer(file, f"layers.{index}.", part))
        rope = _rope(file.get_tensor("inv_freq"), shape.max_length, float(metadata["rope_scaling"]))
        arithmetic = codec.arithmetic(shape.eps)
        embedding, final_norm = file.get_tensor("embedding"), file.get_tensor("final_norm")
        if not cut:
            return LeanModel(shape, embedding, layers, final_norm, head.result(), rope, arithmetic)
        whole = file.get_tensor("rare.codes"), file.get_tensor("rare.scale")
        return CutHeadModel(
            shape, embedding, layers, final_norm, head.result(), rope, arithmetic, *whole, sorted(ends or ())
        )


def _layer(file: Any, at: str, parts: Sequence[Future[Linear]]) -> LeanLayer:  # noqa: ANN401  (safetensors is untyped)
    qkv, out, gate_up, down = (part.result() for part in parts)
    return LeanLayer(
        input_norm=file.get_tensor(at + "input_norm"),
        qkv=qkv,
        qkv_bias=file.get_tensor(at + "qkv_bias"),
        out=out,
        post_norm=file.get_tensor(at + "post_norm"),
        gate_up=gate_up,
        down=down,
    )


def _rope(inv_freq: Tensor, length: int, scaling: float) -> Tensor:
    angles = torch.outer(torch.arange(length, dtype=torch.float32), inv_freq)
    return torch.polar(torch.full_like(angles, scaling), angles)

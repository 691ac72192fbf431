"""A model on the card from weights: matrix by matrix, so that no more than one is ever there unquantised."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from engine.gpu.kernels import Kernels, choose_kernels
from engine.gpu.linears import FloatLinear, GpuDtype, MakeLinear, compute_dtype, linear_maker
from engine.gpu.model import GpuModel, GpuOptions
from engine.gpu.network import Layer, Network
from engine.gpu.shape import ATTENTION, MLP, ModelShape
from engine.gpu.weights import FolderWeights, RandomWeights, WeightSource

Progress = Callable[[float], None]


def folder_model(
    folder: Path,
    shape: ModelShape,
    dtype: GpuDtype,
    device: str,
    options: GpuOptions,
    host_embedding: bool = False,
    progress: Progress = lambda _: None,
) -> GpuModel:
    """Load the safetensors of a model folder; `progress` hears how far it is, 0 to 1."""
    place = torch.device(device)
    with FolderWeights(folder, shape, place, compute_dtype(dtype)) as source:
        return _model(shape, source, dtype, place, options, host_embedding, progress)


def random_model(
    shape: ModelShape, dtype: GpuDtype, device: str, options: GpuOptions | None = None, seed: int = 0
) -> GpuModel:
    """Make a model of random weights on the device: as fast as a real one, and nothing to fetch."""
    place = torch.device(device)
    source = RandomWeights(shape, place, compute_dtype(dtype), seed)
    return _model(shape, source, dtype, place, options or GpuOptions(), host_embedding=False, progress=lambda _: None)


@torch.inference_mode()
def _model(
    shape: ModelShape,
    source: WeightSource,
    dtype: GpuDtype,
    device: torch.device,
    options: GpuOptions,
    host_embedding: bool,
    progress: Progress,
) -> GpuModel:
    kernels = choose_kernels(options.kernels, device, compute_dtype(dtype), shape.head_dim)
    network = build_network(shape, source, linear_maker(dtype), kernels, host_embedding, progress)
    if device.type == "cuda":
        torch.cuda.empty_cache()  # what quantising took
    model = GpuModel(network, options)
    model.settle()
    return model


def build_network(
    shape: ModelShape,
    source: WeightSource,
    make: MakeLinear,
    kernels: Kernels,
    host_embedding: bool = False,
    progress: Progress = lambda _: None,
) -> Network:
    """Read and fuse all weights; the head stays in the type passes are computed in."""
    embedding = source.get("model.embed_tokens.weight")
    head = embedding if shape.tied else source.get("lm_head.weight")
    outside = host_embedding and not shape.tied
    if outside:  # before the card fills up
        embedding = embedding.cpu()
    layers = []
    for index in range(shape.layers):
        layers.append(_layer(shape, source, make, index))
        progress((index + 1) / (shape.layers + 1))
    norm = source.get("model.norm.weight")
    return Network(shape, embedding, layers, norm, FloatLinear(head), kernels, outside)


def _layer(shape: ModelShape, source: WeightSource, make: MakeLinear, index: int) -> Layer:
    attention, mlp = ATTENTION.format(index), MLP.format(index)

    def joined(at: str, names: str, kind: str = "weight") -> Tensor:
        return torch.cat([source.get(f"{at}{name}_proj.{kind}") for name in names.split()])

    bias = joined(attention, "q k v", "bias") if shape.qkv_bias else None
    return Layer(
        input_norm=source.get(f"model.layers.{index}.input_layernorm.weight"),
        qkv=make(joined(attention, "q k v"), bias),
        out=make(source.get(f"{attention}o_proj.weight"), None),
        post_norm=source.get(f"model.layers.{index}.post_attention_layernorm.weight"),
        gate_up=make(joined(mlp, "gate up"), None),
        down=make(source.get(f"{mlp}down_proj.weight"), None),
    )

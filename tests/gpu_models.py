"""Random models for the card's code, small enough for a CPU: the same weights here and in transformers' modules."""

from __future__ import annotations

from dataclasses import replace

import torch

from engine.gpu.build import build_network
from engine.gpu.kernels import TORCH
from engine.gpu.linears import compute_dtype, linear_maker
from engine.gpu.model import GpuModel, GpuOptions
from engine.gpu.shape import ModelShape
from tests.tiny_models import causal, qwen2

STEPS = (1, 2, 4, 8)  # sizes of passes: small, so that padding and long passes both happen
OPTIONS = GpuOptions(rows=STEPS, capacity=256)


class StateWeights:
    """The weights of a transformers module."""

    def __init__(self, module, dtype: torch.dtype, device: str = "cpu") -> None:
        self._state, self._dtype, self._device = module.state_dict(), dtype, device

    def get(self, name: str) -> torch.Tensor:
        return self._state[name].to(self._device, self._dtype)


def module_of(config=None, seed: int = 3):
    """Return a float32 module of transformers with weights large enough that logits differ well."""
    torch.manual_seed(seed)
    module = causal(config or qwen2()).float().eval()
    for name, parameter in module.named_parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.15)
        elif name.endswith("_proj.bias"):
            torch.nn.init.normal_(parameter, std=0.5)
        else:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return module


def card_model(module, dtype="float32", options: GpuOptions = OPTIONS, device: str = "cpu", kernels=TORCH, **changes):
    """Return our model of a module's weights."""
    source = StateWeights(module, compute_dtype(dtype), device)
    shape = ModelShape.from_config(module.config)
    network = build_network(shape, source, linear_maker(dtype), kernels)
    return GpuModel(replace(network, **changes), options)


@torch.inference_mode()
def plain(module, ids: list[int]) -> torch.Tensor:
    """Return what transformers computes without a cache, [rows, vocab]."""
    return module(input_ids=torch.tensor([ids]), use_cache=False).logits[0]

"""Triton's kernels in its interpreter, which runs them on a CPU: slow, and only where Triton is installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.gpu import card, trial
from engine.gpu.kernels import TORCH, choose_kernels
from engine.gpu.step import Rotation, Step
from engine.gpu.trial import try_out

CPU = torch.device("cpu")


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("what", ["agreement", "reach"])
def test_interpreted(what):
    """The interpreter is chosen when Triton is imported, so what it shows is shown in a process of its own."""
    if card.usable():
        pytest.skip("there is a card here: tests/gpu runs the kernels on it")
    code = f"from tests.unit.test_gpu_triton import {what}; {what}()"
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], env=environment, check=True)


def agreement() -> None:
    """All agree: tightly in float32, and within rounding in 16 bits."""
    from engine.gpu.triton_kernels import TRITON

    for width, dtype, tolerance in ((16, torch.float32, 2e-5), (64, torch.float16, 0.01)):
        trial.TOLERANCE = tolerance
        try_out(TRITON, CPU, width, dtype)


def reach() -> None:
    """Stretches of keys behind a row are not looked at, and those before are summed at fixed places."""
    from engine.gpu.triton_kernels import attend

    torch.manual_seed(0)
    keys, values, queries = torch.randn(2, 1024, 16), torch.randn(2, 1024, 16), torch.randn(3, 6, 16)
    rotation = Rotation(trial._shape(16), 1024, CPU)
    near, far = (Step(torch.arange(600, 603), rotation, length) for length in (768, 1024))
    assert torch.equal(attend(queries, keys, values, near), attend(queries, keys, values, far))


def test_kernels_that_differ_are_not_used():
    """A trial names the first result that is off."""
    wrong = replace(TORCH, gate=lambda both: TORCH.gate(both) + 0.2)
    with pytest.raises(RuntimeError, match=r"its gate differs by 0\.2"):
        try_out(wrong, CPU, 16)


def test_torchs_kernels_serve_where_tritons_do_not_suit():
    """Without a card, in float32, with odd heads: torch's."""
    assert choose_kernels("auto", CPU, torch.bfloat16, 128) is TORCH
    cuda = torch.device("cuda")
    assert choose_kernels("auto", cuda, torch.float32, 128) is TORCH
    assert choose_kernels("auto", cuda, torch.bfloat16, 96) is TORCH
    assert choose_kernels("torch", cuda, torch.bfloat16, 128) is TORCH


def test_a_card_without_triton_is_told_so(monkeypatch, caplog):
    """The slower kernels are used with a word in the log, unless Triton's were asked for."""
    monkeypatch.setitem(sys.modules, "engine.gpu.triton_kernels", None)
    assert choose_kernels("auto", torch.device("cuda"), torch.bfloat16, 128) is TORCH
    assert "Triton's kernels cannot be used here" in caplog.text
    with pytest.raises(ImportError):
        choose_kernels("triton", torch.device("cuda"), torch.bfloat16, 128)

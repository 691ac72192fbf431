"""The suite `exact`: the loaded models of a profile on a card, tiny random ones without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from engine import stops
from engine.bench.exact import Agreement, Mode, compare
from engine.bench.gpu_budget import Deadline, Tell
from engine.bench.gpu_report import GpuReport
from engine.bench.gpu_scale import Scale
from engine.bench.gpu_script import Script
from engine.config import EngineConfig
from engine.gpu.buckets import DEFAULT_ROWS, choose_exact_rows, choose_rows
from engine.gpu.build import random_model
from engine.gpu.model import GpuModel, GpuOptions
from engine.load_report import once_each
from engine.model import ForwardModel
from engine.models import load_models

PROMPTS = 4
PROMPT = 256  # tokens of each
TOKENS = 64
EXACT_ROWS = 8  # where passes were not measured
CAPACITY = 512
SECONDS = 240.0


def run_exact(config: EngineConfig, folder: Path, scale: Scale, report: GpuReport, tell: Tell) -> None:
    """Compare verification with plain decoding in every mode the target has."""
    if not scale.on_card:
        options = GpuOptions(capacity=CAPACITY)
        tiny = random_model(scale.shapes[scale.target], "nf4", scale.device, options)
        prompts = [Script(tiny.vocab_size, PROMPT // 4, 1, seed=seed).prompt for seed in range(PROMPTS)]
        compare_modes(report, "random nf4", tiny, prompts, tiny.vocab_size)
        return
    models = load_models(replace(config, drafters=()), once_each(tell), folder)  # the draft model decides no token
    target = models.target
    report.title, report.warnings = f"exact: {target.name}", [*report.warnings, *models.notes]
    prompts = source_prompts(target.tokenizer.encode)
    compare_modes(report, Path(target.name).name, target.network, prompts, target.tokenizer.size)


def source_prompts(encode: Callable[[str], list[int]]) -> list[list[int]]:
    """Return pieces of our own source as prompts."""
    files = sorted(Path(stops.__file__).parent.glob("*.py"))
    ids = encode("".join(file.read_text(encoding="utf-8") for file in files))
    step = max(1, (len(ids) - PROMPT) // PROMPTS)
    return [ids[at * step : at * step + PROMPT] for at in range(PROMPTS)]


def compare_modes(
    report: GpuReport, name: str, network: ForwardModel, prompts: Sequence[Sequence[int]], vocab: int
) -> None:
    """Compare in each mode until its share of the time is used up; other bits in exact mode are a failure."""
    modes = modes_of(network)
    for mode, model in modes.items():
        found, deadline = Agreement(name, mode), Deadline(SECONDS / len(modes))
        report.agreements.append(found)
        for prompt in prompts:
            compare(found, model, prompt, TOKENS, vocab, deadline)
    report.failures += other_bits(report.agreements)


def other_bits(found: Sequence[Agreement]) -> list[str]:
    """Return a sentence for each model whose exact mode is not exact."""
    return [
        f"{agreement.model}: verification gave other bits than plain decoding in {agreement.other_bits} of "
        f"{agreement.rows} rows in exact mode"
        for agreement in found
        if agreement.mode == "exact" and agreement.other_bits
    ]


def modes_of(network: ForwardModel) -> dict[Mode, ForwardModel]:
    """Return a network in both modes where it has two; they share its weights."""
    if not isinstance(network, GpuModel):
        return {"exact" if network.row_exact else "fast": network}
    curve = network.curve
    exact = (choose_exact_rows(curve) if curve else EXACT_ROWS,)
    fast = choose_rows(curve) if curve else DEFAULT_ROWS
    options = replace(network.options, capacity=CAPACITY, put_aside=0)
    return {
        "exact": GpuModel(network.network, replace(options, exact=True, rows=exact)),
        "fast": GpuModel(network.network, replace(options, exact=False, rows=fast)),
    }

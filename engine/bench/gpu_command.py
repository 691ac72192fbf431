"""What `foretype bench --suite gpu` and `--suite exact` do between their options and their output.

They need no evaluation data; `gpu` needs no models either. Without a card both run the same script on tiny shapes.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console

from engine.bench.exact_run import run_exact
from engine.bench.gpu_budget import Deadline, run_parts
from engine.bench.gpu_needs import require_packages
from engine.bench.gpu_report import GpuReport
from engine.bench.gpu_run import GpuBench
from engine.bench.gpu_scale import TINY, Scale, choose_scale, free_memory
from engine.bench.machine import describe_machine
from engine.bench.settings import Settings
from engine.catalog import GIB
from engine.config import EngineConfig
from engine.gpu import card

PACKAGES = ("bitsandbytes", "triton")


def run_on_card(
    settings: Settings, config: EngineConfig, folder: Path, console: Console, scale: Scale | None = None
) -> GpuReport:
    """Run the suites asked for; what was measured stays in the report, also after Ctrl-C."""
    scale = scale or choose_scale()
    warnings = require_packages(scale.on_card)
    title = f"{', '.join(settings.suites)}: {card.name() if scale.on_card else TINY}"
    report = GpuReport(settings, _machine(scale), title, scale.on_card, warnings=warnings)
    if not scale.on_card:
        report.warnings.append(f"no CUDA card of compute capability 8.0 or later here: {TINY}")

    def tell(line: str) -> None:
        console.print(line, style="dim", highlight=False, markup=False)

    try:
        if "gpu" in settings.suites:
            run_parts(
                GpuBench(scale, report, tell).parts, Deadline(scale.seconds), tell, report.seconds, report.skipped
            )
            free_memory()
        if "exact" in settings.suites:
            run_exact(config, folder, scale, report, tell)
    except KeyboardInterrupt:
        report.interrupted = True
    if not (report.curves or report.agreements or report.interrupted):
        report.failures.append("nothing was measured")
    return report


def _machine(scale: Scale) -> dict[str, Any]:
    machine = describe_machine()
    machine["versions"] |= {name: _version(name) for name in PACKAGES}
    if not scale.on_card:
        return machine | {"device": "no card"}
    return machine | {"device": card.name(), "card_gib": round(card.total_bytes() / GIB, 1)}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None

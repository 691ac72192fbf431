"""What a person needs to know when something does not work: machine, versions, models, choice of profile."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from engine.catalog import GIB, detect_machine, load_catalog, resolve_profile
from engine.gpu import card
from engine.pull import describe

PACKAGES = ("foretype", "torch", "transformers", "bitsandbytes", "pygls", "tokenizers", "gguf", "llvmlite")
CARD_PACKAGES = ("bitsandbytes", "triton")


def examine(models: Path) -> dict[str, Any]:
    """Collect the report as plain data; sizes in bytes and GiB."""
    import torch

    from engine.codecs import choose_codec

    machine = detect_machine()
    codec = choose_codec()
    profile, why = resolve_profile("auto")
    return {
        "device": machine.device,
        "processor": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "memory_gib": round(machine.ram_gib, 1),
        "free_memory_gib": round(psutil.virtual_memory().available / GIB, 1),
        "vram_gib": machine.vram_gib,
        "card": _card(),
        "int8": {"codec": codec.name, "how": codec.how},
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "models_folder": str(models),
        "profiles": {name: _weights(name, models) for name in load_catalog().profiles},
        "auto": {"profile": profile.name, "why": why},
    }


def _card() -> dict[str, Any] | None:
    """What a card would run with; None when there is none that can be used."""
    import torch

    if not card.usable():
        return None
    return {
        "name": card.name(),
        "capability": ".".join(str(number) for number in torch.cuda.get_device_capability()),
        "cuda": torch.version.cuda,
        "free_gib": round(card.free_bytes() / GIB, 1),
        "versions": {name: _version(name) for name in CARD_PACKAGES},
    }


def _weights(profile: str, models: Path) -> list[dict[str, Any]]:
    rows = describe(load_catalog().profiles[profile], models)
    return [{"name": r.name, "bytes": r.size, "state": r.state, "verified": r.verified} for r in rows]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def print_report(report: dict[str, Any], console: Console) -> None:
    """Print everything but the models, which have a table of their own."""
    table = Table(show_header=False, box=None)
    int8 = report["int8"]
    rows = {
        "device": f"{report['device']} ({report['processor']}, {report['threads']} of {report['cores']} cores)",
        "memory": f"{report['free_memory_gib']} of {report['memory_gib']} GiB free",
        "int8": int8["how"],
        "system": f"{report['platform']}, Python {report['python']}",
        "versions": ", ".join(f"{name} {version or 'missing'}" for name, version in report["versions"].items()),
        "auto": f"{report['auto']['profile']}: {report['auto']['why']}",
    }
    if found := report["card"]:
        packages = ", ".join(f"{name} {version or 'missing'}" for name, version in found["versions"].items())
        facts = f"compute capability {found['capability']}, CUDA {found['cuda']}, {packages}"
        rows["card"] = f"{found['name']}: {found['free_gib']} of {report['vram_gib']:.1f} GiB free, {facts}"
    for name, value in rows.items():
        table.add_row(f"[bold]{name}[/bold]", value)
    console.print(table)

"""What the card's suites need of this machine, and what to install where it lacks."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import metadata

from engine.errors import ConfigError

NEEDED = {"torch": "2.11", "bitsandbytes": "0.50.1"}
HELPFUL = {
    "transformers": ("5.17", "nothing is compared with its generate"),
    "triton": ("3", "passes run on torch's own kernels, which are slower"),
}
Installed = Callable[[str], str]


def require_packages(on_card: bool, installed: Installed = metadata.version) -> list[str]:
    """Return a sentence for each package that would help and is lacking or old; raise where one is indispensable."""
    faults = [fault for name, least in NEEDED.items() if (fault := _fault(name, least, installed))]
    if faults:
        raise ConfigError("; ".join(faults))
    wanted = {name: least for name, least in HELPFUL.items() if on_card or name != "triton"}
    found = [(_fault(name, least, installed), loss) for name, (least, loss) in wanted.items()]
    return [f"{fault}; without it {loss}" for fault, loss in found if fault]


def _fault(name: str, least: str, installed: Installed) -> str:
    fix = f"run `pip install '{name}>={least}'`, or bring its wheel where there is no network"
    try:
        version = installed(name)
    except metadata.PackageNotFoundError:
        return f"{name} is not installed; {fix}"
    return f"{name} is {version}, too old; {fix}" if _numbers(version) < _numbers(least) else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0])[:3])

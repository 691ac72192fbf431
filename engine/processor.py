"""Which processor this is, as far as the platform tells."""

from __future__ import annotations

import platform
import re
from pathlib import Path


def cpuinfo() -> dict[str, str]:
    """Return the first processor's entries where Linux lists them."""
    path = Path("/proc/cpuinfo")
    if not path.is_file():
        return {}
    first = path.read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    return dict(re.findall(r"^(.+?)\s*: (.*)$", first, re.MULTILINE))


def processor_name() -> str:
    """Return the processor's name, or its architecture where it has none."""
    return cpuinfo().get("model name") or platform.processor() or platform.machine()

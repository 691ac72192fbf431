"""Who may import whom: a light start, an engine that knows no editor, a server that knows only the engine's names."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import engine

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "transformers", "pygls")


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(source: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each import of a file, wherever it stands: the module, and the names taken from it (none: the module)."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or "", tuple(alias.name for alias in node.names)


def unexported(source: str) -> list[str]:
    """What a file takes from the engine beyond its public names."""
    found = []
    for module, names in imported(source):
        if module == "engine":
            found += [name for name in names if name not in engine.__all__]
        elif module.startswith("engine."):
            found.append(module)
    attributes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    used = [node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "engine"]
    taken = any(module == "engine" and not names for module, names in imported(source))
    return found + [name for name in used if taken and name not in engine.__all__]


@pytest.mark.parametrize("module", ["engine", "engine.core", "engine.config", "engine.catalog", "engine.cli"])
def test_a_light_import_stays_light(module):
    """Names, settings, the catalogue and the command line import without torch, transformers and pygls."""
    code = f"import sys, {module}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert done.stderr == ""


def test_an_engine_starts_without_torchs_compiler_and_transformers():
    """Either takes seconds to import, and a start from prepared weights needs neither."""
    code = (
        "import sys, engine.engine; print([name for name in ('torch._dynamo', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("path", sources("engine"), ids=lambda path: path.name)
def test_the_engine_knows_no_editor(path):
    """No file of the engine imports the language server or its protocol library, at the top or inside a function."""
    tops = {module.partition(".")[0] for module, _ in imported(path.read_text(encoding="utf-8"))}
    assert tops.isdisjoint({"lsp_server", "pygls", "lsprotocol"})


@pytest.mark.parametrize("path", sources("lsp_server"), ids=lambda path: path.name)
def test_the_server_uses_public_names_alone(path):
    """The language server takes from the engine only what `engine/__init__.py` exports."""
    assert unexported(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("from engine import Engine, EngineConfig", []),
        ("from engine import Engine, loader", ["loader"]),
        ("def f():\n    from engine.core import Buffer", ["engine.core"]),
        ("import engine.cli", ["engine.cli"]),
        ("import engine\nengine.Engine.load()\nengine.loader.load()", ["loader"]),
        ("from lsp_server import engine_thread\nself.engine.stop()\nengine = 1\nengine.real", []),
        ("from .engine import anything", []),
    ],
)
def test_the_scan_sees_private_names(source, wrong):
    """The scan of imports finds private modules and names in every form of import, and nothing else."""
    assert unexported(source) == wrong


def test_every_exported_name_is_there():
    """Each name in `engine.__all__` can be imported, and a name that is not there is an AttributeError."""
    for name in engine.__all__:
        assert getattr(engine, name).__name__ == name
    with pytest.raises(AttributeError, match="module 'engine' has no attribute 'Motor'"):
        _ = engine.Motor

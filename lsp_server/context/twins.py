"""Where the test of a source file, the source of a test, or the header of a C file may lie. Pure: paths to try."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

_TEST_FOLDERS = ("tests", "test", "__tests__", "spec")
_SOURCE_FOLDERS = ("src", "lib", "app")
_SCRIPT_TESTS = ("{}.test", "{}.spec")
_TESTS = {
    ".py": ("test_{}", "{}_test"),
    ".go": ("{}_test",),
    ".rb": ("{}_spec", "{}_test"),
    **dict.fromkeys((".js", ".jsx", ".ts", ".tsx", ".mjs", ".vue"), _SCRIPT_TESTS),
    **dict.fromkeys((".java", ".kt", ".scala", ".cs", ".swift"), ("{}Test", "{}Tests")),
}
_TEST_NAME = re.compile(r"test_(?P<a>.+)|(?P<b>.+)(?:_test|_spec|\.test|\.spec)|(?P<c>.+[a-z0-9])Tests?")
_HEADERS = (".h", ".hpp", ".hh", ".hxx")
_BODIES = (".c", ".cc", ".cpp", ".cxx", ".m", ".mm", ".cu")


def twins(path: Path, root: Path, packages: Sequence[Path]) -> Iterator[Path]:
    """Yield the places of a file's counterpart, the likeliest first; `packages` are the folders at the root's top."""
    suffix = path.suffix.lower()
    if suffix in _HEADERS + _BODIES:
        yield from _other_half(path, _BODIES if suffix in _HEADERS else _HEADERS)
    forms = _TESTS.get(suffix, ())
    match = _TEST_NAME.fullmatch(path.stem) if forms else None
    if match:
        name = next(filter(None, match.groups())) + path.suffix
        yield from (folder / name for folder in _source_folders(path, root, packages))
        return
    for form in forms:
        name = form.format(path.stem) + path.suffix
        yield from (folder / name for folder in _test_folders(path, root))


def _other_half(path: Path, suffixes: Sequence[str]) -> Iterator[Path]:
    folders = (path.parent, path.parent.parent / "include", path.parent.parent / "src")
    yield from (folder / f"{path.stem}{suffix}" for folder in folders for suffix in suffixes)


def _test_folders(path: Path, root: Path) -> Iterator[Path]:
    yield path.parent
    near = (path.parent, path.parent.parent) if path.parent != root else (root,)
    yield from (folder / tests for folder in near for tests in _TEST_FOLDERS)
    below = _below_top(path, root)
    yield from (root / tests / part for tests in ("tests", "test", "spec") for part in (below, Path(), Path("unit")))


def _source_folders(path: Path, root: Path, packages: Sequence[Path]) -> Iterator[Path]:
    yield path.parent
    if path.parent != root:
        yield path.parent.parent
    below = _below_top(path, root)
    yield from (root / source / below for source in (*_SOURCE_FOLDERS, ""))
    yield from packages


def _below_top(path: Path, root: Path) -> Path:
    """Return the document's folder from below the first folder of the root: `a` of `src/a/b.py`."""
    parts = path.parent.relative_to(root).parts if root in path.parents else ()
    return Path(*parts[1:])

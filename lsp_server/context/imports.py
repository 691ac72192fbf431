"""Which files a text imports, as paths to try. Pure: nothing here looks at a disk.

Each import gives several candidates, the likeliest first; the first that exists is meant. Packages of the language or
of others are not told apart from the workspace's: they simply do not exist there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

Candidates = Sequence[Path]

_MAX_TEXT = 131_072  # characters from the start that are searched
_MAX_ABOVE = 8  # folders above a document from which an absolute import may be meant

_PYTHON = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<dots>\.*)(?P<module>[\w.]*)[ \t]+import[ \t]+(?P<names>\([^)]{0,2000}\)|[^\n#]{0,500})"
    r"|import[ \t]+(?P<plain>[\w., \t]{1,500}))",
    re.MULTILINE,
)
_SCRIPT = re.compile(
    r"(?:\bfrom|\bimport|\brequire[ \t]{0,4}\(|\bimport[ \t]{0,4}\()[ \t]{0,4}[\"'](\.{1,2}/[^\"'\n]{1,200})[\"']"
)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*\"([^\"\n]{1,200})\"", re.MULTILINE)
_GO = re.compile(r"^[ \t]*(?:import[ \t]+)?(?:[\w.]+[ \t]+)?\"([\w.-]+(?:/[\w.~-]+)+)\"", re.MULTILINE)
_RUST_MOD = re.compile(r"^[ \t]*(?:pub(?:\([^)\n]{0,60}\))?[ \t]+)?mod[ \t]+(\w+)[ \t]*;", re.MULTILINE)
_RUST_USE = re.compile(r"\buse[ \t]+(crate|super|self)((?:::\w+)+)")
_JAVA = re.compile(r"^[ \t]*import[ \t]+(?:static[ \t]+)?(\w+(?:\.\w+)+)", re.MULTILINE)
_JAVA_PACKAGE = re.compile(r"^[ \t]*package[ \t]+(\w+(?:\.\w+)*)", re.MULTILINE)
_RUBY = re.compile(r"^[ \t]*(require_relative|require)[ \t(]+[\"']([^\"'\n]{1,200})[\"']", re.MULTILINE)

_SCRIPT_SUFFIXES = (".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".d.ts", ".vue", ".svelte")


def imports(text: str, language: str, path: Path, root: Path) -> Iterator[Candidates]:
    """Yield for every import of a document's text the files, or for Go the folder, that it may mean."""
    reader = _READERS.get(language)
    if reader:
        yield from reader(text[:_MAX_TEXT], path, root)


def _above(path: Path, root: Path) -> list[Path]:
    """Return the folders from the document's own up to the root, then the root's usual source folder."""
    folders = [folder for folder in list(path.parents)[:_MAX_ABOVE] if folder == root or root in folder.parents]
    return [*folders, root / "src"]


def _python(text: str, path: Path, root: Path) -> Iterator[Candidates]:
    for match in _PYTHON.finditer(text):
        if match["plain"]:
            for module in match["plain"].split(","):
                name = (module.split() or [""])[0]
                yield from _python_module(_above(path, root), name, [])
            continue
        level = len(match["dots"])
        bases = list(path.parents)[level - 1 : level] if level else _above(path, root)
        names = re.findall(r"(?<!as )\b[A-Za-z_]\w*", re.sub(r"\bas\s+\w+|#[^\n]*", "", match["names"]))
        yield from _python_module(bases, match["module"], names)


def _python_module(bases: Sequence[Path], module: str, names: Sequence[str]) -> Iterator[Candidates]:
    places = [base.joinpath(*module.split(".")) if module else base for base in bases]
    if module:
        yield [file for place in places for file in (place.with_name(f"{place.name}.py"), place / "__init__.py")]
    for name in names[:8]:  # a name imported from a package may be a module of it
        yield [place / f"{name}.py" for place in places]


def _script(text: str, path: Path, root: Path) -> Iterator[Candidates]:
    for name in _SCRIPT.findall(text):
        place = path.parent / name
        bare = place.with_suffix("") if place.suffix in {".js", ".jsx", ".mjs", ".cjs"} else place
        files = [place, *(Path(f"{bare}{suffix}") for suffix in _SCRIPT_SUFFIXES)]
        yield [*files, *(place / f"index{suffix}" for suffix in _SCRIPT_SUFFIXES[:4])]


def _include(text: str, path: Path, root: Path) -> Iterator[Candidates]:
    for name in _INCLUDE.findall(text):
        yield [folder / name for folder in (path.parent, root / "include", root / "src", *_above(path, root))]


def _go(text: str, path: Path, root: Path) -> Iterator[Candidates]:
    for name in _GO.findall(text):
        parts = name.split("/")
        yield [root.joinpath(*parts[start:]) for start in range(1, min(len(parts), 4))]


def _rust(text: str, path: Path, root: Path) -> Iterator[Candidates]:
    top = next((folder for folder in path.parents if folder.name == "src"), path.parent)
    own = path.parent if path.stem in {"main", "lib", "mod"} else path.with_suffix("")
    for name in _RUST_MOD.findall(text):
        yield _rust_module(own, [name])
    for start, rest in _RUST_USE.findall(text):
        base = {"crate": top, "self": own, "super": own.parent}[start]
        parts = rest.strip(":").split("::")
        yield [file for count in range(len(parts), 0, -1) for file in _rust_module(base, parts[:count])]


def _rust_module(base: Path, parts: Sequence[str]) -> Candidates:
    place = base.joinpath(*parts)
    return [place.with_name(f"{place.name}.rs"), place / "mod.rs"]


def _java(text: str, path: Path, root: Path) -> Iterator[Candidates]:
    package = _JAVA_PACKAGE.search(text)
    depth = len(package[1].split(".")) if package else 0
    base = path.parents[min(depth, len(path.parents) - 1)]
    for name in _JAVA.findall(text):
        parts = name.split(".")
        places = [base.joinpath(*parts[:count]) for count in (len(parts), len(parts) - 1)]
        yield [place.with_name(place.name + suffix) for place in places for suffix in (".java", ".kt", ".scala")]


def _ruby(text: str, path: Path, root: Path) -> Iterator[Candidates]:
    for how, name in _RUBY.findall(text):
        folders = [path.parent] if how == "require_relative" else [root / "lib", root]
        yield [folder / (name if name.endswith(".rb") else f"{name}.rb") for folder in folders]


_READERS: dict[str, Callable[[str, Path, Path], Iterator[Candidates]]] = {
    "python": _python,
    **dict.fromkeys(
        ("javascript", "typescript", "javascriptreact", "typescriptreact", "jsx", "tsx", "vue", "svelte"), _script
    ),
    **dict.fromkeys(("c", "cpp", "cuda-cpp", "cuda", "objective-c", "objective-cpp"), _include),
    "go": _go,
    "rust": _rust,
    **dict.fromkeys(("java", "kotlin", "scala"), _java),
    "ruby": _ruby,
}

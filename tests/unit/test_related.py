"""Related files: what a document imports, its test, its neighbours; at a cost that does not grow with the tree."""

import os
import time
from pathlib import Path

import pytest

from lsp_server.context import related
from lsp_server.context.file_cache import FileCache
from lsp_server.context.related import related_files
from lsp_server.privacy.rules import MAX_FILE_BYTES, FileRules

PLENTY = 60.0


def write(root: Path, *names: str, text: str = "x = 1\n") -> None:
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def link(at: Path, to: Path) -> None:
    at.parent.mkdir(parents=True, exist_ok=True)
    try:
        at.symlink_to(to, target_is_directory=to.is_dir())
    except (OSError, NotImplementedError):
        pytest.skip("this platform or account may not make symbolic links")


def find(root: Path, name: str, text: str, language: str, **more) -> list[str]:
    """Return the names of what is related to the file `name` with this text."""
    found = related_files(root / name, text, language, FileRules([root]), seconds=PLENTY, **more)
    return [file.path.relative_to(root.resolve()).as_posix() for file in found.files]


IMPORTS = [
    ("pkg/a.py", "import pkg.b\nimport os, c as d\n", "python", {"pkg/b.py", "pkg/c.py"}),
    ("pkg/a.py", "from . import (\n    b,  # comment\n    c as x,\n)\n", "python", {"pkg/b.py", "pkg/c.py"}),
    ("pkg/sub/a.py", "from ..b import thing\nfrom .c import d\n", "python", {"pkg/b.py", "pkg/sub/c.py"}),
    ("app/a.py", "from lib.core import run\n", "python", {"src/lib/core.py"}),
    ("a.py", "from pkg import b\n", "python", {"pkg/__init__.py", "pkg/b.py"}),
    ("src/a.ts", "import { x } from './b'\nimport y from '../lib'\n", "typescript", {"src/b.tsx", "lib/index.ts"}),
    ("src/a.ts", "export * from './c.js'\nconst d = await import('./d')\n", "typescript", {"src/c.ts", "src/d.vue"}),
    ("a.js", "const b = require('./b.js')\nimport 'react'\n", "javascript", {"b.js"}),
    ("src/a.c", '#include "b.h"\n#include "net/c.h"\n#include <stdio.h>\n', "c", {"src/b.h", "include/net/c.h"}),
    ("a.go", 'import (\n\t"fmt"\n\tx "example.org/me/app/store"\n)\n', "go", {"store/store.go"}),
    ("src/main.rs", "mod net;\nuse crate::db::pool::Pool;\n", "rust", {"src/net/mod.rs", "src/db/pool.rs"}),
    ("src/net/mod.rs", "mod tcp;\nuse super::db;\n", "rust", {"src/net/tcp.rs", "src/db.rs"}),
    (
        "src/org/x/A.java",
        "package org.x;\nimport org.y.B;\nimport static org.y.C.f;\n",
        "java",
        {"src/org/y/B.java", "src/org/y/C.java"},
    ),
    ("lib/a.rb", "require_relative 'b'\nrequire 'c/d'\nrequire 'json'\n", "ruby", {"lib/b.rb", "lib/c/d.rb"}),
]


@pytest.mark.parametrize(("name", "text", "language", "wanted"), IMPORTS)
def test_imports_are_found(tmp_path, name, text, language, wanted):
    """What a text imports comes first, in the ways of its language; other packages are passed over."""
    write(tmp_path, name, *wanted)
    assert set(find(tmp_path, name, text, language)[: len(wanted)]) == wanted


TWINS = [
    ("src/pkg/x.py", "tests/pkg/test_x.py"),
    ("pkg/x.py", "tests/unit/test_x.py"),
    ("tests/unit/test_x.py", "pkg/x.py"),
    ("tests/pkg/test_x.py", "src/pkg/x.py"),
    ("x.go", "x_test.go"),
    ("x_test.go", "x.go"),
    ("src/x.ts", "src/__tests__/x.test.ts"),
    ("src/x.spec.ts", "src/x.ts"),
    ("src/main/X.java", "src/main/XTest.java"),
    ("src/x.cpp", "include/x.h"),
    ("src/x.h", "src/x.cc"),
    ("lib/x.rb", "spec/x_spec.rb"),
]


@pytest.mark.parametrize(("name", "twin"), TWINS)
def test_a_test_and_its_source_are_related(tmp_path, name, twin):
    """A test brings its source and the other way round, and a C file its header."""
    write(tmp_path, name, twin)
    assert find(tmp_path, name, "", "")[:1] == [twin]


def test_neighbours_come_by_recency(tmp_path):
    """Files of the same language in the folder come last changed first; other languages and the file itself do not."""
    write(tmp_path, "a.py", "old.py", "new.pyi", "note.md", "sub/far.py")
    os.utime(tmp_path / "old.py", (1, 1))
    assert find(tmp_path, "a.py", "", "python") == ["new.pyi", "old.py"]


def test_recently_edited_files_come_before_neighbours(tmp_path):
    """Files that the watcher saw change come in from anywhere in the workspace, if they still exist."""
    write(tmp_path, "a.py", "near.py", "far/edited.py", "far/page.md")
    recent = [tmp_path / "far/page.md", tmp_path / "far/gone.py", tmp_path / "far/edited.py"]
    assert find(tmp_path, "a.py", "", "python", recent=recent) == ["far/edited.py", "near.py"]


def test_the_number_of_files_is_bounded(tmp_path):
    """B64: no more than `limit` files come, however many there are."""
    write(tmp_path, *(f"m{number}.py" for number in range(40)))
    assert len(find(tmp_path, "m0.py", "import m1, m2, m3\n", "python", limit=8)) == 8


def test_a_huge_folder_is_listed_in_part(tmp_path, monkeypatch):
    """B64: of a folder with more entries than the bound only so many are looked at."""
    write(tmp_path, *(f"m{number}.py" for number in range(40)))
    monkeypatch.setattr(related, "MAX_ENTRIES", 5)
    assert 3 <= len(find(tmp_path, "a.py", "", "python", limit=40)) <= 5


def test_refused_files_are_named_with_their_rule(tmp_path):
    """B59: secret, ignored and excluded files do not come in, even imported; the rule is told."""
    write(tmp_path, "a.py", "local_settings.py", "docs/x.py", "ok.py")
    write(tmp_path, ".gitignore", text="local_settings.py\n")
    rules = FileRules([tmp_path], ["docs/**"])
    text = "import local_settings, docs.x, ok\n"
    found = related_files(tmp_path / "a.py", text, "python", rules, seconds=PLENTY)
    assert [file.path.name for file in found.files] == ["ok.py"]
    assert {path.name: rule for path, rule in found.refused} == {
        "local_settings.py": "it is ignored by .gitignore",
        "x.py": "it is excluded in the settings",
    }


def test_nothing_outside_the_roots_is_read(tmp_path):
    """An import may lead out of the workspace; it is not followed. A document outside has no related files."""
    root = tmp_path / "w"
    write(tmp_path, "w/a.ts", "secret.ts", "b.ts")
    rules = FileRules([root])
    found = related_files(root / "a.ts", "import '../secret'\n", "typescript", rules, seconds=PLENTY)
    assert found.files == [] and found.refused[0][1] == "files outside the workspace are not read"
    assert related_files(tmp_path / "b.ts", "", "typescript", rules, seconds=PLENTY).files == []


def test_links_are_followed_only_within_the_rules(tmp_path):
    """B61: links out of the workspace, into /etc or to .env are refused; one to an allowed file counts once."""
    root = tmp_path / "w"
    write(tmp_path, "w/a.py", "w/real.py", "w/.env", "outside/secret.py", "outside/dir/m.py")
    link(root / "link.py", tmp_path / "outside/secret.py")
    link(root / "dir", tmp_path / "outside/dir")
    link(root / "ok.py", root / "real.py")
    link(root / "k.py", root / ".env")
    link(root / "loop.py", root / "loop.py")
    link(root / "self.py", root / "a.py")
    text = "import link, dir.m, ok, k, real, loop, self\n"
    found = related_files(root / "a.py", text, "python", FileRules([root]), seconds=PLENTY)
    assert [file.path.name for file in found.files] == ["real.py"]
    assert {path.name for path, _ in found.refused} >= {"link.py", "m.py", "k.py"}


def test_a_root_that_is_a_link_itself_works(tmp_path):
    """A workspace opened through a link is a workspace like any other."""
    write(tmp_path, "real/a.py", "real/b.py")
    link(tmp_path / "w", tmp_path / "real")
    found = related_files(tmp_path / "w/a.py", "", "python", FileRules([tmp_path / "w"]), seconds=PLENTY)
    assert [file.path.name for file in found.files] == ["b.py"]


def test_a_huge_tree_costs_what_a_small_one_does(tmp_path, monkeypatch):
    """B64: with 10,000 files below node_modules, build and the root itself, few entries and dates are looked at."""
    write(tmp_path, "src/a.py", "src/b.py")
    for folder in ("node_modules", "build", ".venv", "deep"):
        (tmp_path / folder / "x").mkdir(parents=True)
        for number in range(2000):
            (tmp_path / folder / "x" / f"{number}.py").touch()
    for number in range(2500):
        (tmp_path / f"{number}.py").touch()
    listed, looks = [], []
    real_scandir, real_stat = os.scandir, Path.stat

    def scandir(path):
        listed.append(Path(path))
        return real_scandir(path)

    def stat(path, **more):
        looks.append(path)
        return real_stat(path, **more)

    monkeypatch.setattr(related.os, "scandir", scandir)
    monkeypatch.setattr(Path, "stat", stat)
    assert find(tmp_path, "src/a.py", "import os, sys, json\n", "python") == ["src/b.py"]
    assert set(listed) == {tmp_path, tmp_path / "src"}
    assert len(looks) < 200
    assert len(find(tmp_path, "0.py", "", "python")) == 8
    assert not any("x" in path.relative_to(tmp_path).parts for path in listed)


def test_what_is_found_when_time_is_up_is_returned(tmp_path, monkeypatch):
    """B64: a slow disk ends the search, not the completion."""
    write(tmp_path, "a.py", "b.py", "c.py", "d.py")
    now = [0.0]
    monkeypatch.setattr(related.time, "monotonic", lambda: now[0])
    real = Path.is_file

    def slow(path):
        now[0] += 0.02
        return real(path)

    monkeypatch.setattr(Path, "is_file", slow)
    rules = FileRules([tmp_path])
    found = related_files(tmp_path / "a.py", "import b\nimport c\nimport d\n", "python", rules, seconds=0.03)
    assert 1 <= len(found.files) < 3


def test_awkward_names_are_ordinary(tmp_path):
    """B55: spaces, percent signs, hashes and other scripts in paths make no difference."""
    root = tmp_path / "my proj" / "日本"
    write(root, "a b.py", "a%20b.py", "100%.py", "q#.py")
    assert set(find(root, "a b.py", "", "python")) == {"a%20b.py", "100%.py", "q#.py"}


# What is read of them


@pytest.fixture
def files():
    return FileCache()


def test_encodings(tmp_path, files):
    """B66: UTF-8 with or without mark and UTF-16 with one are read; Latin-1, pictures and NUL bytes are not."""
    text = "größe = 1\r\nb = 2\rc\n"
    plain = "größe = 1\nb = 2\nc\n"
    good = {
        "a": text.encode(),
        "b": b"\xef\xbb\xbf" + text.encode(),
        "c": text.encode("utf-16"),
        "d": text.encode("utf-32"),
    }
    bad = {"e": text.encode("latin-1"), "f": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "g": b"x = 1\0", "h": b"\xff\xfe\0"}
    for name, data in (good | bad).items():
        (tmp_path / f"{name}.py").write_bytes(data)
    assert [files.read(tmp_path / f"{name}.py").text for name in good] == [plain] * 4
    answers = [files.read(tmp_path / f"{name}.py") for name in bad]
    assert all(answer.text == "" and answer.rule for answer in answers)


def test_a_state_of_a_file_is_read_once(tmp_path, files, monkeypatch):
    """B66: good and bad files alike are read again only when they change."""
    good, bad = tmp_path / "a.py", tmp_path / "b.py"
    good.write_text("a = 1\n")
    bad.write_bytes(b"\xe9")
    reads = []
    real = Path.open
    monkeypatch.setattr(Path, "open", lambda path, *args, **more: reads.append(path.name) or real(path, *args, **more))
    first = [files.read(file) for file in (good, bad)]
    assert [files.read(file) for file in (good, bad)] == first
    assert reads == ["a.py", "b.py"]
    good.write_text("a = 22\n")
    os.utime(good, ns=(time.time_ns(), first[0].version + 5_000_000_000))
    assert files.read(good).text == "a = 22\n"
    assert files.read(good).version > first[0].version


def test_a_deleted_file_is_not_served(tmp_path, files):
    """B59: a file that went is gone for us too."""
    file = tmp_path / "a.py"
    file.write_text("a = 1\n")
    assert files.read(file).text
    file.unlink()
    assert files.read(file).rule == "it cannot be read"


def test_secrets_in_files_are_masked(tmp_path, files):
    """B59: what is kept of a file is masked already."""
    file = tmp_path / "a.py"
    file.write_text('API_KEY = "zq9-canary-1"\n')
    assert files.read(file).text == 'API_KEY = "************"\n'


def test_the_cache_is_bounded(tmp_path, monkeypatch):
    """B64: the texts kept stay below the bound, the latest used stay longest."""
    files = FileCache(max_bytes=25_000)
    for name in "abc":
        (tmp_path / name).write_text("x" * 10_000)
    for name in "abac":
        files.read(tmp_path / name)
    reads = []
    real = Path.open
    monkeypatch.setattr(Path, "open", lambda path, *args, **more: reads.append(path.name) or real(path, *args, **more))
    for name in "acb":
        files.read(tmp_path / name)
    assert reads == ["b"]


def test_special_and_large_files_are_refused(tmp_path):
    """B66: a pipe would hang the reader and a large file cost the person; neither is opened."""
    rules = FileRules([tmp_path])
    (tmp_path / "big.py").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "n.ipynb").write_text("{}")
    assert rules.refusal(tmp_path / "big.py") == "it is larger than 256 KB"
    assert rules.refusal(tmp_path / "folder.py") == "it is no regular file"
    assert rules.refusal(tmp_path / "n.ipynb") == "the JSON of notebooks is never used"
    assert rules.refusal(tmp_path / "gone.py") == "it cannot be read"
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.py")
        assert rules.refusal(tmp_path / "pipe.py") == "it is no regular file"
        assert FileCache().read(tmp_path / "pipe.py").rule

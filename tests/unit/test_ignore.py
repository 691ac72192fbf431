"""Ignore files: the same verdicts as git's own, from the right root, and never a stale one."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from lsp_server.privacy import ignore
from lsp_server.privacy.ignore import IgnoreRules
from lsp_server.privacy.ignore_patterns import matches, parse_patterns

NO_GIT = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed; it is the oracle here")


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def ignored(rules: IgnoreRules, root: Path, *names: str) -> list[str]:
    return [name for name in names if rules.ignored_by(root / name)]


def test_patterns_of_every_kind(tmp_path):
    """Names, folders, anchors, wildcards, negations, comments and escapes mean what git means by them."""
    write(
        tmp_path,
        {
            ".gitignore": "\ufeff# comment\n*.log\n!keep.log\n/top.py\nbuild/\ndocs/**/*.txt\n"
            "\\#odd\n\\!odd\nspace\\ \r\ntrail.py   \n[ab].c\n"
        },
    )
    rules = IgnoreRules([tmp_path])
    yes = [
        "a.log",
        "x/a.log",
        "top.py",
        "build/x.py",
        "x/build/y/z.py",
        "docs/a/b/c.txt",
        "docs/c.txt",
        "#odd",
        "!odd",
        "trail.py",
        "a.c",
    ]
    no = ["keep.log", "x/keep.log", "x/top.py", "build", "docs/c.md", "x/docs/c.txt", "c.c", "comment"]
    assert ignored(rules, tmp_path, *yes, *no) == yes


def test_nothing_below_an_ignored_folder_comes_back(tmp_path):
    """A negation cannot take a file back whose folder is ignored, and the list-of-exceptions idiom works."""
    write(tmp_path, {".gitignore": "gone/\n!gone/a.py\n", "w/.gitignore": "*\n!*/\n!*.py\n"})
    rules = IgnoreRules([tmp_path])
    assert ignored(rules, tmp_path, "gone/a.py", "w/a.py", "w/x/a.py", "w/a.txt", "w/x/a.txt") == [
        "gone/a.py",
        "w/a.txt",
        "w/x/a.txt",
    ]


def test_deeper_files_of_patterns_speak_first(tmp_path):
    """A .gitignore speaks for its own folder and overrules those above; the private exclude file speaks last."""
    write(
        tmp_path,
        {
            ".gitignore": "*.gen\n/a/x.py\n",
            "a/.gitignore": "!keep.gen\n/x.txt\n",
            ".git/info/exclude": "private.py\nkeep.gen\n",
        },
    )
    rules = IgnoreRules([tmp_path])
    names = ["a/one.gen", "a/keep.gen", "a/x.py", "a/b/x.py", "a/x.txt", "a/b/x.txt", "private.py", "x/private.py"]
    assert ignored(rules, tmp_path, *names) == ["a/one.gen", "a/x.py", "a/x.txt", "private.py", "x/private.py"]
    assert rules.ignored_by(tmp_path / "private.py") == str(tmp_path / ".git/info/exclude")


def test_a_root_inside_a_repository_obeys_the_whole_repository(tmp_path):
    """The folder opened in the editor may be a part of a repository whose patterns stand further up."""
    write(tmp_path, {".gitignore": "sub/local.py\n", ".git/HEAD": "", "sub/a.py": ""})
    assert ignored(IgnoreRules([tmp_path / "sub"]), tmp_path, "sub/local.py", "sub/a.py") == ["sub/local.py"]


def test_a_worktree_finds_its_exclude_file(tmp_path):
    """In a linked worktree .git is a file; the exclude file lies in the main repository."""
    write(
        tmp_path,
        {
            "main/.git/info/exclude": "private.py\n",
            "main/.git/worktrees/w/commondir": "../..\n",
            "w/.git": f"gitdir: {tmp_path / 'main/.git/worktrees/w'}\n",
        },
    )
    assert ignored(IgnoreRules([tmp_path / "w"]), tmp_path / "w", "private.py", "a.py") == ["private.py"]


def test_each_root_has_its_own_rules(tmp_path):
    """B58: of several roots the innermost decides; a removed root has no say, and one added again has."""
    api, web = tmp_path / "api", tmp_path / "web"
    inner = web / "packages" / "ui"
    write(
        tmp_path,
        {"api/.gitignore": "util.py\n", "web/.gitignore": "other.py\n", "web/packages/ui/.gitignore": "util.py\n"},
    )
    rules = IgnoreRules([api, web, inner])
    assert ignored(rules, tmp_path, "api/src/util.py", "web/src/util.py", "web/packages/ui/util.py") == [
        "api/src/util.py",
        "web/packages/ui/util.py",
    ]
    assert rules.root_of(inner / "util.py") == inner
    assert rules.relatives(inner / "util.py") == ["util.py", "packages/ui/util.py"]
    rules.set_roots([web])
    assert rules.root_of(api / "src/util.py") is None
    assert not rules.ignored_by(api / "src/util.py")
    rules.set_roots([web, api])
    assert rules.ignored_by(api / "src/util.py")


def test_a_name_that_only_begins_like_a_root_is_outside(tmp_path):
    """`/w/app-old` does not lie in the root `/w/app`."""
    rules = IgnoreRules([tmp_path / "app"])
    assert rules.root_of(tmp_path / "app-old" / "a.py") is None
    assert rules.root_of(tmp_path / "app") == tmp_path / "app"


def test_a_changed_file_of_patterns_counts_at_once_when_told(tmp_path):
    """B59: patterns added, changed or removed count with the next question after `refresh`."""
    rules = IgnoreRules([tmp_path])
    file = tmp_path / ".gitignore"
    assert not rules.ignored_by(tmp_path / "a.py")
    file.write_text("a.py\n")
    rules.refresh(file)
    assert rules.ignored_by(tmp_path / "a.py")
    file.write_text("bb.py\n")
    rules.refresh(file)
    assert ignored(rules, tmp_path, "a.py", "bb.py") == ["bb.py"]
    file.unlink()
    rules.refresh(file)
    assert not rules.ignored_by(tmp_path / "bb.py")


def test_a_changed_file_of_patterns_counts_soon_without_being_told(tmp_path, monkeypatch):
    """B63: without any watcher a new pattern counts after a second, a repository that appears too."""
    now = [1000.0]
    monkeypatch.setattr(ignore.time, "monotonic", lambda: now[0])
    root = tmp_path / "sub"
    root.mkdir()
    rules = IgnoreRules([root])
    assert not rules.ignored_by(root / "a.py")
    write(tmp_path, {".gitignore": "a.py\n", ".git/info/exclude": "b.py\n"})
    assert not rules.ignored_by(root / "a.py"), "within a second no date is looked at again"
    now[0] += ignore.RECHECK
    assert ignored(rules, root, "a.py", "b.py") == ["a.py", "b.py"]
    shutil.rmtree(tmp_path / ".git")
    now[0] += ignore.RECHECK
    assert not ignored(rules, root, "a.py", "b.py")


def test_questions_cost_no_looks_at_the_disk_within_a_second(tmp_path, monkeypatch):
    """B64: a thousand questions about one folder look at each folder above it once, and no folder is listed."""
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    looks = []
    real = os.stat
    monkeypatch.setattr(ignore.os, "stat", lambda path, **more: looks.append(path) or real(path, **more))
    monkeypatch.setattr(ignore.time, "monotonic", lambda: 1000.0)
    rules = IgnoreRules([tmp_path])
    looks.clear()
    for number in range(1000):
        rules.ignored_by(folder / f"{number}.py")
    assert len(looks) <= 2 * 4


def test_strange_ignore_files_are_survived(tmp_path):
    """A folder named .gitignore, bytes that are no UTF-8 and lines that are no patterns hide no others."""
    (tmp_path / "x" / ".gitignore").mkdir(parents=True)
    (tmp_path / ".gitignore").write_bytes(
        b"\xff\xfe\n[z-a].py\n!\n/\n//\n**/\n***\n[\nhidden.py\n!x/**\n!*.py\nhidden.py\n"
    )
    assert ignored(IgnoreRules([tmp_path]), tmp_path, "hidden.py", "x/a.py")[:1] == ["hidden.py"]


def test_hostile_patterns_end():
    """A pattern of many wildcards cannot make a question run for minutes."""
    patterns = parse_patterns(["*a*a*a*a*a*a*a*a*a*b", "**/a/**/a/**/a/**/a/**/a/b"])
    assert matches(patterns, "a" * 250)
    assert matches(parse_patterns(["*a*a*b"]), "a" * 250) is False
    assert matches(patterns, "/".join("a" * 100))


WORDS = ["a", "b", "ab", "x.py", "y.py", "build", "a.b"]
PATTERNS = [
    "*",
    "*/",
    "!*/",
    "*.py",
    "!*.py",
    "a",
    "!a",
    "a/",
    "!a/",
    "/a",
    "!/a",
    "a/b",
    "!a/b",
    "a/**",
    "!a/**",
    "**/b",
]
PATTERNS += [
    "**/b/",
    "a/*",
    "!a/*",
    "a/*/",
    "!a/x.py",
    "b/x.py",
    "[ab]",
    "a?",
    "*.b/",
    "!build",
    "/*",
    "!/b/",
    "a/**/b",
    "**",
    "",
]


@NO_GIT
def test_verdicts_are_gits(tmp_path):
    """Random trees of random patterns are judged exactly as git judges them."""
    chance = random.Random(4)
    for number in range(40):
        root = tmp_path / str(number)
        folders = ["", "a/", "b/", "a/b/", "a/a/", "build/", "a.b/"]
        files = sorted({folder + word for folder in folders for word in WORDS[3:5]} | {"ab", "b/ab", "a/b/ab"})
        write(root, dict.fromkeys(files, ""))
        for folder in chance.sample(folders, 3):
            write(root, {f"{folder}.gitignore": "\n".join(chance.choices(PATTERNS, k=chance.randint(1, 6))) + "\n"})
        subprocess.run(["git", "init", "-q", str(root)], check=True)
        write(root, {".git/info/exclude": chance.choice(PATTERNS) + "\n"})
        told = subprocess.run(
            ["git", "-C", str(root), "-c", "core.excludesFile=", "check-ignore", "--no-index", *files],
            capture_output=True,
            text=True,
            check=False,
        )
        ours = ignored(IgnoreRules([root]), root, *files)
        assert ours == told.stdout.split(), {p: p.read_text() for p in root.rglob(".gitignore")}

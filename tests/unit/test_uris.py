"""One identity for all spellings of a resource, and paths only for files."""

from __future__ import annotations

from itertools import chain, combinations
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest

from lsp_server.documents.uris import identity, notebook_of, pure_path, to_path

FOLDER = "file:///w/my%20proj/%E6%97%A5%E6%9C%AC/"
SLOPPY = "file:///w/my proj/日本/"
FILES = {  # by name, as spelt by careful and by sloppy clients; a bare `%20` can only mean a space
    "a b.py": [FOLDER + "a%20b.py", SLOPPY + "a b.py", FOLDER + "a b.py", SLOPPY + "a%20b.py", FOLDER + "%61%20b%2Epy"],
    "a%20b.py": [FOLDER + "a%2520b.py", SLOPPY + "a%2520b.py"],
    "100%.py": [FOLDER + "100%25.py", SLOPPY + "100%.py"],
    "q?#.py": [FOLDER + "q%3F%23.py", FOLDER + "q%3f%23.py", SLOPPY + "q?#.py"],
}
WINDOWS = ["file:///C:/w/a.py", "file:///c%3A/w/a.py", "file:///c%3a/w/a.py", "file:///c:/w/a.py", "FILE:///C%3A/w/a.py",
           "file:///c:\\w\\a.py", "file:///C:%5Cw%5Ca.py", "file://c:/w/a.py", "file://C%3A/w/a.py", "file:/c:/w/a.py",
           "file:c:/w/a.py", "file:///C|/w/a.py", "file://c:\\w\\a.py", "file://localhost/c:/w/a.py"]  # fmt: skip
NO_FILES = ["untitled:Untitled-1", "vscode-notebook-cell:/w/n.ipynb#W0", "vscode-remote://ssh-remote%2Bhost/w/a.py",
            "git:/w/a.py?%7B%22ref%22%3A%22%22%7D", "http://example.org/a.py", "a.py", "/w/a.py", "", ":", "file:",
            "file://", "file:a.py", "file:Untitled-1", "file:///w/%00.py", "vscode-vfs://x/a.py", "C:\\w"]  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_every_spelling_of_a_file_is_one_document_and_one_path(name):
    """B55: careful and sloppy spellings of a name have one identity and lead to the file itself."""
    assert len({identity(uri) for uri in FILES[name]}) == 1
    for uri in FILES[name]:
        assert pure_path(uri, windows=False) == PurePosixPath("/w/my proj/日本", name)


def test_names_that_look_alike_are_different_documents():
    """B55: `a b.py`, `a%20b.py`, `100%.py` and `q?#.py` are four documents."""
    assert len({identity(uris[0]) for uris in FILES.values()}) == 4


def test_files_are_readable_under_the_path_of_their_uri(tmp_path):
    """B55: what is on disk under an odd name is found through its URI, and the URI made from a path leads back."""
    for name in ("a b.py", "a%20b.py", "100%.py", "q#.py", "日本.py"):
        path = tmp_path / name
        path.write_text(name)
        found = to_path(path.as_uri())
        assert found == path
        assert isinstance(found, Path)
        assert found.read_text() == name


def test_windows_drives_have_one_identity():
    """The case of a drive letter, its colon's escape, slashes too few and backslashes do not matter."""
    assert len({identity(uri) for uri in WINDOWS}) == 1
    for uri in WINDOWS:
        assert pure_path(uri, windows=True) == PureWindowsPath("c:/w/a.py")
    assert identity("file:///d:/w/a.py") != identity(WINDOWS[0])
    assert identity("untitled:C%3A/w/new.py") == identity("untitled:/c:/w/new.py")
    assert identity("vscode-notebook-cell:/C:/w/n.ipynb#W0") == identity("vscode-notebook-cell:/c%3A/w/n.ipynb#W0")


def test_windows_shares():
    """A share may be written with its host as authority or in the path; elsewhere a host is not this machine."""
    share = PureWindowsPath("//server/share/a b.py")
    for uri in ("file://server/share/a%20b.py", "file://SERVER/share/a b.py", "file:////server/share/a%20b.py"):
        assert pure_path(uri, windows=True) == share
        assert identity(uri, windows=True) == identity("file://server/share/a%20b.py", windows=True)
    assert pure_path("file://server/share/a.py", windows=False) is None
    assert pure_path("file://./pipe/x", windows=True) is None
    assert pure_path("file:///w/a.py", windows=True) is None
    assert pure_path("file:///c:a.py", windows=True) is None


@pytest.mark.parametrize("uri", NO_FILES)
@pytest.mark.parametrize("windows", [False, True])
def test_only_files_have_a_path(uri, windows):
    """B53: nothing but an absolute `file:` URI ever leads to the disk."""
    assert pure_path(uri, windows) is None


def test_identities_of_other_resources():
    """Escapes, the case of scheme and host, and needless slashes do not matter; path, query and fragment do."""
    same = [
        ["untitled:Untitled-1", "untitled:Untitled%2D1", "UNTITLED:Untitled-1"],
        ["vscode-remote://ssh-remote%2Bbox/w/a.py", "vscode-remote://SSH-remote+box/w/a.py"],
        ["git:/w/a.py?%7B%22ref%22%3A%22%22%7D", 'git:/w/a.py?{"ref":""}', "git:///w/a.py?%7b%22ref%22:%22%22%7d"],
        ["vscode-notebook-cell:/w/n.ipynb#W0sZmlsZQ%3D%3D", "vscode-notebook-cell:/w/n.ipynb#W0sZmlsZQ=="],
        ["file:///w/a.py", "file:/w/a.py", "file://localhost/w/a.py", "file:///w//a.py", "file:///w/x/../%2E/a.py"],
    ]
    for spellings in same:
        assert len({identity(uri, windows=False) for uri in spellings}) == 1
    different = [spellings[0] for spellings in same]
    different += ["untitled:Untitled-2", "untitled://Untitled-1", "git:/w/a.py", "git:/w/a.py?", "git:/w/a.py#"]
    different += [
        "vscode-notebook-cell:/w/n.ipynb#W1",
        "vscode-notebook-cell:/w/n.ipynb%23W1",
        "a:/w/a.py",
        "file:///w/A.py",
    ]
    for one, other in combinations(different, 2):
        assert identity(one) != identity(other)


def test_bytes_that_are_no_text_stay_apart():
    """File names that are not UTF-8 are different files, and the identity is plain text all the same."""
    assert identity("file:///w/%FF.py") != identity("file:///w/%FE.py")
    assert identity("file:///w/%FF.py").isascii()
    assert identity("file:///w/\ud800.py").isascii()


def test_an_identity_is_its_own_identity():
    """The key of a resource may be used as a URI of it."""
    spellings = [*chain(*FILES.values()), *WINDOWS, *NO_FILES, "file://server/share/a.py", "x:////a", "a?#b", "%"]
    for uri in spellings:
        assert identity(identity(uri)) == identity(uri)


@pytest.mark.parametrize(
    ("cell", "notebook"),
    [
        ("vscode-notebook-cell:/w/n.ipynb#W0", "file:///w/n.ipynb"),
        ("vscode-notebook-cell:/w/n.ipynb#W0sZmlsZQ%3D%3D", "file:///w/n.ipynb"),
        ("vscode-notebook-cell:/w/n.ipynb#X13sZmlsZQ==", "file:///w/n.ipynb"),
        ("vscode-notebook-cell:/c%3A/w/my%20n.ipynb#W3sZmlsZQ%3D%3D", "file:///c:/w/my n.ipynb"),
        ("vscode-notebook-cell:New.ipynb?jupyter-notebook#W0sdW50aXRsZWQ%3D", "untitled:New.ipynb?jupyter-notebook"),
        ("vscode-notebook-cell://wsl%2Bbox/w/n.ipynb#W0sdnNjb2RlLXJlbW90ZQ==", "vscode-remote://wsl+box/w/n.ipynb"),
        ("vscode-notebook-cell:/w/q?#.ipynb#W0", "file:///w/q%3F%23.ipynb"),
        ("vscode-notebook-cell:/w/n.ipynb", "file:///w/n.ipynb"),
        ("vscode-notebook-cell:/w/n.ipynb#W0s%FF", "file:///w/n.ipynb"),
        ("vscode-notebook-cell:/w/n.ipynb#W0sA", "file:///w/n.ipynb"),
        ("vscode-notebook-cell:/w/n.ipynb#W0sIyMj", "file:///w/n.ipynb"),
    ],
)  # fmt: skip
def test_a_cell_names_its_notebook(cell, notebook):
    """B54: a cell's URI leads to its notebook, with the scheme that VS Code writes into the fragment."""
    found = notebook_of(cell)
    assert found is not None
    assert identity(found) == identity(notebook)


def test_other_documents_are_no_cells():
    """B54: only cells have a notebook."""
    for uri in ("file:///w/n.ipynb", "untitled:Untitled-1", "file:///w/n.ipynb#W0", "", "a.py"):
        assert notebook_of(uri) is None

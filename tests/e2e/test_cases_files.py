"""Group D of the cases: which texts reach the engine, from real folders, and what never does.

The engine's record has everything that it was given; a canary must be neither there, nor in a log, nor in a reply.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conversation import command, everything_seen, record, texts, until
from tests.e2e.lsp_client import CAPABILITIES, LspClient, apply, span
from tests.e2e.scripted_engine import read_record

EXPLICIT, AUTOMATIC = 1, 2
MAX_WATCHED = 70  # a few more than the watcher's own bound
PROC = Path("/proc/self/fdinfo")


@contextmanager
def served(tmp_path: Path, roots=(), *, options=None, capabilities=None, env=None, cwd=None, **script) -> Iterator:
    """Start a server whose engine follows a script, loaded and ready; its record is at `record(tmp_path)`."""
    script |= {"record": str(tmp_path / "record.jsonl"), "touched": str(tmp_path / "touched.txt")}
    script["refusals"] = str(tmp_path / "refusals.txt")
    arguments = "-m", "tests.e2e.disk_server", json.dumps(script)
    with LspClient.start(*arguments, env={"FORETYPE_LOG": "DEBUG", **(env or {})}, cwd=cwd) as client:
        given = {"notifications": {"status": True}, "debounce": False, **(options or {})}
        client.configuration["foretype"] = {name: given[name] for name in given if name != "notifications"}
        client.initialize(capabilities, options=given, roots=roots)
        client.wait_for("foretype/status", lambda status: status["state"] == "ready")
        yield client


@pytest.fixture
def root(tmp_path) -> Path:
    """An empty folder to open as a workspace."""
    folder = tmp_path.resolve() / "w"
    folder.mkdir()
    return folder


def write(file: Path, text: str | bytes = "x = 1\n") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def link(place: Path, to: Path) -> None:
    try:
        place.symlink_to(to)
    except (OSError, NotImplementedError):
        pytest.skip("this platform or account may not make symbolic links")


def given(client: LspClient, tmp_path: Path, uri: str, line: int, column: int) -> dict[str, str]:
    """Ask, and return the other texts that the engine was given, each by the last part of its name, in order."""
    runs = len(record(tmp_path))
    while client.inline(uri, line, column, EXPLICIT) is None:  # void: something was purged meanwhile
        runs = len(record(tmp_path))
    asked = record(tmp_path)[runs]
    return {b["path"].rpartition("/")[2].rpartition("\\")[2]: b["text"] for b in asked["buffers"]}


def forgotten(tmp_path: Path) -> list[str]:
    """Return the names of the texts that the engine was told to forget."""
    return [line["path"] for line in read_record(tmp_path / "record.jsonl") if line["event"] == "forget"]


def everything_said(client: LspClient) -> str:
    """Return all that the server sent and logged."""
    return json.dumps([client.received, client.requests, client._answers], ensure_ascii=False) + client.stderr


def touched(tmp_path: Path, below: Path) -> list[str]:
    """Return the files opened and folders listed below a folder."""
    lines = (tmp_path / "touched.txt").read_text("utf-8", "surrogateescape").splitlines()
    return [line for line in lines if line.startswith(str(below))]


def test_an_untitled_document_is_no_file(tmp_path, root):
    """B53: unsaved, remote and virtual documents are served from what was opened; no file of that name is read."""
    write(root / "Untitled-1", "SECRET = 1\n")
    path = (root / "Untitled-1").as_uri().removeprefix("file://")
    uris = [
        "untitled:Untitled-1",
        f"untitled:{path}",
        f"vscode-remote://ssh{path}",
        f"git:{path}?ref=x",
        f"Vfs://{path}",
    ]
    with served(tmp_path, [root], cwd=root, rules=[{"left": "x", "answer": " = 1\n"}]) as client:
        for uri in [*uris, "Untitled-1", "./Untitled-1"]:
            assert client.inline(uri, 0, 1, EXPLICIT) == []
            client.open(uri, "x")
            (item,) = client.inline(uri, 0, 1, EXPLICIT)
            assert apply("x", item) == "x = 1"
            assert item["command"]["arguments"][0]["uri"] == uri
            client.close_document(uri)
            assert client.inline(uri, 0, 1, EXPLICIT) == []
        write(root / "near.py", "saved = 1\n")
        app = (root / "app.py").as_uri()
        client.open(f"untitled:{path.replace('Untitled-1', 'near.py')}", "unsaved = 1\n")
        client.open(app, "x")
        client.inline(app, 0, 1)
        assert [b["text"] for b in record(tmp_path)[-1]["buffers"]] == ["unsaved = 1\n", "saved = 1\n"]
        assert "SECRET" not in everything_seen(tmp_path)
        assert "SECRET" not in everything_said(client)
        assert [line for line in touched(tmp_path, root) if "Untitled-1" in line] == []


def test_cells_of_a_notebook_know_each_other(tmp_path, root):
    """B54: cells are context in the notebook's order, also moved; a deleted one vanishes; the JSON is never used."""
    write(root / "n.ipynb", '{"cells": ["json-canary"], "nbformat": 4}')
    write(root / "app.py", "app = 1\n")
    book = (root / "n.ipynb").as_uri()
    cells = [f"vscode-notebook-cell:{book.removeprefix('file:')}#W{n}" for n in range(4)]
    contents = ["import numpy as np\n", "# About numbers\n", "rows = 3\n", "np."]
    kinds, languages = [2, 1, 2, 2], ["python", "markdown", "python", "python"]
    document = {"uri": book, "notebookType": "jupyter-notebook", "version": 1}
    document["cells"] = [{"kind": kind, "document": uri} for kind, uri in zip(kinds, cells, strict=True)]
    opened = [
        {"uri": uri, "languageId": language, "version": 1, "text": text}
        for uri, language, text in zip(cells, languages, contents, strict=True)
    ]
    with served(tmp_path, [root], rules=[{"left": "np.", "answer": "zeros(rows)\n"}]) as client:
        client.notify("notebookDocument/didOpen", {"notebookDocument": document, "cellTextDocuments": opened})
        (item,) = client.inline(cells[3], 0, 3, EXPLICIT)
        assert apply("np.", item) == "np.zeros(rows)"
        near_first = ["rows = 3\n", "# About numbers\n", "import numpy as np\n"]
        assert list(given(client, tmp_path, cells[3], 0, 3).values())[:3] == near_first
        change_cells(client, book, 2, [document["cells"][n] for n in (2, 0, 1, 3)])
        near_first = ["# About numbers\n", "import numpy as np\n", "rows = 3\n"]
        assert list(given(client, tmp_path, cells[3], 0, 3).values())[:3] == near_first
        change_cells(client, book, 3, [document["cells"][n] for n in (2, 1, 3)], closed=[cells[0]])
        assert "import numpy as np\n" not in given(client, tmp_path, cells[3], 0, 3).values()
        assert any(path.endswith("W0") for path in forgotten(tmp_path))
        assert client.inline(cells[0], 0, 3, EXPLICIT) == []
        assert "json-canary" not in everything_seen(tmp_path)
        client.notify(
            "notebookDocument/didClose",
            {"notebookDocument": {"uri": book}, "cellTextDocuments": [{"uri": uri} for uri in cells[1:]]},
        )
        assert client.inline(cells[3], 0, 3, EXPLICIT) == []


def change_cells(client: LspClient, book: str, version: int, cells: list, closed: list[str] = ()) -> None:
    """Put other cells in the place of all four, or of the three that are left."""
    array = {"start": 0, "deleteCount": 4, "cells": cells}
    structure = {"array": array, "didClose": [{"uri": uri} for uri in closed]}
    told = {"notebookDocument": {"uri": book, "version": version}, "change": {"cells": {"structure": structure}}}
    client.notify("notebookDocument/didChange", told)


@pytest.mark.parametrize("sloppy", [False, True], ids=["escaped", "bare"])
def test_awkward_names_are_told_apart(tmp_path, root, sloppy):
    """B55: spaces, percent signs, question marks and other scripts: four documents, all readable, URIs echoed."""
    names = ["a b.py", "a%20b.py", "100%.py", "q?#.py"]
    folder = root / "my proj" / "日本"
    for n, name in enumerate(names):
        write(folder / name, f"on_disk_{n} = {n}\n")
    uris = [spelled(folder / name, sloppy) for name in names]
    rules = [{"left": f"open_{n} = ", "answer": f"answer_{n}\n"} for n in range(4)]
    with served(tmp_path, [root / "my proj"], rules=rules) as client:
        for n, uri in enumerate(uris):
            client.open(uri, f"open_{n} = ")
            others = given(client, tmp_path, uri, 0, 9)
            expected = {f"open_{i} = " if i < n else f"on_disk_{i} = {i}\n" for i in range(4) if i != n}
            assert set(others.values()) == expected
        for n, uri in enumerate(uris):
            (item,) = client.inline(uri, 0, 9)
            assert apply(f"open_{n} = ", item) == f"open_{n} = answer_{n}"
            assert item["command"]["arguments"][0]["uri"] == uri
        assert len({line["path"] for line in record(tmp_path)}) == 4


def spelled(file: Path, sloppy: bool) -> str:
    """Return a file's URI, as it should be or with as much left bare as can still be told apart."""
    uri = file.as_uri()
    return uri.replace("%20", " ").replace("%3F", "?").replace("%23", "#") if sloppy and "%25" not in uri else uri


def test_each_root_has_its_own_rules_and_files(tmp_path, root):
    """B58: imports, ignore files and relatives come from the edited file's root; roots may go, come back and nest."""
    api, web = root / "api", root / "web"
    for folder in (api, web):
        write(folder / "src" / "util.py", f"from_{folder.name} = 1\n")
        write(folder / "src" / "local.py", f"local_of_{folder.name} = 1\n")
    write(api / ".gitignore", "local.py\n")
    write(web / ".gitignore", "dist/\n")
    text = "import util\nimport local\nuse = "
    in_api, in_web = ((folder / "src" / "app.py").as_uri() for folder in (api, web))
    with served(tmp_path, [api, web]) as client:
        client.open(in_web, text)
        others = given(client, tmp_path, in_web, 2, 6)
        assert others == {"util.py": "from_web = 1\n", "local.py": "local_of_web = 1\n"}
        client.close_document(in_web)
        client.open(in_api, text)
        assert given(client, tmp_path, in_api, 2, 6) == {"util.py": "from_api = 1\n"}
        change_roots(client, removed=[api])
        until(lambda: any(path.endswith("util.py") and "api" in path for path in forgotten(tmp_path)))
        assert given(client, tmp_path, in_api, 2, 6) == {}
        change_roots(client, added=[api])
        assert given(client, tmp_path, in_api, 2, 6) == {"util.py": "from_api = 1\n"}
        change_roots(client, added=[root])
        assert given(client, tmp_path, in_api, 2, 6) == {"util.py": "from_api = 1\n"}
        paths = [b["path"] for b in record(tmp_path)[-1]["buffers"]]
        assert len(paths) == len(set(paths))


def change_roots(client: LspClient, added: list[Path] = (), removed: list[Path] = ()) -> None:
    folders = [[{"uri": path.as_uri(), "name": path.name} for path in paths] for paths in (added, removed)]
    client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": folders[0], "removed": folders[1]}})


SECRETS = {
    ".env": "API_KEY=zq9-canary-1\n",
    "prod.env": "API_KEY=zq9-canary-1\n",
    "id_rsa": "-----BEGIN OPENSSH PRIVATE KEY-----\nzq9-canary-1\n-----END OPENSSH PRIVATE KEY-----\n",
    "server.pem": "zq9-canary-1\n",
    "credentials.json": '{"key": "zq9-canary-1"}\n',
    ".aws/settings.py": "KEY = 'zq9-canary-1'\n",
}


def test_secret_and_ignored_texts_go_nowhere(tmp_path, root):
    """B59: an open .env, keys, ignored and excluded files reach no prompt, log or reply; user patterns add to that."""
    for name, text in SECRETS.items():
        write(root / name, text)
    write(root / ".gitignore", "local_settings.py\n")
    write(root / "local_settings.py", "PASSWORD = 'canary-2'\n")
    write(root / "docs" / "conf.py", "conf = 'canary-3'\n")
    write(root / "good.py", "good = 1\n")
    app = "import local_settings\nimport docs.conf\nimport good\nAPI_KEY = "
    rules = [{"left": "API_KEY = ", "answer": "load()\n"}, {"left": "API_KEY=", "answer": "1\n"}]
    options = {"exclude": ["docs/**", "!.env"]}
    with served(tmp_path, [root], options=options, rules=rules) as client:
        opened = [*SECRETS, "local_settings.py", "docs/conf.py"]
        for name in opened:
            client.open((root / name).as_uri(), (root / name).read_text())
        client.open("untitled:.env", SECRETS[".env"])
        uri = (root / "app.py").as_uri()
        client.open(uri, app)
        (item,) = client.inline(uri, 3, 10, EXPLICIT)
        assert apply(app, item) == app + "load()"
        assert given(client, tmp_path, uri, 3, 10) == {"good.py": "good = 1\n"}
        client.change((root / ".env").as_uri(), 2, ((1, 0), (1, 0), "API_KEY="))
        for env in ((root / ".env").as_uri(), "untitled:.env", (root / "docs" / "conf.py").as_uri()):
            for trigger in (AUTOMATIC, EXPLICIT):
                assert client.inline(env, 0, 8, trigger) == []
            assert "problem" in command(client, "explain", env, {"line": 0, "character": 8})
        told = command(client, "explain", uri, {"line": 3, "character": 10})
        refused = {Path(entry["path"]).name: entry["rule"] for entry in told["refused"]}
        assert "secrets" in refused[".env"]
        assert ".gitignore" in refused["local_settings.py"]
        assert "settings" in refused["conf.py"]
        for name in opened:
            client.close_document((root / name).as_uri())
        given(client, tmp_path, uri, 3, 10)
        assert "canary" not in everything_seen(tmp_path)
        assert "canary" not in everything_said(client)


def test_a_secret_in_an_allowed_text_is_masked(tmp_path, root):
    """B59: a key in an ordinary file, open, on disk or being edited, never leaves it, and is never suggested."""
    key = "ghp_" + "a1B2c3D4e5F6" * 3
    write(root / "on_disk.py", f"token = '{key}'\nafter = 1\n")
    text = f"token = '{key}'\nimport on_disk\nagain = "
    with served(tmp_path, [root], rules=[{"left": "again = ", "answer": f"'{key}'\n"}]) as client:
        client.open((root / "open.py").as_uri(), f"token = '{key}'\nopened = 1\n")
        uri = (root / "app.py").as_uri()
        client.open(uri, text)
        assert client.inline(uri, 2, 8, EXPLICIT) == []
        others = given(client, tmp_path, uri, 2, 8)
        assert others["on_disk.py"] == f"token = '{'*' * len(key)}'\nafter = 1\n"
        assert others["open.py"].endswith("opened = 1\n")
        told = command(client, "explain", uri, {"line": 2, "character": 8})
        assert key not in json.dumps(told["prompt"])
        prompts = [{**line, "text": ""} for line in record(tmp_path)]  # but for what the engine itself made up
        assert key not in json.dumps(prompts)
        assert key not in client.stderr


def ignore_by_git(client: LspClient, root: Path) -> None:
    write(root / ".gitignore", "private.py\nopened.py\n")


def ignore_by_exclude_file(client: LspClient, root: Path) -> None:
    write(root / ".git" / "info" / "exclude", "private.py\nopened.py\n")
    client.notify("workspace/didChangeWatchedFiles", {"changes": []})


def ignore_by_settings(client: LspClient, root: Path) -> None:
    client.configuration["foretype"] = {**client.configuration["foretype"], "exclude": ["private.py", "opened.py"]}
    client.notify("workspace/didChangeConfiguration", {"settings": None})


@pytest.mark.parametrize(
    ("ignore", "watch_error"),
    [(ignore_by_git, ""), (ignore_by_git, "ENOSPC"), (ignore_by_exclude_file, "ENOSPC"), (ignore_by_settings, "")],
    ids=["git", "git unwatched", "exclude file unwatched", "settings"],
)
def test_a_file_that_becomes_ignored_is_purged(tmp_path, root, ignore, watch_error):
    """B59: from the next question on, what became ignored is forgotten by the engine, the cache and the context."""
    (root / ".git").mkdir()
    write(root / "private.py", "canary_on_disk = 1\n")
    uri = (root / "app.py").as_uri()
    rules = [{"left": "x = ", "answer": "canary_on_disk\n"}, {"left": "y = ", "answer": "1\n"}]
    with served(tmp_path, [root], rules=rules, watch_error=watch_error) as client:
        client.open((root / "opened.py").as_uri(), "canary_opened = 1\n")
        client.open(uri, "import private\nx = \ny = ")
        assert texts(client.inline(uri, 1, 4)) == ["canary_on_disk"]
        assert list(given(client, tmp_path, uri, 2, 4)) == ["opened.py", "private.py"]
        told = command(client, "explain", uri, {"line": 1, "character": 4})
        assert told["known"]
        ignore(client, root)
        until(lambda: given(client, tmp_path, uri, 2, 4) == {})
        until(lambda: sorted({path.rpartition("/")[2] for path in forgotten(tmp_path)}) == ["opened.py", "private.py"])
        assert not command(client, "explain", uri, {"line": 1, "character": 4})["known"]
        purged = max(n for n, line in enumerate(read_record(tmp_path / "record.jsonl")) if line["event"] == "forget")
        given(client, tmp_path, uri, 1, 4)
        later = [line for line in read_record(tmp_path / "record.jsonl")[purged:] if line["event"] == "complete"]
        assert later
        assert all(line["buffers"] == [] for line in later)


def test_a_run_under_way_does_not_outlive_its_context(tmp_path, root):
    """B59: a run that was given what has become ignored meanwhile is stopped, and leaves nothing in the cache."""
    write(root / "private.py", "canary_on_disk = 1\n")
    uri = (root / "app.py").as_uri()
    with served(tmp_path, [root], rules=[{"left": "x = ", "answer": "1\n"}], token_ms=1500) as client:
        client.open(uri, "import private\nx = ")
        asked = client.request_inline(uri, 1, 4)
        until(lambda: command(client, "status")["state"] == "busy")
        ignore_by_settings(client, root)
        assert client.wait(asked) is None
        client.inline(uri, 1, 4)
        # The answer may be there before the engine has written the run down.
        first, *_, last = until(lambda: len(lines := record(tmp_path)) > 1 and lines)
        assert [Path(b["path"]).name for b in first["buffers"]] == ["private.py"]
        assert first["cancelled"] is not None
        assert last["buffers"] == []


def test_work_ahead_is_not_begun_with_what_was_purged(tmp_path, root):
    """B59: what would be prepared after an answer is left alone if the answer's context has been purged by then."""
    write(root / "private.py", "canary_on_disk = 1\n")
    uri = (root / "app.py").as_uri()
    with served(tmp_path, [root], rules=[{"left": "x = ", "answer": "1\n"}]) as client:
        client.open(uri, "import private\nx = ")
        assert texts(client.inline(uri, 1, 4)) == ["1"]
        ignore_by_settings(client, root)
        until(lambda: forgotten(tmp_path))
        time.sleep(0.5)  # in which it would be begun
        lines = read_record(tmp_path / "record.jsonl")
        purged = next(n for n, line in enumerate(lines) if line["event"] == "forget")
        assert "canary" in json.dumps(lines[:purged])
        assert "canary" not in json.dumps(lines[purged:])


def test_what_was_closed_is_not_given_again(tmp_path, root):
    """B59, B82: once a document is closed, nothing that the engine is asked holds its text, prepared work included."""
    uri, other = "untitled:one.py", "untitled:two.py"
    with served(tmp_path, [root], rules=[{"left": "x = ", "answer": "1\n"}]) as client:
        client.open(other, "canary = 1\n")
        client.open(uri, "x = ")
        assert texts(client.inline(uri, 0, 4)) == ["1"]
        until(lambda: any(line["ahead"] for line in read_record(tmp_path / "record.jsonl") if "ahead" in line))
        client.close_document(other)
        until(lambda: other in forgotten(tmp_path))
        assert texts(client.inline(uri, 0, 4)) == ["1"]
        time.sleep(0.5)  # in which work ahead would be prepared
        assert texts(client.inline(uri, 0, 4, EXPLICIT)) == ["1"]
        lines = read_record(tmp_path / "record.jsonl")
        closed = next(n for n, line in enumerate(lines) if line["event"] == "forget" and line["path"] == other)
        assert "canary" not in json.dumps(lines[closed:])
        client.open(other, "reopened = 1\n")
        assert list(given(client, tmp_path, uri, 0, 4).values()) == ["reopened = 1\n"]


def test_links_are_what_they_lead_to(tmp_path, root):
    """B61: links out of the workspace or to a secret are skipped; one to a file of the workspace counts once."""
    write(root.parent / "outside" / "secret.py", "canary = 'outside'\n")
    write(root / ".env", "KEY=canary-env\n")
    write(root / "real.py", "real = 1\n")
    write(root / ".gitignore", "ignored.py\n")
    write(root / "ignored.py", "canary = 'ignored'\n")
    link(root / "link.py", root.parent / "outside" / "secret.py")
    link(root / "folder", root.parent / "outside")
    link(root / "ok.py", root / "real.py")
    link(root / "k.py", root / ".env")
    link(root / "i.py", root / "ignored.py")
    link(root / "loop.py", root / "loop.py")
    link(root / "up", root)
    imports = ["link", "folder.secret", "ok", "real", "k", "i", "loop", "up.up.real"]
    text = "\n".join([*(f"import {name}" for name in imports), "x = "])
    uri, aliased = (root / "app.py").as_uri(), (root / "k.py").as_uri()
    with served(tmp_path, [root], rules=[{"left": "x = ", "answer": "1\n"}]) as client:
        client.open(uri, text)
        assert given(client, tmp_path, uri, len(imports), 4) == {"real.py": "real = 1\n"}
        client.open(aliased, "KEY=canary-env\n")
        assert client.inline(aliased, 0, 4, EXPLICIT) == []
        assert given(client, tmp_path, uri, len(imports), 4) == {"real.py": "real = 1\n"}
        client.open((root / "up" / "app.py").as_uri(), text)
        assert given(client, tmp_path, (root / "up" / "app.py").as_uri(), len(imports), 4) == {"real.py": "real = 1\n"}
        assert "canary" not in everything_seen(tmp_path)
        assert "canary" not in everything_said(client)


def watching_client() -> dict[str, Any]:
    """Return the capabilities of a client that can watch files for us."""
    workspace = {**CAPABILITIES["workspace"], "didChangeWatchedFiles": {"dynamicRegistration": True}}
    return {**CAPABILITIES, "workspace": workspace}


@pytest.mark.parametrize(("error", "mode"), [("ENOSPC", "client"), ("EMFILE", "none")])
def test_without_watches_the_service_goes_on(tmp_path, root, error, mode):
    """B63: at the system's limit there is one message, no second attempt, and changes are noticed all the same."""
    for n in range(1000):
        (root / f"folder{n}").mkdir()
    for n in range(20):
        write(root / f"folder{n}" / "near.py", f"near_{n} = {n}\n")
    capabilities = watching_client() if mode == "client" else None
    script = {"watch_error": error, "rules": [{"left": "x = ", "answer": "1\n"}]}
    with served(tmp_path, [root], capabilities=capabilities, **script) as client:
        for n in range(20):
            uri = (root / f"folder{n}" / "app.py").as_uri()
            client.open(uri, "x = ")
            assert texts(client.inline(uri, 0, 4)) == ["1"]
        client.wait_for("window/showMessage", lambda told: "limit on watched folders" in told["message"])
        until(lambda: command(client, "status")["watching"] == mode)
        if mode == "client":
            until(lambda: "workspace/didChangeWatchedFiles" in json.dumps(client.requests))
        assert given(client, tmp_path, uri, 0, 4)["near.py"] == "near_19 = 19\n"
        near = write(root / "folder19" / "near.py", "changed = 1\n")
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": near.as_uri(), "type": 2}]})
        assert given(client, tmp_path, uri, 0, 4)["near.py"] == "changed = 1\n"
        near.unlink()
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": near.as_uri(), "type": 3}]})
        until(lambda: "near.py" not in given(client, tmp_path, uri, 0, 4))
        until(lambda: str(near) in forgotten(tmp_path))
        assert len(client.notifications("window/showMessage")) == 1
        assert len((tmp_path / "refusals.txt").read_text().splitlines()) == 1


def test_a_huge_tree_is_neither_walked_nor_watched(tmp_path, root):
    """B64: in a home folder with thousands of files, most below dependencies, a handful is looked at and watched."""
    grow_tree(root / "project")
    for name in (".ssh/id_rsa", ".cache/thing.py", "Downloads/other.py"):
        write(root / name, "canary = 1\n")
    write(root / "project" / "src" / "util.py", "util = 1\n")
    uri = (root / "project" / "src" / "app.py").as_uri()
    home = {"HOME": str(root), "USERPROFILE": str(root)}
    text = "import util\nimport package1.file1\nx = "
    with served(tmp_path, [root], env=home, rules=[{"left": "x = ", "answer": "1\n"}]) as client:
        client.open(uri, text)
        others = given(client, tmp_path, uri, 2, 4)
        assert others["util.py"] == "util = 1\n"
        assert len(others) <= 8
        change_roots(client, added=[root / "project"])
        given(client, tmp_path, uri, 2, 4)
        client.open((root / "home.py").as_uri(), "import project.src.util\nx = ")
        assert len(given(client, tmp_path, (root / "home.py").as_uri(), 1, 4)) <= 8
        seen = touched(tmp_path, root)
        assert len(set(seen)) < 60
        assert [line for line in seen if re.search(r"node_modules|objects|\.venv|build", line)] == []
        assert "canary" not in everything_seen(tmp_path)
        for n in range(80):
            (root / f"small{n}").mkdir()
            client.open((root / f"small{n}" / "a.py").as_uri(), "x = ")
            client.inline((root / f"small{n}" / "a.py").as_uri(), 0, 4)
        if PROC.is_dir():
            until(lambda: 40 < watched(client.process.pid) < MAX_WATCHED)


def grow_tree(root: Path) -> None:
    """Make 6,000 files, nine tenths of them below folders of dependencies and builds."""
    for top, folders in (("node_modules", 40), (".git/objects", 20), ("build", 20), (".venv/lib", 10), ("src", 10)):
        for n in range(folders):
            folder = root / top / f"package{n}"
            folder.mkdir(parents=True)
            for m in range(60):
                (folder / f"file{m}.py").touch()


def watched(process: int) -> int:
    """Return how many folders a process watches; on Linux only."""
    infos = [info.read_text() for info in Path(f"/proc/{process}/fdinfo").iterdir()]
    return sum(line.startswith("inotify ") for info in infos for line in info.splitlines())


def test_a_large_file_is_served_and_spared(tmp_path, root):
    """B66: in the middle of 6 MB and 300,000 lines suggestions fit exactly; as a neighbour it is declined, once."""
    lines = [f"value_{n:06d} = {n:06d}" for n in range(300_000)]
    text = "\n".join(lines) + "\n"
    assert len(text) > 6_000_000
    uri, small = (root / "large.py").as_uri(), (root / "small.py").as_uri()
    with served(tmp_path, [root], rules=[{"left": "total = ", "answer": "value_150000\n"}]) as client:
        client.open(uri, text)
        for n, key in enumerate("total = "):
            client.change(uri, n + 2, ((150_000, n), (150_000, n), key))
        client.change(uri, 10, ((150_000, 8), (150_000, 8), "\n"))
        (item,) = client.inline(uri, 150_000, 8)
        cut = text.index("value_150000")
        now = text[:cut] + "total = \n" + text[cut:]
        assert item["range"] == span((150_000, 8), (150_000, 8))
        assert item["insertText"] == "value_150000"
        (asked, *_) = record(tmp_path)
        assert asked["before"] == now[cut + 8 - len(asked["before"]) : cut + 8]
        assert asked["after"] == now[cut + 8 :][: len(asked["after"])]
        assert 1000 < len(asked["before"]) < 200_000
        client.open(small, "x = ")
        assert given(client, tmp_path, small, 0, 4) == {}
        told = command(client, "explain", small, {"line": 0, "character": 4})
        assert any("large.py" in entry["path"] and "longer than" in entry["rule"] for entry in told["refused"])
        assert client.notifications("window/showMessage") == []


def test_a_giant_line_is_left_alone_unless_asked(tmp_path):
    """B66: at the end of a line of 1 MB nothing comes unasked, with a reason; who asks gets what fits exactly."""
    uri, text = "untitled:giant.json", "[" + "1, " * 350_000
    with served(tmp_path, rules=[{"left": "1, 2", "answer": ", 3, 4\n"}]) as client:
        client.open(uri, text, "json")
        client.change(uri, 2, ((0, len(text)), (0, len(text)), "2"))
        column = len(text) + 1
        assert client.inline(uri, 0, column, AUTOMATIC) == []
        assert "longer than" in command(client, "explain", uri, {"line": 0, "character": column})["last_reason"]
        (item,) = client.inline(uri, 0, column, EXPLICIT)
        assert item["range"] == span((0, len(text)), (0, column))
        assert item["insertText"] == "2, 3, 4"


def test_files_that_are_no_plain_text_do_not_stop_the_others(tmp_path, root):
    """B66: Latin-1 and a picture named like code are skipped with a reason; UTF-16, a mark and good files are used."""
    write(root / "latin.py", "name = 'Müller' # caf\xe9\n".encode("latin-1"))
    write(root / "picture.py", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)))
    write(root / "wide.py", "wide = 'é'\r\n".encode("utf-16"))
    write(root / "marked.py", "\ufeffmarked = 1\r\n".encode())
    write(root / "good.py", "good = 1\n")
    write(root / "big.py", "# canary\n" * 200_000)
    (root / "folder.py").mkdir()
    names = ["latin", "picture", "wide", "marked", "good", "big", "folder"]
    uri = (root / "app.py").as_uri()
    for name in names:  # a document imports five at most that are used
        write(root / f"use_{name}.py", f"import {name}\nx = ")
    with served(tmp_path, [root], rules=[{"left": "x = ", "answer": "1\n"}]) as client:
        for name in names:
            uri = (root / f"use_{name}.py").as_uri()
            client.open(uri, f"import {name}\nx = ")
            assert texts(client.inline(uri, 1, 4)) == ["1"]
        used = {Path(b["path"]).name: b["text"] for line in record(tmp_path) for b in line["buffers"]}
        assert used["wide.py"] == "wide = 'é'\n"
        assert used["marked.py"] == "marked = 1\n"
        assert used["good.py"] == "good = 1\n"
        assert not used.keys() & {"latin.py", "picture.py", "big.py", "folder.py"}
        told = [command(client, "explain", (root / f"use_{n}.py").as_uri(), {"line": 1, "character": 4}) for n in names]
        rules = {Path(entry["path"]).name: entry["rule"] for each in told for entry in each["refused"]}
        assert rules["latin.py"] == "it is not UTF-8 text"
        assert rules["picture.py"] == "it holds no text"
        assert "larger than" in rules["big.py"]
        assert "Traceback" not in client.stderr

"""What other text a completion may draw on: the right texts, in the right order, and never a canary."""

import os
import shutil
import threading
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from lsp_server.context import gatherer as context
from lsp_server.context import open_texts
from lsp_server.context.gatherer import ContextGatherer
from lsp_server.context.related import related_files
from lsp_server.documents.uris import identity
from lsp_server.privacy.rules import FileRules

CANARY_1 = "zq9-canary-1"
CANARY_2 = "canary-2"


@dataclass
class Doc:
    """An open document of the tests."""

    uri: str
    text: str = "x = 1\n"
    language: str = "python"
    version: int = 1
    reads: int = 0

    @property
    def key(self):
        return identity(self.uri)

    @property
    def size(self):
        return len(self.text)

    def full_text(self):
        self.reads += 1
        return self.text


@dataclass
class World:
    """The open documents (most recent first), the cells of notebooks, and what is on disk."""

    root: Path
    documents: list = field(default_factory=list)
    notebooks: list = field(default_factory=list)
    folders: list = field(default_factory=list)

    def __post_init__(self):
        self.rules = FileRules([self.root])
        self.gatherer = ContextGatherer(self, self, self.rules, self.folders.append)

    def recent(self):
        return self.documents

    def siblings(self, uri):
        for cells in self.notebooks:
            places = [place for place, cell in enumerate(cells) if cell.uri == uri]
            if places:
                return cells[: places[0]], cells[places[0] + 1 :]
        return [], []

    def gather(self, document, related=True):
        return self.gatherer.gather_from(self.gatherer.snapshot(document), related)

    def open(self, name, text="x = 1\n", **more):
        uri = name if ":" in name else (self.root / name).as_uri()
        document = Doc(uri, text, **more)
        self.documents.insert(0, document)
        return document

    def write(self, name, text="x = 1\n"):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def link(self, name, to):
        try:
            (self.root / name).symlink_to(to)
        except (OSError, NotImplementedError):
            pytest.skip("this platform or account may not make symbolic links")


@pytest.fixture
def now(monkeypatch):
    """A clock that only the test moves."""
    seconds = [1000.0]
    monkeypatch.setattr(context.time, "monotonic", lambda: seconds[0])
    return seconds


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setattr(context, "related_files", partial(related_files, seconds=60.0))  # machines under test are slow
    return World(tmp_path.resolve())


def names(gathered):
    return [Path(used.path).name for used in gathered.used]


def rules_of(gathered):
    return {Path(refused.path).name: refused.rule for refused in gathered.refused}


def everything(gathered):
    return repr((gathered.buffers, gathered.used, gathered.refused))


def test_secret_and_ignored_texts_never_come_in(world):
    """B59: neither an open .env, nor an ignored file, open or imported, nor a key in the tree reaches a buffer."""
    world.rules.set_exclude(["docs/**"])
    world.write(".env", f"API_KEY={CANARY_1}\n")
    world.write("id_rsa", f"{CANARY_1}\n")
    world.write(".gitignore", "local_settings.py\n")
    world.write("local_settings.py", f"A = '{CANARY_2}'\n")
    world.write("docs/x.py", f"B = '{CANARY_2}'\n")
    world.write("near.py", "near = 1\n")
    world.open(".env", f"API_KEY={CANARY_1}\n", language="properties")
    world.open("local_settings.py", f"A = '{CANARY_2}'\n")
    app = world.open("app.py", 'import local_settings, docs.x\nAPI_KEY = "')
    gathered = world.gather(app)
    assert names(gathered) == ["near.py"]
    assert "canary" not in everything(gathered)
    assert rules_of(gathered) == {
        ".env": ".env files hold secrets",
        "local_settings.py": "it is ignored by .gitignore",
        "x.py": "it is excluded in the settings",
    }


def test_secrets_within_allowed_texts_are_masked(world):
    """B59: a secret in an ordinary open document or file is masked in every buffer, and nothing moves."""
    world.write("conf.py", f'API_KEY = "{CANARY_1}"\nport = 1\n')
    world.open("other.py", f'TOKEN = "{CANARY_1}"\nsize = 2\n')
    gathered = world.gather(world.open("app.py"))
    assert [buffer.text for buffer in gathered.buffers] == [
        'TOKEN = "************"\nsize = 2\n',
        'API_KEY = "************"\nport = 1\n',
    ]


@pytest.mark.parametrize(
    "uri",
    [
        "untitled:.env",
        "vscode-remote://ssh-remote+host/w/.env",
        "git:/w/.env?%7B%22ref%22%3A%22HEAD%22%7D",
        "memfs:/home/me/.aws/credentials",
    ],
)
def test_a_secret_file_is_one_in_any_scheme(world, uri):
    """B59: unsaved, remote and virtual documents are judged by their names."""
    assert world.rules.completion_refusal(uri)
    assert world.rules.context_refusal(uri)
    world.open(uri, CANARY_1)
    assert "canary" not in everything(world.gather(world.open("app.py")))


def test_who_may_be_completed_and_who_may_be_context(world, tmp_path_factory):
    """B59: secret and excluded files are out of bounds; an ignored file is completed in, but is no context."""
    outside = tmp_path_factory.mktemp("outside").resolve()
    world.rules.set_exclude(["docs/**", "*.gen.py"])
    world.write(".gitignore", "build/\n")
    judged = {
        uri: (world.rules.completion_refusal(uri) is None, world.rules.context_refusal(uri) is None)
        for uri in [
            (world.root / "a.py").as_uri(),
            (world.root / "build/a.py").as_uri(),
            (world.root / "docs/a.py").as_uri(),
            (world.root / "src/docs/a.py").as_uri(),
            (world.root / "n.ipynb").as_uri(),
            (outside / "a.py").as_uri(),
            (outside / ".env").as_uri(),
            "untitled:Untitled-1",
            "vscode-remote://host/w/docs/a.py",
            "vscode-remote://host/w/x.gen.py",
            "vscode-remote://host/w/a.py",
        ]
    }
    assert list(judged.values()) == [
        (True, True),
        (True, False),
        (False, False),
        (True, True),
        (True, False),
        (True, True),
        (False, False),
        (True, True),
        (False, False),
        (False, False),
        (True, True),
    ]


def test_patterns_of_the_user_add_to_the_defaults(world):
    """B59: a user's list, even one that would take back, leaves the built-in rules as they are."""
    world.rules.set_exclude(["!.env", "!*", "docs/"])
    world.write(".env", CANARY_1)
    assert world.rules.refusal(world.root / ".env") == ".env files hold secrets"
    assert world.rules.completion_refusal((world.root / ".env").as_uri())


def test_an_open_link_to_a_secret_file_is_secret(world):
    """B61: a document opened through a link to .env is .env."""
    world.write(".env", CANARY_1)
    world.link("k.py", world.root / ".env")
    assert world.rules.completion_refusal((world.root / "k.py").as_uri()) == ".env files hold secrets"
    world.open("k.py", CANARY_1)
    assert "canary" not in everything(world.gather(world.open("app.py")))


def test_untitled_documents_never_reach_the_disk(world, monkeypatch):
    """B53: a file named like an unsaved document is not read; the document itself is context."""
    world.write("Untitled-1", "SECRET\n")
    monkeypatch.chdir(world.root)
    untitled = world.open("untitled:Untitled-1", "x = 2\n")
    app = world.open("app.py")
    assert [buffer.text for buffer in world.gather(app).buffers] == ["x = 2\n"]
    world.documents.remove(untitled)
    world.gatherer.forget(untitled.key)
    assert "SECRET" not in everything(world.gather(app))
    gathered = world.gather(world.open("untitled:Untitled-2", "import Untitled_1\n"))
    assert "SECRET" not in everything(gathered)


def test_a_file_is_never_its_own_context(world):
    """B50: neither the document, nor its disk copy, nor another name of it comes in."""
    world.write("a.py", "old = 1\n")
    world.link("same.py", world.root / "a.py")
    os.link(world.root / "a.py", world.root / "hard.py")
    world.open("same.py", "old = 1\n")
    gathered = world.gather(world.open("a.py", "import a, same, hard\nnew = 1\n"))
    assert gathered.buffers == ()


def test_an_open_document_wins_over_its_disk_copy(world):
    """B50: with unsaved edits only the buffer is used, under whatever name the file is open; each file comes once."""
    world.write("b.py", "disk = 1\n")
    world.link("b_link.py", world.root / "b.py")
    world.open("b_link.py", "buffer_link = 1\n")
    world.open("b.py", "buffer = 1\n")
    gathered = world.gather(world.open("a.py", "import b, b_link\n"))
    assert [buffer.text for buffer in gathered.buffers] == ["buffer = 1\n"]


def test_a_document_far_down_the_list_still_hides_its_disk_copy(world):
    """B50: with a hundred documents open, the old text on disk of the last of them is not read either."""
    world.write("b.py", "disk = 1\n")
    world.open("b.py", "buffer = 1\n")
    for number in range(100):
        world.open(f"untitled:{number}", f"x{number} = 1\n")
    gathered = world.gather(world.open("a.py", "import b\n"))
    assert "disk" not in everything(gathered)
    assert len(gathered.buffers) == context.MAX_OPEN


def test_cells_come_first_and_in_order(world):
    """B54: the nearest cell above ranks first, then those further up, then those below; the JSON never comes."""
    world.write("n.ipynb", '{"cells": ["json"]}')
    cells = [
        Doc(f"vscode-notebook-cell:{(world.root / 'n.ipynb').as_posix()}#W{number}", f"cell{number} = 1\n")
        for number in range(4)
    ]
    world.notebooks.append(cells)
    world.documents.extend(cells)
    world.open("n.ipynb", '{"cells": ["json"]}', language="json")
    world.open("other.py", "other = 1\n")
    gathered = world.gather(cells[2])
    assert [buffer.text.split()[0] for buffer in gathered.buffers] == ["cell1", "cell0", "cell3", "other"]
    assert "json" not in repr(gathered.buffers)
    cells.pop(0)
    world.documents.pop(2)
    assert "cell0" not in everything(world.gather(cells[1]))


def test_cells_of_an_ignored_notebook_know_each_other_alone(world):
    """B59: an ignored notebook is completed from its own cells; other documents do not see them."""
    world.write(".gitignore", "n.ipynb\n")
    cells = [
        Doc(f"vscode-notebook-cell:{(world.root / 'n.ipynb').as_posix()}#W{n}", f"cell{n} = 1\n") for n in range(2)
    ]
    world.notebooks.append(cells)
    world.documents.extend(cells)
    assert [buffer.text for buffer in world.gather(cells[1]).buffers] == ["cell0 = 1\n"]
    assert world.gather(world.open("a.py")).buffers == ()


def test_relevant_documents_come_before_merely_recent_ones(world):
    """Shared identifiers and the same language weigh more than having been looked at last."""
    world.open("kin.py", "shipping_cost = parcel_weight * country_rate\n")
    for number in range(3):
        world.open(f"page{number}.md", f"words about something else {number}\n", language="markdown")
    app = world.open("app.py", "shipping_cost(parcel_weight, country_rate)\n")
    assert names(world.gather(app)) == ["kin.py", "page2.md", "page1.md", "page0.md"]


def test_roots_may_come_and_go(world, tmp_path_factory):
    """B58: rules and files follow the roots; what came from a removed root is dropped."""
    other = tmp_path_factory.mktemp("web").resolve()
    (other / "b.py").write_text("b = 1\n")
    (other / ".gitignore").write_text("c.py\n")
    (other / "c.py").write_text("c = 1\n")
    world.write("b.py", "wrong = 1\n")
    world.rules.set_roots([world.root, other])
    document = world.open((other / "a.py").as_uri(), "import b, c\n")
    assert [buffer.text for buffer in world.gather(document).buffers] == ["b = 1\n"]
    world.rules.set_roots([world.root])
    assert world.gatherer.rules_changed() == (str(other / "b.py"),)
    assert world.gather(document).buffers == ()
    world.rules.set_roots([other, world.root])
    world.gatherer.rules_changed()
    assert [buffer.text for buffer in world.gather(document).buffers] == ["b = 1\n"]


def test_a_file_that_becomes_ignored_is_dropped(world):
    """B59: told of a new .gitignore, the gatherer names what must be forgotten, open or not, and uses it no more."""
    file = world.write("local.py", f"v = '{CANARY_2}'\n")
    opened = world.open("settings.py", f"w = '{CANARY_2}'\n")
    app = world.open("app.py", "import local\n")
    assert CANARY_2 in everything(world.gather(app))
    ignore_file = world.write(".gitignore", "local.py\nsettings.py\n")
    assert set(world.gatherer.changed(ignore_file, "created")) == {str(file), opened.key}
    gathered = world.gather(app)
    assert gathered.buffers == () and gathered.dropped == ()


def test_a_file_that_becomes_ignored_is_dropped_without_a_watcher(world, now, monkeypatch):
    """B59, B63: with nobody to tell, the next request after a second names what must be forgotten, once."""
    monkeypatch.setattr("lsp_server.privacy.ignore.time.monotonic", lambda: now[0])
    file = world.write("local.py", f"v = '{CANARY_2}'\n")
    app = world.open("app.py", "import local\n")
    assert CANARY_2 in everything(world.gather(app))
    world.write(".gitignore", "local.py\n")
    now[0] += 1.0
    gathered = world.gather(app)
    assert gathered.buffers == () and gathered.dropped == (str(file),)
    now[0] += 1.0
    assert world.gather(app).dropped == ()


def test_deleted_files_and_folders_are_dropped(world):
    """B59: a deleted or renamed file is named as dropped, a folder with all that was below it."""
    one, two = world.write("pkg/one.py", "one = 1\n"), world.write("pkg/two.py", "two = 1\n")
    app = world.open("app.py", "from pkg import one, two\n")
    assert len(world.gather(app).buffers) == 2
    one.unlink()
    assert world.gatherer.changed(one, "deleted") == (str(one),)
    assert world.gatherer.changed(two, "changed") == ()
    shutil.rmtree(two.parent)
    assert world.gatherer.changed(two.parent, "deleted") == (str(two),)
    assert world.gather(app).buffers == ()


def test_files_edited_elsewhere_come_in(world):
    """Files that the watcher saw change are context for documents of the same language."""
    file = world.write("far/away/edited.py", "edited = 1\n")
    app = world.open("app.py")
    assert world.gather(app).buffers == ()
    world.gatherer.changed(file, "created")
    assert [used.why for used in world.gather(app).used] == ["edited lately"]


def test_a_changed_file_is_read_again_without_being_told(world):
    """B63: every use looks at the date, and the version grows with it."""
    file = world.write("b.py", "first = 1\n")
    app = world.open("app.py")
    before = world.gather(app).buffers[0]
    file.write_text("second = 22\n")
    os.utime(file, ns=(before.version + 10**9, before.version + 10**9))
    after = world.gather(app).buffers[0]
    assert after.text == "second = 22\n"
    assert (before.path, before.version < after.version) == (after.path, True)


def test_nothing_is_made_twice(world, now, monkeypatch):
    """When nothing changed, no text is made, masked or read again, and the answer is the same."""
    world.write("near.py")
    other = world.open("other.py")
    app = world.open("app.py", "import near\n")
    first = world.gather(app)
    monkeypatch.setattr(open_texts, "masked", None)
    monkeypatch.setattr("lsp_server.context.file_cache.masked", None)
    monkeypatch.setattr(context, "related_files", None)
    reads = app.reads, other.reads
    assert world.gather(app) == first
    assert (app.reads, other.reads) == reads


def test_an_edited_document_is_masked_anew(world):
    """The text follows the version, and a reopened document of the same version is another one."""
    other = world.open("other.py", "first = 1\n")
    app = world.open("app.py")
    world.gather(app)
    other.text, other.version = "second = 1\n", 2
    buffer = world.gather(app).buffers[0]
    assert (buffer.path, buffer.version, buffer.text) == (other.key, 2, "second = 1\n")
    world.documents.remove(other)
    world.open("other.py", "third = 1\n", version=2)
    assert world.gather(app).buffers[0].text == "third = 1\n"


def test_long_documents_are_declined_with_a_reason(world):
    """B66: a document of several megabytes is no context, and its text is never made."""
    big = world.open("big.py", "x = 1\n" * 200_000)
    gathered = world.gather(world.open("app.py"))
    assert gathered.buffers == () and big.reads == 0
    assert rules_of(gathered) == {"big.py": "it is longer than 400,000 characters"}
    assert world.gather(big).used[0].path.endswith("app.py")
    assert big.reads == 0


def test_all_texts_together_are_bounded(world):
    """B64: however many long documents are open, a context stays below its bound."""
    for number in range(12):
        world.open(f"b{number}.py", f"x{number} = 1\n" * 35_000)
    gathered = world.gather(world.open("app.py"))
    assert sum(len(buffer.text) for buffer in gathered.buffers) <= 2_000_000
    assert len(gathered.buffers) >= 4


def test_related_files_can_be_left_out(world):
    """Without related files nothing on disk is listed or read."""
    world.write("near.py")
    assert world.gather(world.open("app.py"), related=False).buffers == ()


def test_the_folders_in_use_are_told(world):
    """B63: the root, the document's folder and those of related files are told, for watching; nothing else."""
    world.write("lib/b.py")
    world.gather(world.open("src/a.py", "from lib import b\n"))
    assert set(world.folders) == {world.root, world.root / "src", world.root / "lib"}


def test_a_snapshot_may_be_used_on_another_thread(world):
    """What is gathered from a snapshot is what stood there when it was taken, whatever happens meanwhile."""
    other = world.open("other.py", "before = 1\n")
    snapshot = world.gatherer.snapshot(world.open("app.py"))
    other.text, other.version = "after = 1\n", 2
    world.gatherer.forget(other.key)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(world.gatherer.gather_from(snapshot)))
    thread.start()
    thread.join()
    assert [buffer.text for buffer in answers[0].buffers] == ["before = 1\n"]


def test_awkward_names_are_four_documents(world):
    """B55: spaces, percent signs and hashes in names are told apart, open and on disk."""
    for name in ("a b.py", "a%20b.py", "100%.py", "q#.py"):
        world.write(name, f"# {name}\n")
    world.open("a b.py", "# open\n")
    texts = {buffer.text for buffer in world.gather(world.open("main.py")).buffers}
    assert texts == {"# open\n", "# a%20b.py\n", "# 100%.py\n", "# q#.py\n"}

"""Watching: few folders, one message when the limit is hit, and an end that does not wait."""

import contextlib
import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from watchdog.observers.api import BaseObserver

from lsp_server.context import watcher as watching
from lsp_server.context.watcher import WorkspaceWatcher

PATIENCE = 20  # seconds until a test gives up on an event that should have come


class Told:
    """What the watcher told, with a way to wait for it."""

    def __init__(self):
        self.changes = []
        self.messages = []
        self._news = threading.Condition()

    def change(self, path, kind):
        with self._news:
            self.changes.append((path.name, kind))
            self._news.notify_all()

    def limit(self, message):
        with self._news:
            self.messages.append(message)
            self._news.notify_all()

    def wait(self, ready):
        with self._news:
            return self._news.wait_for(ready, PATIENCE)

    def saw(self, *change):
        return self.wait(lambda: change in self.changes)


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def watcher(told):
    made = WorkspaceWatcher(told.change, told.limit)
    yield made
    made.close()


@pytest.fixture
def watched(watcher, monkeypatch):
    """Start to watch folders and return when that is done; gives the list of folders that watchdog watches."""
    now, news = [], threading.Condition()
    schedule, unschedule = BaseObserver.schedule, BaseObserver.unschedule

    def count_in(self, handler, path, **more):
        assert more["recursive"] is False
        made = schedule(self, handler, path, **more)
        with news:
            now.append(str(path))
            news.notify_all()
        return made

    def count_out(self, watch):
        unschedule(self, watch)
        with news:
            now.remove(watch.path)
            news.notify_all()

    def start(*folders):
        for folder in folders:
            watcher.watch(folder)
        with news:
            assert news.wait_for(lambda: str(folders[-1]) in now and len(now) <= watching.MAX_FOLDERS, PATIENCE)
        return now

    monkeypatch.setattr(BaseObserver, "schedule", count_in)
    monkeypatch.setattr(BaseObserver, "unschedule", count_out)
    return start


def fail_with(monkeypatch, error):
    def schedule(*args, **more):
        raise error

    monkeypatch.setattr(BaseObserver, "schedule", schedule)


def test_changes_in_a_watched_folder_are_told(tmp_path, watched, told):
    """A file made, changed, renamed or deleted is told with what happened to it."""
    watched(tmp_path)
    file = tmp_path / "a.py"
    file.write_text("a = 1\n")
    assert told.saw("a.py", "created")
    file.write_text("a = 2\n")
    assert told.saw("a.py", "changed")
    file.rename(tmp_path / "b.py")
    assert told.saw("a.py", "deleted") and told.saw("b.py", "created")
    (tmp_path / "b.py").unlink()
    assert told.saw("b.py", "deleted")


def test_a_new_ignore_file_is_told(tmp_path, watched, told):
    """B59: a new .gitignore is told like any file, so that what it hides can be purged."""
    watched(tmp_path)
    (tmp_path / ".gitignore").write_text("local.py\n")
    assert told.saw(".gitignore", "created")


def test_only_the_folder_itself_is_watched(tmp_path, watched, told):
    """B64: what happens further below is not told, so no tree is ever watched."""
    (tmp_path / "node_modules" / "x").mkdir(parents=True)
    watched(tmp_path)
    (tmp_path / "node_modules" / "x" / "deep.js").write_text("")
    (tmp_path / "near.py").write_text("")
    assert told.saw("near.py", "created")
    assert not any(name == "deep.js" for name, _ in told.changes)


def test_the_number_of_watched_folders_is_bounded(tmp_path, watched):
    """B63: of ten thousand folders the few used last are watched; the first are given up."""
    folders = [tmp_path / str(number) for number in range(watching.MAX_FOLDERS + 40)]
    for folder in folders:
        folder.mkdir()
    now = watched(*folders)
    assert sorted(now) == sorted(map(str, folders[-watching.MAX_FOLDERS :]))


def test_a_folder_in_use_stays_watched(tmp_path, watched):
    """B63: asking for a folder again keeps it, others go first."""
    folders = [tmp_path / str(number) for number in range(watching.MAX_FOLDERS + 1)]
    for folder in folders:
        folder.mkdir()
    watched(*folders[:-1])
    now = watched(folders[0], folders[-1])
    assert str(folders[0]) in now and str(folders[1]) not in now


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux tells which descriptors are inotify's")
def test_one_instance_serves_all_folders(tmp_path, watched):
    """B63: the per-user limit on inotify instances, often 128, is hardly touched."""
    for number in range(20):
        (tmp_path / str(number)).mkdir()
    watched(*(tmp_path / str(number) for number in range(20)))
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            links.append(str(descriptor.readlink()))
    assert sum("inotify" in link for link in links) <= 2


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize(("client", "mode"), [(True, "client"), (False, "none")])
def test_a_limit_is_told_once_and_others_take_over(tmp_path, watcher, told, monkeypatch, number, client, mode):
    """B63: out of watches or instances, there is one clear message; the client's notices are used where it has them."""
    fail_with(monkeypatch, OSError(number, os.strerror(number)))
    watcher.client_can_watch = client
    for name in "abc":
        watcher.watch(tmp_path / name)
    assert told.wait(lambda: told.messages)
    watcher.watch(tmp_path)
    assert watcher.mode == mode
    assert len(told.messages) == 1 and "max_user_watches" in told.messages[0]
    watcher.client_event(tmp_path / "a.py", "changed")
    assert told.changes == ([("a.py", "changed")] if client else [])


def test_any_failure_of_watchdog_is_survived(tmp_path, watcher, told, monkeypatch):
    """B63: whatever else goes wrong in watchdog is told once and ends the watching, not the server."""
    fail_with(monkeypatch, RuntimeError("no such luck"))
    watcher.watch(tmp_path)
    assert told.wait(lambda: told.messages)
    assert watcher.mode == "none" and "no such luck" in told.messages[0]


def test_a_missing_watchdog_is_survived(tmp_path, watcher, told, monkeypatch):
    """A broken installation of watchdog costs the watching alone."""
    monkeypatch.setitem(sys.modules, "watchdog.observers", None)
    watcher.watch(tmp_path)
    assert told.wait(lambda: told.messages)
    assert watcher.mode == "none"


def test_a_folder_that_is_gone_is_no_failure(tmp_path, watched, watcher, told):
    """A folder deleted before it could be watched is passed over, and watched when it is there again."""
    later = tmp_path / "later"
    watcher.watch(later)
    watched(tmp_path)
    later.mkdir()
    assert told.saw("later", "created")
    watched(later)
    assert watcher.mode == "watchdog" and told.messages == []


def test_a_folder_made_anew_is_watched_anew(tmp_path, watched, told):
    """A folder that was deleted and made again is told of again."""
    folder = tmp_path / "pkg"
    folder.mkdir()
    watched(tmp_path, folder)
    folder.rmdir()
    assert told.saw("pkg", "deleted")
    folder.mkdir()
    assert told.saw("pkg", "created")
    now = watched(folder)
    (folder / "a.py").write_text("")
    assert told.saw("a.py", "created"), now


def test_a_client_is_not_listened_to_while_watching_works(tmp_path, watcher, told):
    """Two notices of one change would do all work twice."""
    watcher.client_event(tmp_path / "a.py", "changed")
    assert told.changes == []


def test_a_storm_of_changes_is_bounded(tmp_path, watcher):
    """B64: a build that writes thousands of files makes few notices: some files, then their folder."""

    class Event:
        event_type, is_directory, dest_path = "created", False, ""

        def __init__(self, path):
            self.src_path = path

    for number in range(5000):
        watcher.note(Event(str(tmp_path / f"{number}.o")))
    assert len(watcher._pending) <= watching._MAX_PENDING + 1
    assert watcher._pending[str(tmp_path)] == "created"


def test_a_failing_listener_does_not_end_the_watching(tmp_path, watched, watcher, told, monkeypatch):
    """An error in what follows a change is logged; the next change is told."""
    calls = []

    def fail_once(path, kind):
        calls.append(path)
        if len(calls) == 1:
            raise ValueError("listener")
        told.change(path, kind)

    monkeypatch.setattr(watcher, "_on_change", fail_once)
    watched(tmp_path)
    (tmp_path / "a.py").write_text("")
    assert told.wait(lambda: True) and watcher.mode == "watchdog"
    (tmp_path / "b.py").write_text("")
    assert told.saw("b.py", "created")
    assert told.messages == []


def test_closing_does_not_wait_for_a_stuck_observer(tmp_path, watched, watcher, monkeypatch):
    """The end comes at once even when watchdog's threads hang; they are daemons and end with the process."""
    stuck = threading.Event()
    monkeypatch.setattr(BaseObserver, "stop", lambda self: stuck.wait(PATIENCE))
    watched(tmp_path)
    watcher.close()
    assert not stuck.is_set()
    assert watcher._thread.is_alive() and watcher._thread.daemon
    watcher.watch(tmp_path)  # after the end nothing is watched any more
    stuck.set()


def test_start_up_does_not_import_watchdog():
    """The library is imported when the first folder is watched, on a thread of its own."""
    code = "import sys, lsp_server.context.watcher; sys.exit(any(name.startswith('watchdog') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

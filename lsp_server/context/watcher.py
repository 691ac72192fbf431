"""Notice of changes on disk: a few folders are watched, never a tree, so that other programs keep their share.

Nothing depends on it: every use of a file looks at its date. When watching fails, the client's own notices take over,
or none. watchdog is imported on a thread of our own, at the first folder, because start-up must not pay for it.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers.api import BaseObserver, ObservedWatch

log = logging.getLogger(__name__)

Kind = Literal["created", "changed", "deleted"]
Mode = Literal["watchdog", "client", "none"]

MAX_FOLDERS = 64
_MAX_PENDING = 256  # changes that wait; more of one folder become one change of the folder
_PAUSE = 0.1  # seconds in which changes of one file are taken together
_CLOSE_WAIT = 0.4  # seconds that `close` waits for the threads, which end with the process anyway
_KINDS: dict[str, Kind] = {"created": "created", "modified": "changed", "deleted": "deleted"}


class WorkspaceWatcher:
    """Watches the folders in use, not what is below them. `on_change` and `on_limit` are called on another thread.

    `mode` says who gives notice. `on_limit` gets one message, once, when watching fails. Set `client_can_watch` when
    the client knows `workspace/didChangeWatchedFiles` by registration; it decides what follows a failure.
    """

    def __init__(
        self,
        on_change: Callable[[Path, Kind], None],
        on_limit: Callable[[str], None],
        client_can_watch: bool = False,
    ) -> None:
        self.mode: Mode = "watchdog"
        self.client_can_watch = client_can_watch
        self._on_change = on_change
        self._on_limit = on_limit
        self._wanted: OrderedDict[str, None] = OrderedDict()  # the latest used last
        self._is_behind = False  # what is wanted differs from what is watched
        self._pending: dict[str, Kind] = {}
        self._wake = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def watch(self, folder: Path) -> None:
        """Watch a folder from soon on; the one that was not asked for longest is given up when there are too many."""
        key = str(folder)
        with self._wake:
            if self._closed or self.mode != "watchdog":
                return
            known = key in self._wanted
            self._wanted[key] = None
            self._wanted.move_to_end(key)
            while len(self._wanted) > MAX_FOLDERS:
                self._wanted.popitem(last=False)
            if not known:
                self._is_behind = True
                self._start()
                self._wake.notify_all()

    def client_event(self, path: Path, kind: Kind) -> None:
        """Pass on a notice of the client, unless our own watching works."""
        if self.mode == "client":
            self._on_change(path, kind)

    def close(self) -> None:
        """Stop watching."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        if self._thread and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_WAIT)

    def note(self, event: FileSystemEvent) -> None:
        """Take an event of watchdog; a move is an end and a beginning."""
        source, target = os.fsdecode(event.src_path), os.fsdecode(event.dest_path)
        if event.event_type == "moved":
            self._note(source, "deleted")
            self._note(target, "created")
        elif event.event_type in _KINDS and not (event.is_directory and event.event_type == "modified"):
            self._note(source, _KINDS[event.event_type])

    def _note(self, path: str, kind: Kind) -> None:
        with self._wake:
            if len(self._pending) >= _MAX_PENDING and path not in self._pending:
                path, kind = os.path.dirname(path), "created"  # noqa: PTH120  (events come in thousands)
            if kind == "deleted":
                self._wanted.pop(path, None)  # a folder of that name that comes later is another
            earlier = self._pending.get(path)
            self._pending[path] = "created" if (earlier, kind) == ("created", "changed") else kind
            self._wake.notify_all()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        """Keep the watches as they are wanted and hand changes on, until closed or watching fails."""
        observing = _Observing(self.note)
        try:
            while self._wait():
                self._agree(observing)
                self._hand_on()
        except Exception as error:  # whatever watchdog meets must not end the server
            self._give_up(error)
        observing.stop()

    def _wait(self) -> bool:
        """Wait for something to do and, with changes, a moment for more of them; return False when closed."""
        with self._wake:
            self._wake.wait_for(lambda: self._closed or self._is_behind or bool(self._pending))
            if self._pending:
                self._wake.wait_for(lambda: self._closed, _PAUSE)
            return not self._closed

    def _agree(self, observing: _Observing) -> None:
        with self._wake:
            wanted, self._is_behind = list(self._wanted), False
        missing = observing.agree_with(wanted)
        with self._wake:
            for folder in missing:
                self._wanted.pop(folder, None)

    def _hand_on(self) -> None:
        with self._wake:
            changes, self._pending = self._pending, {}
        for path, kind in changes.items():
            try:
                self._on_change(Path(path), kind)
            except Exception:
                log.exception("a change on disk could not be taken note of")

    def _give_up(self, error: Exception) -> None:
        with self._wake:
            self.mode = "client" if self.client_can_watch else "none"
            self._wanted.clear()
            self._pending.clear()
        log.info("watching failed: %r", error)
        self._on_limit(_message(error, self.mode))


class _Observing:
    """watchdog's observer and what it watches now. Used on the watcher's thread alone."""

    def __init__(self, note: Callable[[FileSystemEvent], None]) -> None:
        self._note = note
        self._observer: BaseObserver | None = None
        self._watches: dict[str, ObservedWatch] = {}

    def agree_with(self, wanted: Sequence[str]) -> list[str]:
        """Watch these folders and no others; return those that cannot be watched because they are not there."""
        for folder in self._watches.keys() - set(wanted):
            self._unwatch(folder)
        return [folder for folder in wanted if folder not in self._watches and not self._watch(folder)]

    def stop(self) -> None:
        """End watchdog's threads."""
        if self._observer:
            self._observer.stop()

    def _watch(self, folder: str) -> bool:
        from watchdog import events

        observer = self._started()
        kinds = [events.FileCreatedEvent, events.FileModifiedEvent, events.FileDeletedEvent, events.FileMovedEvent]
        kinds += [events.DirCreatedEvent, events.DirDeletedEvent, events.DirMovedEvent]
        handler = _handler(self._note)
        try:
            self._watches[folder] = observer.schedule(handler, folder, recursive=False, event_filter=kinds)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return False
        return True

    def _unwatch(self, folder: str) -> None:
        watch = self._watches.pop(folder)
        if self._observer:
            with suppress(KeyError):  # it went away with its folder
                self._observer.unschedule(watch)

    def _started(self) -> BaseObserver:
        if self._observer is None:
            from watchdog.observers import Observer

            observer = Observer()
            observer.start()
            self._observer = observer
        return self._observer


def _handler(note: Callable[[FileSystemEvent], None]) -> FileSystemEventHandler:
    from watchdog.events import FileSystemEventHandler

    class Handler(FileSystemEventHandler):
        def on_any_event(self, event: FileSystemEvent) -> None:
            note(event)

    return Handler()


def _message(error: Exception, mode: Mode) -> str:
    limit = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
    cause = "the system's limit on watched folders is reached" if limit else f"folders cannot be watched ({error})"
    then = "the editor's own notices are used instead" if mode == "client" else "files are looked at when they are used"
    advice = "; on Linux, raise fs.inotify.max_user_watches or max_user_instances" if limit else ""
    return f"Changes outside the editor may be noticed a little later: {cause}, {then}{advice}."

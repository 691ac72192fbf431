"""Peers: the same ids, the same limits, decode-only times; and the plot, which takes the same optional packages."""

from __future__ import annotations

import importlib
import io
from importlib.util import find_spec

import pytest
from rich.console import Console

from engine.bench import peer_llamacpp, plot
from engine.bench.benchmark import Benchmark
from engine.bench.command import run_bench
from engine.bench.peer_llamacpp import LlamaPeer, open_llamacpp
from engine.bench.peer_transformers import open_transformers
from engine.bench.peers import OpenedPeers, PeerContestant, PeerJob, PeerRun, open_peers, require_memory
from engine.bench.run import Opening, Run
from engine.catalog import models_dir
from engine.config import EngineConfig
from engine.errors import ConfigError
from tests.bench_data import make_data, small, two_models
from tests.conftest import REAL
from tests.tiny_models import quietly, random_ids, write_gguf

ENDS = frozenset({0})


class FakePeer:
    """Writes fixed ids at fixed times and remembers what it was asked."""

    family = "fake"

    def __init__(self, name: str = "fake", ids=(5, 6, 7), stamps=(1.0, 2.0, 3.0)) -> None:
        self.name, self.ids, self.stamps, self.asked = name, tuple(ids), tuple(stamps), []

    def generate(self, prompt, most, ends):
        self.asked.append((tuple(prompt), most))
        return PeerRun(self.ids[:most], self.stamps[:most])


class FakeLlama:
    """The part of llama-cpp-python's model that is used: an endless generator of tokens."""

    def __init__(self, ids) -> None:
        self.ids, self.closed, self.options = ids, False, {}

    def generate(self, tokens, **options):
        self.options = options
        try:
            yield from self.ids
        finally:
            self.closed = True


def opening(prompt=(1, 2), spelt=()) -> Opening:
    return Opening(Run((9, 5, 6, 7), "", 3, 1.0), prompt, spelt)


def decode(ids) -> str:
    return "".join(chr(65 + i) for i in ids)


@pytest.fixture(scope="module")
def pair(tiny, tiny_draft, tmp_path_factory):
    return two_models(tiny, tiny_draft, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def job(tiny, tiny_draft, tmp_path_factory):
    return PeerJob(str(tiny), str(tiny_draft), tmp_path_factory.mktemp("models"), 1, 256)


def test_a_peer_starts_behind_the_tokens_that_healing_spelt():
    """A peer's prompt is ours plus the spelt tokens, its limit is what is left, its text is compared whole."""
    peer = FakePeer()
    run = PeerContestant(peer, 4, ENDS, decode).run(None, opening(spelt=(9,)))
    assert peer.asked == [((1, 2, 9), 3)]
    assert run.ids == (9, 5, 6, 7) and run.text == "JFGH"


def test_tokens_of_the_first_pass_are_not_timed():
    """What came at the first stamp came with the prompt's pass; the end token is a token but no text."""
    peer = FakePeer(ids=(5, 6, 7, 8, 0), stamps=(1.0, 1.0, 1.5, 1.5, 2.0))
    run = PeerContestant(peer, 9, ENDS, decode).run(None, opening())
    assert (run.tokens, run.ms, run.ids) == (3, 1000.0, (5, 6, 7, 8))
    once = PeerContestant(FakePeer(ids=(5,), stamps=(1.0,)), 9, ENDS, decode).run(None, opening())
    assert once.rate is None


def test_peers_run_in_turn_with_our_variants(pair, tmp_path):
    """Peers get the ids our engine read, appear in results and comparisons, and our texts end as theirs do."""
    models, config = pair
    peers = OpenedPeers([FakePeer("fake"), FakePeer("fake lookup", stamps=(1.0, 1.1, 1.2))], {"fake": {"v": 1}}, [])
    settings = small(make_data(tmp_path / "data"), suites=("buffers", "overhead"), peers=True)
    report = Benchmark(settings, config, models, tmp_path, Console(file=io.StringIO()), peers).run()
    found = report.as_json()
    assert found["settings"]["stop"] == "free" and found["peers"] == {"fake": {"v": 1}}
    assert {r["contestant"] for r in found["results"]} >= {"none", "both", "fake", "fake lookup"}
    assert {(v.ours, v.others, v.best) for v in report.versus} == {
        ("both", "fake", "fake lookup"),
        ("none", "fake, plain", "fake"),
    }
    prompts = {prompt for prompt, _ in peers.peers[0].asked}
    assert len(prompts) == 3 and all(len(prompt) > 10 for prompt in prompts)
    assert "overhead: peers take no part, its texts are drawn at random" in report.skipped
    assert {t.contestant for t in report.tallies if t.suite == "overhead"} == {"none", "lookup", "model", "both"}
    assert not report.failures, "a peer's own text is no failure of ours"


def test_a_peer_that_cannot_be_opened_is_left_out_with_a_sentence(job):
    """One family missing costs that family alone; all missing ends the run before it begins."""

    def broken(_):
        raise RuntimeError("no such thing\nand more")

    opened = open_peers(job, {"a": broken, "b": lambda _: ([FakePeer()], {"x": 1})}, quietly)
    assert opened.missing == ["a left out: no such thing"] and opened.facts == {"b": {"x": 1}}
    with pytest.raises(ConfigError, match=r"no peer could be opened .*leave --peers away"):
        open_peers(job, {"a": broken}, quietly)


def test_what_does_not_fit_into_memory_is_not_loaded():
    """A peer that needs more memory than is free says so instead of pushing everything out."""
    with pytest.raises(ConfigError, match="GiB of memory"):
        require_memory("it", 1e15)
    require_memory("it", 1.0)


def test_transformers_modes_write_the_same_text(job):
    """Plain, lookup and assisted are set up rightly: greedy texts agree, times come in steps, limits hold."""
    peers, facts = open_transformers(job)
    assert [p.name for p in peers] == ["transformers", "transformers lookup", "transformers assisted"]
    assert facts["dtype"] in ("float32", "bfloat16") and set(facts["one_row_ms"]) == {"float32", "bfloat16"}
    for peer in peers:
        peer._module.float()
    prompt = random_ids(20) * 2
    runs = [peer.generate(prompt, 12, {599}) for peer in peers]
    assert len({run.ids for run in runs}) == 1 and len(runs[0].ids) == 12
    assert all(len(run.stamps) == 12 and list(run.stamps) == sorted(run.stamps) for run in runs)
    assert len(set(runs[0].stamps)) == 12


def test_transformers_stops_at_an_end_token(job):
    """The end token is the last id that is returned."""
    peer = open_transformers(job)[0][0]
    prompt = random_ids(20)
    ids = peer.generate(prompt, 6, {599}).ids
    assert peer.generate(prompt, 6, {ids[2], 599}).ids == ids[: ids.index(ids[2]) + 1]


def test_llama_is_greedy_and_stopped_from_outside():
    """The binding's generator is closed at the limit or at an end token, and asked for no sampling."""
    llama = FakeLlama([3, 4, 0, 5])
    run = LlamaPeer("l", llama).generate([1], 9, ENDS)
    assert run.ids == (3, 4, 0) and len(run.stamps) == 3 and llama.closed
    assert llama.options == {"temp": 0.0, "repeat_penalty": 1.0}
    assert LlamaPeer("l", FakeLlama([3, 4, 5])).generate([1], 2, ENDS).ids == (3, 4)


def test_llama_needs_a_gguf_file_and_its_package(job, tiny, tmp_path, monkeypatch):
    """A folder of safetensors, or a missing package, is said in a plain sentence."""
    with pytest.raises(ConfigError, match="reads GGUF files"):
        open_llamacpp(job)
    write_gguf(tiny, tmp_path / "tiny.gguf")

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(peer_llamacpp.importlib, "import_module", missing)
    with pytest.raises(ConfigError, match=r"install foretype\[bench\]"):
        open_llamacpp(PeerJob(str(tmp_path / "tiny.gguf"), None, tmp_path, 1, 256))


@pytest.mark.real
@pytest.mark.skipif(find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed")
def test_real_llama_modes_write(tmp_path):
    """llama.cpp opens the real GGUF file, plain and with prompt lookup; each mode repeats what it wrote."""
    if not (models_dir() / REAL).is_file():
        pytest.skip(f"{REAL} is not here; run `foretype pull cpu-small`")
    peers, facts = open_llamacpp(PeerJob(str(models_dir() / REAL), None, tmp_path, 1, 256))
    assert [p.name for p in peers] == ["llama.cpp", "llama.cpp lookup 2", "llama.cpp lookup 10"]
    assert facts["threads"] == 1
    prompt = random_ids(20) * 2
    for peer in peers:
        first, again = (peer.generate(prompt, 8, set()) for _ in range(2))
        assert first.ids == again.ids
        assert len(first.ids) == 8


def test_peers_without_a_suite_they_take_part_in_are_refused(tmp_path):
    """`--peers` with `passes` alone is a mistake that is said at once."""
    with pytest.raises(ConfigError, match="leave --peers"):
        run_bench(small(None, suites=("passes",), peers=True), EngineConfig(), tmp_path, None, Console())


def test_a_plot_without_matplotlib_is_refused_before_anything_is_measured(tmp_path, monkeypatch):
    """A missing package is said at once, not after an hour."""

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(plot.importlib, "import_module", missing)
    with pytest.raises(ConfigError, match=r"needs matplotlib.*install foretype\[bench\]"):
        run_bench(small(None), EngineConfig(), tmp_path, tmp_path / "p.png", Console())


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
def test_a_plot_is_written_as_png(pair, tmp_path):
    """The picture is a PNG file with a bar for each contestant of each data set."""
    models, config = pair
    settings = small(make_data(tmp_path / "data"), suites=("infill",))
    report = Benchmark(settings, config, models, tmp_path, Console(file=io.StringIO())).run()
    plot.draw(report, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert importlib.import_module("matplotlib.pyplot").get_fignums() == []

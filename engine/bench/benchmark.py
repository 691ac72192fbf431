"""A whole run: every suite asked for, on models that are loaded, into one report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from engine.bench.checks import changed_texts, dead_data_sets, idle_drafters
from engine.bench.contestant import Contestant, EngineContestant, engine_contestants, opener
from engine.bench.machine import describe_machine, describe_models
from engine.bench.measure import DataSet, Measurement
from engine.bench.overhead import TEMPERATURE
from engine.bench.passes import measure_passes
from engine.bench.peers import OpenedPeers, PeerContestant
from engine.bench.recording import read_events
from engine.bench.report import Report
from engine.bench.session import first_minutes, play_session
from engine.bench.settings import GENERATION, Settings
from engine.bench.suites import NO_DATA, data_sets
from engine.bench.tally import versus_best
from engine.bench.variants import PLAIN, Variant, compared, product, prompt_forms
from engine.config import EngineConfig, Limits, SamplingParams
from engine.engine import Engine
from engine.errors import ConfigError
from engine.models import LoadedModels

PASS_REPEATS = 3  # passes for each repeat of a hole: one takes a moment only
NO_PEERS = OpenedPeers([], {}, [])


class Benchmark:
    """One run on loaded models."""

    def __init__(
        self,
        settings: Settings,
        config: EngineConfig,
        models: LoadedModels,
        folder: Path,
        console: Console,
        peers: OpenedPeers = NO_PEERS,
    ) -> None:
        self._settings, self._config, self._models = settings, config, models
        self._peers = peers
        self._progress = _progress(console)
        self._ours: list[EngineContestant] = []
        self._running: Measurement | None = None
        # Nobody else knows where a block ends, so beside peers only the end token and the limit stop a text.
        self._limits = Limits(settings.max_tokens, "free" if peers.peers else "block")
        self.report = Report(settings, describe_machine(), describe_models(models, folder), self._limits.stop)
        self.report.peers.update(peers.facts)
        self.report.skipped += peers.missing

    def run(self) -> Report:
        """Run every suite; what was measured stays in the report, also after Ctrl-C."""
        try:
            with self._progress:
                for suite in self._settings.suites:
                    self._suite(suite)
        except KeyboardInterrupt:
            self.report.interrupted = True
        self._compare()
        self._judge()
        return self.report

    def _suite(self, suite: str) -> None:
        try:
            if suite == "session":
                self._session()
            elif suite == "passes":
                self._passes()
            else:
                self._generate(suite)
        except ConfigError as error:
            self.report.skipped.append(f"{suite} skipped: {error}")

    def _generate(self, suite: str) -> None:
        for name, read in data_sets(suite, self._settings).items():
            try:
                if not (holes := read()):
                    raise ConfigError("the data have no such hole; name their whole folder with --data")
            except ConfigError as error:
                self.report.skipped.append(f"{suite}, {name} skipped: {error}")
                continue
            measurement = self._measurement_of(suite)
            data = DataSet(name, measurement.names)
            self.report.data.append((suite, data))
            measurement.measure(data, holes)

    def _measurement_of(self, suite: str) -> Measurement:
        if suite == "prompt":
            return self._forms()
        return self._chance() if suite == "overhead" else self._contest()

    def _contest(self) -> Measurement:
        """Return variants and peers in one contest, the same for most suites: nobody starts cold in the second."""
        if self._running is None:
            variants = compared(self._settings.compare, self._models.draft is not None)
            ours = self._engines(variants, self._limits)
            ends, decode, most = self._models.target.ends, ours[0].engine.decode, self._settings.max_tokens
            others = [PeerContestant(peer, most, ends, decode) for peer in self._peers.peers]
            self._running = self._measurement(ours, [*ours, *others])
        return self._running

    def _chance(self) -> Measurement:
        """Return our variants writing at random; peers would draw another text, so they take no part."""
        if self._peers.peers:
            self.report.skipped.append("overhead: peers take no part, its texts are drawn at random")
        sampling = SamplingParams(temperature=TEMPERATURE, seed=self._settings.seed)
        variants = compared(self._settings.compare, self._models.draft is not None)
        ours = self._engines(variants, self._limits, sampling)
        return self._measurement(ours, ours)

    def _forms(self) -> Measurement:
        ours = self._engines(prompt_forms(), Limits(self._settings.max_tokens, "free"))
        return self._measurement(ours, ours)

    def _engines(
        self, variants: Sequence[Variant], limits: Limits, sampling: SamplingParams | None = None
    ) -> list[EngineContestant]:
        ours = engine_contestants(self._models, self._config, variants, limits, sampling)
        self._ours += ours
        return ours

    def _measurement(self, ours: Sequence[EngineContestant], everybody: Sequence[Contestant]) -> Measurement:
        return Measurement(opener(ours), everybody, self._settings.repeats, self._progress)

    def _session(self) -> None:
        if self._settings.data is None:
            raise ConfigError(NO_DATA)
        events = first_minutes(read_events(self._settings.data), self._settings.minutes)
        limits = Limits(self._settings.max_tokens, "block")
        play_session(Engine(self._models, self._config), events, limits, self._progress, self.report.sessions)

    def _passes(self) -> None:
        repeats = PASS_REPEATS * self._settings.repeats
        for role, model in (("target", self._models.target), ("draft", self._models.draft)):
            if model is not None:
                measure_passes(role, model, repeats, self._progress, self.report.passes)

    def _compare(self) -> None:
        """Set the product against the best fixed choice and the best mode of each peer, hole by hole."""
        for suite, data in self.report.data:
            if suite not in GENERATION:
                continue
            ours = list(dict.fromkeys(c.name for c in self._ours if c.name in data.contestants))
            pairs = [(product(ours), label, others) for label, others in self._others(ours).items()]
            pairs += [(PLAIN, f"{label}, plain", [label]) for label in self._families() if label in data.contestants]
            for one, label, others in pairs:
                if found := versus_best(suite, data, one, label, others):
                    self.report.versus.append(found)

    def _others(self, ours: Sequence[str]) -> dict[str, list[str]]:
        fixed = [name for name in ours if name not in (PLAIN, product(ours))]
        others = {"fixed choices": fixed} if self._settings.compare == "fixed" else {}
        return others | self._families()

    def _families(self) -> dict[str, list[str]]:
        families: dict[str, list[str]] = {}
        for peer in self._peers.peers:
            families.setdefault(peer.family, []).append(peer.name)
        return families

    def _judge(self) -> None:
        """Say what makes the figures worthless or doubtful."""
        report = self.report
        compared_texts = [tally for tally in report.tallies if tally.suite in GENERATION]
        names = {contestant.name for contestant in self._ours}
        findings = [changed_texts(compared_texts, names, self._models.target.network.row_exact)]
        if not report.interrupted:
            findings.append(idle_drafters(self._ours))
        for failures, warnings in findings:
            report.failures += failures
            report.warnings += warnings
        report.failures += dead_data_sets(report.data)
        if not (report.data or report.sessions or report.passes or report.interrupted):
            report.failures.append("nothing was measured")


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )

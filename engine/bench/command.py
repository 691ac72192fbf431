"""What `foretype bench` does between its options and its output: load, open peers, run, draw."""

from __future__ import annotations

from pathlib import Path

import torch
from rich.console import Console

from engine.bench.benchmark import NO_PEERS, Benchmark
from engine.bench.gpu_command import run_on_card
from engine.bench.gpu_report import GpuReport
from engine.bench.peers import OpenedPeers, PeerJob, all_openers, open_peers
from engine.bench.plot import draw, require_pyplot
from engine.bench.report import Report
from engine.bench.settings import ON_CARD, WITH_PEERS, Settings
from engine.config import EngineConfig
from engine.errors import ConfigError
from engine.load_report import once_each
from engine.models import LoadedModels, load_models

SPARE_TOKENS = 64  # a draft may reach this far beyond a text's limit


def run_bench(
    settings: Settings, config: EngineConfig, folder: Path, plot: Path | None, console: Console
) -> Report | GpuReport:
    """Run a benchmark and draw `plot`. What cannot work is said before anything is run."""
    if settings.on_card:
        if plot is not None or settings.peers:
            raise ConfigError(
                f"{' and '.join(ON_CARD)} draw no plot and bring their own peers; leave --plot and --peers"
            )
        return run_on_card(settings, config, folder, console)
    return _run_on_models(settings, config, folder, plot, console)


def _run_on_models(
    settings: Settings, config: EngineConfig, folder: Path, plot: Path | None, console: Console
) -> Report:
    if plot is not None:
        require_pyplot()
        if not plot.parent.is_dir():
            raise ConfigError(f"{plot.parent} is not there; name a file in a folder that is")
    if settings.peers and not set(settings.suites) & set(WITH_PEERS):
        raise ConfigError(f"peers take part in {', '.join(WITH_PEERS)} only; name one of these suites or leave --peers")

    def tell(line: str) -> None:
        console.print(line, style="dim", highlight=False, markup=False)

    if config.threads:
        torch.set_num_threads(config.threads)
    models = load_models(config, once_each(tell), folder)
    for note in models.notes:
        console.print(f"note: {note}", style="yellow", highlight=False, markup=False)
    peers = NO_PEERS
    if settings.peers:
        peers = _peers(settings, config, models, folder, console)
    report = Benchmark(settings, config, models, folder, console, peers).run()
    if plot is not None:
        try:
            draw(report, plot)
        except (ConfigError, OSError) as error:  # the figures are worth more than their picture
            report.warnings.append(f"no plot: {error}")
    return report


def _peers(
    settings: Settings, config: EngineConfig, models: LoadedModels, folder: Path, console: Console
) -> OpenedPeers:
    context = (config.context_tokens or models.context_tokens) + settings.max_tokens + SPARE_TOKENS
    job = PeerJob(
        target=models.target.name,
        draft=models.draft.name if models.draft else None,
        models=folder,
        threads=torch.get_num_threads(),
        context_tokens=context,
    )
    return open_peers(job, all_openers(), lambda line: console.print(line, style="dim", highlight=False))

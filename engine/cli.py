"""The `foretype` command: complete at a place in a file, fetch models, look at the machine, measure.

Standard output carries results only; progress, traces and complaints go to standard error.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from functools import wraps
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click
from rich.console import Console
from rich.table import Table

from engine import Buffer, CompletionRequest, EngineConfig, EngineError, Limits, SamplingParams
from engine.catalog import Profile, load_catalog, models_dir, resolve_profile
from engine.core import CompletionSummary
from engine.load_report import once_each
from engine.location import offset_of, parse_location, read_text
from engine.trace_page import page_data, require_writable, scene_of, write_page

if TYPE_CHECKING:
    from engine import Engine

LOG_LEVEL = "FORETYPE_LOG"  # the one environment variable
P = ParamSpec("P")
R = TypeVar("R")

stderr = Console(stderr=True)


def _plainly(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the engine's errors into one line and exit code 1."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except EngineError as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            sys.exit(130)
        except BrokenPipeError:  # `foretype complete … | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.exit(0)

    return run


def _version() -> str:
    try:
        return metadata.version("foretype")
    except metadata.PackageNotFoundError:  # run from a source tree
        return "unknown (not installed)"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), prog_name="foretype")
def main() -> None:
    """Complete code with a local large model, exactly and fast."""
    level = os.environ.get(LOG_LEVEL, "WARNING").upper()
    known = level in logging.getLevelNamesMapping()
    logging.basicConfig(level=level if known else "WARNING", stream=sys.stderr)
    if not known:
        click.echo(f"{LOG_LEVEL} is {level!r}; use DEBUG, INFO, WARNING or ERROR", err=True)


def _drafters(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    return () if value == "none" else tuple(part.strip() for part in value.split(","))


@main.command()
@click.argument("location", metavar="PATH:LINE:COL")
@click.option("--buffer", "buffers", multiple=True, type=click.Path(path_type=Path), help="Another open file.")
@click.option("--drafters", default="lookup,model", callback=_drafters, help="lookup,model, lookup, model, or none.")
@click.option("--max-tokens", default=128, help="Tokens at most.")
@click.option("--temperature", default=0.0, help="0 is greedy.")
@click.option("--top-p", default=1.0, help="Keep the likeliest tokens up to this probability.")
@click.option("--top-k", default=0, help="Keep this many likeliest tokens; 0 keeps all.")
@click.option("--seed", default=0, help="Same seed, same text.")
@click.option("--profile", default="auto", help="A named pair of models; see `foretype doctor`.")
@click.option("--target", help="A hub id, folder or GGUF file instead of the profile's target.")
@click.option("--draft", help="The same for the draft model; an empty string for none.")
@click.option("--dtype", default="auto", help="auto, int8, float32, bfloat16 or nf4.")
@click.option("--device", default="auto", help="auto, cpu or cuda.")
@click.option("--exact", is_flag=True, help="On a card: drafts change no bit of the text, at some cost.")
@click.option("--single-line", is_flag=True, help="Stop at the end of the line.")
@click.option("--trace", is_flag=True, help="Show every round and who proposed what.")
@click.option(
    "--trace-html", "page", metavar="FILE", type=click.Path(path_type=Path), help="Write a page to replay it."
)
@click.option("--json", "as_json", is_flag=True, help="Print one object instead of the text.")
@_plainly
def complete(location: str, buffers: tuple[Path, ...], **options: Any) -> None:  # noqa: ANN401  (click's options)
    """Complete the code at PATH:LINE:COL, counted from 1, columns in characters."""
    request = _request(location, buffers, options)
    names = ("drafters", "profile", "target", "draft", "dtype", "device", "exact")
    config = EngineConfig.from_mapping({name: options[name] for name in names})
    if options["page"]:
        require_writable(options["page"])
    from engine import Engine
    from engine.trace import COLOURS, print_trace
    from engine.trace import as_json as plain

    engine = Engine.load(config, report=once_each(lambda line: _tell(line, "dim")))
    for note in engine.notes:
        _tell(f"note: {note}", "yellow")
    coloured = options["trace"] and sys.stdout.isatty()
    colour_of = COLOURS if coloured else {}
    summary = _run(engine, request, lambda text, source: _write(text, colour_of.get(source), options["as_json"]))
    if options["as_json"]:
        click.echo(json.dumps(plain(summary)))
    elif sys.stdout.isatty():
        click.echo()
    if options["trace"]:
        print_trace(summary, engine.decode, stderr)
    if options["page"]:
        write_page(options["page"], page_data(summary, engine.decode, scene_of(engine, request, location)))


def _tell(line: str, style: str) -> None:
    """Print one line to standard error; a path in it may have brackets, which are no markup here."""
    stderr.print(line, style=style, highlight=False, markup=False, soft_wrap=True)


def _request(location: str, buffers: tuple[Path, ...], options: dict[str, Any]) -> CompletionRequest:
    path, line, column = parse_location(location)
    text = read_text(path)
    return CompletionRequest(
        path=_shown_path(path),
        language=_language(path),
        text=text,
        cursor=offset_of(text, line, column, path),
        buffers=tuple(Buffer(_shown_path(buffer), 1, read_text(buffer)) for buffer in buffers),
        sampling=SamplingParams(options["temperature"], options["top_p"], options["top_k"], options["seed"]),
        limits=Limits(options["max_tokens"], "line" if options["single_line"] else "block"),
    )


def _run(engine: Engine, request: CompletionRequest, write: Callable[[str, Any], None]) -> CompletionSummary:
    summary: CompletionSummary | None = None
    for chunk in engine.complete(request):
        for run in chunk.runs:
            write(run.text, run.source)
        summary = chunk.summary
    assert summary is not None
    return summary


def _write(text: str, colour: str | None, silent: bool) -> None:
    """Write raw UTF-8: a text stream would turn a document's line breaks into the platform's."""
    if silent:
        return
    shown = click.style(text, fg=colour) if colour else text
    sys.stdout.buffer.write(shown.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def _shown_path(path: Path) -> str:
    """Name a file as a person in the current folder would."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.name


def _language(path: Path) -> str:
    from pygments.lexers import find_lexer_class_for_filename

    lexer = find_lexer_class_for_filename(path.name)
    return lexer.aliases[0] if lexer and lexer.aliases else ""


@main.command()
@click.argument("profile", default="auto")
@click.option("--json", "as_json", is_flag=True, help="Report progress, and at the end the models, as objects.")
@_plainly
def pull(profile: str, as_json: bool) -> None:
    """Fetch and verify the models of a profile; what is already here is only checked."""
    from engine.pull import pull_profile

    chosen, why = resolve_profile(profile)
    if as_json:
        _pull_for_program(chosen)
        return
    stderr.print(f"profile {chosen.name}: {why}", highlight=False)
    pull_profile(chosen, models_dir(), stderr)
    Console().print(_models_table([chosen.name]))


def _pull_for_program(profile: Profile) -> None:
    """Say on standard error one object a line, first what is there, then what happens; print what is there then."""
    from engine.pull import pull_profile
    from engine.pull_report import JsonLines

    click.echo(json.dumps(_models_of(profile)), err=True)
    pull_profile(profile, models_dir(), JsonLines(sys.stderr))
    click.echo(json.dumps(_models_of(profile)))


def _models_of(profile: Profile) -> dict[str, Any]:
    from engine.pull import describe

    rows = describe(profile, models_dir())
    models = [{"name": r.name, "bytes": r.size, "state": r.state, "verified": r.verified} for r in rows]
    return {"profile": profile.name, "models": models}


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print one object instead of tables.")
@_plainly
def doctor(as_json: bool) -> None:
    """Report device, memory, versions, which models are here, and which profile `auto` takes."""
    from engine.doctor import examine, print_report

    report = examine(models_dir())
    if as_json:
        click.echo(json.dumps(report))
    else:
        print_report(report, Console())
        Console().print(_models_table(list(load_catalog().profiles)))


def _models_table(profiles: list[str]) -> Table:
    from engine.pull import describe

    table = Table(title=f"models in {models_dir()}", title_justify="left", header_style="bold")
    for name in ("profile", "file", "size", "state", "verified"):
        table.add_column(name, justify="right" if name == "size" else "left")
    for name in profiles:
        for row in describe(load_catalog().profiles[name], models_dir()):
            size = f"{row.size / 1e9:.2f} GB"
            table.add_row(name, row.name, size, row.state, "yes" if row.verified else "no")
    return table


@main.command()
@click.option(
    "--suite",
    "suites",
    multiple=True,
    help="infill, buffers, edit, overhead, session, passes, prompt or all; or, for a card, gpu and exact.",
)
@click.option("--data", type=click.Path(path_type=Path), help="The folder of the evaluation data.")
@click.option("--count", default=20, help="Holes of each data set.")
@click.option("--repeats", default=3, help="Times each hole is completed.")
@click.option("--seed", default=0, help="Same seed, same holes.")
@click.option("--max-tokens", default=48, help="Tokens at most, for everybody.")
@click.option("--compare", default="drafters", help="drafters, or fixed: the planner against fixed choices.")
@click.option("--peers", is_flag=True, help="Run transformers and llama.cpp on the same prompts in turn.")
@click.option("--minutes", default=5.0, help="How long the recorded session is replayed at most.")
@click.option("--profile", default="auto", help="A named pair of models; see `foretype doctor`.")
@click.option("--target", help="A hub id, folder or GGUF file instead of the profile's target.")
@click.option("--draft", help="The same for the draft model; an empty string for none.")
@click.option("--dtype", default="auto", help="auto, int8, float32, bfloat16 or nf4.")
@click.option("--device", default="auto", help="auto, cpu or cuda.")
@click.option("--exact", is_flag=True, help="On a card: drafts change no bit of a text, at some cost.")
@click.option("--threads", default=0, help="Threads for everybody; 0 is torch's own choice.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the tokens per second into this PNG file.")
@click.option("--json", "as_json", is_flag=True, help="Print the object alone, no tables.")
@_plainly
def bench(suites: tuple[str, ...], plot: Path | None, as_json: bool, **options: Any) -> None:  # noqa: ANN401  (click's options)
    """Measure speed on known files with holes, on a recorded session, and against other engines.

    Tables and progress go to standard error, one JSON object to standard output.
    """
    from engine.bench.settings import Settings, parse_suites

    names = ("profile", "target", "draft", "dtype", "device", "exact", "threads")
    own = {name: options.pop(name) for name in names}
    settings = Settings(suites=parse_suites(suites), **options)
    config = EngineConfig.from_mapping(own)
    from engine.bench.command import run_bench

    report = run_bench(settings, config, models_dir(), plot, stderr)
    if not as_json:
        report.print(stderr)
    click.echo(json.dumps(report.as_json()))
    if report.interrupted:
        sys.exit(130)
    if report.failures:
        raise click.ClickException("; ".join(report.failures))

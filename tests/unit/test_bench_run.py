"""`foretype bench` end to end on tiny models and small data."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from rich.console import Console

from engine.bench import benchmark
from engine.bench.benchmark import Benchmark
from engine.bench.settings import GENERATION, SUITES, parse_suites
from engine.cli import main
from engine.errors import ConfigError
from tests.bench_data import make_data, small, two_models

RESULT_KEYS = {
    "suite",
    "data",
    "contestant",
    "holes",
    "timed_holes",
    "decode_tokens_per_second",
    "ratio_to_first",
    "mean_acceptance_length",
    "drafted",
    "accepted",
    "exact",
    "same_as_plain",
    "prompt_tokens",
    "reused_tokens",
    "computed_tokens",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def pair(tiny, tiny_draft, tmp_path_factory):
    return two_models(tiny, tiny_draft, tmp_path_factory.mktemp("models"))


def run(pair, tmp_path, settings, **changes):
    models, config = pair
    bench = Benchmark(settings, replace(config, **changes), models, tmp_path, Console(file=io.StringIO()))
    return bench.run()


def test_every_suite_runs_and_the_object_holds_what_a_reviewer_asks_for(pair, folder, tmp_path):
    """All suites run end to end; the JSON object has machine, models with hashes, settings, results and raw rows."""
    report = run(pair, tmp_path, small(folder, suites=SUITES))
    found = json.loads(json.dumps(report.as_json()))
    assert found["skipped"] == [] and found["failed_holes"] == [] and not found["interrupted"]
    assert {r["suite"] for r in found["results"]} == {*GENERATION, "prompt"}
    assert all(set(r) == RESULT_KEYS for r in found["results"])
    assert {"processor", "cores", "threads", "flags", "memory_gib", "versions"} <= set(found["machine"])
    assert [m["role"] for m in found["models"]] == ["target", "draft"]
    assert all(len(file["sha256"]) == 64 for m in found["models"] for file in m["files"])
    assert found["settings"]["count"] == 2 and found["settings"]["stop"] == "block"
    assert str(folder) not in json.dumps(found)
    assert [p["role"] for p in found["passes"]] == ["target", "draft"]
    assert found["session"]["requests"] == 6
    hole = found["holes"][0]
    assert hole["opening"]["computed_tokens"] > 1
    assert set(hole["contestants"]) == {"none", "lookup", "model", "both"}
    assert all(len(row["runs"]) == 1 for row in hole["contestants"].values())


def test_tables_name_every_contestant_and_say_what_is_timed(pair, folder, tmp_path):
    """The tables for people show each contestant and say that the prompt's pass is left out."""
    report = run(pair, tmp_path, small(folder, suites=("infill", "passes", "session")))
    out = Console(file=io.StringIO())  # no terminal: 80 columns would not hold the tables
    report.print(out)
    text = out.file.getvalue()
    assert all(
        word in text for word in ("none", "lookup", "both", "HumanEval random span", "linears alone", "first text")
    )
    assert "the pass that reads the prompt is left out" in text
    assert "of them found in the cache by timed runs" in text and "lookup " in text and "accepted" in text


def test_texts_are_the_plain_text_and_prompts_are_read_once(pair, folder, tmp_path):
    """Every variant writes the reference text, and finds all of the prompt but its last token in the shared cache."""
    report = run(pair, tmp_path, small(folder, suites=("buffers", "edit"), repeats=2))
    for tally in report.tallies:
        assert tally.same == tally.holes > 0
        assert tally.computed_tokens == 2 * tally.holes
    assert not report.failures


def test_fixed_choices_draft_what_they_are_told(pair, folder, tmp_path):
    """Fixed variants draft their length at every step, and the planner is set against the best of them."""
    report = run(pair, tmp_path, small(folder, suites=("infill",), compare="fixed"))
    by_name = {t.contestant: t for t in report.tallies}
    assert set(by_name) == {"none", "planner", "lookup 4", "lookup 8", "lookup 16", "model 2", "model 4", "model 8"}
    runs = [r for _, data in report.data for h in data.holes for r in h.runs["model 2"]]
    assert all(0 < r.drafted["model"] <= 2 * (r.passes + 1) for r in runs)
    assert by_name["model 8"].drafted["model"] > by_name["model 2"].drafted["model"]
    assert {(v.ours, v.others) for v in report.versus} == {("planner", "fixed choices")}


def test_a_drafter_that_drafts_nothing_fails_the_run(pair, folder, tmp_path):
    """B88: a drafter that is switched on and never drafted is a failure, said in one sentence."""
    report = run(pair, tmp_path, small(folder, suites=("infill", "overhead")), max_draft=0)
    assert any(line.startswith("lookup: lookup is switched on and drafted nothing") for line in report.failures)
    assert any(line.startswith("both: model is switched on and drafted nothing") for line in report.failures)
    assert report.tallies, "what was measured is still reported"
    assert any(line.endswith("in text drawn at random there is little to find") for line in report.warnings)


def test_a_draft_model_left_out_for_its_cost_is_a_warning(pair, folder, tmp_path, monkeypatch):
    """B88: a draft model that the planner weighed and left out is reported with the costs, not as a failure."""
    from engine.core import Option
    from engine.planner import Planner

    monkeypatch.setattr(Planner, "hope", lambda self, checked, room, behind: Option("model", 0, 1.0, 1.0))
    report = run(pair, tmp_path, small(folder, suites=("infill",)))
    assert not report.failures
    assert any("left it out for its cost (a draft step " in line for line in report.warnings)


def test_a_changed_text_fails_the_run(pair, folder, tmp_path, monkeypatch):
    """A variant whose text differs from the target's own is a failure on a row-exact network."""
    from engine.bench import contestant

    real = contestant._run_of

    def spoilt(summary, ms):
        run = real(summary, ms)
        return replace(run, ids=(*run.ids, 1)) if run.drafted else run

    monkeypatch.setattr(contestant, "_run_of", spoilt)
    report = run(pair, tmp_path, small(folder, suites=("overhead",)))
    assert any("wrote the text of the target alone on" in line for line in report.failures)


def test_a_failing_hole_is_counted_and_the_next_one_taken(pair, folder, tmp_path, monkeypatch):
    """A contestant that breaks on a hole costs that hole alone, and the report names it."""
    from engine.bench.contestant import EngineContestant

    real = EngineContestant.run

    def fragile(self, hole, opening):
        if self.name == "lookup" and hole.name == "random/0":
            raise RuntimeError("broken on purpose")
        return real(self, hole, opening)

    monkeypatch.setattr(EngineContestant, "run", fragile)
    report = run(pair, tmp_path, small(folder, suites=("overhead",)))
    by_name = {t.contestant: t.holes for t in report.tallies}
    assert by_name == {"none": 2, "lookup": 1, "model": 2, "both": 2}
    failed = report.as_json()["failed_holes"]
    assert [(f["hole"], f["contestant"]) for f in failed] == [("random/0", "lookup")]


def test_a_contestant_that_fails_everywhere_fails_the_run(pair, folder, tmp_path, monkeypatch):
    """Nobody may look at a table in which somebody finished nothing."""
    from engine.bench.contestant import EngineContestant

    def broken(self, hole):
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(EngineContestant, "open", broken)
    report = run(pair, tmp_path, small(folder, suites=("overhead",)))
    assert any("failed on every hole (RuntimeError: broken on purpose)" in line for line in report.failures)


def test_an_interrupted_run_reports_what_it_has(pair, folder, tmp_path, monkeypatch):
    """Ctrl-C ends the run with the holes measured so far."""
    from engine.bench.contestant import EngineContestant

    real, count = EngineContestant.open, []

    def open_one(self, hole):
        count.append(hole)
        if len(count) == 3:  # the first is the warm-up
            raise KeyboardInterrupt
        return real(self, hole)

    monkeypatch.setattr(EngineContestant, "open", open_one)
    report = run(pair, tmp_path, small(folder, suites=("overhead", "passes")))
    assert report.interrupted and not report.failures and not report.passes
    assert [t.holes for t in report.tallies] == [1, 1, 1, 1]


def test_missing_data_skip_a_suite_with_a_sentence(pair, tmp_path):
    """A suite without its data is skipped in plain words; a run of nothing else fails."""
    empty = run(pair, tmp_path, small(tmp_path, suites=("infill", "session")))
    assert len(empty.skipped) == 3 and all("--data" in line for line in empty.skipped)
    assert empty.failures == ["nothing was measured"]
    none = run(pair, tmp_path, small(None, suites=("edit", "overhead")))
    assert none.skipped == ["edit skipped: it needs the evaluation data; name their folder with --data"]
    assert none.tallies and not none.failures


def test_turns_go_round_so_that_nobody_is_always_first(pair, folder, tmp_path):
    """Contestants run A B C D, then B C D A: the place in the turn changes with hole and repeat."""
    order = []
    models, config = pair
    bench = Benchmark(
        small(folder, suites=("infill",), repeats=2), config, models, tmp_path, Console(file=io.StringIO())
    )
    contest = bench._contest()
    for contestant in contest._contestants:
        contestant.run = lambda hole, opening, c=contestant: order.append(c.name) or opening.run
    contest._warm = True
    bench.run()
    assert order[:8] == ["none", "lookup", "model", "both", "lookup", "model", "both", "none"]
    assert order[8] == "lookup"  # the second hole begins one place on


def test_the_command_prints_one_object_and_nothing_else_on_standard_output(
    pair, tiny, tiny_draft, tmp_path, monkeypatch
):
    """`foretype bench --json` prints the object alone; without --json the tables go to standard error."""
    monkeypatch.setattr("engine.cli.models_dir", lambda: tmp_path / "models")
    args = ["bench", "--suite", "overhead", "--target", str(tiny), "--draft", str(tiny_draft), "--count", "1"]
    args += ["--repeats", "1", "--max-tokens", "4"]
    alone = CliRunner().invoke(main, [*args, "--json"])
    assert alone.exit_code == 0, alone.stderr
    assert json.loads(alone.stdout)["foretype_bench"] == 1
    assert "tokens/s" not in alone.stderr
    both = CliRunner().invoke(main, args)
    assert json.loads(both.stdout)["results"] and "tokens/s" in both.stderr


def test_failures_end_the_command_with_an_error_after_the_object(pair, tiny, tmp_path, monkeypatch):
    """The object is printed first, then the failures as the error's text, exit code 1."""
    monkeypatch.setattr("engine.cli.models_dir", lambda: tmp_path / "models")
    result = CliRunner().invoke(main, ["bench", "--target", str(tiny), "--json"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["failures"] == ["nothing was measured"]
    assert "nothing was measured" in result.stderr


def test_suites_are_read_one_by_one_as_lists_or_all():
    """`--suite` may be repeated, may be a comma list, and `all` means every suite once."""
    assert parse_suites(["infill,passes", "edit"]) == ("infill", "passes", "edit")
    assert parse_suites(["passes", "all"])[0] == "passes" and set(parse_suites(["passes", "all"])) == set(SUITES)
    assert parse_suites([]) == ("infill", "buffers", "edit")
    with pytest.raises(ConfigError, match="use infill"):
        small(None, suites=("nonsense",))
    with pytest.raises(ConfigError, match="count is 0"):
        small(None, count=0)


def test_pass_repeats_follow_the_setting(pair, folder, tmp_path, monkeypatch):
    """The suite `passes` times each row count three times per repeat, and prefill at least once."""
    monkeypatch.setattr(benchmark, "PASS_REPEATS", 2)
    report = run(pair, tmp_path, small(None, suites=("passes",), repeats=2))
    target = report.passes[0]
    assert sorted(target.passes) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
    assert all(len(times) == 4 for times in [*target.passes.values(), *target.linears.values()])
    assert sorted(target.linears) == sorted(target.passes) and target.prefill

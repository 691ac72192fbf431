"""The card's suites: end to end on tiny shapes, and the parts that judge, script and keep to the time."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import metadata

import pytest
import torch
from click.testing import CliRunner

from engine.bench import gpu_command
from engine.bench.gpu_bars import bars
from engine.bench.gpu_budget import LEAST, Deadline, run_parts
from engine.bench.gpu_drafting import best_length
from engine.bench.gpu_needs import require_packages
from engine.bench.gpu_passes import Curve, measure_curve
from engine.bench.gpu_peer import open_pair, peer_module
from engine.bench.gpu_run import require_room
from engine.bench.gpu_scale import TINY, full_scale, qwen, tiny_scale
from engine.bench.gpu_script import Script, ScriptedDrafter, ScriptedTarget
from engine.bench.gpu_speed import OURS, PEER, Rate, Sample, our_contestants, race
from engine.bench.settings import SUITES, Settings, parse_suites
from engine.cli import main
from engine.errors import ConfigError, OutOfMemory
from engine.gpu.build import random_model
from engine.gpu.model import GpuOptions, Written
from tests.tiny_models import one_sentence

CPU = torch.device("cpu")
SHAPE = qwen(2, 64, 128, 4, 2, 128)
SMALL = replace(
    tiny_scale(),
    further=(("14B", "nf4"),),
    rows=(1, 5, 8),
    few_rows=(1, 5),
    eager_rows=(1,),
    written=(1, 4),
    prompt=32,
    tokens=16,
    keys=(256,),
    seconds=3600.0,
)


@pytest.fixture(scope="module")
def run():
    """One run of the command: its result and its object."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_command, "choose_scale", lambda: SMALL)
        result = CliRunner().invoke(main, ["bench", "--suite", "gpu,exact", "--target", "nowhere"])
    assert result.exit_code == 0, result.output
    return result, json.loads(result.stdout.splitlines()[-1])


def test_without_a_card_the_whole_script_runs_and_needs_no_model(run):
    """Every part is measured; nothing is skipped or broken, no model is loaded, and all contestants have figures."""
    _, found = run
    assert found["skipped"] == [] and found["failures"] == [] and not found["interrupted"]
    assert [(p["model"], p["dtype"], p["how"].split()[0]) for p in found["passes"]] == [
        ("7B", "nf4", "eager"),
        ("7B", "nf4", "graphs"),
        ("0.5B", "bfloat16", "graphs"),
        ("7B", "nf4", "exact"),
        ("14B", "nf4", "graphs"),
    ]
    assert all(p["ms_by_rows"] and p["share_of_bandwidth_floor"] > 0 for p in found["passes"])
    assert [set(d["ms_by_tokens"]) for d in found["drafting"]] == [{"1", "4"}, {"1"}]
    assert {(s["who"], s["mode"]) for s in found["speed"]} == {
        *((OURS, mode) for mode in ("plain", "drafted", "copied")),
        *((PEER, mode) for mode in ("plain", "assisted", "prompt lookup")),
        *((f"{OURS}, exact", mode) for mode in ("plain", "drafted")),
    }
    assert all(s["tokens_per_second"] > 0 for s in found["speed"])
    assert {(a["way"], a["keys"]) for a in found["attention"]} == {("torch fused", 256), ("blockwise", 256)}
    assert all(a["off"] < 0.05 for a in found["attention"])


def test_acceptance_is_what_was_asked(run):
    """Drafts that should all hold are all kept, drafts that should all fail are all rejected."""
    _, found = run
    kept = {(s["mode"], s["acceptance"]): s["accepted_of_drafted"] for s in found["speed"] if s["who"] == OURS}
    assert kept["drafted", 1.0] == kept["copied", 1.0] == 1.0 and kept["drafted", 0.0] == kept["copied", 0.0] == 0.0
    assert 0.0 < kept["drafted", 0.6] < 1.0 and kept["plain", None] is None


def test_figures_without_a_card_are_not_passed_off_as_a_card_s(run):
    """Title, warnings and object say that the figures mean nothing, and no bar is called met or missed."""
    result, found = run
    assert TINY in found["title"] and any(TINY in line for line in found["warnings"]) and found["on_card"] is False
    assert TINY in result.stderr.replace("\n", " ")
    assert [bar["verdict"] for bar in found["bars"]] == ["not judged: no card"] * 5
    assert all(bar["figure"] is not None for bar in found["bars"])


def test_exact_mode_gives_the_same_bits(run):
    """Both suites compare hundreds of rows in both modes; in exact mode no bit differs."""
    _, found = run
    modes = [(a["model"], a["mode"]) for a in found["exact"]]
    assert modes == [(name, mode) for name in ("7B nf4", "random nf4") for mode in ("exact", "fast")]
    assert all(a["rows"] >= 300 for a in found["exact"])
    assert all(a["rows_with_other_bits"] == 0 for a in found["exact"] if a["mode"] == "exact")


def test_tables_show_every_part(run):
    """People get passes, drafts, speed, attention, agreement and bars."""
    text = run[0].stderr
    for word in ("a pass by rows", "writing a draft", "tokens/s", "prompt lookup", "blockwise", "other bits", "≥ 0.55"):
        assert word in text


def test_suites_of_a_card_stand_alone():
    """`all` leaves them out; beside other suites, a plot or peers they are refused in one sentence."""
    assert "gpu" not in parse_suites(["all"]) and set(parse_suites(["all"])) == set(SUITES)
    assert Settings(suites=("gpu", "exact")).on_card and not Settings().on_card
    with pytest.raises(ConfigError, match="go with no other suite") as refused:
        Settings(suites=("gpu", "infill"))
    assert one_sentence(str(refused.value))
    result = CliRunner().invoke(main, ["bench", "--suite", "exact", "--plot", "a.png"])
    assert result.exit_code == 1 and "leave --plot and --peers" in result.stderr


def test_true_shapes_are_those_of_the_models():
    """The full scale has Qwen2.5-Coder's parameter counts, and each model's matrices suit 4 bits."""
    scale = full_scale()
    sizes = {name: sum(torch.Size(s).numel() for _, s in shape.tensors()) for name, shape in scale.shapes.items()}
    assert {name: round(n / 1e9, 2) for name, n in sizes.items()} == {
        "0.5B": 0.49,
        "7B": 7.62,
        "14B": 14.77,
        "32B": 32.76,
    }
    assert all(width % 64 == 0 for shape in scale.shapes.values() for _, width in shape.matrices)
    assert set(scale.rows) == set(range(1, 65)) and scale.rows[:4] == (1, 2, 4, 5)
    assert scale.seconds < 480 and scale.device == "cuda"


def test_a_spoilt_script_is_right_at_the_share_asked_for():
    """Of any text exactly the asked share of tokens is right, the same ones for everybody."""
    script = Script(100, 60, 50, seed=3)
    right = {a: [i == j for i, j in zip(script.text, script.spoilt(a), strict=True)][:50] for a in (0.0, 0.6, 0.8, 1.0)}
    assert {a: sum(found) for a, found in right.items()} == {0.0: 0, 0.6: 30, 0.8: 40, 1.0: 50}
    assert all(at_08 or not at_06 for at_06, at_08 in zip(right[0.6], right[0.8], strict=True))
    assert all(0 < token < 100 for token in (*script.text, *script.spoilt(0.0), *script.prompt))
    prompt = script.prompt_with(0.8)
    assert len(prompt) == 60 and prompt[10:] == script.spoilt(0.8)[:50]


def test_a_scripted_target_wants_the_script_wherever_a_pass_ends():
    """Every row's first choice is the script's next token, in single and in longer passes."""
    script = Script(SHAPE.vocab, 8, 12)
    ids = [*script.prompt, *script.text]
    target = ScriptedTarget(random_model(SHAPE, "float32", "cpu"), ids, CPU)
    cache = target.new_cache()
    assert target.forward(ids[:8], cache, 1).argmax(-1).tolist() == ids[8:9]
    assert target.forward(ids[8:12], cache, 3).argmax(-1).tolist() == ids[10:13]


def test_a_draft_model_reads_only_what_it_did_not_write():
    """After a rejected draft the drafter's cache keeps what was accepted: it costs what a real draft model costs."""
    calls = []

    class Draft:
        def new_cache(self):
            return random_model(SHAPE, "float32", "cpu").new_cache()

        def write(self, ids, cache, count):
            cache.reuse(ids[:-1])
            calls.append((len(ids) - len(cache), count))
            cache.extend([*ids[len(cache) :], *[0] * (count - 1)])
            return Written((0,) * count, (1.0,) * count)

    script = Script(SHAPE.vocab, 16, 24)
    drafter = ScriptedDrafter(16, script.spoilt(1.0), 4, Draft())
    context = type("Context", (), {"ids": list(script.prompt)})
    assert drafter.propose(context, 9).ids == tuple(script.text[:4])
    context.ids = [*script.prompt, *script.text[:3]]  # two accepted and one of the target's own
    assert drafter.propose(context, 2).ids == tuple(script.text[3:5])
    assert calls == [(16, 4), (1, 4)]


def test_the_draft_length_pays_most_by_the_measured_costs():
    """Longer drafts for better ones, none longer than a bucket that is worth it, and at least one token."""
    target = {1: 1.0, 4: 1.1, 8: 1.2, 16: 4.0}
    draft = {n: 0.1 * n for n in (1, 2, 3, 4, 6, 7, 12)}
    assert [best_length(a, target, (1, 4, 8, 16), draft) for a in (0.0, 0.5, 1.0)] == [1, 2, 7]
    assert best_length(1.0, target, (1, 4, 8, 16), {}) == 7 and best_length(0.0, target, (1, 4), {}) == 1


def test_bars_are_met_missed_or_not_judged():
    """Each bar stands on its own figures: a figure on the wrong side is missed, a lacking one is not measured."""
    curve = Curve("7B", "nf4", "graphs", 3_000_000_000, 8, {1: 2.0, 5: 2.5})
    rates = [
        Rate(OURS, "plain", samples=[Sample(100, 1000.0)]),
        Rate(OURS, "drafted", 0.8, 4, [Sample(100, 400.0)]),
        Rate(PEER, "plain", samples=[Sample(100, 3000.0)]),
        Rate(PEER, "assisted", 0.8, samples=[Sample(100, 2400.0)]),
        Rate(PEER, "prompt lookup", 1.0, samples=[Sample(100, 1.0)]),
    ]
    found = bars(curve, 2.5e12, 0.09, rates, judged=True)
    assert [round(bar.figure, 3) for bar in found] == [0.6, 1.25, 0.09, 2.5, 6.0]
    assert [bar.verdict for bar in found] == ["met", "missed", "met", "met", "met"]
    assert {bar.verdict for bar in bars(curve, 2.5e12, 0.09, rates, judged=False)} == {"not judged: no card"}
    assert {bar.verdict for bar in bars(None, 0.0, None, [], judged=True)} == {"not measured"}
    assert bars(curve, 5e12, 0.2, rates[:1], judged=True)[0].verdict == "missed"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_part_that_breaks_or_comes_too_late_costs_nobody_else():
    """Parts get their share; a broken one is named with its reason, one without time is skipped in plain words."""
    clock, shares = Clock(), []

    def part(seconds: float, error: Exception | None = None):
        def action(deadline: Deadline) -> None:
            shares.append(deadline.left)
            clock.now += seconds
            if error:
                raise error

        return action

    parts = [
        ("a", 30, part(10)),
        ("b", 30, part(10, ValueError("odd\nlines"))),
        ("c", 999, part(60 - LEAST + 1, OutOfMemory("too large; take less"))),
        ("d", 30, part(0)),
    ]
    seconds, skipped = {}, []
    run_parts(parts, Deadline(80, clock), lambda _: None, seconds, skipped)
    assert shares == [30, 30, 60] and list(seconds) == ["a", "b", "c"]
    assert skipped == [
        "b broken off: ValueError: odd",
        "c skipped: too large; take less",
        "d skipped: the time was used up by what came before",
    ]


def test_rows_without_time_are_told():
    """A curve stops at its deadline and says which rows are missing."""
    model = random_model(SHAPE, "float32", "cpu", GpuOptions(rows=(1, 4)))
    curve = Curve("7B", "nf4", "graphs", 1, 8)
    assert measure_curve(curve, model, (4, 1), 1, Deadline(0.0)) == (4, 1) and not curve.ms
    assert measure_curve(curve, model, (4, 1), 1, Deadline(60)) == () and set(curve.ms) == {1, 4}


class Fixed:
    """A contestant that writes at a fixed rate, or fails."""

    def __init__(self, who: str, error: Exception | None = None) -> None:
        self.rate, self.error = Rate(who, "plain"), error

    def run(self, tokens: int) -> Sample:
        if self.error:
            raise self.error
        return Sample(tokens, 10.0)


def test_a_contestant_that_fails_is_left_out_and_the_others_run():
    """A peer may break on a machine where we do not; all others are measured, in each turn once."""
    both = [Fixed("a"), Fixed("b", RuntimeError("no kernel"))]
    assert race(both, 40, 2, Deadline(60)) == ["b, plain left out: RuntimeError: no kernel"]
    assert [len(c.rate.samples) for c in both] == [2, 0] and both[0].rate.tokens_per_second == 4000.0
    assert race([Fixed("a")], 40, 2, Deadline(0.0)) == ["speed: time ran out in turn 1 of 2"]


def test_peers_have_our_weights():
    """A peer's module computes what our network computes, its table widened to its target's."""
    ours = random_model(SHAPE, "float32", "cpu")
    theirs = peer_module(SHAPE, "float32", CPU, SHAPE.vocab + 8)
    ids = [5, 9, 3, 77, 20]
    expected = theirs(torch.tensor([ids])).logits[0, :, : SHAPE.vocab]
    assert torch.allclose(ours.forward(ids, ours.new_cache(), 5), expected, atol=1e-4)
    four = peer_module(SHAPE, "nf4", CPU, SHAPE.vocab)
    assert {type(four.model.layers[0].mlp.up_proj).__name__, type(four.lm_head).__name__} == {"Linear4bit", "Linear"}


def test_everybody_writes_the_script_whatever_drafts_say():
    """Ours and every mode of transformers write the same text from good and bad drafts; a wrong text is noticed."""
    script = Script(SHAPE.vocab, 24, 20)
    model = random_model(SHAPE, "float32", "cpu")
    for contestant in our_contestants(OURS, model, model, script, {"drafted": {0.5: 3}, "copied": {0.5: 3}}):
        sample = contestant.run(20)
        assert 0 < sample.tokens < 20 and sample.ms > 0
    pair = open_pair(SHAPE, replace(SHAPE, tied=True), CPU)
    assert pair.plain(script.prompt, script.text, 20)[0] == 19
    assert pair.assisted(script.prompt, script.text, 20, script.spoilt(1.0))[0] < 19
    assert pair.lookup(script.prompt_with(0.8), script.text, 20)[0] > 0
    with pytest.raises(AssertionError):
        pair.plain(script.prompt, [0] * 40, 20)


def test_a_missing_package_is_named_with_what_to_install():
    """The 4-bit library is indispensable; without transformers there are no peers; Triton matters on a card alone."""

    def installed(**versions: str):
        def version(name: str) -> str:
            if name not in versions:
                raise metadata.PackageNotFoundError(name)
            return versions[name]

        return version

    full = {"torch": "2.11.0+cu128", "bitsandbytes": "0.50.2", "transformers": "5.17.1", "triton": "3.6.0"}
    assert require_packages(True, installed(**full)) == []
    with pytest.raises(ConfigError, match=r"bitsandbytes is not installed; run `pip install 'bitsandbytes>=0.50.1'`"):
        require_packages(True, installed(torch="2.11.0"))
    with pytest.raises(ConfigError, match=r"torch is 2.9.1, too old"):
        require_packages(True, installed(**full | {"torch": "2.9.1"}))
    few = installed(torch="2.11.0", bitsandbytes="0.50.1")
    assert [line.split()[0] for line in require_packages(True, few)] == ["transformers", "triton"]
    assert [line.split()[0] for line in require_packages(False, few)] == ["transformers"]


def test_what_does_not_fit_on_the_card_is_not_begun():
    """A model larger than the free memory is skipped with both figures."""
    require_room("7B nf4", 5 * 1024**3, 6 * 1024**3)
    with pytest.raises(OutOfMemory, match="32B bfloat16 needs about 62 GiB of the card's memory and 20 are free"):
        require_room("32B bfloat16", 62 * 1024**3, 20 * 1024**3)

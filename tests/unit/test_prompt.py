"""Prompts: what stays when there is too much, what stays the same while somebody types, and where cuts may fall."""

import itertools
import random

import pytest

from engine.core import Buffer, CompletionRequest
from engine.cuts import keep_end, keep_start, safe_cut, whole_lines
from engine.errors import ConfigError
from engine.fim import FimTemplate, find_template
from engine.prompt import MIN_CONTEXT, PromptPlanner, PromptStyle
from engine.tokenizer import CodeTokenizer
from engine.window import find_anchor, place_window
from tests.conftest import make_tokenizer

FEW = 24  # tokens beyond the budget: control tokens, the project's name
FAMILY = "👩‍👩‍👧"
UNITS = ["λ", FAMILY, "\r\n", "e\u0301", "👍🏽", "☎\ufe0f", "1\ufe0f\u20e3", "a", " "]
SOURCE = "".join(
    f"def name_{n}(value):\n    total = value * {n}\n    if total > {n}:\n        return total\n\n\n" for n in range(60)
)
OTHER = Buffer("other.py", 3, "".join(f"def name_{n}(value): ...\n" for n in range(40)))


@pytest.fixture(scope="module")
def tokenizer():
    return CodeTokenizer(make_tokenizer())


@pytest.fixture(scope="module")
def make(tokenizer):
    def planner(budget=512, template=None, **style):
        return PromptPlanner(tokenizer, template or find_template(tokenizer), budget, PromptStyle(**style))

    return planner


def request(text, cursor, *buffers, path="a.py"):
    return CompletionRequest(path, "python", text, cursor, buffers)


def ids_of(plan, name):
    """The tokens of the segments of one name, in order."""
    return [i for segment in plan.segments if segment.name == name for i in plan.ids[segment.start : segment.end]]


def text_of(plan, name):
    return "".join(segment.text for segment in plan.segments if segment.name == name)


def common(left, right):
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


def cuts(units):
    """The places in the joined text that lie between units."""
    return set(itertools.accumulate(map(len, units), initial=0))


def mixture(seed, size):
    """Text of code, digits, ideographs, emoji and line breaks: one to many tokens a character."""
    source = random.Random(seed)
    kinds = [
        "0123456789",
        " ab_c(x)=",
        "漢字仮名",
        [FAMILY],
        "λé\u0301",
        ["\n    return foo\n"],
        "\r\n",
        "\t",
        ["\ud800"],
    ]
    return "".join("".join(source.choices(source.choice(kinds), k=source.randint(1, 30))) for _ in range(size))


# Placing the window


def test_a_small_document_is_shown_whole():
    """A document within the budget is shown from its first to its last character."""
    text = "a\n" * 20
    window = place_window(text, 21, 100, 100, 8)
    assert (window.start, window.anchor, window.cursor, window.end) == (0, 16, 21, 40)


@pytest.mark.parametrize("cursor", range(0, len(SOURCE), 97))
@pytest.mark.parametrize("budget", [40, 200])
def test_windows_are_cut_between_lines(budget, cursor):
    """In a document with lines a window begins and ends at line starts and holds what its shares promise."""
    window = place_window(SOURCE, cursor, budget, budget, 8)
    assert 0 <= window.start <= window.anchor <= window.cursor == cursor <= window.end <= len(SOURCE)
    for cut in (window.start, window.anchor, window.end):
        assert cut in (0, len(SOURCE)) or SOURCE[cut - 1] == "\n"
    assert window.anchor - window.start <= budget * 3
    assert window.end - cursor <= budget * 3
    assert window.start == 0 or cursor - window.start >= budget
    assert window.end == len(SOURCE) or window.end - cursor >= budget * 3 // 2


def test_the_start_moves_on_a_grid():
    """While the cursor goes down a document line by line, the window's start moves in steps of half its share."""
    starts = {place_window(SOURCE, at, 100, 100, 8).start for at in range(len(SOURCE)) if SOURCE[at - 1] == "\n"}
    assert len(starts) <= len(SOURCE) / 150 + 1
    assert len(starts) > 10


@pytest.mark.parametrize("line", range(20))
def test_the_anchor_is_a_line_whose_number_divides(line):
    """The anchor is the start of the last line, counted from 0, that divides by the number asked for."""
    text = "".join(f"{n:02}\n" for n in range(20))
    assert find_anchor(text, line * 3 + 1, 1000, 8) == line // 8 * 8 * 3
    assert find_anchor(text, line * 3 + 2, 1000, 1) == line * 3


def test_a_far_anchor_gives_way_to_the_line():
    """Where the anchor would lie too far back, the cursor's own line start takes its place."""
    text = "x" * 50 + "\n" + "y" * 10
    assert find_anchor(text, 61, 20, 8) == 51
    assert find_anchor(text, 61, 10, 8) == 51
    assert find_anchor(text, 61, 61, 8) == 0


def test_a_long_line_has_anchors_inside():
    """In a line longer than allowed anchors lie on a grid, and never behind the cursor."""
    assert [find_anchor("x" * 1000, cursor, 100, 8) for cursor in (100, 101, 199, 200, 999)] == [0, 100, 100, 200, 900]
    text = FAMILY * 50
    assert all(find_anchor(text, cursor, 7, 8) <= cursor for cursor in range(len(text) + 1))


def test_without_anchor_lines_the_prompt_splits_at_the_cursor():
    """`anchor_lines` 0 leaves nothing behind the middle marker."""
    assert place_window(SOURCE, 500, 100, 100, 0).anchor == 500


@pytest.mark.parametrize("unit", UNITS)
def test_safe_cuts(unit):
    """A cut inside a character of several code points, or a CRLF, moves behind it; any other stays."""
    text = f"x{unit}y"
    assert safe_cut(text, 0) == 0
    assert safe_cut(text, 1) == 1
    assert {safe_cut(text, at) for at in range(2, len(unit) + 2)} == {len(unit) + 1}
    assert safe_cut(text, len(text)) == len(text)


def test_safe_cuts_do_not_run_away():
    """A letter with thousands of marks does not drag a cut through the document."""
    assert safe_cut("e" + "\u0301" * 5000, 1) < 100


@pytest.mark.parametrize("limit", range(1, 41))
def test_no_limit_cuts_a_character(tokenizer, limit):
    """Windows and token cuts of 1 to 40 units fall between characters, wherever they fall (B12)."""
    units = random.Random(limit).choices(UNITS, k=120)
    text, whole = "".join(units), cuts(units)
    for cursor in sorted(whole)[::7]:
        window = place_window(text, cursor, limit, limit, limit % 3 * 4)
        assert {window.start, window.anchor, window.end} <= whole
        assert window.start <= window.anchor <= cursor <= window.end
    table, ids = tokenizer.token_bytes, tokenizer.encode(text)
    end = tokenizer.decode_bytes(keep_end(ids, limit, table)).decode()
    start = tokenizer.decode_bytes(keep_start(ids, limit, table)).decode()
    assert text.endswith(end)
    assert text.startswith(start)
    assert {len(text) - len(end), len(start)} <= whole


@pytest.mark.parametrize("budget", range(MIN_CONTEXT, MIN_CONTEXT + 40))
def test_no_budget_cuts_a_character(make, budget):
    """Prefix and suffix of a planned prompt are text of the document, cut between characters (B12)."""
    units = random.Random(budget).choices(UNITS, k=300)
    text, whole = "".join(units), cuts(units)
    cursor = sorted(whole)[150]
    plan = make(budget).plan(request(text, cursor))
    prefix, suffix = text_of(plan, "prefix"), text_of(plan, "suffix")
    assert text[: plan.window.anchor].endswith(prefix)
    assert text[cursor:].startswith(suffix)
    assert {plan.window.anchor, plan.window.anchor - len(prefix), cursor + len(suffix)} <= whole


def test_keeping_tokens():
    """Ends are kept in coarse steps, starts to the token, lines whole; enough room keeps everything."""
    table = [bytes([i]) for i in range(128)]
    ids = list(b"abcdefghijklmnopqrst")
    assert keep_end(ids, 20, table) == keep_start(ids, 20, table) == ids
    assert [len(keep_end(ids[:n], 16, table)) for n in range(15, 21)] == [15, 16, 15, 16, 15, 16]
    assert keep_start(ids, 8, table) == ids[:8]
    assert keep_end(ids, 0, table) == keep_start(ids, 0, table) == []
    assert whole_lines(list(b"a\nb\nc"), table) == list(b"a\nb\n")
    assert whole_lines(list(b"abc"), table) == []


# What survives


def test_the_nearest_lines_survive(make, tokenizer):
    """In the middle of 40,000 lines a small budget keeps five lines on both sides, and every marker (B49)."""
    lines = [f"value_{n % 7} = {n}\n" for n in range(40_000)]
    for n in range(1, 6):
        lines[20_000 - n], lines[20_000 + n] = f"above_{n}()\n", f"below_{n}()\n"
    text, cursor = "".join(lines), sum(map(len, lines[:20_000]))
    plan = make(256).plan(request(text, cursor, OTHER))
    assert len(plan.ids) <= 256 + FEW
    left = text_of(plan, "prefix") + text_of(plan, "typed") + plan.owed.decode()
    for n in range(1, 6):
        assert f"above_{n}()\n" in left
        assert f"below_{n}()\n" in text_of(plan, "suffix")
    for marker in ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"):
        assert plan.ids.count(tokenizer.control(marker)) == 1


@pytest.mark.parametrize("cursor", [0, 5, 100])
def test_markers_stand_in_order(make, tokenizer, cursor):
    """A prompt is prefix, suffix and typed part, each behind its marker, whatever is empty."""
    plan = make().plan(request(SOURCE[:100], cursor))
    names = [segment.text if segment.name == "control" else segment.name for segment in plan.segments]
    assert names == ["<|fim_prefix|>", "prefix", "<|fim_suffix|>", "suffix", "<|fim_middle|>", "typed"]


def test_the_document_itself_is_no_context(make):
    """A buffer with the request's own path gives no chunk and takes no room, alone or among others (B50)."""
    stale = Buffer("a.py", 1, SOURCE.replace("total", "stale_total"))
    cursor = len(SOURCE) // 2
    assert make(1024).plan(request(SOURCE, cursor, stale)) == make(1024).plan(request(SOURCE, cursor))
    plan = make(1024).plan(request(SOURCE, cursor, stale, OTHER))
    assert "name_" in text_of(plan, "context")
    assert not any("stale_total" in segment.text for segment in plan.segments)
    assert text_of(plan, "separator").count("a.py") == 1


@pytest.mark.parametrize("text", ["", " ", "    ", "\n", "\n\n\n", "\t\n  ", "\ufeff"])
@pytest.mark.parametrize("template", [None, FimTemplate("none", "prefix")], ids=["qwen", "none"])
def test_almost_nothing_is_enough(make, tokenizer, template, text):
    """An empty or blank document, with the cursor anywhere, gives a prompt of at least one token (B48)."""
    for cursor in range(len(text) + 1):
        plan = make(template=template).plan(request(text, cursor))
        assert plan.ids
        assert all(0 <= i < tokenizer.size for i in plan.ids)
        assert tokenizer.decode_bytes(plan.typed) + plan.owed == text[plan.window.anchor : cursor].encode()


def test_a_vocabulary_without_control_tokens_starts_with_a_token():
    """Where a vocabulary has no control token at all, the empty document's prompt is its first token (B48)."""
    tokenizer = CodeTokenizer(make_tokenizer() | {"added_tokens": []})
    plan = PromptPlanner(tokenizer, find_template(tokenizer), 64).plan(request("", 0))
    assert plan.ids == (0,)


def test_one_very_long_line(make, tokenizer):
    """At the end of a line of a megabyte the prompt is short and ends with the line's end."""
    text = "x = [" + "1234, name, " * 87_000
    planner = make(256)
    plan = planner.plan(request(text + "\nnext_line()\n", len(text)))
    assert len(plan.ids) <= 256 + FEW
    assert 0 < len(text) - plan.window.anchor <= 256 * 3
    left = text_of(plan, "prefix") + text_of(plan, "typed") + plan.owed.decode()
    assert len(left) > 128
    assert text.endswith(left)
    assert text_of(plan, "suffix") == "\nnext_line()\n"


# While somebody types


@pytest.mark.parametrize("buffers", [(), (OTHER,)], ids=["alone", "context"])
@pytest.mark.parametrize("budget", [512, 1024])
@pytest.mark.parametrize("line", [30, 32, 100, 101])
def test_typing_keeps_everything_before_the_cursor(make, line, budget, buffers):
    """Within a line and over a line break that needs no new anchor, window, anchor and suffix stay what they are."""
    lines = SOURCE.splitlines(keepends=True)
    before, after = "".join(lines[:line]), "\n" + "".join(lines[line:])
    planner = make(budget)
    steps = [
        planner.plan(request(before + typed + after, len(before) + len(typed), *buffers))
        for typed in ["    total = value\n    return "[:n] for n in range(30)]
    ]
    first = steps[0]
    for step in steps:
        assert (step.window.start, step.window.anchor) == (first.window.start, first.window.anchor)
        for name in ("context", "prefix", "suffix"):
            assert ids_of(step, name) == ids_of(first, name)


def test_a_new_anchor_comes_with_the_line_that_divides(make):
    """A line break onto a line whose number divides moves the anchor there, and only that one does."""
    planner, anchors = make(), []
    for n in range(20):
        text = "line\n" * n
        anchors.append(planner.plan(request(text, len(text))).window.anchor // 5)
    assert anchors == [0] * 8 + [8] * 8 + [16] * 4


@pytest.mark.parametrize("budget", [512, 1024])
@pytest.mark.parametrize("addition", ["    return name_1(value)", "漢字仮名漢字仮名", "0123456789" * 2, FAMILY * 2])
def test_a_keystroke_changes_the_end_only(make, budget, addition):
    """Each character typed leaves all but the last few tokens of the prompt before it."""
    before, after = SOURCE[: SOURCE.index("def name_30")], SOURCE[SOURCE.index("def name_40") :]
    planner, last = make(budget, healed_tokens=0), None
    for n in range(len(addition) + 1):
        ids = planner.plan(request(before + addition[:n] + "\n" + after, len(before) + n, OTHER)).ids
        if last is not None:
            assert common(last, ids) >= len(last) - 8
            assert len(ids) <= len(last) + 8
        last = ids


def test_long_dense_typing_changes_the_start_seldom(make):
    """Digits typed far beyond the budget, a token each, move the rest of the prompt at fewer than a tenth of them."""
    planner, plans = make(128, healed_tokens=0), []
    for n in range(400):
        text = SOURCE + "7" * n
        plans.append(planner.plan(request(text + "\nend()\n", len(text))))
    moved = sum(common(a.ids, b.ids) < len(a.ids) - 8 for a, b in itertools.pairwise(plans))
    assert 0 < moved < 40
    assert all(len(plan.ids) <= 128 + FEW for plan in plans)


@pytest.mark.parametrize("seed", range(8))
def test_plans_depend_on_text_and_cursor_alone(make, seed):
    """After any history a planner plans what a fresh one plans."""
    source, used = random.Random(seed), make(128)
    for _ in range(12):
        text = mixture(source.random(), 60)
        wanted = request(text, source.randint(0, len(text)))
        assert used.plan(wanted) == make(128).plan(wanted)


# The budget


@pytest.mark.parametrize("budget", [MIN_CONTEXT - 1, 0, -5])
def test_too_small_a_budget_is_refused(make, budget):
    """Below 64 tokens the setting is named and the least value given."""
    with pytest.raises(ConfigError, match=f"context_tokens is {budget}.*{MIN_CONTEXT}"):
        make(budget)


@pytest.mark.parametrize("order", ["psm", "spm", "prefix"])
@pytest.mark.parametrize("seed", range(60))
def test_prompts_keep_to_the_budget(make, tokenizer, seed, order):
    """Whatever the text, a prompt takes its budget and a few markers, and what it shows is the document's text."""
    source = random.Random(seed)
    text, budget = "name_one\n" + mixture(seed, 150), source.choice([64, 65, 80, 100, 128, 256])
    cursor = source.randint(0, len(text))
    buffers = [Buffer(f"{n}.py", 1, f"name_one\n{mixture(seed + n, 90)}") for n in range(source.randint(0, 3))]
    family = find_template(tokenizer)
    template = FimTemplate("none", "prefix") if order == "prefix" else family
    if order == "spm":
        template = FimTemplate("codestral", "spm", family.prefix, family.suffix)
    plan = make(budget, template).plan(request(text, cursor, *buffers))
    assert len(plan.ids) <= budget + FEW
    window, plain = plan.window, text.encode("utf-8", "replace").decode()
    assert window.start <= window.anchor <= window.cursor == cursor <= window.end
    assert tokenizer.decode_bytes(plan.typed) + plan.owed == plain[window.anchor : cursor].encode()
    prefix = text_of(plan, "prefix")
    assert plain[window.start : window.anchor].endswith(prefix)
    assert prefix or window.anchor == window.start or budget < 100
    assert plain[cursor : window.end].startswith(text_of(plan, "suffix"))


@pytest.mark.parametrize("seed", range(20))
def test_segments_tile_the_prompt(make, tokenizer, seed):
    """Segments follow each other from the first token to the last and say what their tokens spell."""
    text = mixture(seed, 100)
    plan = make(128).plan(request(text, len(text) * seed // 20, OTHER))
    ends = [0, *(segment.end for segment in plan.segments)]
    assert [segment.start for segment in plan.segments] == ends[:-1]
    assert ends[-1] == len(plan.ids)
    for segment in plan.segments:
        spelt = tokenizer.decode_bytes(plan.ids[segment.start : segment.end]).decode("utf-8", "replace")
        assert segment.text == (spelt or segment.text)
        assert bool(spelt or segment.start == segment.end) == (segment.name != "control")


def test_dense_context_loses_lines(make):
    """A chunk that takes more tokens than expected keeps its first lines, and stays whole lines."""
    dense = Buffer("dense.py", 1, "name_1 = [\n" + "    1234567890, 1234567890,\n" * 12)
    plan = make(512).plan(request("name_1()\n", 9, dense))
    kept = text_of(plan, "context")
    assert dense.text.startswith(kept)
    assert kept.startswith("name_1 = [\n    1234567890")
    assert kept.endswith(",\n")
    assert len(kept) < len(dense.text)


def test_context_that_cannot_fit_leaves_no_trace(make, tokenizer):
    """A chunk whose first line is too long is left out with its separators."""
    dense = Buffer("dense.py", 1, "name_1 = " + "1234567890" * 12)
    plan = make(200).plan(request("name_1()\n", 9, dense))
    assert {"context", "separator"}.isdisjoint(segment.name for segment in plan.segments)
    assert plan.ids[0] == tokenizer.control("<|fim_prefix|>")

"""The page that replays a completion: its data, that nothing in them can break out, and the option that writes it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from engine import Engine
from engine.cli import main
from engine.core import Draft, Option, Round
from engine.costs import ROW_PRIOR
from engine.errors import ConfigError
from engine.trace_page import (
    Scene,
    costs_of,
    even_acceptance,
    expected_tokens,
    line_of,
    page,
    page_data,
    require_writable,
    write_page,
)
from tests.trace_samples import Sample, Step, words

SCENE = Scene("a.py:1:1", "a model", "before", "after")


def tokens_of(data: dict) -> list[dict]:
    return [token for step in data["rounds"] for token in step["tokens"]]


def shown(sample: Sample, scene: Scene = SCENE) -> list[str]:
    """The parts of the text that the tokens brought, which must be the whole text."""
    parts = [token["shown"] for token in tokens_of(page_data(sample.summary, sample.decode, scene))]
    assert "".join(parts) == sample.summary.text
    return parts


# Data


def test_a_round_has_its_draft_and_its_outcome():
    """A round names every drafted token with its source, how many were kept, and the target's own token at the end."""
    sample = Sample(Step(words("a b c d"), 2, b" x", "model"))
    (step,) = page_data(sample.summary, sample.decode, SCENE)["rounds"]
    assert step["draft"] == [{"text": text, "source": "model"} for text in ("a", " b", " c", " d")]
    assert (step["drafted"], step["accepted"], step["rows"]) == (4, 2, 5)
    assert [(t["text"], t["source"]) for t in step["tokens"]] == [("a", "model"), (" b", "model"), (" x", "target")]


def test_tokens_that_spell_what_was_typed_show_nothing():
    """Healed tokens bring only what goes beyond the text that stands in the document already."""
    sample = Sample(Step([b"  ", b" ret"], 2, b"urn x"), text="eturn x")
    assert shown(sample, Scene("a.py:1:1", "m", "   r", "", owed="   r")) == ["", "et", "urn x"]


def test_tokens_behind_the_end_are_dropped():
    """What came after the end of the text is marked, what the stream never took included."""
    sample = Sample(Step(words("x = 1"), 3, b"\n"), Step([b"\n", b"def"], 2, b" f"), text="x = 1", tokens=5)
    dropped = [t["dropped"] for t in tokens_of(page_data(sample.summary, sample.decode, SCENE))]
    assert dropped == [False] * 3 + [True] * 4
    assert shown(sample) == ["x", " =", " 1", "", "", "", ""]


def test_line_breaks_are_the_documents():
    """In a CRLF document each line feed of a token shows as CRLF."""
    scene = Scene("a.py:1:1", "m", "", "", line_break="\r\n")
    assert shown(Sample(Step([b"a\n", b"\n"], 2, b"b"), text="a\r\n\r\nb"), scene) == ["a\r\n", "\r\n", "b"]


def test_a_character_of_several_tokens_comes_with_the_last():
    """A token that ends inside a character shows nothing of it, and is not taken for one behind the end."""
    crab = "🦀".encode()
    sample = Sample(Step([b"'", crab[:1], crab[1:3]], 3, crab[3:] + b"'"))
    assert shown(sample) == ["'", "", "", "🦀'"]
    assert not any(t["dropped"] for t in tokens_of(page_data(sample.summary, sample.decode, SCENE)))


def test_bytes_that_are_no_character_cost_nothing():
    """Bytes which the text leaves out do not keep the rest from being shown token by token."""
    assert shown(Sample(Step([b"a", b"\xff", b"b"], 3, b"c"), text="abc")) == ["a", "", "b", "c"]


def test_a_replacement_character_of_the_text_stays():
    """A genuine U+FFFD is a character like any other."""
    assert shown(Sample(Step(["\ufffd".encode(), b"b"], 2, b"c"))) == ["\ufffd", "b", "c"]


def test_no_rounds_make_a_page():
    """A completion that was cancelled before its first pass still gives data and a page."""
    data = page_data(Sample(reason="cancelled").summary, lambda _: "", SCENE)
    assert data["rounds"] == []
    assert data["costs"]["speedup"] is None
    assert page(data)


# Costs

STEPS = st.lists(
    st.integers(0, 16).flatmap(
        lambda drafted: st.builds(
            Step,
            st.just([b"x"] * drafted),
            st.integers(0, drafted),
            st.just(b"y"),
            draft_ms=st.floats(0, 300),
            verify_ms=st.floats(0.5, 5000),
        )
    ),
    min_size=2,
    max_size=12,
)


@given(STEPS)
def test_the_formula_gives_the_measured_speed_up(steps):
    """At the measured values E·v(1) / (h + k·d + v(k+1)) is tokens times v(1) over the time that was spent."""
    summary = Sample(*steps).summary
    costs = costs_of(summary)
    assert costs.speedup is not None
    k = costs.length
    predicted = expected_tokens(costs.acceptance, k) * costs.first_row
    predicted /= costs.overhead + k * costs.draft + costs.first_row + costs.next_row * k
    assert predicted == pytest.approx(costs.speedup, rel=1e-6)
    later = summary.rounds[1:]
    overhead = summary.stats.ms["overhead"] * len(later) / len(summary.rounds)
    spent = overhead + sum(step.draft_ms + step.verify_ms for step in later)
    tokens = sum(len(step.emitted) for step in later)
    assert costs.speedup == pytest.approx(tokens * costs.first_row / spent)


def test_counts_are_those_of_judged_tokens():
    """What stands behind the first mistake was never judged; the first round is left out of everything."""
    prompt = Step([b"p"], 0, b"q", verify_ms=999.0)
    costs = costs_of(Sample(prompt, Step(words("a b c d"), 2, b" x"), Step(words("e f"), 2, b" g"), Step()).summary)
    assert (costs.kept, costs.judged) == (4, 5)
    assert costs.length == 2
    assert costs.tokens == pytest.approx(7 / 3)
    assert costs.passes == ((5, 40.0), (3, 36.0), (1, 32.0))
    assert costs.draft == pytest.approx(3.0 / 6)
    assert costs.overhead == 2.0


def test_tokens_that_plain_decoding_would_not_compute_are_no_gain():
    """An end token counts, because plain decoding needs a pass for it; what came after the end does not."""
    first = Step([], 0, b"a")
    assert costs_of(Sample(first, Step(words("b c"), 1, None)).summary).tokens == 2
    assert costs_of(Sample(first, Step(words("b c d"), 3, b" e"), tokens=3).summary).tokens == 2


def test_without_drafts_the_acceptance_is_assumed():
    """A run that drafted nothing has length 0, and the time in which no draft was found counts as overhead."""
    costs = costs_of(Sample(Step(), Step(), Step()).summary)
    assert (costs.length, costs.draft, costs.tokens) == (0, 0, 1)
    assert costs.overhead == 3.0
    assert costs.speedup == pytest.approx(32.0 / 35.0)


def test_one_round_measures_nothing():
    """The only pass read the prompt too: the values are assumptions, and no speed-up is claimed."""
    costs = costs_of(Sample(Step(words("a b"), 2, b" c")).summary)
    assert costs.speedup is None
    assert costs.passes == ()
    assert costs.first_row > 0


def test_a_plain_pass_costs_what_the_planner_expected_of_it():
    """The costs measured at load say what a plain pass takes, also in a run whose every pass had many rows."""
    weighed = (Option("none", 0, 1.0, 30.0), Option("lookup", 4, 3.0, 40.0))
    rounds = [Round(Draft(), 0, (1,), rows, 0.0, ms, weighed) for rows, ms in ((5, 50.0), (9, 70.0))]
    assert line_of(rounds) == (30.0, 5.0)


def test_passes_of_one_row_tell_their_own_cost():
    """Without anything weighed, passes of one row say what a plain pass takes, and the prior what a row does."""
    rounds = [Round(Draft(), 0, (1,), rows, 0.0, ms) for rows, ms in ((1, 40.0), (1, 44.0), (4, 60.0))]
    assert line_of(rounds) == pytest.approx((42.0, 6.0))
    assert line_of(rounds[:2]) == pytest.approx((42.0, 42.0 * ROW_PRIOR))


@given(st.floats(0, 1), st.floats(0.1, 32))
def test_the_even_acceptance_is_the_inverse(acceptance, length):
    """The acceptance found for a yield gives that yield."""
    tokens = expected_tokens(acceptance, length)
    assert 1 <= tokens <= length + 1
    assert expected_tokens(even_acceptance(tokens, length), length) == pytest.approx(tokens, rel=1e-6)


# The page


class Parts(HTMLParser):
    """What a browser's tokenizer would see: elements, and what stands in style and script."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.contents: list[str] = []
        self._open = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if self._starts(tag):
            self.contents.append("")

    def _starts(self, tag: str) -> bool:
        self._open = tag in ("style", "script")
        return self._open

    def handle_endtag(self, tag):
        self._open = False

    def handle_data(self, data):
        if self._open:
            self.contents[-1] += data


NASTY = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "-->",
    "]]>",
    "\u2028\u2029",
    "@POLICY@ @DATA@",
    "&lt;/script&gt; &amp;",
    "\\u003c \\",
    "\x00\x1b\x7f\x85",
    "🦀 é \u202e evil",
    "'\"`${alert(1)}",
    "\r\n\r\t",
]


@pytest.mark.parametrize("nasty", [*NASTY, "".join(NASTY)])
def test_nothing_breaks_out_of_the_data(nasty):
    """Whatever stands in texts, names and tokens, the page has the same elements and gives the data back unharmed."""
    sample = Sample(Step([nasty.encode(), b"b"], 1, nasty.encode()))
    data = page_data(sample.summary, sample.decode, Scene(nasty, nasty, nasty, nasty))
    plain = Parts(page({}))
    parts = Parts(page(data))
    assert parts.elements == plain.elements
    assert json.loads(parts.contents[1]) == json.loads(json.dumps(data))
    assert json.loads(parts.contents[1])["text"] == nasty * 2
    assert parts.contents[1].isascii()
    assert not re.search("[<>&]", parts.contents[1])


def test_the_page_asks_for_nothing():
    """No element loads anything, and the policy forbids all but the page's own style and script, by their hashes."""
    parts = Parts(page({}))
    links = [a.get(name) for _, a in parts.elements for name in ("src", "href", "action", "srcset") if name in a]
    assert links == ["data:,"]
    assert not any(name.startswith("on") or name == "style" for _, a in parts.elements for name in a)
    assert not re.search(r"url\(|@import", parts.contents[0])
    (policy,) = [a["content"] for _, a in parts.elements if a.get("http-equiv") == "Content-Security-Policy"]
    style, _, script = (
        base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() for content in parts.contents
    )
    assert policy is not None
    assert [rule.strip() for rule in policy.split(";")] == [
        "default-src 'none'",
        "img-src data:",
        f"style-src 'sha256-{style}'",
        f"script-src 'sha256-{script}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def test_the_page_has_its_own_line_breaks(tmp_path):
    """The file has line feeds only, or the hashes would not fit the script that a browser reads."""
    write_page(tmp_path / "a.html", {"é": "ü"})
    content = (tmp_path / "a.html").read_bytes()
    assert b"\r" not in content
    assert content.decode() == page({"é": "ü"})


def test_a_place_that_can_be_written_is_left_as_it_was(tmp_path):
    """The early check makes no file and harms none."""
    known = tmp_path / "known.html"
    known.write_bytes(b"old")
    require_writable(known)
    require_writable(tmp_path / "new.html")
    assert known.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["known.html"]


# The command


@pytest.fixture(autouse=True)
def _away_from_home(tmp_path_factory, monkeypatch, tmp_path):
    """Keep away from the user's cache and run in an empty folder."""
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name, **_: tmp_path_factory.getbasetemp() / name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(tiny, tiny_draft, tmp_path):
    """Call `foretype complete` at a place of a file with the tiny models, drafting whatever it costs."""
    path = tmp_path / "shapes.py"
    path.write_bytes(b"import math\r\n\r\ndef area(radius):\r\n    return math.pi * \r\n")
    fixed = ["--profile", "cpu-small", "--target", str(tiny), "--draft", str(tiny_draft), "--max-tokens", "12"]

    def invoke(*options: str) -> Result:
        return CliRunner().invoke(main, ["complete", f"{path}:4:22", *fixed, *options])

    return invoke


def test_the_option_writes_a_page_beside_everything_else(run, tmp_path):
    """`--trace-html` writes the page of this very completion, and the other options say what they always say."""
    plain = json.loads(run("--json").stdout)
    result = run("--json", "--trace", "--trace-html", "page.html")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["text"] == plain["text"]
    assert "rounds: propose, verify, commit" in result.stderr
    data = json.loads(Parts((tmp_path / "page.html").read_text("utf-8")).contents[1])
    assert data["text"] == answer["text"]
    assert "".join(token["shown"] for token in tokens_of(data)) == answer["text"]
    assert data["stats"] == answer["stats"]
    assert len(data["rounds"]) == answer["stats"]["target_passes"]
    assert data["place"] == "shapes.py:4:22"
    assert data["before"].endswith("def area(radius):\n    return math.pi * ")
    assert str(tmp_path) not in json.dumps(data)


@pytest.mark.parametrize("place", ["folder", "missing/page.html", "file/page.html"])
def test_a_page_that_cannot_be_written_is_said_first(run, tmp_path, monkeypatch, place):
    """One sentence names the file and the option before any model is loaded, and nothing is left behind."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.setattr(Engine, "load", lambda *_, **__: pytest.fail("a model was loaded"))
    result = run("--trace-html", str(tmp_path / place))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert re.fullmatch(r"Error: .* cannot be written \(.+\); choose another file for --trace-html\n", result.stderr)
    assert str(tmp_path / place) in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "shapes.py"]


def test_a_page_that_fails_late_is_said_too(tmp_path):
    """What went wrong only when writing is an error of the same words."""
    with pytest.raises(ConfigError, match="choose another file for --trace-html"):
        write_page(Path(tmp_path), {})

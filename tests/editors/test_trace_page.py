"""The replay page in a real browser: it loads from disk alone, steps, plays, explains, and never jumps.

Screenshots of every look are kept, see the fixture `pictures`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.trace_page import Scene, costs_of, page_data, write_page
from tests.trace_samples import Sample, Step, words

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.editors

SCENE = Scene(
    "shop/basket.py:4:9",
    "a-model.gguf",
    'class Basket:\n    def total(self, lines):\n        """Return the total in cents."""\n        ',
    "\n\n    def clear(self):\n        self.lines = []",
)
TEXT = (
    "total = 0\n        for line in lines:\n            total += line.quantity * line.unit_price\n        return total"
)
PAYS = Sample(
    Step(words("total = 0\n        for line"), 5, b" in", verify_ms=180.0),
    Step([b" orders", b":", b"\n            total"], 0, b" lines", verify_ms=47.0),
    Step((), 0, b":", verify_ms=31.0),
    Step(words("\n            total += line.quantity * line.price"), 4, b" line.unit_price", verify_ms=44.0),
    Step([b"\n        return", b" sum"], 1, b" total", "model", 12.0, 35.0),
    Step([b"\n", b"\n", b"    def", b" add"], 3, b" clear", verify_ms=46.0),
    text=TEXT,
    reason="block",
)
LOSES = Sample(
    Step([b"x"], 1, b" =", "model", 20.0, 150.0),
    *(Step([b" f", b"(", b"a", b")"], n % 2, f" g{n}".encode(), "model", 100.0, 44.0) for n in range(40)),
)
ODD = "</script><!--\u2028\t'é🦀' \u202e\x00\x7f\r\n"
SAMPLES = {
    "pays": PAYS,
    "loses": LOSES,
    "odd": Sample(Step([ODD.encode(), b"\n"], 1, ODD.encode()), Step([], 0, b" end")),
    "one pass": Sample(Step([], 0, b"pass")),
    "nothing": Sample(reason="cancelled"),
}


@dataclass
class View:
    """An open page, and what it complained about or asked for."""

    page: Page
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def listen(self) -> None:
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def text(self, kind: str) -> str:
        return self.page.locator(f"#{kind}").inner_text()

    def run(self, script: str) -> Any:
        return self.page.evaluate(script)

    def visible_text(self) -> str:
        """The completion as far as it is shown now."""
        return self.run("[...document.querySelectorAll('#text .token:not(.later)')].map((t) => t.textContent).join('')")

    def slide(self, name: str, value: float) -> None:
        script = "(s, v) => { s.value = v; s.dispatchEvent(new Event('input')); }"
        self.page.locator(f"#slide-{name}").evaluate(f"(s) => ({script})(s, {value})")

    def predicted(self) -> float:
        return float(self.text("predicted").rstrip("×"))


Show = Callable[..., View]


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Write a sample's page to disk and open it."""
    contexts = []

    def open_page(name: str, width: int = 1400, scheme: str = "light") -> View:
        sample = SAMPLES[name]
        path = tmp_path / "trace.html"
        write_page(path, page_data(sample.summary, sample.decode, SCENE))
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        view = View(context.new_page())
        view.listen()
        view.page.goto(path.as_uri())
        return view

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", SAMPLES)
def test_page_loads_from_disk_alone(show: Show, name: str):
    """The page says nothing on the console and asks for nothing beside itself, whatever it shows; all text is there."""
    view = show(name)
    view.press("Home", "ArrowRight", "End")
    for slider in ("a", "k", "d", "v1", "row"):
        view.slide(slider, 1)
    assert view.messages == []
    assert [url.split("/")[-1] for url in view.requests] == ["trace.html"]
    assert view.run("document.getElementById('text').textContent") == SAMPLES[name].summary.text
    assert view.visible_text() == SAMPLES[name].summary.text


def test_policy_stops_what_is_not_the_pages_own(show: Show):
    """A script that got into the page all the same would not run, and could not reach the network."""
    view = show("pays")
    view.run("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.got = 1'}))")
    reached = view.run("fetch('https://127.0.0.1:9/').then(() => 'yes', (e) => e.message)")
    assert view.run("window.got") is None
    assert "Failed to fetch" in reached
    assert sum("Content Security Policy" in message for message in view.messages) >= 2


def test_steps_show_proposal_and_verdict(show: Show):
    """Each step to the right shows a round's draft and then what became of it; to the left takes it back."""
    view = show("pays")
    view.press("Home")
    assert view.visible_text() == ""
    first, second = (view.page.locator(".round").nth(at) for at in (0, 1))
    assert not first.locator(".chips").is_visible()
    view.press("ArrowRight")
    assert first.locator(".chip.lookup").first.is_visible()
    assert not first.locator(".chip.target").is_visible()
    assert "Proposed 5 tokens; the target checks them in one pass of 6 rows" in first.inner_text()
    assert view.visible_text() == ""
    view.press("ArrowRight")
    assert view.visible_text() == "total = 0\n        for line in"
    assert first.locator(".chip.target").is_visible()
    view.press("ArrowRight", "ArrowRight")
    assert second.locator(".chip.wrong").inner_text() == "·orders"
    assert second.locator(".chip.target").inner_text() == "·lines"
    assert second.locator(".chip.unjudged").count() == 2
    assert "Kept 0. First mistake ·orders: the target put ·lines in its place; 2 more never judged." in (
        second.inner_text()
    )
    view.press("ArrowLeft")
    assert not second.locator(".chip.target").is_visible()
    assert view.visible_text() == "total = 0\n        for line in"


def test_round_says_what_it_cost(show: Show):
    """A round tells source, rows, milliseconds and what was kept; the first also what of the prompt was reused."""
    view = show("pays")
    facts = [" ".join(text.split()) for text in view.page.locator(".facts").all_inner_texts()]
    assert facts[0] == (
        "1 lookup 6 rows draft 1.0 ms prompt and verify 180 ms 5 of 5 kept 300 prompt tokens computed, 25 reused"
    )
    assert facts[2] == "3 no draft 1 row draft 1.0 ms verify 31.0 ms"
    assert facts[4] == "5 draft model 3 rows draft 12.0 ms verify 35.0 ms 1 of 2 kept"


def test_play_runs_to_the_end(show: Show):
    """The space key plays in real time, through states in between, and ends with the whole text."""
    view = show("pays")
    view.press("Home")
    view.run(
        "window.seen = new Set(); new MutationObserver(() => seen.add(document.querySelectorAll('.round.done').length))"
        ".observe(document.getElementById('rounds'), {subtree: true, attributes: true})"
    )
    view.page.locator("#speed").select_option("0.25")
    view.run("document.activeElement.blur()")
    view.press("Space")
    assert view.text("play") == "Pause"
    view.page.get_by_role("button", name="Replay", exact=True).wait_for()
    assert view.visible_text() == TEXT
    assert view.run("seen.size") == len(PAYS.summary.rounds) + 1
    assert view.messages == []


def test_play_pauses(show: Show):
    """Space again pauses where it is."""
    view = show("pays")
    view.press("Home")
    view.page.locator("#speed").select_option("0.02")
    view.run("document.activeElement.blur()")
    view.press("Space", "Space")
    clock = view.text("clock")
    view.page.wait_for_timeout(100)
    assert view.text("clock") == clock
    assert view.text("play") == "Play"


def test_space_plays_after_a_click(show: Show):
    """A button that was clicked does not keep the space key for itself."""
    view = show("pays")
    view.page.locator("#back").click()
    view.page.locator("#speed").evaluate("(select) => { select.value = '0.02'; }")
    view.press("Space")
    assert view.text("play") == "Pause"


@pytest.mark.parametrize("width", [400, 1600])
@pytest.mark.parametrize("name", ["pays", "loses", "odd"])
def test_nothing_moves_while_it_plays(show: Show, name: str, width: int):
    """From the first step to the last every part of the page stays where it is, and nothing is wider than the page."""
    view = show(name, width)
    parts = ".panel, .bar > *:not(.clock), .code, .round, #text .token, .lane"
    places = (
        f"JSON.stringify([...document.querySelectorAll('{parts}')]"
        ".map((e) => [e.offsetLeft, e.offsetTop, e.offsetWidth, e.offsetHeight]).concat(document.body.scrollHeight))"
    )
    view.press("Home")
    seen = set()
    while view.page.locator("#next").is_enabled():
        seen.add(view.run(places))
        view.press("ArrowRight")
    assert len(seen | {view.run(places)}) == 1
    assert view.run("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("name", ["pays", "loses"])
def test_what_if_agrees_with_the_run(show: Show, name: str):
    """At the measured values the formula gives the measured speed-up, and the preset leads back there."""
    view = show(name)
    measured = costs_of(SAMPLES[name].summary).speedup
    assert view.run("predict(MEASURED).speedup") == pytest.approx(measured, rel=1e-9)
    assert view.text("predicted") == view.text("measured") == f"{measured:.2f}×"
    view.slide("a", 0.95)
    assert view.text("predicted") != view.text("measured")
    view.page.get_by_role("button", name="As measured").click()
    assert view.text("predicted") == view.text("measured") == f"{measured:.2f}×"


def test_what_if_follows_its_sliders(show: Show):
    """A likelier guess raises the prediction; dearer drafts and dearer rows lower it; length has a best value."""
    view = show("pays")
    view.slide("a", 0.5)
    half = view.predicted()
    view.slide("a", 0.95)
    likely = view.predicted()
    assert likely > half
    view.slide("row", 20)
    assert view.predicted() < likely
    view.slide("row", 1)
    view.slide("d", 15)
    dear = view.predicted()
    assert "best: " in view.text("key")
    best = view.run("bestLength(wish)")
    assert 0 < best < 24
    view.slide("k", best)
    assert view.predicted() >= dear
    view.slide("a", 0)
    assert view.text("key").count("best: no draft at all") == 1


def test_formula_is_the_designs(show: Show):
    """The page's own arithmetic gives values worked out by hand."""
    view = show("pays")
    result = view.run("predict({ a: 0.5, k: 2, d: 3, v1: 40, row: 2, h: 1 })")
    assert result["tokens"] == pytest.approx(1.75)
    assert result["round"] == pytest.approx(1 + 6 + 44)
    assert result["speedup"] == pytest.approx(1.75 * 40 / 51)
    assert view.run("expected(1, 7)") == 8
    assert view.run("expected(0, 7)") == 1


def test_why_says_whether_it_pays(show: Show):
    """One sentence says that it pays or not, and where it does not, what costs most."""
    assert show("pays").text("why").startswith("It pays. ")
    view = show("loses")
    assert view.text("why").startswith("It does not pay. ")
    assert view.text("why").endswith("most of the extra cost is drafting.")


def test_one_pass_claims_nothing(show: Show):
    """A run that measured nothing says so instead of a speed-up."""
    view = show("one pass")
    assert view.text("measured") == "—"
    assert "nothing to compare" in view.text("timing")
    assert not view.page.locator("#lanes").is_visible()
    assert view.text("why").startswith("All values are assumptions. ")
    assert "times the speed" not in view.text("lead")


def test_arrows_on_a_slider_move_the_slider(show: Show):
    """Keys that a control needs are the control's own."""
    view = show("pays")
    view.page.locator("#slide-k").focus()
    before = view.visible_text()
    view.press("ArrowLeft")
    assert view.visible_text() == before
    assert "tokens" in view.page.locator("output").nth(1).inner_text()
    assert view.run("wish.k !== MEASURED.k")


def test_click_on_a_token_leads_to_its_round(show: Show):
    """A token's round is one click away."""
    view = show("pays")
    view.page.locator("#text .token", has_text="total").nth(1).click()
    assert "round 4 of 6" in view.text("clock")


CONTRAST = """() => {
  const channel = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const ground = (e) => {
    const colour = parse(getComputedStyle(e).backgroundColor);
    return colour[3] === 0 ? ground(e.parentElement) : colour;
  };
  const kinds = ["body", ".soft", ".around", ".token.target", ".token.lookup", ".token.model", ".chip.target",
    ".chip.lookup", ".chip.model", ".chip.wrong", ".chip.unjudged", ".verdict", "#play", ".lane .pass"];
  return Object.fromEntries(kinds.map((kind) => {
    const element = document.querySelector(kind);
    const pair = [light(parse(getComputedStyle(element).color)), light(ground(element))];
    return [kind, (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05)];
  }));
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_schemes_can_be_read(show: Show, scheme: str):
    """In light and in dark all text stands out from its ground by 4.5 to 1 at least."""
    view = show("pays", scheme=scheme)
    ground = view.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) > 384) == (scheme == "light")
    ratios = view.run(f"({CONTRAST})()")
    assert {kind: ratio for kind, ratio in ratios.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("width", [400, 1600])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_looks_are_kept_for_people(show: Show, pictures: Path, scheme: str, width: int):
    """A picture of every look is taken, at the end and midway; a person looks at them."""
    for name in ("pays", "loses", "one pass", "odd"):
        view = show(name, width, scheme)
        picture = pictures / f"trace-{name.replace(' ', '-')}-{scheme}-{width}.png"
        view.page.screenshot(path=picture, full_page=True)
        assert picture.stat().st_size > 10_000
        view.press("Home", *["ArrowRight"] * 7)
        view.page.screenshot(path=picture.with_stem(f"{picture.stem}-midway"), full_page=True)

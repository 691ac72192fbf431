"""How long an automatic request waits: keys are typed at made-up times, no clock is read."""

import pytest

from lsp_server.place import Place
from lsp_server.rhythm import MOST_MS, TypingRhythm


def at(text: str) -> Place:
    before, after = text.split("|")
    return Place("file", "python", before, after, before.count("\n"), len(before.rpartition("\n")[2]))


def typed(*intervals: float) -> TypingRhythm:
    rhythm, now = TypingRhythm(), 1000.0
    rhythm.key(now)
    for interval in intervals:
        now += interval
        rhythm.key(now)
    return rhythm


STEADY = [0.1] * 20
WORD = at("resul|")


def test_a_quick_engine_is_never_waited_for():
    """An engine that answers before the next key costs nothing by starting at once."""
    assert typed(*STEADY).pause_ms(WORD, 20.0) == 0
    assert typed(*STEADY).pause_ms(WORD, 120.0) == 0


def test_behind_a_slow_engine_a_word_is_typed_out_first():
    """The wait outlasts a common key interval, so that keys typed at that pace start no work (B21)."""
    rhythm = typed(*STEADY)
    assert rhythm.pause_ms(WORD, 300.0) == pytest.approx(150.0)
    assert rhythm.pause_ms(WORD, 300.0) > rhythm.interval_ms


def test_the_wait_grows_with_the_engines_time():
    pauses = [typed(*STEADY).pause_ms(WORD, response) for response in range(100, 301, 10)]
    assert pauses == sorted(pauses)
    assert 0 < typed(*STEADY).pause_ms(WORD, 160.0) < 150


@pytest.mark.parametrize(
    "text", ["f(|)", "a.|", "f(a,|", "a =|", "if a:|", "{|}", "a = 1\n|", "a = 1\n    |\n", "a = |"]
)
def test_where_people_stop_the_wait_is_short(text):
    """After anything but a word character the wait is a third of the one inside a word."""
    assert typed(*STEADY).pause_ms(at(text), 300.0) == pytest.approx(50.0)


@pytest.mark.parametrize("text", ["x|", "x_|", "1|", "é|", "f(x|)", "x|\n"])
def test_inside_a_word_the_wait_is_long(text):
    assert typed(*STEADY).pause_ms(at(text), 300.0) == pytest.approx(150.0)


@pytest.mark.parametrize("text", ["a();|", "}|\n", "a(); |"])
def test_an_ended_statement_is_waited_for_least(text):
    assert typed(*STEADY).pause_ms(at(text), 300.0) == pytest.approx(50.0 if text == "a(); |" else 25.0)


def test_a_brace_before_more_code_has_ended_nothing():
    assert typed(*STEADY).pause_ms(at("{}| else"), 300.0) == pytest.approx(50.0)


def test_the_wait_follows_the_person():
    """Who types slower waits longer for the same slowness, and the newest keys count."""
    slow = typed(*[0.2] * 20)
    assert slow.pause_ms(WORD, 600.0) == pytest.approx(300.0)
    assert slow.pause_ms(WORD, 200.0) == 0
    assert typed(*[0.2] * 20, *STEADY).interval_ms == pytest.approx(100.0)


def test_the_wait_is_bounded():
    assert typed(*[0.9] * 20).pause_ms(WORD, 60_000.0) == MOST_MS


def test_pauses_for_thought_and_pastes_do_not_count():
    """Only intervals that a hand makes while it types move the rhythm."""
    mixed = typed(*[0.1, 5.0, 0.001] * 10)
    assert mixed.interval_ms == pytest.approx(100.0)


def test_a_few_odd_keys_do_not_move_the_rhythm():
    assert typed(*[0.1] * 15, *[0.8] * 5).interval_ms == pytest.approx(100.0)


def test_before_enough_keys_a_common_rhythm_is_assumed():
    assert TypingRhythm().interval_ms == typed(*[0.05] * 4).interval_ms == pytest.approx(200.0)
    assert typed(*[0.05] * 5).interval_ms == pytest.approx(50.0)


def test_a_clock_that_stands_or_goes_back_does_no_harm():
    rhythm = typed(*STEADY)
    rhythm.key(0.0)
    rhythm.key(0.0)
    assert rhythm.interval_ms == pytest.approx(100.0)

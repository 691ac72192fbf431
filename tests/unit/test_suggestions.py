"""What the cache answers without a model: buffers are written as text with `|` at the cursor."""

import random

import pytest

from lsp_server.place import Place, Suggestion
from lsp_server.suggestions import AFTER, ALTERNATIVES, BEFORE, INSERTED, SuggestionCache


def at(text: str, document: str = "file") -> Place:
    before, after = text.split("|")
    return Place(document, "", before, after, before.count("\n"), len(before.rpartition("\n")[2]))


def cache_of(text: str, suggestion: str, replaces: int = 0, *, finished: bool = True) -> SuggestionCache:
    cache = SuggestionCache()
    assert cache.put(at(text), Suggestion(suggestion, replaces), finished=finished)
    return cache


def found(cache: SuggestionCache, text: str) -> tuple[str, int] | None:
    hit = cache.find(at(text))
    return (hit.suggestion.text, hit.suggestion.replaces) if hit else None


def accepted(text: str, suggestion: str, replaces: int = 0) -> str:
    before, after = text.split("|")
    return before + suggestion + after[replaces:]


BLOCK = "for a in b:\n        print(a)\n\n        print(b)\n    return b"


# Typing along


def test_the_same_place_is_answered_again():
    """A place that was asked for is known, with all that was said about it."""
    cache = SuggestionCache()
    cache.put(at("x = |\n"), Suggestion("1", 0), finished=True)
    hit = cache.find(at("x = |\n"))
    assert hit is not None
    assert (hit.suggestion, hit.finished, hit.typed, hit.rank, hit.shown) == (Suggestion("1"), True, 0, 0, False)


@pytest.mark.parametrize("finished", [True, False])
def test_a_letter_typed_ahead_is_not_doubled(finished):
    """What was typed while the answer was on its way is left out of it (B22)."""
    cache = cache_of("foob|", "ar", finished=finished)
    assert found(cache, "fooba|") == ("r", 0)
    hit = cache.find(at("fooba|"))
    assert hit is not None
    assert (hit.typed, hit.finished) == (1, finished)


def test_agreement_letter_by_letter_keeps_the_rest_and_contradiction_drops_it():
    """Typing what the ghost says leaves its rest, anything else nothing, and going back brings it back (B23)."""
    cache = cache_of("return a|\n", " + b")
    assert found(cache, "return a |\n") == ("+ b", 0)
    assert found(cache, "return a +|\n") == (" b", 0)
    assert found(cache, "return a -|\n") is None
    assert found(cache, "return a - |\n") is None
    assert found(cache, "return a |\n") == ("+ b", 0)
    assert found(cache, "return a|\n") == (" + b", 0)
    assert found(cache, "return |\n") is None


@pytest.mark.parametrize("name", ["", "import os\n\n\ndef f(b):\n"])
@pytest.mark.parametrize("rest", ["", "\n", "\n\n\ndef g():\n    pass\n"])
def test_every_way_along_a_block_leads_to_the_same_text(name, rest):
    """Letters, words, lines and undo: wherever the cursor stands along a suggestion, its rest completes it."""
    start = f"{name}    |{rest}"
    cache = cache_of(start, BLOCK)
    for size in range(len(BLOCK)):
        here = f"{name}    {BLOCK[:size]}|{rest}"
        hit = cache.find(at(here))
        assert hit is not None
        assert hit.typed == size
        assert accepted(here, hit.suggestion.text, hit.suggestion.replaces) == accepted(start, BLOCK)


def test_nothing_is_left_of_what_was_accepted_whole():
    """Behind an accepted suggestion another question begins, and what is known for it is found."""
    cache = cache_of("x = |\n", "1")
    assert found(cache, "x = 1|\n") is None
    cache.put(at("x = 1|\n"), Suggestion("  # one"), finished=True)
    assert found(cache, "x = 1|\n") == ("  # one", 0)


def test_a_model_with_nothing_to_say_is_not_asked_again():
    """A finished empty text is an answer for its very place; an unfinished one is none."""
    assert found(cache_of("x = 1|\n", ""), "x = 1|\n") == ("", 0)
    assert found(cache_of("x = 1|\n", "", finished=False), "x = 1|\n") is None


def test_other_documents_and_other_surroundings_are_not_answered():
    cache = cache_of("a = 1\nx = |\n", "1")
    assert cache.find(at("a = 1\nx = |\n", "other")) is None
    assert found(cache, "a = 2\nx = |\n") is None
    assert found(cache, "a = 1\ny = |\n") is None
    assert found(cache, "b = 1\na = 1\nx = |\n") is None
    assert found(cache, "a = 1\nx = |\n\n") is None
    assert found(cache, "a = 1\nx = |") is None
    assert found(cache, "a = 1\nx = |;\n") is None


# What editors do by themselves


def test_indentation_after_enter_is_part_of_the_text():
    """Enter with the suggested indentation, or less of it, goes on; more of it contradicts."""
    cache = cache_of("def f():|\n", "\n    return 1")
    assert found(cache, "def f():\n|\n") == ("    return 1", 0)
    assert found(cache, "def f():\n  |\n") == ("  return 1", 0)
    assert found(cache, "def f():\n    |\n") == ("return 1", 0)
    assert found(cache, "def f():\n        |\n") is None
    assert found(cache, "def f():\n\t|\n") is None


def test_a_blank_line_may_be_indented_by_the_editor():
    """Where the suggestion has a blank line the editor's indentation of it does not contradict."""
    cache = cache_of("    a()|\n", "\n\n    b()")
    assert found(cache, "    a()\n    |\n") == ("\n    b()", 0)
    assert found(cache, "    a()\n\n    |\n") == ("b()", 0)
    assert found(cache, "    a()\n   x|\n") is None


@pytest.mark.parametrize(
    ("start", "text", "replaces", "here", "rest"),
    [
        ("print|\n", "(a, b)", 0, "print(|)\n", ("a, b)", 1)),
        ("print|\n", "(a, b)", 0, "print(a|)\n", (", b)", 1)),
        ("f(|)\n", "g(x))", 1, "f(g(|))\n", ("x))", 2)),
        ("f(|)\n", "g(x))", 1, "f(g(x|))\n", ("))", 2)),
        ("x = |\n", "f([1, 2], {})", 0, "x = f([|])\n", ("1, 2], {})", 2)),
        ("x = |\n", 'f("a b")', 0, 'x = f("|")\n', ('a b")', 2)),
        ("|\n", '"""Say (it)."""', 0, '"""|"""\n', ('Say (it)."""', 3)),
        ("x = |\n", "`${a}`", 0, "x = `${|}`\n", ("a}`", 2)),
        ("|\n", "Vec<u8>", 0, "Vec<|>\n", ("u8>", 1)),
        ("x = |\n", "f(g(a), b)\ny = 2", 0, "x = f(|)\n", ("g(a), b)\ny = 2", 1)),
        ("|", "(a)", 0, "(|)", ("a)", 1)),
    ],
)
def test_closers_that_the_editor_added_are_replaced(start, text, replaces, here, rest):
    """A bracket or quote that the editor closed by itself is not doubled (B27, B35 and their relatives)."""
    cache = cache_of(start, text, replaces)
    assert found(cache, here) == rest
    assert accepted(here, *rest) == accepted(start, text, replaces)


@pytest.mark.parametrize(
    ("start", "text", "replaces", "here", "rest"),
    [
        ("print(len(|))\n", "xs))", 2, "print(len(xs|))\n", ("))", 2)),
        ("print(len(|))\n", "xs))", 2, "print(len(xs)|)\n", (")", 1)),
        ("print|\n", "(a) + 1", 0, "print(a)|\n", (" + 1", 0)),
        ("x = '|'\n", "a' + b", 1, "x = 'a'|\n", (" + b", 0)),
        ("print(len(|))\n", "xs))", 2, "print(len(xs))|\n", None),
    ],
)
def test_typing_over_closers_goes_on(start, text, replaces, here, rest):
    """Closers that were typed over are no longer right of the cursor, and what is left fits what is left."""
    assert found(cache_of(start, text, replaces), here) == rest


def test_replaced_characters_stay_until_all_is_accepted():
    cache = cache_of("a[b[|]]\n", "0]] = 1", 2)
    assert found(cache, "a[b[0|]]\n") == ("]] = 1", 2)
    assert found(cache, "a[b[0|)]\n") is None


@pytest.mark.parametrize(
    ("start", "text", "replaces", "here", "rest"),
    [
        ("f(|\n", "{\n  a: 1\n}", 0, "f({\n  |\n}\n", "a: 1"),
        ("f(|)\n", "{\n  a: 1\n})", 1, "f({\n  |\n})\n", "a: 1"),
        ("|\n", "<b>\n  <i>x</i>\n</b>", 0, "<b>\n  |\n</b>\n", "<i>x</i>"),
        ("|\n", "<b>x</b>", 0, "<b>|</b>\n", "x"),
        ("def f|\n", "(a)\n  a\nend", 0, "def f(a)\n  |\nend\n", "a"),
        ("if a |\n", "{\n  if b {\n    c\n  }\n}", 0, "if a {\n  if b {\n    |\n  }\n}\n", "c"),
        ("a = |\n", "[\n  1,\n]\n", 0, "a = [\n  |\n]\n", "1,"),
        ("a = |", "[\n  1,\n]", 0, "a = [\n  |\n]", "1,"),
    ],
)
def test_closers_on_lines_below_end_the_rest(start, text, replaces, here, rest):
    """A brace, a tag or an `end` that the editor put below stays, and only what stands before it comes."""
    cache = cache_of(start, text, replaces)
    hit = cache.find(at(here))
    assert hit is not None
    assert hit.suggestion == Suggestion(rest)
    assert hit.finished
    assert accepted(here, rest).rstrip() == accepted(start, text, replaces).rstrip()


def test_a_text_that_goes_on_below_the_editors_brace_ends_at_it():
    """What would come below a brace that the editor has put there already cannot be inserted above it."""
    cache = cache_of("|\n", "if a {\n  if b {\n    c\n  }\n}\nd()", finished=False)
    hit = cache.find(at("if a {\n  |\n}\n"))
    assert hit is not None
    assert (hit.suggestion, hit.finished) == (Suggestion("if b {\n    c\n  }"), True)


def test_a_pair_on_the_line_and_a_brace_below_it_both_fit():
    cache = cache_of("|\n", "if a {\n  f(x)\n}")
    assert found(cache, "if a {\n  f(|)\n}\n") == ("x)", 1)
    for other in "]xy":
        assert found(cache, f"if a {{\n  f(|{other}\n}}\n") is None


@pytest.mark.parametrize(
    ("text", "here", "rest"),
    [
        ("f(g(a", "f(|)\n", ("g(a", 0)),
        ("f(g(a)", "f(|)\n", ("g(a)", 0)),
        ("f(g(a)", "f(g(|))\n", ("a)", 1)),
        ("if a {\n  b", "if a {\n  |\n}\n", ("b", 0)),
        ("if a {\n  f(b)", "if a {\n  f(|)\n}\n", ("b)", 1)),
    ],
)
def test_what_the_model_has_not_closed_yet_the_editor_keeps_closed(text, here, rest):
    """While the model writes on, an added closer that its text lacks stays; a finished text without it contradicts."""
    assert found(cache_of("|\n", text, finished=False), here) == rest
    assert found(cache_of("|\n", text, finished=True), here) is None


@pytest.mark.parametrize("here", ["x = f|]\n", "x = f|g\n", "x = f|\ng()\n", "x = f|\n}\n", "x = f(|]\n"])
def test_other_text_right_of_the_cursor_contradicts(here):
    """Only what closes something that was typed can be the editor's."""
    assert found(cache_of("x = |\n", "f(1)", finished=False), here) is None


# Excerpts and moved lines


FAR = "".join(f"line_{number} = {number}\n" for number in range(400))


def test_other_cuts_of_a_long_document_are_the_same_place():
    """Where the excerpt ends far from the cursor does not matter."""
    cache, text = SuggestionCache(), "for a in b"
    before, after = FAR + "x = ", "\n" + FAR
    for start, end in [(0, len(after)), (3_000, 900), (len(before) - BEFORE, AFTER + INSERTED)]:
        whole = Place("file", "", before[start:], after[:end], 400, 4)
        cache.clear()
        cache.put(whole, Suggestion(text), finished=True)
        for low, high in [(0, len(after)), (2_000, 700), (len(before) - BEFORE, AFTER + INSERTED)]:
            typed = (before + text[:4])[low + 4 * (low > 2_000) :]
            hit = cache.find(Place("file", "", typed, after[:high], 400, 8))
            assert hit is not None
            assert hit.suggestion.text == text[4:]
            closed = cache.find(Place("file", "", typed + "x", after[:high], 400, 9))
            assert closed is None


def test_an_added_closer_is_seen_in_a_long_document():
    before, after = FAR + "x = ", "\n" + FAR
    cache = SuggestionCache()
    cache.put(Place("file", "", before, after, 400, 4), Suggestion("f(a)"), finished=True)
    hit = cache.find(Place("file", "", before + "f(", ")" + after, 400, 6))
    assert hit is not None
    assert hit.suggestion == Suggestion("a)", 1)


@pytest.mark.parametrize("moved", [-3, 2])
def test_lines_that_come_or_go_far_above_do_not_matter(moved):
    """An import added at the top of a long file leaves what is known far below it."""
    cache = SuggestionCache()
    before, after = FAR + "def f(b):\n    ", "\n" + FAR
    cache.put(Place("file", "", before, after, 401, 4), Suggestion(BLOCK), finished=True)
    for size in range(len(BLOCK)):
        line = 401 + BLOCK[:size].count("\n")
        typed = before + BLOCK[:size]
        hit = cache.find(Place("file", "", typed, after, line + moved, len(typed.rpartition("\n")[2])))
        assert hit is not None
        assert hit.suggestion.text == BLOCK[size:]
    assert cache.statistics["moved"] == len(BLOCK)


def test_an_edit_near_the_cursor_matters():
    cache = SuggestionCache()
    before, after = FAR + "x = ", "\n" + FAR
    cache.put(Place("file", "", before, after, 400, 4), Suggestion("1"), finished=True)
    changed = before[:-500] + "#" + before[-499:]
    assert cache.find(Place("file", "", changed, after, 400, 4)) is None
    changed = after[:200] + "#" + after[201:]
    assert cache.find(Place("file", "", before, changed, 400, 4)) is None


# What the person sees


def test_what_was_shown_only_grows():
    """A later text for a place must begin with what the person sees there."""
    cache = cache_of("x = |\n", "f(", finished=False)
    cache.shown(at("x = |\n"), Suggestion("f("))
    assert not cache.put(at("x = |\n"), Suggestion("g(a)"), finished=True)
    assert not cache.put(at("x = |\n"), Suggestion("f"), finished=True)
    assert not cache.put(at("x = |\n"), Suggestion(""), finished=True)
    assert found(cache, "x = |\n") == ("f(", 0)
    assert cache.put(at("x = |\n"), Suggestion("f(a)"), finished=True)
    hit = cache.find(at("x = |\n"))
    assert hit is not None
    assert (hit.suggestion.text, hit.shown, hit.finished) == ("f(a)", True, True)


def test_what_nobody_has_seen_may_change():
    cache = cache_of("x = |\n", "f(", finished=False)
    assert cache.put(at("x = |\n"), Suggestion("g(a)"), finished=True)
    assert found(cache, "x = |\n") == ("g(a)", 0)


def test_an_unfinished_text_does_not_shorten_a_longer_one():
    """Older news of the same text is no news; its end is."""
    cache = cache_of("x = |\n", "f(a)\n", finished=False)
    assert cache.put(at("x = |\n"), Suggestion("f("), finished=False)
    assert found(cache, "x = |\n") == ("f(a)\n", 0)
    assert cache.put(at("x = |\n"), Suggestion("f(a)"), finished=True)
    assert found(cache, "x = |\n") == ("f(a)", 0)


def test_only_the_part_that_was_shown_is_fixed():
    """Of a longer text than was shown the unseen end may still change."""
    cache = cache_of("x = |\n", "f(a, b)", finished=True)
    cache.shown(at("x = |\n"), Suggestion("f("))
    assert cache.put(at("x = |\n"), Suggestion("f(c)"), finished=True)
    assert not cache.put(at("x = |\n"), Suggestion("h"), finished=True)
    assert found(cache, "x = |\n") == ("f(c)", 0)
    assert not cache.put(at("x = |\n"), Suggestion("f"), finished=True)


def test_a_second_opinion_does_not_replace_what_is_being_typed():
    """Along a shown suggestion another text for a later place is refused, and one that goes further is taken."""
    cache = cache_of("x = |\n", "foo", finished=False)
    cache.shown(at("x = |\n"), Suggestion("foo"))
    assert not cache.put(at("x = f|\n"), Suggestion("ile"), finished=True)
    assert found(cache, "x = f|\n") == ("oo", 0)
    assert cache.put(at("x = f|\n"), Suggestion("oo(a)"), finished=True)
    assert [(hit.suggestion.text, hit.shown) for hit in cache.find_all(at("x = f|\n"))] == [("oo(a)", True)]
    assert found(cache, "x = fo|\n") == ("o(a)", 0)


def test_whatever_was_looked_up_since_what_is_seen_stays():
    """Looking a place up again does not loosen what was shown further along."""
    cache = cache_of("x = |\n", "foo", finished=False)
    cache.shown(at("x = |\n"), Suggestion("foo"))
    cache.shown(at("x = f|\n"), Suggestion("oo(a)"))
    assert found(cache, "x = |\n") == ("foo", 0)
    assert not cache.put(at("x = f|\n"), Suggestion("oo[0]"), finished=True)


def test_what_was_shown_comes_before_newer_and_greedier_text():
    """An alternative that the person follows stays, whatever else is known for the places along it."""
    cache = SuggestionCache()
    for rank, text in enumerate(["foo()", "far()", "fix()"]):
        cache.put(at("x = |\n"), Suggestion(text), finished=True, rank=rank)
    cache.put(at("x = f|\n"), Suggestion("old()"), finished=True)
    cache.shown(at("x = |\n"), Suggestion("far()"))
    assert found(cache, "x = f|\n") == ("ar()", 0)
    assert not cache.put(at("x = f|\n"), Suggestion("un"), finished=True)
    assert found(cache, "x = fo|\n") == ("ld()", 0)
    assert found(cache, "x = foo|\n") == ("()", 0)
    assert found(cache, "x = fi|\n") == ("x()", 0)


def test_alternatives_that_were_shown_together_all_stay():
    """Each of several shown texts may grow and none may change, and the greedy one stays first."""
    cache = SuggestionCache()
    for rank, text in enumerate(["foo", "fargo()", "f"]):
        cache.put(at("x = |\n"), Suggestion(text), finished=False, rank=rank)
        cache.shown(at("x = |\n"), Suggestion(text))
    assert not cache.put(at("x = |\n"), Suggestion("fix()"), finished=True)
    assert not cache.put(at("x = |\n"), Suggestion("fad()"), finished=True, rank=1)
    assert cache.put(at("x = |\n"), Suggestion("foo()"), finished=True)
    assert [hit.suggestion.text for hit in cache.find_all(at("x = |\n"))] == ["foo()", "fargo()"]


def test_another_turn_of_what_is_seen_gives_way():
    """Of two texts that began alike the one that the person was shown further is what is seen."""
    cache = SuggestionCache()
    cache.put(at("x = |\n"), Suggestion("foo(a)"), finished=True, rank=1)
    cache.shown(at("x = |\n"), Suggestion("foo("))
    cache.shown(at("x = |\n"), Suggestion("foo(b)"))
    assert [hit.suggestion.text for hit in cache.find_all(at("x = |\n"))] == ["foo(b)", "foo(a)"]
    assert cache.put(at("x = |\n"), Suggestion("fix()"), finished=True, rank=1)
    assert not cache.put(at("x = |\n"), Suggestion("foo(c)"), finished=True)


def test_what_the_cache_has_not_heard_of_is_remembered_when_shown():
    cache = SuggestionCache()
    cache.shown(at("x = |\n"), Suggestion("f(a)"))
    hit = cache.find(at("x = f|\n"))
    assert hit is not None
    assert (hit.suggestion.text, hit.shown, hit.finished) == ("(a)", True, False)
    assert not cache.put(at("x = |\n"), Suggestion("g"), finished=True)


def test_showing_nothing_fixes_nothing():
    cache = cache_of("x = |\n", "1")
    cache.shown(at("x = |\n"), Suggestion(""))
    assert cache.put(at("x = |\n"), Suggestion("2"), finished=True)


def test_what_was_typed_to_its_end_is_on_the_screen_no_more():
    """Behind all that was shown the longer text is new to the person."""
    cache = cache_of("x = |\n", "f(a)", finished=False)
    cache.shown(at("x = |\n"), Suggestion("f"))
    hit = cache.find(at("x = f|\n"))
    assert hit is not None
    assert not hit.shown
    assert cache.put(at("x = f|\n"), Suggestion("[0]"), finished=True)


def test_a_shown_text_inside_an_added_pair_stays():
    """Typing into a pair that the editor closed keeps what is seen, and the longer text still begins with it."""
    cache = cache_of("x = |\n", "f(a", finished=False)
    cache.shown(at("x = |\n"), Suggestion("f(a"))
    cache.shown(at("x = f(|)\n"), Suggestion("a"))
    assert not cache.put(at("x = f(|)\n"), Suggestion("b)", 1), finished=True)
    assert cache.put(at("x = |\n"), Suggestion("f(a, b)"), finished=True)
    assert found(cache, "x = f(|)\n") == ("a, b)", 1)


def test_a_typing_session_never_changes_what_is_seen():
    """Whatever texts arrive for whatever places, what the person sees only grows while it is typed along."""
    random.seed(7)
    for _ in range(200):
        cache, typed, seen = SuggestionCache(), "", ""
        for _ in range(30):
            here = at(f"a\n{typed}|\nb\n")
            noise = seen[: random.randrange(4)] + "".join(random.choices("xy\n ", k=random.randrange(5)))
            cache.put(here, Suggestion(noise), finished=random.random() < 0.5, rank=random.choice([0, 0, 1]))
            hit = cache.find(here)
            if hit is not None and hit.suggestion.text:
                assert hit.suggestion.text.startswith(seen)
                seen = hit.suggestion.text
                cache.shown(here, hit.suggestion)
            else:
                assert not seen
            step = random.randrange(1, 3) if seen else 0
            typed, seen = typed + seen[:step], seen[step:]


# Several answers


def test_all_that_may_come_is_found_greedy_first():
    """An explicit request gets the greedy text and its alternatives, each once."""
    cache = SuggestionCache()
    for rank, text in [(2, "c"), (1, "b"), (0, "a")]:
        cache.put(at("x = |\n"), Suggestion(text), finished=True, rank=rank)
    cache.put(at("x =|\n"), Suggestion(" a"), finished=True)
    assert [(hit.suggestion.text, hit.rank) for hit in cache.find_all(at("x = |\n"))] == [("a", 0), ("b", 1), ("c", 2)]
    assert cache.find_all(at("y = |\n")) == []


def test_of_texts_that_begin_alike_only_the_longest_is_found():
    cache = cache_of("x = |\n", "f", finished=False)
    cache.put(at("x = |\n"), Suggestion("f(a)"), finished=True, rank=1)
    assert [hit.suggestion.text for hit in cache.find_all(at("x = |\n"))] == ["f(a)"]


def test_the_newest_of_equals_comes_first():
    cache = cache_of("x =|\n", " a")
    cache.put(at("x = |\n"), Suggestion("b"), finished=True)
    assert found(cache, "x = |\n") == ("b", 0)


def test_the_number_of_answers_is_bounded():
    cache = SuggestionCache()
    for rank in range(20):
        cache.put(at("|"), Suggestion(f"{rank:02}"), finished=True, rank=rank)
    assert len(cache.find_all(at("|"))) == ALTERNATIVES


# Bounds and forgetting


def test_the_cache_is_bounded_in_number_and_drops_what_was_used_least_recently():
    cache = SuggestionCache(limit=3)
    for name in "abc":
        cache.put(at(f"{name} = |"), Suggestion("1"), finished=True)
    assert found(cache, "a = |") == ("1", 0)
    cache.put(at("d = |"), Suggestion("1"), finished=True)
    assert len(cache) == 3
    assert [name for name in "abcd" if found(cache, f"{name} = |")] == ["a", "c", "d"]


def test_the_cache_is_bounded_in_characters():
    """Neither many nor long nor ever longer texts take more room than was granted."""
    cache = SuggestionCache(limit=1_000, characters=10_000)
    for number in range(100):
        cache.put(at(f"{number} = |"), Suggestion("x" * 1_000), finished=True)
    assert 5 < len(cache) < 10
    cache.put(at("huge = |"), Suggestion("x" * 20_000), finished=True)
    assert len(cache) == 0
    for size in range(1, 9_000, 50):
        cache.put(at("x = |"), Suggestion("x" * size), finished=False)
    assert len(cache) == 1
    cache.put(at("y = |"), Suggestion("y"), finished=True)
    assert len(cache) == 2


def test_documents_are_forgotten():
    """Of a document that was closed or excluded nothing is left."""
    cache = SuggestionCache()
    for name in ["a.py", "b.py", "secret.env"]:
        cache.put(at("x = |", name), Suggestion(name), finished=True)
    cache.forget("a.py")
    cache.purge(lambda document: document.endswith(".env"))
    assert [name for name in ["a.py", "b.py", "secret.env"] if cache.find(at("x = |", name))] == ["b.py"]
    cache.clear()
    assert len(cache) == 0
    assert cache.find(at("x = |", "b.py")) is None


def test_room_is_given_back():
    """What was forgotten no longer counts against the bound."""
    cache = SuggestionCache(characters=3_000)
    for _ in range(20):
        cache.put(at("x = |", "a"), Suggestion("x" * 1_000), finished=True)
        cache.forget("a")
        cache.put(at("x = |", "b"), Suggestion("x" * 1_000), finished=True)
        cache.clear()
    cache.put(at("x = |", "a"), Suggestion("x" * 1_000), finished=True)
    cache.put(at("x = |", "b"), Suggestion("x" * 1_000), finished=True)
    assert len(cache) == 2


def test_finds_are_counted_by_kind():
    cache = cache_of("x = |\n", "f(a)")
    for text in ["x = |\n", "x = f|\n", "x = f(|)\n", "x = g|\n", "y|\n"]:
        cache.find(at(text))
    assert cache.statistics == {"exact": 1, "typed": 1, "closed": 1, "miss": 2}

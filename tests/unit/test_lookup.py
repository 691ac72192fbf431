"""The matcher: longest first, then nearest, never the context itself."""

import numpy as np
import pytest

from engine import lookup
from engine.lookup import Corpus, Match, PastCompletions, find


def array(*tokens):
    return np.array(tokens, dtype=np.int32)


def corpus(tokens, kind="buffer", rank=1, nearest="end"):
    return Corpus(array(*tokens), kind, rank, nearest)


def prompt(tokens):
    return corpus(tokens, "prompt", 0)


def naive(context, corpora, min_match, max_match, limit, allowed):
    """Try every position of every corpus."""
    best = None
    for one in corpora:
        tokens = one.tokens.tolist()
        for follower in range(1, len(tokens)):
            length = common_suffix(context[-max_match:], tokens[:follower])
            distance = len(tokens) - follower if one.nearest == "end" else follower
            order = (-length, one.rank, distance)
            if length >= min_match and allowed[tokens[follower]] and (best is None or order < best[0]):
                best = order, one, follower
    return best and Match(copied(context, *best[1:], -best[0][0], limit), -best[0][0], best[1].kind)


def common_suffix(left, right):
    pairs = zip(reversed(left), reversed(right), strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


def copied(context, one, follower, length, limit):
    """Copy token by token, so that a copy can run into what it has just written."""
    text = one.tokens.tolist()
    if len(text) - follower <= length and text[-length:] == context[-length:]:
        for at in range(follower, follower + limit):
            text.append(text[at])
    return tuple(text[follower : follower + limit])


def some_corpora(random, vocabulary):
    sizes = random.integers(0, 60, random.integers(4))
    nearest = ["start", "end", "start", "end"][random.integers(2) :]
    return [
        corpus(random.integers(0, vocabulary, size), rank=int(random.integers(3)), nearest=end)
        for size, end in zip(sizes, nearest, strict=False)
    ]


@pytest.mark.parametrize(("stretch", "few"), [(65_536, 32), (65_536, 1), (7, 2), (1, 1)])
@pytest.mark.parametrize("vocabulary", [1, 2, 3, 8])
def test_finds_what_trying_every_position_finds(monkeypatch, stretch, few, vocabulary):
    """Any context, corpora and mask give the result of the exhaustive search, wherever the scan is cut."""
    monkeypatch.setattr(lookup, "_STRETCH", stretch)
    monkeypatch.setattr(lookup, "_FEW", few)
    random = np.random.default_rng([stretch, few, vocabulary])
    for _ in range(120):
        context = random.integers(0, vocabulary, random.integers(0, 30)).tolist()
        corpora = [prompt(context), *some_corpora(random, vocabulary)]
        allowed = random.random(vocabulary) < 0.8
        low, high, limit = (int(random.integers(1, top)) for top in (4, 12, 9))
        found = find(array(*context), corpora, min_match=low, max_match=high, limit=limit, first_allowed=allowed)
        assert found == naive(context, corpora, low, high, limit, allowed)


def test_longest_match_wins_over_the_nearest():
    """A longer match in a far buffer is taken before a shorter one in the current file."""
    near = prompt([1, 3, 50, 9, 1, 2, 3])
    far = corpus([1, 2, 3, 60])
    assert find(array(9, 1, 2, 3), [near, far]) == Match((60,), 3, "buffer")


# B87: handle_v1 at the top of the file, a changed handle_v2 just above the cursor, the same opening line.
DEF, HANDLE, OPEN, SELF, CLOSE, NEWLINE, V1, V2, OTHER = range(10, 19)
OPENING = [DEF, HANDLE, OPEN, SELF, CLOSE, NEWLINE]
FILE = [*OPENING, V1, V1, V1, NEWLINE, OTHER, OTHER, *OPENING, V2, V2, V2, NEWLINE, OTHER]


def test_of_equal_matches_the_one_just_above_the_cursor_is_copied():
    """The changed block near the cursor is the model to follow, not the first one in the file (B87)."""
    context = [*FILE, *OPENING]
    found = find(array(*context), [prompt(context)], max_match=len(OPENING), limit=3)
    assert found == Match((V2, V2, V2), len(OPENING), "prompt")


def test_the_current_file_comes_before_other_buffers():
    """Among equal matches the corpus of smaller rank wins, in whatever order the corpora are given (B87)."""
    other = corpus([*OPENING, OTHER, OTHER], rank=5)
    here = corpus(FILE, "before", rank=0)
    for corpora in ([here, other], [other, here]):
        assert find(array(*OPENING), corpora, limit=1) == Match((V2,), len(OPENING), "before")


def test_text_after_the_cursor_is_nearest_at_its_start():
    """In the text after the cursor the first of equal matches is the nearest."""
    after = corpus([0, 1, 2, 70, 0, 1, 2, 71], "after", nearest="start")
    assert find(array(1, 2), [after], limit=1) == Match((70,), 2, "after")


def test_before_and_after_of_one_rank_compare_by_distance():
    """Whichever side of the cursor has the match closer to it wins, in either order."""
    before = corpus([1, 2, 80, 0, 0, 0, 0], "before", 0)
    after = corpus([0, 1, 2, 70, 0], "after", 0, "start")
    for corpora in ([before, after], [after, before]):
        found = find(array(1, 2), corpora, limit=1)
        assert found == Match((70,), 2, "after")


def test_the_context_does_not_match_itself():
    """The end of the prompt is the context; without an earlier occurrence there is nothing to copy."""
    assert find(array(1, 2, 3), [prompt([1, 2, 3])]) is None


def test_an_occurrence_at_the_very_end_has_nothing_to_copy():
    """A longer match that ends its corpus loses to a shorter one that goes on."""
    assert find(array(1, 2, 3), [corpus([1, 2, 3]), corpus([2, 3, 7], rank=2)], limit=1) == Match((7,), 2, "buffer")


def test_a_repetition_is_carried_on_past_the_end():
    """The end of a b a b a b proposes a b a b ..., not just the one period that was found."""
    context = [1, 2, 1, 2, 1, 2]
    assert find(array(*context), [prompt(context)], limit=5) == Match((1, 2, 1, 2, 1), 4, "prompt")


def test_what_occurred_once_is_not_repeated():
    """A match shorter than the distance to the end is no period: the copy stops at the end."""
    context = [1, 2, 30, 31, 32, 1, 2]
    assert find(array(*context), [prompt(context)], limit=8) == Match((30, 31, 32, 1, 2), 2, "prompt")


def test_another_text_that_ends_is_not_repeated():
    """Only the end of the context is a place to go on from; a buffer's end is not."""
    assert find(array(1, 2, 1, 2), [corpus([1, 2, 1, 2, 1])]) == Match((1,), 4, "buffer")


def test_only_allowed_next_tokens_count():
    """With token healing a longer match that goes on otherwise is passed over for one that fits."""
    allowed = np.zeros(100, dtype=np.bool_)
    allowed[42] = True
    corpora = [corpus([1, 2, 3, 41]), corpus([3, 42, 9], rank=2)]
    assert find(array(1, 2, 3), corpora, first_allowed=allowed) == Match((42, 9), 1, "buffer")
    assert find(array(1, 2, 3), corpora[:1], first_allowed=allowed) is None


@pytest.mark.parametrize("corpora", [[], [corpus([])], [corpus([3])], [corpus([5, 6, 7])]])
def test_nothing_to_find(corpora):
    """No corpora, empty or too short ones, and foreign ones give no match."""
    assert find(array(1, 2, 3), corpora) is None


def test_matches_below_the_minimum_do_not_count():
    """Neither a context shorter than `min_match` nor a shorter match gives a draft."""
    assert find(array(3), [corpus([3, 4])], min_match=2) is None
    assert find(array(9, 3), [corpus([3, 4])], min_match=2) is None
    assert find(array(), [corpus([3, 4])]) is None


def test_past_completions_come_back_latest_first():
    """Of two past completions that match equally long, the later is copied."""
    past = PastCompletions()
    past.add("a.py", [1, 2, 50])
    past.add("a.py", array(1, 2, 60))
    assert find(array(1, 2), past.corpora(["a.py"])) == Match((60,), 2, "past")
    assert [c.rank for c in past.corpora(["b.py", "a.py"], first_rank=7)] == [7, 8]


def test_past_completions_keep_their_own_copy():
    """An array that is changed later does not change the past."""
    past, tokens = PastCompletions(), array(1, 2)
    past.add("a.py", tokens)
    tokens[:] = 9
    assert past.corpora(["a.py"])[0].tokens.tolist() == [1, 2]


def test_past_completions_are_bounded():
    """Per path the oldest goes first; over all, the oldest of the path that was longest without a completion."""
    past = PastCompletions(per_path=2, max_tokens=6)
    for path, token in [("a.py", 1), ("a.py", 2), ("a.py", 3), ("b.py", 4), ("b.py", 5)]:
        past.add(path, [token, token])
    assert kept(past, "a.py") == [[3, 3]]
    past.add("a.py", [6, 6])
    assert kept(past, "b.py") == [[5, 5]]
    past.add("c.py", [0] * 7)
    assert [kept(past, path) for path in ("a.py", "b.py", "c.py")] == [[], [], []]


def kept(past, path):
    return [one.tokens.tolist() for one in past.corpora([path])]


def test_a_forgotten_path_is_never_found_again():
    """After a document is closed or excluded, nothing of its completions is proposed (B82)."""
    past, canary = PastCompletions(), [1, 2, 666]
    past.add("secret.py", canary)
    past.add("open.py", [5, 6, 7])
    past.forget("secret.py")
    past.forget("never-seen.py")
    past.add("secret.py", [8, 9])
    assert find(array(1, 2), past.corpora(["secret.py", "open.py"])) is None

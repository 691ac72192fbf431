"""Healing takes the typed end back and has the model spell it again: exactly, and never more than a word."""

import random

import numpy as np
import pytest

from engine.core import CompletionRequest
from engine.fim import find_template
from engine.healing import Healer
from engine.prompt import PromptPlanner, PromptStyle
from engine.tokenizer import CodeTokenizer
from tests.conftest import make_tokenizer

WORDS = [b"", b"r", b"re", b"ret", b"return", b" ", b"  ", b" re", b"\n", b"\xce", b"\xbb", b"\xce\xbb", b"re"]
PIECES = [
    "return",
    "self.",
    " ",
    "    ",
    "\n",
    "\r\n",
    "value_1",
    "λ",
    "漢字",
    "👩‍👩‍👧",
    "==",
    "(",
    "'a b'",
    "\t",
    "42",
]


@pytest.fixture(scope="module")
def tokenizer():
    return CodeTokenizer(make_tokenizer())


@pytest.fixture(scope="module")
def healer(tokenizer):
    return Healer(tokenizer.token_bytes)


@pytest.fixture(scope="module")
def words():
    """A vocabulary small enough to see through; the first token stands for a control token, the last is a twin."""
    return Healer(WORDS)


def plan(tokenizer, text, tokens=1):
    planner = PromptPlanner(tokenizer, find_template(tokenizer), 512, PromptStyle(healed_tokens=tokens))
    return planner.plan(CompletionRequest("a.py", "python", text, len(text)))


def some_text(seed):
    source = random.Random(seed)
    return "".join(source.choices(PIECES, k=source.randint(1, 12)))


def brute_force(table, owed):
    return [bool(data) and (data.startswith(owed) or owed.startswith(data)) for data in table]


# Which tokens may come


@pytest.mark.parametrize("seed", range(80))
def test_allowed_is_what_brute_force_finds(healer, tokenizer, seed):
    """The tokens allowed are those that begin with what is owed or that it begins with, and no control token."""
    source, table = random.Random(seed), tokenizer.token_bytes
    owed = b"".join(table[source.randrange(len(table))] for _ in range(source.randint(1, 3)))
    owed = owed[: source.randint(1, max(len(owed), 1))] or b"x"
    mask = healer.allowed(owed)
    assert mask.dtype == np.bool_
    assert mask.tolist() == brute_force(table, owed)
    assert mask.any()
    assert not mask[list(tokenizer.controls)].any()


@pytest.mark.parametrize("owed", [b"re", b"return", b"returned", b"r", b" ", b"   ", b"\xce", b"\xce\xbbx", b"q"])
def test_allowed_in_a_small_vocabulary(words, owed):
    """Shorter tokens, longer ones, twins and halves of a character are found; for what nobody spells, nothing."""
    assert words.allowed(owed).tolist() == brute_force(WORDS, owed)
    assert words.allowed(owed).any() == (owed != b"q")


def test_with_nothing_owed_every_text_is_allowed(words):
    """When nothing is owed any token with text may come."""
    assert words.allowed(b"").tolist() == [bool(word) for word in WORDS]


# What is owed then


@pytest.mark.parametrize(
    ("owed", "word", "left"),
    [
        (b"return", b"re", b"turn"),
        (b"re", b"re", b""),
        (b"re", b"return", b""),
        (b"ret", b" re", None),
        (b"rex", b"ret", None),
        (b"\xce\xbb", b"\xce", b"\xbb"),
        (b"re", b"", None),
        (b"", b"return", b""),
        (b"", b"", b""),
    ],
)
def test_what_is_owed_after_a_token(words, owed, word, left):
    """A token pays what it spells; one that spells more pays all; one that spells something else or nothing breaks."""
    assert words.after(owed, WORDS.index(word)) == left


def test_a_token_without_an_entry_pays_nothing(words):
    """Ids beyond the vocabulary, where networks are padded, spell nothing."""
    assert words.after(b"re", len(WORDS) + 3) is None
    assert words.after(b"", len(WORDS) + 3) == b""


def test_a_token_is_allowed_when_it_does_not_break(healer, tokenizer):
    """The mask and the walk agree on every token."""
    for owed in (b"retu", b" ", b"\xf0\x9f", b"e = self"):
        mask = healer.allowed(owed)
        assert [healer.after(owed, i) is not None for i in range(tokenizer.size)] == mask.tolist()


def test_along_a_draft(words):
    """Along a draft there is a state before each token and one after the last."""
    draft = [WORDS.index(word) for word in (b"re", b"\xce", b"\xbb", b" ")]
    assert words.along(b"re\xce\xbb", draft) == [b"re\xce\xbb", b"\xce\xbb", b"\xbb", b"", b""]
    assert words.along(b"", draft) == [b""] * 5
    assert words.along(b"re", []) == [b"re"]


def test_along_a_draft_that_breaks(words):
    """The states end before the token that breaks the spelling."""
    draft = [WORDS.index(word) for word in (b"re", b" ", b"return")]
    assert words.along(b"return", draft) == [b"return", b"turn"]
    assert words.along(b"q", draft) == [b"q"]


@pytest.mark.parametrize("seed", range(30))
def test_any_allowed_walk_spells_what_is_owed(healer, tokenizer, seed):
    """However tokens are picked among those allowed, the walk ends and its text begins with what was owed."""
    source, table = random.Random(seed), tokenizer.token_bytes
    owed = first = some_text(seed).encode()[:20]
    spelt = b""
    while owed:
        token = source.choice(np.flatnonzero(healer.allowed(owed)).tolist())
        spelt, owed = spelt + table[token], healer.after(owed, token)
    assert spelt.startswith(first)


# What a prompt takes back


@pytest.mark.parametrize("tokens", [0, 1, 2, 5])
@pytest.mark.parametrize("seed", range(40))
def test_kept_and_owed_spell_the_typed_text(tokenizer, seed, tokens):
    """The tokens kept and the bytes owed are the typed text, whatever was healed; the prompt ends with those kept."""
    text = some_text(seed)
    made = plan(tokenizer, text, tokens)
    assert tokenizer.decode_bytes(made.typed) + made.owed == text[made.window.anchor :].encode()
    assert made.ids[len(made.ids) - len(made.typed) :] == made.typed
    assert (made.segments[-1].name, made.segments[-1].end) == ("typed", len(made.ids))
    assert b"\n" not in made.owed
    assert b"\r" not in made.owed
    if not tokens or text.endswith(("\n", "\r")):
        assert made.owed == b""
    if tokens and not text.endswith(("\n", "\r")):
        assert made.owed


@pytest.mark.parametrize("seed", range(20))
def test_one_token_is_healed(tokenizer, seed):
    """Healing one token owes the bytes of the last one and keeps all others."""
    text = "x" + some_text(seed) + "end"
    plain, healed = plan(tokenizer, text, 0), plan(tokenizer, text, 1)
    assert healed.ids == plain.ids[:-1]
    assert healed.owed == tokenizer.token_bytes[plain.ids[-1]]


@pytest.mark.parametrize(
    ("text", "owed"),
    [
        ("a = zqxv", b"zqxv"),
        ("a = z9_v", b"z9_v"),
        ("a.zqxv", b"zqxv"),
        ("a = 漢", "漢".encode()),
        ("a = b(", b"("),
        ("a = b ", b" "),
        ("if zq:", b":"),
    ],
)
def test_many_tokens_are_healed_within_a_word(tokenizer, text, owed):
    """With several tokens to heal, one word goes back as a whole, and never what stands before it."""
    taken = plan(tokenizer, text, 9).owed
    assert taken.lstrip(b" .") == owed.lstrip(b" .")
    assert len(taken) <= len(owed) + 1


@pytest.mark.parametrize("text", ["a\n", "a\r\n", "a\r", "a\n\n", "\n", "if a:\n"])
@pytest.mark.parametrize("tokens", [1, 9])
def test_a_line_break_is_not_taken_back(tokenizer, tokens, text):
    """At the start of a line nothing is owed."""
    assert plan(tokenizer, text, tokens).owed == b""


@pytest.mark.parametrize("tokens", [1, 9])
def test_a_token_across_a_line_break_is_not_taken_back(tokens):
    """Where a vocabulary has one token for a line break and the indentation after it, that token stays."""
    spec = make_tokenizer()
    spec["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True, "trim_offsets": True}
    spec["model"]["vocab"]["ĊĠ"] = 700
    spec["model"]["merges"].insert(0, ["Ċ", "Ġ"])
    tokenizer = CodeTokenizer(spec)
    assert tokenizer.encode("x\n ")[-1] == 700
    made = plan(tokenizer, "x\n ", tokens)
    assert (made.owed, made.typed[-1]) == (b"", 700)
    assert plan(tokenizer, "x\n y", tokens).owed == b"y"


def test_indentation_is_healed(tokenizer):
    """After indentation its last token goes back, so that the model may join it to the word that follows."""
    made = plan(tokenizer, "if a:\n    ")
    assert made.owed.strip(b" ") == b""
    assert 0 < len(made.owed) <= 4


def test_nothing_typed_is_nothing_owed(tokenizer):
    """A cursor at the anchor has no typed part, so the prompt is not touched."""
    made = plan(tokenizer, "line\n" * 8)
    assert (made.owed, made.typed) == (b"", ())
    assert made.ids[-1] == tokenizer.control("<|fim_middle|>")

"""The index of tokenised texts: always the tokens of the present text, at the cost of what changed."""

import re

import numpy as np
import pytest

from engine.token_index import TokenIndex

FEW_BLOCKS = 12_000  # characters: the blocks an edit touches, and one neighbour


class Encoder:
    """One token a word or sign. Cutting a text at a line start does not change its tokens; cutting a word does."""

    def __init__(self):
        self.ids, self.words, self.encoded = {}, [], 0

    def __call__(self, text):
        self.encoded += len(text)
        return self.ids_of(text)

    def ids_of(self, text):
        for word in (words := re.findall(r"\w+|\W", text)):
            if self.ids.setdefault(word, len(self.words)) == len(self.words):
                self.words.append(word)
        return [self.ids[word] for word in words]

    def decode(self, tokens):
        return "".join(self.words[token] for token in tokens)

    def cost(self, action, *args):
        """How many characters an action encodes."""
        before = self.encoded
        action(*args)
        return self.encoded - before


@pytest.fixture
def encoder():
    return Encoder()


@pytest.fixture
def index(encoder):
    return TokenIndex(encoder)


def source(lines, seed=0):
    """Text that looks like code: indented lines, blank lines, few words."""
    random = np.random.default_rng(seed)
    return "".join(
        "    " * random.integers(3) + " ".join(f"name{n}" for n in random.integers(50, size=random.integers(9))) + "\n"
        for _ in range(lines)
    )


@pytest.mark.parametrize("seed", range(4))
def test_after_any_edits_the_tokens_are_those_of_the_text(index, encoder, seed):
    """Random edits, small and large, give the tokens of the whole text; small ones encode a few blocks."""
    random = np.random.default_rng(seed)
    text = source(700, seed)
    index.update("a.py", 0, text)
    for version in range(1, 60):
        at = int(random.integers(len(text) + 1)) if random.random() < 0.8 else int(random.choice([0, len(text)]))
        gone = int(random.choice([0, 1, 30, 9000], p=[0.5, 0.2, 0.25, 0.05]))
        new = str(random.choice(["", "x", "\n", "name1 name2\n", source(300, version)], p=[0.2, 0.3, 0.2, 0.25, 0.05]))
        text = text[:at] + new + text[at + gone :]
        assert encoder.cost(index.update, "a.py", version, text) <= FEW_BLOCKS + len(new)
        assert index.tokens("a.py").tolist() == encoder.ids_of(text)
    assert index.tokens("a.py").dtype == np.int32


def test_a_split_gives_both_sides_of_any_offset(index, encoder):
    """A split in the middle of a word encodes its two halves, and only the block around it."""
    text = source(1000)
    index.update("a.py", 0, text)
    for offset in [0, 1, 2000, *range(0, len(text), 1997), len(text), len(text) + 5]:
        before = encoder.encoded
        left, right = index.split("a.py", offset)
        assert encoder.encoded - before <= 4000
        assert left.tolist() == encoder.ids_of(text[:offset])
        assert right.tolist() == encoder.ids_of(text[offset:])


def test_an_unchanged_text_is_not_encoded_again(index, encoder):
    """The same text costs nothing, under the same version or another."""
    text = source(300)
    index.update("a.py", 1, text)
    assert encoder.cost(index.update, "a.py", 1, text) == 0
    assert encoder.cost(index.update, "a.py", 2, "".join(text)) == 0


@pytest.mark.parametrize("version", [5, 3], ids=["same", "backwards"])
def test_the_text_decides_not_the_version(index, encoder, version):
    """A client that reuses a version or counts backwards still gets the tokens of its text."""
    index.update("a.py", 5, "old text\n")
    index.update("a.py", version, "new words\n")
    assert encoder.decode(index.tokens("a.py")) == "new words\n"


def test_a_last_line_that_goes_on_is_one_line(index, encoder):
    """Typing on at the end of the text does not leave a cut in the word."""
    text = source(400) + "hand"
    index.update("a.py", 1, text)
    index.update("a.py", 2, text + "ler")
    assert index.tokens("a.py")[-1] == encoder.ids["handler"]


def test_lines_that_are_joined_are_one_line(index, encoder):
    """Deleting any line break leaves no cut where the next line began."""
    text = "word\n" * 2000  # the first block ends in this range of lines
    for line in range(398, 405):
        index.update("a.py", 1, text)
        joined = text[: line * 5 - 1] + text[line * 5 :]
        index.update("a.py", 2, joined)
        assert index.tokens("a.py").tolist() == encoder.ids_of(joined)


def test_text_that_repeats_itself(index, encoder):
    """Where all blocks are equal, what is deleted or added is not taken for one of its copies."""
    for version, lines in enumerate([4000, 3000, 3999, 400, 4000]):
        index.update("a.py", version, "word\n" * lines)
        assert index.tokens("a.py").tolist() == encoder.ids_of("word\n" * lines)


def test_a_block_does_not_begin_with_a_blank_line(encoder):
    """Tokenizers join line breaks, so a cut between two would give tokens that the prompt does not have."""
    pieces = []
    index = TokenIndex(lambda text: pieces.append(text) or encoder(text))
    index.update("a.py", 1, "name\n\n  \n" * 3000)
    assert len(pieces) > 5
    assert all(piece.startswith("name") for piece in pieces)


def test_typing_in_a_very_long_line(index, encoder):
    """A minified file stays cheap to edit, and its cuts do not pile up where the user types."""
    text = "word " * 20_000
    index.update("a.js", 0, text)
    for version in range(1, 400):
        text = text[:50_000] + "x" + text[50_000:]
        assert encoder.cost(index.update, "a.js", version, text) <= FEW_BLOCKS
    assert encoder.decode(index.tokens("a.js")) == text
    assert len(index.tokens("a.js")) < len(encoder.ids_of(text)) + 100


def test_of_a_text_too_long_the_part_around_the_focus_is_kept(encoder):
    """At most `max_chars` are indexed; edits in, before and after the part stay cheap; a far focus moves it."""
    index = TokenIndex(encoder, max_chars=60_000)
    text = source(10_000)
    focus = len(text) // 2
    assert encoder.cost(index.update, "a.py", 0, text, focus) <= 60_000
    for version, at in enumerate([focus, 0, len(text), focus + 100] * 3, 1):
        text = text[:at] + "name1 name2\n" + text[at:]
        assert encoder.cost(index.update, "a.py", version, text, focus) <= FEW_BLOCKS
        left, right = index.split("a.py", focus)
        assert len(encoder.decode(index.tokens("a.py"))) <= 60_000
        assert text[:focus].endswith(encoder.decode(left)[-20_000:])
        assert text[focus:].startswith(encoder.decode(right)[:20_000])
    index.update("a.py", 99, text, len(text))
    assert text.endswith(encoder.decode(index.tokens("a.py"))[-40_000:])
    index.update("a.py", 100, text[:50_000])
    assert encoder.decode(index.tokens("a.py")) == text[:50_000]


@pytest.mark.parametrize("place", [0.0, 0.01, 0.99, 1.0])
def test_typing_near_an_end_of_a_text_too_long(encoder, place):
    """At the very start or end of the text the part need not move, however close the focus is to its border."""
    index = TokenIndex(encoder, max_chars=60_000)
    text = source(10_000)
    for version in range(4):
        at = int(len(text) * place)
        text = text[:at] + "x" + text[at:]
        cost = encoder.cost(index.update, "a.py", version, text, at)
        assert cost <= (FEW_BLOCKS if version else 60_000)


def test_offsets_outside_the_kept_part(encoder):
    """Before the part everything is after; behind it everything is before."""
    index = TokenIndex(encoder, max_chars=8_000)
    text = source(2_000)
    index.update("a.py", 0, text, len(text) // 2)
    tokens = index.tokens("a.py").tolist()
    assert [side.tolist() for side in index.split("a.py", 0)] == [[], tokens]
    assert [side.tolist() for side in index.split("a.py", len(text))] == [tokens, []]


def test_forgotten_paths_have_no_tokens(index):
    """Nothing is left of a document that was closed or excluded (B82)."""
    for path in ("a.py", "b.py", "c.py"):
        index.update(path, 1, "canary\n")
    index.forget("a.py")
    index.forget("never-seen.py")
    index.keep_only({"c.py"})
    assert [index.tokens(path).size for path in ("a.py", "b.py", "c.py")] == [0, 0, 2]
    assert [side.size for side in index.split("a.py", 3)] == [0, 0]


def test_an_empty_text(index):
    """A text may be empty, become empty, and be filled again."""
    for version, (text, size) in enumerate([("", 0), ("word\n", 2), ("", 0)]):
        index.update("a.py", version, text)
        assert index.tokens("a.py").size == size

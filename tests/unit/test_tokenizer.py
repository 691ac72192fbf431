"""User text is only ever text, and its bytes come back as they were."""

import random

import pytest

from engine.tokenizer import CodeTokenizer, complete_utf8
from tests.conftest import make_tokenizer

TEXTS = {
    "code": "def total(items):\n    return sum(item.price for item in items)\n",
    "tabs": "\tif x {\n\t\treturn\t1\n\t}\n",
    "crlf": "a = 1\r\nb = 2\r\n\r\n",
    "lone returns": "a\rb\r\r",
    "emoji": "s = '👩‍👩‍👧 👍🏽 🇩🇪'\n",
    "combining": "cafe\u0301 n\u0303 \u1100\u1161 \u2126\n",
    "scripts": "λ = 'Ünïcödé 漢字 עברית'\n",
    "controls of ASCII": "\x00\x0c\x1b[0m\x7f",
    "blanks": "  \n   \n\n    x  ",
    "empty": "",
}


@pytest.fixture(scope="module")
def tokenizer():
    return CodeTokenizer(make_tokenizer())


def spell(tokenizer, text):
    return tokenizer.decode_bytes(tokenizer.encode(text))


def added(ids, special=True):
    """Entries of `added_tokens`, from text to id."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": special}
    return [{"id": i, "content": text, **flags} for text, i in ids.items()]


PREPEND = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    ],
}
METASPACE = {"type": "Metaspace", "replacement": "▁"}
SENTENCE_PIECE = {
    "normalizer": {"normalizer": PREPEND},
    "lone normalizer": {"normalizer": PREPEND["normalizers"][0], "pre_tokenizer": METASPACE},
    "first": {"pre_tokenizer": {**METASPACE, "prepend_scheme": "first", "split": False}},
    "always": {"pre_tokenizer": {**METASPACE, "prepend_scheme": "always", "add_prefix_space": True}},
    "sequence": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{**METASPACE, "prepend_scheme": "always"}]}},
}


def sentence_piece(style):
    """A vocabulary of Llama's kind: `▁` for a space, bytes as `<0x0A>`, and merges that lead to `<s>`."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abcdefghijklmnopqrstuvwxyz<>/"]
    pieces += ["s>", "</", "▁▁", "▁a", "▁ab", "de", "def", "▁def"]
    merges = [("s", ">"), ("<", "s>"), ("<", "/"), ("</", "s>"), ("▁", "▁"), ("▁", "a"), ("▁a", "b"), ("d", "e")]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    model = {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": vocab}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added({piece: vocab[piece] for piece in pieces[:3]}),
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {**model, "merges": [*map(list, merges), ["de", "f"], ["▁", "def"]]},
        **SENTENCE_PIECE[style],
    }


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_bytes_survive(tokenizer, text):
    """Encoding and decoding gives back every byte of a text."""
    assert spell(tokenizer, text) == text.encode()


@pytest.mark.parametrize(
    "text", [TEXTS["code"], TEXTS["combining"], TEXTS["scripts"] * 40], ids=["short", "nfd", "long"]
)
@pytest.mark.parametrize("kind", ["NFC", "NFKC", "NFD"])
def test_unicode_forms_are_kept(kind, text):
    """A vocabulary that would compose or decompose characters does not: a file's accents stay as they are (Qwen)."""
    assert spell(CodeTokenizer(make_tokenizer() | {"normalizer": {"type": kind}}), text) == text.encode()


def test_lone_surrogates_become_question_marks(tokenizer):
    """Half a surrogate pair has no UTF-8; it costs one character and raises nothing."""
    assert spell(tokenizer, "a\ud83db\udc00") == b"a?b?"


def test_long_texts_are_encoded_like_short_ones(tokenizer):
    """A text that goes through the cache gives the same tokens, and a list that may be changed."""
    text = TEXTS["code"] * 10
    first = tokenizer.encode(text)
    expected = list(first)
    first.clear()
    assert tokenizer.encode(text) == expected
    assert tokenizer.encode(text + " ")[: len(expected) - 1] == expected[:-1]


def test_literal_control_tokens_are_text(tokenizer):
    """Text that spells a control token, alone, in code or beside itself, never yields a control id (B45)."""
    assert len(tokenizer.controls) == 7
    for name in tokenizer.added:
        for text in (name, f"x = '{name}'\n", name * 3, f"{name[:-1]} {name}>"):
            ids = tokenizer.encode(text)
            assert tokenizer.controls.isdisjoint(ids)
            assert tokenizer.decode_bytes(ids) == text.encode()


@pytest.mark.parametrize("style", SENTENCE_PIECE)
def test_merges_do_not_reach_control_tokens(style):
    """Where the merges of a vocabulary lead to `<s>`, text still does not become that token (B45)."""
    tokenizer = CodeTokenizer(sentence_piece(style))
    for text in ("<s>", "</s>", "a<s>b</s>", "<s></s><s>"):
        assert tokenizer.controls.isdisjoint(tokenizer.encode(text))
        assert spell(tokenizer, text) == text.encode()


def test_unmatched_whole_words_do_not_reach_control_tokens():
    """A vocabulary that looks whole words up before merging does not find control tokens either (B45)."""
    spec = make_tokenizer()
    names = {token["content"]: token["id"] for token in spec["added_tokens"]}
    spec["model"] |= {"ignore_merges": True, "vocab": spec["model"]["vocab"] | names}
    spec["pre_tokenizer"] = spec["pre_tokenizer"]["pretokenizers"][1]
    tokenizer = CodeTokenizer(spec)
    for name in names:
        assert tokenizer.controls.isdisjoint(tokenizer.encode(name))
        assert spell(tokenizer, name) == name.encode()


def test_unknown_characters_are_left_out():
    """In a vocabulary that cannot spell a character, that character costs no control token but is missing."""
    spec = sentence_piece("first")
    spec["model"]["byte_fallback"] = False
    assert spell(CodeTokenizer(spec), "aéb") == b"ab"
    assert len(CodeTokenizer(spec).encode("é")) == 0


def test_control_tokens_have_no_bytes(tokenizer):
    """Control tokens carry no text, everything else in this vocabulary does."""
    silent = {i for i, data in enumerate(tokenizer.token_bytes) if not data}
    assert silent == tokenizer.controls == set(tokenizer.added.values())
    assert len(tokenizer.token_bytes) == tokenizer.size


def test_control_tokens_are_found_by_name(tokenizer):
    """A control token has an id; text that is none has not."""
    assert tokenizer.control("<|fim_middle|>") in tokenizer.controls
    assert tokenizer.control("def") is None


def test_control_tokens_need_no_flag():
    """Fill-in-the-middle tokens count as control tokens where the file calls them ordinary (Qwen, Granite 4)."""
    spec = make_tokenizer()
    names = ["<|fim_prefix|>", "<｜fim▁hole｜>", "▁<MID>", "[SUFFIX]", "<fim_pad>"]
    spec["added_tokens"] = added({name: 600 + n for n, name in enumerate(names)}, special=False)
    tokenizer = CodeTokenizer(spec)
    assert tokenizer.controls == {600, 601, 602, 603, 604}
    assert tokenizer.decode_bytes(range(600, 605)) == b""


def test_added_words_are_text():
    """Added tokens that are ordinary words, markup or blanks keep their bytes (Gemma's `<h1>`, runs of blanks)."""
    words = ["<h1>", "</table>", "<sup>", "\n\n\n", "    ", "TODO"]
    spec = make_tokenizer()
    spec["added_tokens"] += added({word: 700 + n for n, word in enumerate(words)}, special=False)
    tokenizer = CodeTokenizer(spec)
    assert [tokenizer.token_bytes[700 + n] for n in range(len(words))] == [word.encode() for word in words]
    spec = sentence_piece("first")
    spec["added_tokens"] += added({"▁▁": spec["model"]["vocab"]["▁▁"], "▁▁▁▁": 400}, special=False)
    tokenizer = CodeTokenizer(spec)
    assert tokenizer.token_bytes[tokenizer.control("▁▁")] == b"  "
    assert tokenizer.token_bytes[400] == b"    "


@pytest.mark.parametrize("text", ["aλ", "é", "漢字", "x👩‍👩‍👧y", "\U0010ffff", "ab", ""])
def test_complete_utf8_at_every_cut(text):
    """Of any cut of a text's bytes, exactly the bytes of an unfinished last character are left out."""
    data = text.encode()
    for end in range(len(data) + 1):
        whole = data[:end].decode("utf-8", "ignore").encode()
        assert complete_utf8(data[:end]) == len(whole)


def test_complete_utf8_of_a_token_inside_a_character():
    """Bytes that begin inside a character are complete as soon as that character is."""
    assert complete_utf8("é".encode()[1:]) == 1
    assert complete_utf8("👍".encode()[2:] + b"\xf0\x9f") == 2


def test_equal_vocabularies_do_not_differ(tokenizer):
    """The same tokens are the same vocabulary, from whichever file they were read."""
    assert tokenizer.mismatch(CodeTokenizer(make_tokenizer())) is None


def test_padding_is_no_difference(tokenizer):
    """Ids without tokens, as GGUF files list them, have no bytes and make no difference between vocabularies."""
    spec = make_tokenizer()
    names = {token["content"]: token["id"] for token in spec["added_tokens"]}
    padding = {f"[PAD{i}]": i for i in range(607, 640)}
    spec["model"]["vocab"] = spec["model"]["vocab"] | names | padding
    padded = CodeTokenizer(spec)
    assert padded.size == 640
    assert padded.decode_bytes(range(600, 640)) == b""
    assert padded.mismatch(tokenizer) is None
    assert tokenizer.mismatch(padded) is None


def test_swapped_tokens_are_named(tokenizer):
    """Two vocabularies that differ in the order of two tokens are told apart by the first of them."""
    spec = make_tokenizer()
    vocab = spec["model"]["vocab"]
    by_id = {i: text for text, i in vocab.items()}
    vocab[by_id[300]], vocab[by_id[301]] = 301, 300
    message = tokenizer.mismatch(CodeTokenizer(spec))
    assert message == f"token 300 is {by_id[300]!r} in one and {by_id[301]!r} in the other"


def test_swapped_control_tokens_are_named(tokenizer):
    """Control tokens count: a draft whose middle marker is the target's suffix marker does not fit."""
    spec = make_tokenizer()
    spec["added_tokens"][2]["content"], spec["added_tokens"][3]["content"] = "<|fim_suffix|>", "<|fim_middle|>"
    message = tokenizer.mismatch(CodeTokenizer(spec))
    assert message == "token 602 is '<|fim_middle|>' in one and '<|fim_suffix|>' in the other"


def test_missing_tokens_are_named(tokenizer):
    """A vocabulary that ends earlier differs where it ends."""
    spec = make_tokenizer()
    last = spec["added_tokens"].pop()
    message = tokenizer.mismatch(CodeTokenizer(spec))
    assert message == f"token {last['id']} is {last['content']!r} in one and None in the other"


@pytest.mark.parametrize("style", SENTENCE_PIECE)
def test_no_space_is_put_in_front(style):
    """A SentencePiece vocabulary encodes a word without the space its own encoder would put before it."""
    tokenizer = CodeTokenizer(sentence_piece(style))
    assert [tokenizer.token_bytes[i] for i in tokenizer.encode("def ab")] == [b"def", b" ab"]
    assert [tokenizer.token_bytes[i] for i in tokenizer.encode(" def")] == [b" def"]


@pytest.mark.parametrize("style", SENTENCE_PIECE)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_bytes_survive_sentence_piece(style, text):
    """Spaces, line breaks and characters spelt in bytes come back from a SentencePiece vocabulary."""
    assert spell(CodeTokenizer(sentence_piece(style)), text) == text.encode()


def test_bytes_survive_at_random(tokenizer):
    """Any mixture of characters comes back, byte for byte."""
    source = random.Random(0)
    for _ in range(200):
        text = "".join(chr(source.choice([9, 10, 13, 32, 97, 233, 955, 0x301, 0x6F22, 0x1F469])) for _ in range(30))
        assert spell(tokenizer, text) == text.encode()

"""Other buffers as context: the part most like the code at hand, and the same part as long as it is true."""

import dataclasses

import pytest

from engine.context import AROUND, CHUNK_LINES, MAX_SCANNED, REMEMBERED, Chunk, ChunkChooser
from engine.core import Buffer, CompletionRequest

CODE = "total = shipping_cost(parcel, country)\n"
SHIPPING = "def shipping_cost(parcel, country):\n    return parcel.weight * rates[country]\n"
LOGGING = "def configure_logging(level):\n    handlers = make_handlers(level)\n"
PLENTY = 10_000


def request(*buffers, text=CODE, cursor=None, path="a.py"):
    return CompletionRequest(path, "python", text, len(text) if cursor is None else cursor, buffers)


def lines(name, count):
    return "".join(f"{name}_{n} = {n}\n" for n in range(count))


@pytest.fixture
def chooser():
    return ChunkChooser()


@pytest.fixture
def shop():
    """A buffer of three chunks, the middle one about shipping."""
    return Buffer("shop.py", 1, lines("alpha", CHUNK_LINES) + lines("shipping_cost", CHUNK_LINES) + lines("omega", 5))


def test_the_similar_chunk_is_chosen(chooser):
    """Of several buffers the one that shares names with the code is taken, and none that shares nothing."""
    other = Buffer("logs.py", 1, LOGGING)
    assert chooser.choose(request(other, Buffer("ship.py", 1, SHIPPING)), 0, PLENTY) == (Chunk("ship.py", SHIPPING),)


def test_the_similar_part_of_a_buffer_is_chosen(chooser, shop):
    """A buffer is cut into chunks of whole lines, and the similar one is taken alone."""
    text = "shipping_cost_3 + shipping_cost_7\n"
    (chunk,) = chooser.choose(request(shop, text=text), 0, PLENTY)
    assert chunk == Chunk("shop.py", lines("shipping_cost", CHUNK_LINES))


def test_the_best_stands_last(chooser):
    """Chunks are ordered so that the most similar stands next to the code."""
    some = Buffer("some.py", 1, "parcel = country\nunknown_one, unknown_two = 1, 2\n")
    chosen = chooser.choose(request(Buffer("ship.py", 1, SHIPPING), some, Buffer("x.py", 1, LOGGING)), 0, PLENTY)
    assert [chunk.path for chunk in chosen] == ["some.py", "ship.py"]


def test_equals_are_taken_by_recency(chooser):
    """Of equally similar chunks the most recent buffer's stands next to the code, and the first part of it."""
    buffers = [Buffer(f"{n}.py", 1, SHIPPING) for n in range(3)]
    assert [chunk.path for chunk in chooser.choose(request(*buffers), 0, PLENTY)] == ["2.py", "1.py", "0.py"]
    cost = len(SHIPPING) + len("0.py") + 8
    assert ChunkChooser().choose(request(*buffers), 0, cost) == (Chunk("0.py", SHIPPING),)


def test_only_code_around_the_cursor_counts(chooser):
    """Names far from the cursor do not choose context."""
    far = CODE + "x = 1\n" * AROUND
    assert chooser.choose(request(Buffer("ship.py", 1, SHIPPING), text=far), 0, PLENTY) == ()
    near = CODE + "x = 1\n" * (AROUND // 12)
    assert chooser.choose(request(Buffer("ship.py", 1, SHIPPING), text=near), 0, PLENTY) != ()


@pytest.mark.parametrize("chars", range(0, 3000, 150))
def test_the_budget_is_kept(chars):
    """The texts and paths of what is chosen take no more characters than allowed, and as much as fits."""
    buffers = [Buffer(f"{n}.py", 1, SHIPPING * (n + 1)) for n in range(8)]
    chosen = ChunkChooser().choose(request(*buffers), 0, chars)
    assert sum(len(chunk.text) + len(chunk.path) for chunk in chosen) <= chars
    assert bool(chosen) == (chars >= len(SHIPPING) + len("0.py") + 8)


def test_a_chunk_too_large_does_not_block_others(chooser):
    """Where the best chunk does not fit, the next that does is taken."""
    large = Buffer("large.py", 1, SHIPPING + "# " + "x" * 5000)
    assert chooser.choose(request(large, Buffer("ship.py", 1, SHIPPING)), 0, 300) == (Chunk("ship.py", SHIPPING),)


def test_no_budget_no_buffers_no_context(chooser):
    """Without room, other buffers, or text in them there is no context."""
    ship = Buffer("ship.py", 1, SHIPPING)
    assert chooser.choose(request(ship), 0, 0) == ()
    assert chooser.choose(request(ship), 0, -1) == ()
    assert chooser.choose(request(), 0, PLENTY) == ()
    assert chooser.choose(request(Buffer("empty.py", 1, ""), Buffer("blank.py", 1, "\n \n" * 99)), 0, PLENTY) == ()


def test_the_document_itself_is_no_context(chooser):
    """A buffer with the request's path is never chosen from (B50)."""
    itself = Buffer("a.py", 1, SHIPPING)
    assert chooser.choose(request(itself), 0, PLENTY) == ()
    chosen = chooser.choose(request(itself, Buffer("ship.py", 1, SHIPPING)), 0, PLENTY)
    assert [chunk.path for chunk in chosen] == ["ship.py"]


def test_a_huge_buffer_is_read_in_part(chooser):
    """Of a huge buffer only the beginning is looked at."""
    huge = Buffer("huge.py", 1, "x = 1\n" * MAX_SCANNED + SHIPPING)
    assert chooser.choose(request(huge), 0, PLENTY) == ()


# A choice is kept


@pytest.fixture
def kept(chooser, shop):
    """A choice made for names that the text typed later no longer has."""
    first = chooser.choose(request(shop, text="shipping_cost_1\n"), 0, PLENTY)
    assert len(first) == 1
    return first


def test_a_choice_sticks_while_somebody_types(chooser, shop, kept):
    """Text that would choose another chunk does not, as long as the window stays."""
    assert chooser.choose(request(shop, text="alpha_1 = alpha_2 = alpha_3\n"), 0, PLENTY) == kept


def test_a_choice_sticks_while_a_buffer_changes_elsewhere(chooser, shop, kept):
    """An edit outside the chosen chunk keeps it."""
    edited = dataclasses.replace(shop, version=2, text="# new\n" + shop.text)
    assert chooser.choose(request(edited, text="alpha_1 = alpha_2\n"), 0, PLENTY) == kept


def test_a_choice_goes_when_its_text_does(chooser, shop, kept):
    """An edit inside the chosen chunk makes the choice anew: context is always what the buffer says."""
    edited = dataclasses.replace(shop, version=2, text=shop.text.replace("cost_5 = 5", "cost_5 = 55"))
    chosen = chooser.choose(request(edited, text="shipping_cost_1\n"), 0, PLENTY)
    assert chosen != kept
    assert all(chunk.text in edited.text for chunk in chosen)
    assert "cost_5 = 55" in chosen[0].text


@pytest.mark.parametrize("others", [[], [Buffer("logs.py", 1, LOGGING)]], ids=["closed", "replaced"])
def test_a_choice_goes_when_its_buffer_is_closed(chooser, kept, others):
    """A closed buffer's text is no context any more, whether or not another was opened instead."""
    assert chooser.choose(request(*others, text="shipping_cost_1\n"), 0, PLENTY) == ()


def test_a_choice_goes_when_the_window_moves(chooser, shop, kept):
    """When the prompt has to be computed anew anyway, the choice is made anew too."""
    chosen = chooser.choose(request(shop, text="alpha_1 = alpha_2\n"), 300, PLENTY)
    assert chosen[-1].text.startswith("alpha_0")


def test_a_choice_goes_when_a_buffer_is_opened(chooser, shop, kept):
    """A new buffer may have something better."""
    new = Buffer("new.py", 1, "shipping_cost_1\n")
    assert chooser.choose(request(new, shop, text="shipping_cost_1\n"), 0, PLENTY)[-1].path == "new.py"


def test_an_empty_choice_is_made_again(chooser):
    """Where nothing was similar, the next keystroke looks again: a new file's first characters decide nothing."""
    ship = Buffer("ship.py", 1, SHIPPING)
    assert chooser.choose(request(ship, text="#"), 0, PLENTY) == ()
    assert chooser.choose(request(ship, text=CODE), 0, PLENTY) == (Chunk("ship.py", SHIPPING),)


def test_choices_are_made_per_document(chooser, shop, kept):
    """Two documents have a choice each."""
    other = chooser.choose(request(shop, text="alpha_1 = alpha_2\n", path="b.py"), 0, PLENTY)
    assert other[-1].text.startswith("alpha_0")
    assert chooser.choose(request(shop, text="omega_1\n"), 0, PLENTY) == kept


@pytest.mark.parametrize("path", ["a.py", "shop.py"])
def test_a_forgotten_document_is_chosen_for_anew(chooser, shop, kept, path):
    """Forgetting a document drops what was chosen for it and what was chosen from it."""
    chooser.forget(path)
    chosen = chooser.choose(request(shop, text="alpha_1 = alpha_2\n"), 0, PLENTY)
    assert chosen[-1].text.startswith("alpha_0")


def test_forgetting_spares_others(chooser, shop, kept):
    """Forgetting one document leaves the choices of others."""
    chooser.forget("b.py")
    assert chooser.choose(request(shop, text="alpha_1 = alpha_2\n"), 0, PLENTY) == kept


def test_old_choices_are_dropped(chooser, shop, kept):
    """Only the latest choices are remembered, and one made anew is a late one."""

    def choose(text, path="a.py", window=0):
        return chooser.choose(request(shop, text=text, path=path), window, PLENTY)

    for n in range(REMEMBERED - 1):
        choose("omega_1\n", f"{n}.py")
    assert choose("alpha_1 = alpha_2\n") == kept
    again = choose("omega_1\n", window=300)
    for n in range(REMEMBERED - 1):
        choose("omega_1\n", f"later-{n}.py")
    assert choose("alpha_1 = alpha_2\n", window=300) == again != kept
    choose("omega_1\n", "last.py")
    assert choose("alpha_1 = alpha_2\n", window=300) not in (again, kept)

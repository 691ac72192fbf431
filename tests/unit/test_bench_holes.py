"""The holes of the suites: cut by rule from real texts, and found in the folder layout of the evaluation data."""

from __future__ import annotations

import pytest

from engine.bench.edit import (
    Page,
    block_holes,
    line_holes,
    moved_block,
    moved_holes,
    recorded_holes,
    repeated_blocks,
    repeated_lines,
)
from engine.bench.overhead import random_holes
from engine.bench.suites import data_sets
from engine.core import Buffer
from engine.holes import crosscode
from tests.bench_data import SOLUTION, make_data, small


def page(text: str, *buffers: str) -> Page:
    return Page("p", "a.py", "python", text, tuple(Buffer(f"b{n}.py", 1, b) for n, b in enumerate(buffers)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_data(tmp_path_factory.mktemp("data"))


def whole(hole) -> str:
    return hole.before + hole.wanted + hole.after


def test_a_line_hole_stands_elsewhere_and_begins_after_its_indentation():
    """The line that is asked for stands in another place, in this file or in a buffer; short ones do not count."""
    text = "if x:\n    value = compute_it(first, second)\n    y = 1\n    y = 1\nvalue_of_nothing_else = compute()\n"
    (hole,) = repeated_lines(page(text, "z\nvalue = compute_it(first, second)\n"))
    assert hole.wanted == "value = compute_it(first, second)"
    assert hole.before.endswith("if x:\n    ") and hole.after.startswith("\n    y")
    assert whole(hole) == text
    assert list(repeated_lines(page(text, "z\n"))) == []


def test_the_same_file_among_the_buffers_is_no_other_place():
    """An open buffer of the document's own path does not make its lines repeated."""
    text = "value = compute_it(first, second)\n"
    assert list(repeated_lines(Page("p", "a.py", "", text, (Buffer("a.py", 1, text),)))) == []


def test_blocks_are_found_letter_for_letter_or_with_a_few_names_changed():
    """Three lines that stand elsewhere make a block; with too many other words they are not the same block."""
    block = "    result = total_of(prices)\n    result += extra_of(prices)\n    return round(result, 2)\n"
    exact = list(repeated_blocks(page(f"def a():\n{block}", f"def b():\n{block}")))
    assert [h.name.rsplit(" ", 1)[1] for h in exact] == ["block"] and exact[0].wanted == block.strip()
    renamed = block.replace("result = total_of", "result = amount_of")
    (hole,) = repeated_blocks(page(f"def a():\n{block}", f"def b():\n{renamed}"))
    assert hole.name.endswith("renamed block")
    foreign = block.replace("result", "x").replace("prices", "y").replace("round", "z")
    assert list(repeated_blocks(page(f"def a():\n{block}", f"def b():\n{foreign}"))) == []


def test_a_block_does_not_repeat_itself_by_overlapping():
    """Places that share lines with the block are the block, not another one."""
    lines = "value = compute_it(first, second)\n" * 4
    assert list(repeated_blocks(page(lines))) == []


def test_a_moved_block_stands_in_the_earlier_version():
    """The document's earlier version is open beside it and holds the eight lines that are asked for."""
    text = "".join(f"line_{n} = {n}\n" for n in range(40))
    (hole,) = moved_block(page(text))
    assert hole.wanted.count("\n") == 7 and whole(hole) == text
    assert hole.wanted in hole.buffers[0].text and hole.buffers[0].path != hole.path
    assert list(moved_block(page("a = 1\n" * 9))) == []


def test_recorded_insertions_are_those_that_stood_in_an_open_document(folder):
    """What the person pasted is a hole if it stood somewhere before; the first time it is written it is none."""
    (hole,) = recorded_holes(folder)
    assert hole.wanted == "    assert discounted([1, 2], 0.5) == round(1.5, 2)"
    assert hole.path == "src/shop.py" and hole.before == "" and hole.after.startswith("\ndef total")
    assert any(hole.wanted in buffer.text for buffer in hole.buffers)


def test_every_edit_hole_stands_elsewhere(folder):
    """Whatever the kind, the document is whole again with the hole filled, and holes have text."""
    holes = [*line_holes(folder), *block_holes(folder), *moved_holes(folder)]
    assert {h.name.rsplit(" ", 1)[1] for h in holes} >= {"line", "block"}
    assert all((h.wanted.strip() and SOLUTION in whole(h)) or "test" in h.path for h in holes)


def test_random_identifiers_occur_once_and_follow_the_seed():
    """The overhead suite's text is the same for the same seed, and no name in it helps to guess another."""
    one, two = random_holes(2, 0)
    assert random_holes(2, 0) == [one, two] != random_holes(2, 1)
    names = [word for word in whole(one).replace("(", " ").replace(")", " ").replace(",", " ").split() if len(word) > 5]
    letters = [word for word in names if word[0].isalpha()]
    assert len(letters) == len(set(letters)) > 100


def test_crosscode_snippets_of_one_file_are_one_buffer(folder):
    """Retrieved snippets become buffers by file, best first."""
    (hole,) = crosscode(folder)
    (buffer,) = hole.buffers
    assert buffer.path == "lib.py" and "from shop" in buffer.text and "test_total" in buffer.text
    assert whole(hole) == SOLUTION


def test_holes_are_drawn_by_the_seed_in_the_order_of_the_data(folder):
    """Same seed, same holes; the count bounds them."""
    names = [h.name for h in data_sets("infill", small(folder))["HumanEval multi-line"]()]
    assert names == [h.name for h in data_sets("infill", small(folder))["HumanEval multi-line"]()]
    assert len(names) == 2 and names == sorted(names)
    drawn = {
        tuple(h.name for h in data_sets("infill", small(folder, seed=s))["HumanEval multi-line"]()) for s in range(9)
    }
    assert len(drawn) > 1

"""Every family's prompt looks as its makers document it; tests/golden/fim has them, readable as they are."""

import copy
import functools
from pathlib import Path

import pytest

from engine.core import Buffer, CompletionRequest
from engine.fim import FAMILIES, FimTemplate, find_template
from engine.prompt import PromptPlanner, PromptStyle
from engine.tokenizer import CodeTokenizer
from tests.conftest import make_tokenizer

GOLDEN = Path(__file__).parents[1] / "golden" / "fim"
PLAIN = FimTemplate("none", "prefix", begin="<s>")
NAMED = {template.family: template for template in FAMILIES[:-1]}
NAMED |= {"plain-generic": FAMILIES[-1], "none": PLAIN}  # the same three markers, without bars

INVOICE = '''"""Invoices."""

from orders import total_price


def invoice(order):
    lines = [order.customer]
    lines.append("")
    total = total_price(order)
    lines.append(f"Total: {total}")
    ret
    return "\\n".join(lines)


def send(order):
    mail(order.customer, invoice(order))
'''
CURSOR = INVOICE.index("ret\n") + len("ret")
ORDERS = Buffer("orders.py", 1, "def total_price(order):\n    return sum(order.prices)\n")
CUSTOMERS = Buffer("customers.py", 1, "class Customer:\n    def __init__(self, order):\n        self.order = order")


trained = functools.cache(make_tokenizer)


def vocabulary(names, special=True):
    """A tiny vocabulary with these control tokens."""
    spec = copy.deepcopy(trained())
    entry = spec["added_tokens"][0]
    first = len(spec["model"]["vocab"])
    spec["added_tokens"] = [
        {**entry, "id": first + n, "content": name, "special": special} for n, name in enumerate(["<|end|>", *names])
    ]
    return CodeTokenizer(spec)


def tokens_of(template):
    return [name for name in (template.begin, *template.needed) if name]


def prompt(tokenizer, buffers):
    """The prompt as text, control tokens by their names, and the pieces of it that are ids."""
    planner = PromptPlanner(tokenizer, find_template(tokenizer), 512, PromptStyle(healed_tokens=0))
    plan = planner.plan(CompletionRequest("invoice.py", "python", INVOICE, CURSOR, buffers))
    return plan, "".join(segment.text for segment in plan.segments)


@pytest.mark.parametrize("buffers", [(), (ORDERS, CUSTOMERS)], ids=["alone", "context"])
@pytest.mark.parametrize("name", NAMED)
def test_prompts_are_spelt_as_documented(name, buffers):
    """A family's prompt, alone and with two other files, is the text in its golden file (an end of line is added)."""
    _, text = prompt(vocabulary(tokens_of(NAMED[name])), buffers)
    golden = GOLDEN / f"{name}{'-context' if buffers else ''}.txt"
    assert text + "\n" == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMED)
def test_rendered_prompts_are_the_tokens(name):
    """What a golden file shows is what the model reads: control tokens as single ids, the rest as bytes."""
    tokenizer = vocabulary(tokens_of(NAMED[name]))
    plan, _ = prompt(tokenizer, (ORDERS, CUSTOMERS))
    for segment in plan.segments:
        ids = plan.ids[segment.start : segment.end]
        if segment.name == "control":
            assert ids == (tokenizer.control(segment.text),)
        else:
            assert tokenizer.controls.isdisjoint(ids)
            assert tokenizer.decode_bytes(ids).decode() == segment.text


@pytest.mark.parametrize("special", [True, False], ids=["special", "ordinary"])
@pytest.mark.parametrize("name", NAMED)
def test_families_are_found_by_their_tokens(name, special):
    """A vocabulary with a family's tokens, however flagged, is of that family."""
    assert find_template(vocabulary(tokens_of(NAMED[name]), special)) == NAMED[name]


def test_golden_files_are_all_used():
    """No golden file is left over from a family that is gone."""
    names = {f"{name}{end}.txt" for name in NAMED for end in ("", "-context")}
    assert {path.name for path in GOLDEN.iterdir()} == names


def test_families_differ_in_their_separators():
    """Fill-in-the-middle tokens without a family's separators make a vocabulary generic, not that family."""
    markers = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]
    assert find_template(vocabulary([*markers, "<|repo_name|>", "<|file_sep|>"])).family == "qwen"
    assert find_template(vocabulary([*markers, "<|repo_name|>"])).family == "generic"
    assert find_template(vocabulary([*markers, "<|reponame|>", "<|filename|>"])).family == "granite4"
    assert find_template(vocabulary([*markers, "<|file_separator|>"])).family == "codegemma"


def test_a_vocabulary_without_markers_completes_the_prefix():
    """Without all three markers there is no fill-in-the-middle; a known begin token is still used."""
    assert find_template(vocabulary([])) == FimTemplate("none", "prefix")
    assert find_template(vocabulary(["<|fim_prefix|>", "<|fim_middle|>"])) == FimTemplate("none", "prefix")
    for begin in ("<s>", "<bos>", "<|begin_of_text|>", "<｜begin▁of▁sentence｜>"):
        assert find_template(vocabulary([begin])) == FimTemplate("none", "prefix", begin=begin)


@pytest.mark.parametrize("name", NAMED)
def test_markers_in_text_are_text(name):
    """A document that spells its model's own markers has each marker once more, as text (B45)."""
    template = NAMED[name]
    tokenizer = vocabulary(tokens_of(template))
    text = "".join(tokens_of(template)) + "\nname = 1\n"
    planner = PromptPlanner(tokenizer, template, 1024)
    buffers = (Buffer("other.py", 1, text),)
    plan = planner.plan(CompletionRequest("a.py", "python", text, len(text), buffers))
    controls = [i for i in plan.ids if i in tokenizer.controls]
    expected = [tokenizer.control(segment.text) for segment in plan.segments if segment.name == "control"]
    assert controls == expected
    assert len(expected) <= 8

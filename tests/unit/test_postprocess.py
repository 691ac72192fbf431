"""What is shown of an answer: tests/golden/postprocess has the cases, readable as they are (its README tells how)."""

from __future__ import annotations

import gzip
import json
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_server.place import Place, Suggestion
from lsp_server.postprocess import FILTERS, finished_lines, postprocess

GOLDEN = Path(__file__).parents[1] / "golden" / "postprocess"
MARKS = {"⇥": "\t", "␠": " ", "␍": "\r", "␀": "\0"}
NOTHING = "nothing is shown"


@dataclass(frozen=True)
class Case:
    title: str
    language: str
    parts: dict[str, str]

    @property
    def place(self) -> Place:
        return at(self.parts["file"], self.language)

    @property
    def finished(self) -> bool:
        return "answer" in self.parts

    @property
    def answer(self) -> str:
        return self.parts["answer" if self.finished else "answer so far"]


def at(text: str, language: str = "python") -> Place:
    return between(*text.split("█"), language)


def between(before: str, after: str, language: str) -> Place:
    return Place("doc", language, before, after, before.count("\n"), len(before.rpartition("\n")[2]))


def cases(path: Path) -> list[Case]:
    found = []
    text = path.read_text(encoding="utf-8") + "\n"  # as the others, the last case ends with a blank line
    for block in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]:
        head, *parts = re.split(r"^--- ", block.removesuffix("\n"), flags=re.MULTILINE)
        title, language = head.splitlines()
        texts = [part.partition("\n") for part in parts]
        plain = {name: plainly(text.removesuffix("\n")) for name, _, text in texts}
        found.append(Case(title, language.removeprefix("language: "), plain))
    return found


def plainly(text: str) -> str:
    for mark, char in MARKS.items():
        text = text.replace(mark, char)
    return text


def accepted(place: Place, suggestion: Suggestion, opening: str = "", closing: str = "") -> str:
    return place.before + opening + suggestion.text + closing + place.after[suggestion.replaces :]


CASES = [
    pytest.param(case, id=f"{path.stem}: {case.title}")
    for path in sorted(GOLDEN.glob("*.txt"))
    if path.stem != "README"
    for case in cases(path)
]


@pytest.mark.parametrize("case", CASES)
def test_answers_are_shown_as_the_golden_files_say(case):
    """B07, B16, B27, B34-B36, B40, B42, B44-B46, B48, B51: the file named after the case has its input and result."""
    suggestion = postprocess(case.place, case.answer, finished=case.finished)
    shown = {name: text for name, text in case.parts.items() if name not in ("file", "answer", "answer so far")}
    if suggestion is None:
        assert NOTHING in shown
        return
    expected = {"accepted": accepted(case.place, suggestion, "«", "»")}
    if suggestion.replaces:
        expected["replaced"] = case.place.after[: suggestion.replaces]
    assert shown == expected


@pytest.mark.parametrize("case", CASES)
def test_what_is_shown_passes_again(case):
    """A suggestion that goes through the filters a second time stays as it is."""
    suggestion = postprocess(case.place, case.answer, finished=case.finished)
    if suggestion is None:
        return
    text = suggestion.text if case.finished else suggestion.text + "\n"
    assert postprocess(case.place, text, finished=case.finished) == suggestion


@pytest.mark.parametrize("case", CASES)
def test_typing_a_suggestion_never_contradicts_it(case):
    """Wherever one is within a shown suggestion, what is shown of its rest is that rest, its beginning or nothing."""
    suggestion = postprocess(case.place, case.answer, finished=case.finished)
    text = suggestion.text if suggestion else ""
    for size in range(1, len(text)):
        place = at(case.place.before + text[:size] + "█" + case.place.after, case.language)
        rest = postprocess(place, text[size:], finished=True)
        assert rest is None or text[size:].startswith(rest.text) or rest.text.startswith(text[size:]), text[:size]


@pytest.mark.parametrize("case", CASES)
def test_what_is_replaced_was_put_there_by_the_editor(case):
    """Only closing brackets, quotes and a semicolon right of the cursor go, and all come again, in order (B27, B35)."""
    suggestion = postprocess(case.place, case.answer, finished=case.finished)
    replaced = case.place.after[: suggestion.replaces] if suggestion else ""
    assert set(replaced) <= set(")]}\"'`;")
    rest = iter(suggestion.text if suggestion else "")
    assert all(char in rest for char in replaced)


def test_golden_cases_speak_of_every_language():
    """Each of these languages has its own cases."""
    languages = {param.values[0].language for param in CASES}
    assert {"python", "typescript", "rust", "go", "java", "html", "markdown", "yaml"} <= languages


def test_parses_after_accept():
    """Python files of the golden cases about indentation parse once the suggestion is accepted (B40)."""
    count = 0
    for case in cases(GOLDEN / "B40-indentation.txt"):
        suggestion = postprocess(case.place, case.answer, finished=True)
        if case.language == "python" and suggestion:
            compile(accepted(case.place, suggestion), case.title, "exec")
            count += 1
    assert count > 10


# Golden cases of another product, with our own judgement.

DIFFERENT = {
    "limit_scope/to_block_03": "lines of the same block may follow a comment; the document is right either way",
    "limit_scope/to_line_01": "a second statement of the same block is a good suggestion, not a fault",
}


def test_other_golden_cases(data):
    """Tabby's cases give Tabby's documents, also where its authors say that theirs do not, but for those we list."""
    path = data / "postprocess-golden" / "golden.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"no golden cases of another product at {path}")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        others = [json.loads(line) for line in lines]
    assert len(others) == 26
    differing = {other["name"] for other in others if _ours(other) != _theirs(other)}
    assert differing == set(DIFFERENT)


def _ours(other: dict) -> str | None:
    before, rest = other["text"].split("├")
    answer, after = rest.split("┤")
    place = at(before + "█" + after, other["language"])
    suggestion = postprocess(place, answer, finished=True)
    return accepted(place, suggestion) if suggestion else None


def _theirs(other: dict) -> str | None:
    expected = other["expected"]
    if expected.get("discard"):
        return None
    text = other["text"] if expected.get("unchanged") else expected["text"]
    return re.sub(r"┤[^╣]*╣", "┤", text).replace("├", "").replace("┤", "")


# Any text at all.

PIECES = [
    *("def f(a, b):", "    return a", "x = ", "foo(", "bar", "import os", "print(x)", "  - a: b", "else", "end"),
    *("\n", "\n\n", "\r\n", "\r", "\t", "    ", "  ", " ", ")", "]", "}", "{", "[", "(", ";", ",", ":", '"', "'", "`"),
    *('"""', "#", "//", "/*", "*/", "${", "\\", "<|fim_middle|>", "<|", "</div>", "<div>", "0, ", "abc abc ", "🙂"),
    *("\ufffd", "\0", "1", "é"),
]
NOISE = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join)
LINES = NOISE.map(lambda text: text.replace("\r\n", "\n").replace("\r", "\n"))
LANGUAGES = st.sampled_from(["python", "typescript", "rust", "go", "html", "markdown", "yaml", "json", "lua", "x", ""])
PLACES = st.builds(between, LINES, LINES, LANGUAGES)


@given(PLACES, NOISE, st.booleans())
@settings(max_examples=200, deadline=None)
def test_any_answer_gives_text_that_may_be_shown(place, text, finished):
    """Whatever a model writes wherever: no exception, no control or half character, nothing blank, and it is stable."""
    suggestion = postprocess(place, text, finished=finished)
    if suggestion is None:
        return
    assert suggestion.text.strip()
    controls = {char for char in suggestion.text if unicodedata.category(char) in ("Cc", "Cs")}
    assert controls <= {"\n", "\t"}
    assert "\ufffd" not in suggestion.text
    assert 0 <= suggestion.replaces <= len(place.line_after)
    replaced, rest = place.after[: suggestion.replaces], iter(suggestion.text)
    assert suggestion.text != replaced
    assert all(char in rest for char in replaced)
    if finished:
        assert postprocess(place, suggestion.text, finished=True) == suggestion


def test_a_far_control_token_of_the_file_counts():
    """A long file that spells a token far from the cursor may have it again (B45)."""
    far = "x = 1\n" * 8_000
    line = 'END = "<|endoftext|>"'
    assert postprocess(at(f"{line}\n{far}█"), line, finished=True) == Suggestion(line)
    assert postprocess(at(f"{far}█"), line, finished=True) != Suggestion(line)


@pytest.mark.parametrize(("text", "answer"), [("])) ,█\"']\n", ";"), ("},]█)'\n", ";\n[")])
def test_nothing_is_replaced_that_would_not_be_seen(text, answer):
    """In a line whose brackets are in disorder nothing goes that does not come again, so that editors show it (B27)."""
    suggestion = postprocess(at(text, "javascript"), answer, finished=True)
    assert suggestion == Suggestion(answer)


def test_a_long_file_may_be_cut_inside_a_string():
    """Where only the near part of a long file is read, a string that its beginning cuts is not taken for code."""
    line = '    """It is "quoted" (here, and there."""\n'
    text = f"def g():\n    '''\n{line * 800}    '''\n\n\ndef f():\n    print(len(█))\n"
    assert postprocess(at(text), "xs))", finished=True) == Suggestion("xs))", 2)


@given(PLACES, st.text(max_size=40))
@settings(max_examples=50, deadline=None)
def test_an_unfinished_line_is_not_shown(place, text):
    """At a deadline a single line that may still grow gives nothing."""
    line = text.replace("\n", "").replace("\r", "")
    assert postprocess(place, line, finished=False) is None


@pytest.mark.parametrize(
    ("text", "whole"),
    [("", ""), ("a", ""), ("a\n", "a"), ("a\nb", "a"), ("a\r\nb", "a\r"), ("\na", ""), ("a\n\n", "a\n"), ("a\r", "a")],
)
def test_finished_lines(text, whole):
    """Lines count once their line break is there."""
    assert finished_lines(text) == whole


def test_every_filter_says_what_it_prevents():
    """Each filter has one sentence that names the failure, and none is listed twice."""
    assert len(set(FILTERS)) == len(FILTERS)
    for each in FILTERS:
        assert re.fullmatch(r"Prevent [^.]+\.", each.__doc__ or ""), each.__name__


@pytest.mark.parametrize("each", FILTERS, ids=lambda each: each.__name__)
def test_every_filter_is_needed(each, monkeypatch):
    """Without any one of them at least one golden case goes wrong."""
    rest = tuple(other for other in FILTERS if other is not each)
    changed = [
        param.values[0] for param in CASES if _shown(param.values[0]) != _shown_by(param.values[0], rest, monkeypatch)
    ]
    assert changed


def _shown(case: Case) -> Suggestion | None:
    return postprocess(case.place, case.answer, finished=case.finished)


def _shown_by(case: Case, filters: tuple, monkeypatch) -> Suggestion | None:
    with monkeypatch.context() as patch:
        patch.setattr("lsp_server.postprocess.FILTERS", filters)
        return _shown(case)

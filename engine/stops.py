"""Where a completion ends, decided from its text alone.

Knows nothing of tokens or models. The text is read once, line by line. Every rule fires at one fixed place of
it (the first character of a line, or its line break) and the first to fire wins, so it does not matter in which
pieces the text arrives. What a rule may still cut is held back, so what was shown is never taken back.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from engine.config import StopMode
from engine.core import FinishReason

_EVIDENCE = 8  # letters and digits of the text right of the cursor that must reappear before we call it a repeat
_REST_EVIDENCE = 6  # the same, where the repeat begins inside the cursor's own line
_CYCLES = (1, 2, 3)  # lines per cycle of a runaway
_REPEATS = 4  # occurrences that make a runaway
_CYCLE_LETTERS = 6  # fewer are rows of zeros, of null, or closing brackets
_TAB = 4

_BREAK = re.compile(r"\r\n|\n|\r")
_WORD = re.compile(r"[A-Za-z_]+")
_CLOSERS = (")", "]", "}")
_STRINGS = r"""\"(?:\\.|[^"\\])*"?|`(?:\\.|[^`\\])*`|(?<![&<\w])[bfrBFR]{0,2}'(?:\\.|[^'\\])*'"""
_SLASHES = re.compile(_STRINGS + r"|//.*|[()\[\]{}]")
_HASH = re.compile(_STRINGS + r"|\#.*|[()\[\]{}]")
_HASH_LANGUAGES = frozenset({"python", "ruby", "shellscript", "perl", "r", "elixir", "yaml", "toml"})
_CONTINUE = frozenset(["else", "elif", "elsif", "except", "finally", "catch", "rescue", "ensure", "end"])
_DEFINE = re.compile("def|class|async|function|fn|func|export|pub|public|struct|enum|interface|trait|impl")


@dataclass(frozen=True, slots=True)
class StopContext:
    """What stands around the cursor; a few thousand characters on each side are enough."""

    before: str
    after: str
    mode: StopMode
    language: str = ""


@dataclass(frozen=True, slots=True)
class StopState:
    """What is known after some text: `generated[:shown]` is final; `end` is the cut once the completion ended."""

    shown: int
    end: int | None = None
    reason: FinishReason | None = None


class _Facts(NamedTuple):
    """What a context says, prepared once."""

    mode: StopMode
    left: str  # the cursor's line up to the cursor
    rest: str  # the cursor's line from the cursor on, without trailing whitespace; '' if blank
    targets: tuple[str, ...]  # `rest` if not empty, then the non-blank lines that follow: what a repeat repeats
    breaks: int  # line breaks between the cursor and the first target
    need: int  # how many targets make a repeat certain
    sure: bool  # False: `after` ends before there is enough evidence
    shortcut: bool  # the first target alone will do if it leaves the brackets in order
    open: int  # brackets that a completion may leave open, because `left` opens or `rest` closes them
    hash: bool  # comments start with '#'


class _Line(NamedTuple):
    """A non-blank generated line; the first one includes what stands left of the cursor."""

    text: str  # without trailing whitespace
    origin: int  # offset of text[0] in the generated text; negative on the cursor's line
    whole: bool  # its line break is there
    gap: int  # blank lines above
    open: int  # brackets opened since the start of the cursor's line and still open where this line starts

    @property
    def end(self) -> int:
        return max(0, self.origin + len(self.text))


class _Match(NamedTuple):
    """A repeat of the text right of the cursor, complete or in progress."""

    line: int  # index of its first line
    cut: int  # where to cut if it is one
    open: int  # brackets open at the cut


class _Seen(NamedTuple):
    """What the lines read so far amount to."""

    lines: tuple[_Line, ...] = ()
    matches: tuple[_Match, ...] = ()  # in progress, earliest cut first
    runs: tuple[int, ...] = (0,) * len(_CYCLES)  # per cycle: how many last lines equal the line one cycle above
    gap: int = 0  # blank lines since the last line
    open: int = 0  # brackets open after the last line
    unsure: bool = False  # the next line has begun and may turn out to start something new
    ended: StopState | None = None


def scan(context: StopContext, generated: str) -> StopState:
    """Judge the text generated so far; `shown` never falls as the text grows and never exceeds a later cut."""
    seen = _read(context, generated)
    return seen.ended or StopState(_held(seen, len(generated.rstrip())))


def finish(context: StopContext, generated: str, reason: FinishReason) -> int:
    """Where to cut when generation ended for an outside `reason`.

    A certain repeat of the text right of the cursor goes in any case, one in progress only if the model did not
    end by itself; nothing else is touched.
    """
    final = _read(context, generated + "\n").ended  # the last line will not grow any more
    if final and final.end is not None and final.reason == "suffix":
        return final.end
    seen = _read(context, generated)
    if seen.ended and seen.ended.end is not None:
        return seen.ended.end
    if reason != "stop" and seen.matches:
        cut = seen.matches[0].cut
        if _alnum(generated[cut:]) >= _REST_EVIDENCE:
            return cut
    return len(generated) if generated.strip() else 0


def _read(context: StopContext, generated: str) -> _Seen:
    start = 1 + max(generated.rfind("\n"), generated.rfind("\r"))
    seen = _read_whole(context, generated[:start])
    return seen if seen.ended else _step(_facts(context), seen, generated, (start, len(generated)), whole=False)


@lru_cache(maxsize=4)  # hit by every token but the first of a line
def _read_whole(context: StopContext, generated: str) -> _Seen:
    facts, seen, start = _facts(context), _Seen(), 0
    for found in _BREAK.finditer(generated):
        seen = _step(facts, seen, generated, (start, found.start()), whole=True)
        if seen.ended:
            break
        start = found.end()
    return seen


def _step(facts: _Facts, seen: _Seen, generated: str, span: tuple[int, int], whole: bool) -> _Seen:
    """Read one more line, its line break included if `whole`; every rule is asked here."""
    prefix = "" if span[0] else facts.left
    text = (prefix + generated[slice(*span)]).rstrip()
    if not text:
        ended = _ended(0, "line") if whole and facts.mode == "line" else None
        return seen._replace(gap=seen.gap + 1, ended=ended)
    line = _Line(text, span[0] - len(prefix), whole, seen.gap, seen.open)
    lines = (*seen.lines, line)
    ends = _block_ends(facts, lines)
    if ends:
        return seen._replace(ended=_block_end(facts, seen, line, generated))
    if ends is None:
        return seen._replace(unsure=True)
    after = _Seen(
        lines,
        _advance(facts, seen, line, generated),
        _advance_runs(seen, line),
        open=_depth(seen.open, text, facts.hash),
    )
    return after._replace(ended=_line_end(facts, after)) if whole else after


def _line_end(facts: _Facts, seen: _Seen) -> StopState | None:
    """Apply the rules that fire at a line break, strongest evidence first."""
    match = _converged(facts, seen)
    if match:
        return _ended(match.cut, "suffix")
    if facts.mode == "line":
        return _ended(seen.lines[-1].end, "line")
    if _closes_block(facts, seen):
        # Closed by the very lines that stand right of the cursor: they are a repeat, however short.
        return _ended(seen.matches[0].cut, "suffix") if seen.matches else _ended(seen.lines[-1].end, "block")
    return _runaway(seen)


def _held(seen: _Seen, size: int) -> int:
    """How much of the text no rule can cut any more. `size` leaves out trailing whitespace."""
    last = len(seen.lines) - 1
    cuts = [match.cut for match in seen.matches[:1]]
    cuts += [seen.lines[last - run].end for run in seen.runs if run]
    cuts += [seen.lines[last].end] if seen.unsure else []
    return min([size, *cuts])


def _ended(end: int, reason: FinishReason) -> StopState:
    return StopState(end, end, reason)


# The cursor's surroundings, and how lines are measured.


@lru_cache(maxsize=4)
def _facts(context: StopContext) -> _Facts:
    left = _BREAK.split(context.before)[-1]
    rest, *below = (_plain(line.rstrip()) for line in _BREAK.split(context.after))
    following = [line for line in below if line]
    inside = bool(rest and left.strip())
    targets = [rest, *following] if rest else following
    copies = Counter(line.strip() for line in _BREAK.split(context.before + context.after))
    need, sure = _needed(targets, copies, inside)
    uses_hash = context.language in _HASH_LANGUAGES
    return _Facts(
        mode=context.mode,
        left=left,
        rest=rest,
        targets=tuple(targets[: need + 1]),
        breaks=0 if rest else 1 + next((i for i, line in enumerate(below) if line), 0),
        need=need,
        sure=sure,
        shortcut=inside or bool(targets and targets[0].lstrip().startswith(_CLOSERS)),
        open=max(_depth(0, left, uses_hash), -_brackets(rest, uses_hash)[0] if _alnum(rest) else 0),
        hash=uses_hash,
    )


def _needed(targets: list[str], copies: Counter[str], inside: bool) -> tuple[int, bool]:
    """How many targets must reappear, and whether that is sure; a line the file holds twice counts half."""
    total = 0.0
    for count, target in enumerate(targets, 1):
        total += _alnum(target) / (2 if copies[target.strip()] > 1 else 1)
        if total >= (_REST_EVIDENCE if inside and count == 1 else _EVIDENCE):
            return count, True
    return len(targets), False


def _depth(depth: int, text: str, uses_hash: bool) -> int:
    """Open brackets after `text`; a closer of something opened earlier does not count."""
    low, net = _brackets(text, uses_hash)
    return depth + net - min(0, depth + low)


@lru_cache(maxsize=512)
def _brackets(text: str, uses_hash: bool) -> tuple[int, int]:
    """Lowest and final bracket depth of one line, strings and comments left out."""
    low = net = 0
    for token in (_HASH if uses_hash else _SLASHES).findall(text):
        if token in ("(", "[", "{"):
            net += 1
        elif token in _CLOSERS:
            net -= 1
            low = min(low, net)
    return low, net


def _width(text: str) -> int:
    indent = text[: len(text) - len(text.lstrip())]
    return len(indent) + (_TAB - 1) * indent.count("\t")


def _alnum(text: str) -> int:
    return sum(map(str.isalnum, text))


# Rule: the text right of the cursor is written again.


def _advance(facts: _Facts, seen: _Seen, line: _Line, generated: str) -> tuple[_Match, ...]:
    """Keep the matches that `line` carries on and add the one it starts."""
    targets, index = facts.targets, len(seen.lines)
    if not targets:
        return ()
    kept = tuple(
        match
        for match in seen.matches
        if index - match.line < len(targets) and _agrees(line, targets[index - match.line])
    )
    cut = _cut_in_line(facts, line) if facts.rest else _cut_above(facts, seen, line, generated)
    if cut is None:
        return kept
    head = line.text[: max(0, cut - line.origin)] if facts.rest else ""
    depth = _depth(line.open, head, facts.hash)
    return (*kept, _Match(index, cut if generated[:cut].strip() else 0, depth))


def _agrees(line: _Line, target: str) -> bool:
    text = _plain(line.text)
    return text == target if line.whole else target.startswith(text)


def _plain(text: str) -> str:
    """A line to compare by: '});' closes what '})' closes, and doubling it would be worse than losing the ';'."""
    return text.rstrip(";,") if text.lstrip().startswith(_CLOSERS) else text


def _cut_in_line(facts: _Facts, line: _Line) -> int | None:
    """Where `line` begins to repeat the rest of the cursor's line up to its end, if it does."""
    rest = facts.rest
    text = line.text.rstrip(";,") if rest.lstrip().startswith(_CLOSERS) else line.text
    first = max(0, -line.origin, len(text) - len(rest))  # what the user typed is no repeat
    starts = range(first, len(text))
    if line.whole:
        starts = starts[: 1 if text.endswith(rest) else 0]
    at = next((at for at in starts if rest.startswith(text[at:]) and _fits(facts, text[:at])), None)
    return None if at is None else line.origin + at


def _fits(facts: _Facts, head: str) -> bool:
    """Whether the rest of the cursor's line may stand right of `head`: indented as there, or after other text."""
    left = facts.left
    return bool(head.strip() or left.strip()) or head == left or facts.rest.startswith(_CLOSERS)


def _cut_above(facts: _Facts, seen: _Seen, line: _Line, generated: str) -> int | None:
    """Where to cut if `line` repeats the first non-blank line below the cursor, if it does."""
    if not _agrees(line, facts.targets[0]) or (line.origin < 0 and facts.left.strip()):
        return None
    start, floor = max(0, line.origin), seen.lines[-1].end if seen.lines else 0
    spots = [found.start() for found in _BREAK.finditer(generated, floor, start)]
    # As many line breaks as `after` itself brings go with the repeat; what the model wrote beyond stays.
    cut = spots[-facts.breaks :][0] if spots else start
    return len(generated[:cut].rstrip(" \t"))


def _converged(facts: _Facts, seen: _Seen) -> _Match | None:
    """Find the first match that has become certain with the last line."""
    for match in seen.matches:
        length = len(seen.lines) - match.line
        tidy = match.open <= facts.open
        closed = length > 1 and not seen.open
        if (facts.shortcut and tidy) or (length >= facts.need and (facts.sure or tidy or closed)):
            return match
    return None


# Rule: the block ends.


def _block_ends(facts: _Facts, lines: tuple[_Line, ...]) -> bool | None:
    """Whether the block ends before the last of `lines`; None while that line's first word is still growing."""
    line, typed = lines[-1], bool(facts.left.strip())
    if facts.mode != "block" or (len(lines) == 1 and typed):
        return False
    # On a blank line the first generated line may be deeper than the cursor: then that is the block.
    base, width = max(_width(facts.left), _width(lines[0].text)), _width(line.text)
    if line.open and line.text.lstrip().startswith(_CLOSERS):
        return False
    if width != base or line.open or len(lines) == 1:
        return width < base
    if typed and _width(lines[1].text) > base:  # the cursor's line opened a block, and this line is after it
        return _starts_unit(line, any_word=True)
    if base == 0 and line.gap and (len(lines) > 2 or lines[0].end > 0):
        # Top level has no dedent. One blank line separates statements that belong together as often as not, so
        # it counts after an indented body or before a definition only; two always do.
        above = lines[-2].text
        body = above[0].isspace() or above.startswith(_CLOSERS)
        return _starts_unit(line, any_word=body or line.gap > 1)
    return False


def _starts_unit(line: _Line, any_word: bool) -> bool | None:
    """Whether a line starts something new rather than going on with the block above, as 'else' does."""
    text = line.text.lstrip()
    found = _WORD.match(text)
    word = found.group() if found else ""
    if word == text and not line.whole:
        return None
    if word in _CONTINUE or text.startswith("{"):
        return False
    return any_word or bool(_DEFINE.fullmatch(word)) or text.startswith("@")


def _block_end(facts: _Facts, seen: _Seen, line: _Line, generated: str) -> StopState:
    """End before `line`, and before a short repeat that ends exactly there as the text below does."""
    for match in seen.matches:
        beyond = facts.targets[len(seen.lines) - match.line :]
        tidy = match.open <= facts.open or not line.open
        if tidy and (not beyond or _width(beyond[0]) <= _width(line.text)):
            return _ended(match.cut, "suffix")
    end = len(generated[: max(0, line.origin)].rstrip())
    if end and facts.rest and not facts.left:  # the text right of the cursor is a whole line: keep it one
        found = _BREAK.search(generated, end)
        end = found.end() if found else end
    return _ended(end, "block")


def _closes_block(facts: _Facts, seen: _Seen) -> bool:
    """Whether the last line closes the last bracket of the block that the cursor's line opened."""
    if facts.mode != "block" or len(seen.lines) < 2 or not facts.left.strip():
        return False
    text, second = seen.lines[-1].text, seen.lines[1]
    return (
        (second.open > 0 or second.text.lstrip().startswith("{"))
        and text.lstrip().startswith(_CLOSERS)
        and _width(text) <= _width(facts.left)
        and not seen.open
        and not text.endswith(":")  # '):' ends a Python signature; its body follows
    )


# Rule: the model runs in circles.


def _advance_runs(seen: _Seen, line: _Line) -> tuple[int, ...]:
    lines = seen.lines
    return tuple(
        run + 1 if len(lines) >= cycle and _agrees(line, _plain(lines[-cycle].text)) else 0
        for cycle, run in zip(_CYCLES, seen.runs, strict=True)
    )


def _runaway(seen: _Seen) -> StopState | None:
    """End after the first cycle once it came often enough, unless it is too plain to mean anything."""
    for cycle, run in zip(_CYCLES, seen.runs, strict=True):
        letters = sum(map(str.isalpha, "".join(line.text for line in seen.lines[-cycle:])))
        if run >= cycle * (_REPEATS - 1) and letters >= _CYCLE_LETTERS:
            return _ended(seen.lines[-1 - run].end, "block")
    return None

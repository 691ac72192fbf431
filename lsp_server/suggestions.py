"""What is known to come at which places, so that typing along a suggestion asks no model.

One law holds for every answer: applied where the cursor stands now, it gives the very document that accepting the
suggestion would have given where it was made. What the person typed of it, what the editor closed by itself and what
was typed over are only different ways to the same text. Whatever leads elsewhere is a contradiction, and no answer.
A text that the model has not finished may leave to the editor what the editor has closed; the longer one will agree.

Not for several threads: only the loop that serves the client calls it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from lsp_server.place import Place, Suggestion

BEFORE, AFTER = 1_000, 400  # characters that must agree; a `Place` has as many, or reaches the document's ends
INSERTED = 64  # the most an editor adds right of the cursor by itself: closers, a closing tag, an indented brace
ALTERNATIVES = 8  # the most that one place is answered with
MATCHES = 32  # entries that fit a place, the most recent first; more are not looked at
GUESSES = 8  # lines of a suggestion tried when lines above have come or gone
RECENT = 64  # entries for which that is tried
_OPENS = {")": "(", "]": "[", "}": "{", ">": "<", '"': '"', "'": "'", "`": "`"}
_Key = tuple[str, str, str, int]


@dataclass(frozen=True, slots=True)
class Hit:
    """What comes at a place. `typed` characters of it stand there already; `shown`: the person has seen some of it."""

    suggestion: Suggestion
    finished: bool  # the model has no more to add
    typed: int
    rank: int
    shown: bool


@dataclass(slots=True)
class _Entry:
    key: _Key  # document, what is left and right of the cursor, rank
    line: int
    starts: tuple[int, ...]  # where each line of the text begins; before it, if the line began left of the cursor
    replaced: str
    head: str  # what comes right of the replaced characters
    text: str
    finished: bool
    seen: int = 0  # characters of the text that the person has been shown

    @property
    def size(self) -> int:
        return sum(map(len, (*self.key[:3], self.replaced, self.head, self.text)))


class SuggestionCache:
    """Suggestions by place, bounded in number and in characters; the least recently used go first."""

    def __init__(self, limit: int = 200, characters: int = 2_000_000) -> None:
        self._limit, self._characters = limit, characters
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self._size = 0
        self.statistics: Counter[str] = Counter()  # finds by what they met: exact, typed, closed, moved, miss

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, place: Place, suggestion: Suggestion, *, finished: bool, rank: int = 0) -> bool:
        """Remember what comes at a place; False if that was refused, as it would alter what the person sees there.

        Rank 0 is the greedy text, higher ones are alternatives. An unfinished text never takes the place of a longer
        one that begins with it.
        """
        if not suggestion.text.startswith(self._fixed(place, rank)):
            return False
        entry = _entry(place, suggestion, finished, rank)
        known = self._entries.get(entry.key)
        if known and not finished and known.text.startswith(entry.text):
            return True
        if known and entry.text.startswith(known.text[: known.seen]):
            entry.seen = known.seen
        self._store(entry)
        return True

    def find(self, place: Place) -> Hit | None:
        """Return what comes at a place: what the person sees, or else the greedy text, the newest first.

        An empty text means that the model was asked at this very place and has nothing to say. There is no hit where
        a suggestion has been typed or accepted to its end: what follows it is another question.
        """
        return next(iter(self.find_all(place)), None)

    def find_all(self, place: Place) -> list[Hit]:
        """Return all that may come at a place, the one to show first; of texts that begin alike only the longest."""
        matches = self._matches(place)
        self.statistics[_kind(place, *matches[0]) if matches else "miss"] += 1
        if matches:
            self._entries.move_to_end(matches[0][1].key)
        return _different([hit for hit, _ in matches])

    def shown(self, place: Place, suggestion: Suggestion) -> None:
        """Note what the client was given at a place: all that is found along it from now on begins with it."""
        text = suggestion.text
        matches = self._matches(place) if text else []
        for hit, entry in matches:
            length = min(len(hit.suggestion.text), len(text))
            if hit.suggestion.text[:length] == text[:length]:
                entry.seen = max(entry.seen, hit.typed + length)
            elif text.startswith(_visible(hit, entry)):
                entry.seen = min(entry.seen, hit.typed)  # what is seen has taken another turn
        if text and not any(hit.suggestion.text.startswith(text) for hit, _ in matches):
            entry = _entry(place, suggestion, finished=False, rank=0)
            entry.seen = len(text)
            self._store(entry)

    def forget(self, document: str) -> None:
        """Drop all that is known for a document."""
        self.purge(lambda name: name == document)

    def purge(self, unwanted: Callable[[str], bool]) -> None:
        """Drop all that is known for the documents that `unwanted` picks."""
        for key in [key for key in self._entries if unwanted(key[0])]:
            self._drop(key)

    def clear(self) -> None:
        """Drop everything but the statistics."""
        self._entries.clear()
        self._size = 0

    def _fixed(self, place: Place, rank: int) -> str:
        """Return what the person sees at a place of the suggestion that a new one of this rank would replace."""
        matches = self._matches(place)
        return _longest([_visible(*match) for match in matches if match[0].shown and rank in {0, match[0].rank}])

    def _matches(self, place: Place) -> list[tuple[Hit, _Entry]]:
        entries = [entry for entry in reversed(self._entries.values()) if entry.key[0] == place.document]
        found = _match_all(entries, place, _by_line) or _match_all(entries[:RECENT], place, _by_text)
        return sorted(found, key=lambda match: (not match[0].shown, match[0].rank))

    def _store(self, entry: _Entry) -> None:
        self._drop(entry.key)
        self._entries[entry.key] = entry
        self._size += entry.size
        while len(self._entries) > self._limit or self._size > self._characters:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: _Key) -> None:
        entry = self._entries.pop(key, None)
        self._size -= entry.size if entry else 0


def _entry(place: Place, suggestion: Suggestion, finished: bool, rank: int) -> _Entry:
    text, cut = suggestion.text, suggestion.replaces
    breaks = [at + 1 for at, char in enumerate(text) if char == "\n"]
    return _Entry(
        key=(place.document, place.before[-BEFORE:], place.after[:AFTER], rank),
        line=place.line,
        starts=(-place.column, *breaks),
        replaced=place.after[:cut],
        head=place.after[cut : cut + AFTER],
        text=text,
        finished=finished,
    )


_Lengths = Callable[[_Entry, Place], list[tuple[int, str]]]


def _match_all(entries: list[_Entry], place: Place, lengths: _Lengths) -> list[tuple[Hit, _Entry]]:
    found: list[tuple[Hit, _Entry]] = []
    last = place.before[-1:]
    for entry in entries:
        for typed, margin in lengths(entry, place):
            # Most entries differ in the last character already.
            if margin or last == (entry.text[typed - 1 : typed] if typed else entry.key[1][-1:]):
                hit = _match(entry, place, typed, margin)
                if hit:
                    found.append((hit, entry))
                    break
        if len(found) == MATCHES:
            break
    return found


def _by_line(entry: _Entry, place: Place) -> list[tuple[int, str]]:
    """Return how much of the text is typed if no line has come or gone, and what the editor put after it."""
    down = place.line - entry.line
    if not 0 <= down < len(entry.starts):
        return []
    start = entry.starts[down]
    if down and place.column and entry.text.startswith("\n", start):
        # The text has a blank line here, and the editor has indented it.
        return [(start + place.column, ""), (start, _line_before(place))]
    return [(start + place.column, "")]


def _by_text(entry: _Entry, place: Place) -> list[tuple[int, str]]:
    """Return how much of the text may be typed, wherever its lines are now."""
    lengths = [(entry.starts[0] + place.column, "")]
    if len(entry.starts) == 1 or place.column >= len(entry.text):
        return lengths
    line, at = "\n" + _line_before(place), -1
    while len(lengths) < GUESSES and (at := entry.text.find(line, at + 1)) >= 0:
        lengths.append((at + len(line), ""))
    return lengths


def _line_before(place: Place) -> str:
    return place.before[len(place.before) - place.column :]  # the property searches all of `before`


def _match(entry: _Entry, place: Place, typed: int, margin: str) -> Hit | None:
    if not 0 <= typed <= len(entry.text) or margin.strip() or not _follows(entry, place.before, typed, margin):
        return None
    now = _right(entry, place.after)
    rest = _rest(entry, typed, now) if now is not None else None
    if rest is None or not (rest[0].text or (entry.finished and not entry.text)):
        return None
    return Hit(*rest, typed=typed, rank=entry.key[3], shown=entry.seen > typed)


def _follows(entry: _Entry, before: str, typed: int, margin: str) -> bool:
    """Whether what is left of the cursor is what the suggestion continued and what is typed of it."""
    expected = entry.key[1] + entry.text[:typed] + margin
    if len(entry.key[1]) < BEFORE:
        return before == expected
    return before.endswith(expected) or (len(before) >= BEFORE and expected.endswith(before))


def _right(entry: _Entry, after: str) -> str | None:
    """Return what stands between the cursor and what followed the replaced characters, or None if that has changed."""
    most = len(entry.replaced) + INSERTED
    if len(entry.head) < AFTER - INSERTED:  # it reaches the document's end
        size = len(after) - len(entry.head)
        return after[:size] if 0 <= size <= most and after.endswith(entry.head) else None
    head = entry.head[: AFTER - INSERTED]
    size = after.find(head, 0, most + len(head))
    return after[:size] if size >= 0 else None


def _rest(entry: _Entry, typed: int, now: str) -> tuple[Suggestion, bool] | None:
    """Return what is left to insert before `now`, the text right of the cursor, and whether the model has ended."""
    rest = entry.text[typed:]
    if entry.replaced.endswith(now):  # as it was, or some of it typed over
        return Suggestion(rest, len(now)), entry.finished
    if "\n" in now:
        return _inside_lines(entry, typed, now)
    if not _closers(now.removesuffix(entry.replaced), entry.text[:typed]):
        # A closing tag: only where the suggestion ends with it.
        return (Suggestion(rest.removesuffix(now)), True) if rest.endswith(now) else None
    return _inside_pair(rest, now, entry.replaced, entry.finished)


def _inside_pair(rest: str, now: str, replaced: str, finished: bool) -> tuple[Suggestion, bool] | None:
    """Return the rest for a cursor before closers that the editor added: those that the rest has are replaced."""
    added = now.removesuffix(replaced)
    closed = _closed(rest, added)
    if closed == len(added):
        return Suggestion(rest, len(now)), finished
    # What the model has not closed yet stays closed by the editor.
    return None if finished or replaced else (Suggestion(rest, closed), False)


def _inside_lines(entry: _Entry, typed: int, now: str) -> tuple[Suggestion, bool] | None:
    """Return the rest up to the closer that the editor has moved to a line below."""
    line, _, below = now.partition("\n")
    done, rest = entry.text[:typed], entry.text[typed:]
    end = f"{rest}\n".find(f"\n{below}\n")
    if end >= 0:
        return _inside_pair(rest[:end], line, "", finished=True) if _closers(line, done) else None
    still_open = not entry.finished and not entry.replaced and _closers(line + below.strip(), done)
    return _inside_pair(rest, line, "", finished=False) if still_open else None


def _closers(added: str, typed: str) -> bool:
    """Whether all of `added` closes something that was typed."""
    return all(_OPENS.get(char, "\0") in typed for char in added)


def _closed(rest: str, closers: str) -> int:
    """Return how many of the closers, innermost first, the rest has too."""
    at = 0
    for count, closer in enumerate(closers):
        at = _past(rest, closer, at)
        if not at:
            return count
    return len(closers)


def _past(text: str, closer: str, start: int) -> int:
    """Return the place after the first `closer` that closes nothing opened from `start` on, or 0."""
    depth = 0
    for at in range(start, len(text)):
        if text[at] == closer:
            depth -= 1
        elif text[at] == _OPENS[closer]:
            depth += 1
        if depth < 0:
            return at + 1
    return 0


def _visible(hit: Hit, entry: _Entry) -> str:
    return hit.suggestion.text[: max(0, entry.seen - hit.typed)]


def _longest(texts: list[str]) -> str:
    """Return what the first text has grown to in the others."""
    best = texts[0] if texts else ""
    for text in texts[1:]:
        best = text if text.startswith(best) else best
    return best


def _different(hits: list[Hit]) -> list[Hit]:
    """Return the hits without those that others go on from; a longer one stands where the shorter one did."""
    kept: list[Hit] = []
    for hit in hits:
        text = hit.suggestion.text
        if any(other.suggestion.text.startswith(text) for other in kept):
            continue
        begun = next((at for at, other in enumerate(kept) if text.startswith(other.suggestion.text or "\0")), None)
        if begun is not None:
            kept[begun] = replace(hit, shown=kept[begun].shown)
        elif len(kept) < ALTERNATIVES:
            kept.append(hit)
    return kept


def _kind(place: Place, hit: Hit, entry: _Entry) -> str:
    if hit.suggestion != Suggestion(entry.text[hit.typed :], len(entry.replaced)):
        return "closed"
    if place.line - entry.line != entry.text.count("\n", 0, hit.typed):
        return "moved"
    return "typed" if hit.typed else "exact"

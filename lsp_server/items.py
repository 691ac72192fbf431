"""From a suggestion to what the protocol carries: items with ranges in the client's columns and the document's breaks.

The range starts where the typed word starts, so that a client which sees one more typed letter still finds the text
before the cursor at the item's beginning; it ends where the replaced text ends, always on the cursor's line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from lsprotocol import types

from lsp_server.place import Place, Suggestion

ACCEPT = "foretype.accept"
MAX_LABEL = 80  # characters of a popup's row
_WORD_END = re.compile(r"(?<!\w)\w*\Z")  # tried once for each word of the line, not for each letter
_FENCE = re.compile(r"`{3,}")


@dataclass(frozen=True, slots=True)
class Target:
    """Where items go: the document as the client spells it, its line breaks, and the client's columns of the line."""

    uri: str
    line_break: str = "\n"
    client_column: Callable[[int], int] = lambda column: column  # of a column in code points


def inline_item(
    place: Place, suggestion: Suggestion, target: Target, popup: types.SelectedCompletionInfo | None = None
) -> types.InlineCompletionItem:
    """Return ghost text. With a popup's choice, `place` stands behind that choice and the range is the popup's."""
    if popup is not None:
        text, span, known = popup.text + suggestion.text, popup.range, popup.text
    else:
        known = word_before(place)
        text, span = known + suggestion.text, _span(place, suggestion, target)
    return types.InlineCompletionItem(
        insert_text=with_breaks(text, target.line_break),
        filter_text=with_breaks(text, target.line_break),
        range=span,
        command=accept_command(target.uri, len(text) - len(known)),
    )


def completion_item(place: Place, suggestion: Suggestion, target: Target) -> types.CompletionItem:
    """Return a row of the popup for clients without ghost text: first, as it is, the whole block beside it."""
    word = word_before(place)
    text = word + suggestion.text
    return types.CompletionItem(
        label=_label(text),
        kind=types.CompletionItemKind.Text,
        detail="Foretype",
        documentation=types.MarkupContent(types.MarkupKind.Markdown, _fenced(text, place.language)),
        preselect=True,
        sort_text="\0",
        filter_text=word or _label(text),
        insert_text_format=types.InsertTextFormat.PlainText,
        insert_text_mode=types.InsertTextMode.AsIs,
        text_edit=types.TextEdit(_span(place, suggestion, target), with_breaks(text, target.line_break)),
        command=accept_command(target.uri, len(suggestion.text)),
    )


def accept_command(uri: str, characters: int) -> types.Command:
    """Return the command that a client runs after it has inserted an item."""
    return types.Command("Accepted", ACCEPT, arguments=[{"uri": uri, "characters": characters}])


def word_before(place: Place) -> str:
    """Return the part of a word that stands left of the cursor."""
    match = _WORD_END.search(place.line_before)
    return match[0] if match else ""


def with_breaks(text: str, line_break: str) -> str:
    """Give a text the document's own line breaks."""
    return text if line_break == "\n" else text.replace("\n", line_break)


def _span(place: Place, suggestion: Suggestion, target: Target) -> types.Range:
    def at(offset: int) -> types.Position:
        return types.Position(place.line, target.client_column(offset))

    return types.Range(at(place.column - len(word_before(place))), at(place.column + suggestion.replaces))


def _label(text: str) -> str:
    first = text.strip().partition("\n")[0]
    cut = first if len(first) <= MAX_LABEL else first[: MAX_LABEL - 1] + "…"
    return cut + (" …" if "\n" in text.strip() else "")


def _fenced(text: str, language: str) -> str:
    longest = max((len(run) for run in _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"

"""From parsed JSON to lsprotocol's types, strictly: cattrs alone turns null into "None" and a list into text.

Strict where a wrong value would end up in a document, lenient where it would only keep a client from starting.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from cattrs import Converter, transform_error
from cattrs.errors import ClassValidationError, IterableValidationError
from lsprotocol import types

Path = tuple[str | int, ...]

LARGEST = 2**31 - 1  # of the protocol's unsigned integers
MOST_ROUNDS = 8
DISPENSABLE = ("capabilities", "clientInfo", "locale", "trace", "workDoneToken")
LOOKED_AT = ("synchronization", "completion", "inlineCompletion")  # of the many about text documents


def make_strict(converter: Converter) -> None:
    """Let a converter refuse values of another type instead of changing them."""
    converter.register_structure_hook(str, _string)
    converter.register_structure_hook(int, _integer)
    converter.register_structure_hook(bool, _boolean)
    converter.register_structure_hook(types.Position, _position)


def problems(error: Exception) -> str:
    """Return in a few words what is wrong with params, and where. No values: they may be text of a buffer."""
    try:
        return "; ".join(transform_error(error, "params")[:3])
    except Exception:
        return f"params cannot be read ({type(error).__name__})"


def readable(converter: Converter, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params of `initialize` without the capabilities that we do not look at or cannot read.

    Reading all of a big editor's takes a tenth of a second. Clients newer than lsprotocol announce values it does not
    know; they shall not be turned away for that.
    """
    rest = copy.deepcopy(dict(params))
    _trim(rest.get("capabilities"))
    for _ in range(MOST_ROUNDS):
        try:
            converter.structure(rest, types.InitializeParams)
        except (ClassValidationError, IterableValidationError) as error:
            for path in sorted(_paths(error), key=len, reverse=True):
                _drop(rest, path)
        else:
            break
    return rest


def _trim(capabilities: object) -> None:
    texts = capabilities.get("textDocument") if isinstance(capabilities, dict) else None
    if isinstance(texts, dict):
        for name in texts.keys() - set(LOOKED_AT):
            del texts[name]


def _paths(error: BaseException, path: Path = ()) -> Iterator[Path]:
    if isinstance(error, ClassValidationError):
        for inner, attribute in error.group_exceptions()[0]:
            yield from _paths(inner, (*path, _camel(attribute.name)))
    elif isinstance(error, IterableValidationError):
        for element, note in error.group_exceptions()[0]:
            yield from _paths(element, (*path, note.index))
    else:
        yield path


def _camel(name: str) -> str:
    first, *others = name.rstrip("_").split("_")
    return first + "".join(word.title() for word in others)


def _drop(params: dict[str, Any], path: Path) -> None:
    """Remove the value at a path; the whole it belongs to, where the value is missing or in a list."""
    if not path or path[0] not in DISPENSABLE or path == ("capabilities",):
        return
    *way, last = path
    owner: Any = params
    for step in way:
        owner = owner.get(step) if isinstance(owner, dict) else owner
    if isinstance(owner, dict) and last in owner:
        del owner[last]
    elif owner is not None:  # else it went with another fault
        _drop(params, tuple(way))


def _string(value: object, kind: type[str]) -> str:
    """Take a string, also as a member of an enumeration of strings."""
    if isinstance(value, str):
        return kind(value)
    raise TypeError("not a string")


def _integer(value: object, kind: type[int]) -> int:
    """Take an integer, also as a member of an enumeration of integers; some clients write 1.0 for 1."""
    if isinstance(value, float) and value.is_integer():
        return kind(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return kind(value)
    raise TypeError("not an integer")


def _boolean(value: object, _: type) -> bool:
    if isinstance(value, bool):
        return value
    raise TypeError("not a boolean")


def _position(value: Any, _: type) -> types.Position:  # noqa: ANN401  (parsed JSON)
    """Return a position. Clients write the largest number they know for the end of a line, some more than allowed."""
    if not isinstance(value, dict):
        raise TypeError("not a position")
    line, character = (min(_integer(value[side], int), LARGEST) for side in ("line", "character"))
    return types.Position(line, character)

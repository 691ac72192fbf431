"""Patterns in the syntax of .gitignore, one value a line.

`pathspec` turns a line into an expression. Pure: which file of patterns speaks for which path is decided elsewhere.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

_MOST = 5_000  # lines of one file
_MOST_STARS = 3  # in one part of a path; more would let a hostile pattern search for minutes

# Where names that differ in case are one file, git compares so too.
_FLAGS = re.IGNORECASE if sys.platform in {"win32", "darwin"} else re.NOFLAG
_BELOW = "ps_d"  # the group by which pathspec says that a folder above was matched


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of a file of patterns; it `takes_back` what others ignore when it begins with an exclamation mark."""

    expression: re.Pattern[str]
    folders_only: bool
    takes_back: bool

    def fits(self, relative: str, is_folder: bool) -> bool:
        """Tell whether the path itself fits, not only a folder above it."""
        if self.folders_only and not is_folder:
            return False
        match = self.expression.search(relative)
        return match is not None and not match.groupdict().get(_BELOW)


Patterns = Sequence[Pattern]


def parse_patterns(lines: Sequence[str]) -> Patterns:
    """Return the patterns, the last line first; what is no pattern is passed over."""
    return tuple(pattern for line in reversed(lines[:_MOST]) if (pattern := _parse(line)))


def decision(patterns: Patterns, relative: str, is_folder: bool) -> bool | None:
    """Return whether patterns ignore a path (given with slashes, from their own folder); None if they do not say."""
    for pattern in patterns:
        if pattern.fits(relative, is_folder):
            return not pattern.takes_back
    return None


def matches(patterns: Patterns, relative: str) -> bool:
    """Tell whether patterns of one place ignore a file or a folder above it, from the top down as git does."""
    parts = relative.split("/")
    paths = ("/".join(parts[: count + 1]) for count in range(len(parts)))
    return any(decision(patterns, path, is_folder=path != relative) for path in paths)


def _parse(line: str) -> Pattern | None:
    line = line if line.endswith("\\ ") else line.rstrip(" \t\r")
    try:
        pattern = GitIgnoreSpecPattern(_tamed(line.removesuffix("/")))
    except (ValueError, re.error):
        return None
    if pattern.include is None or pattern.regex is None:
        return None
    return Pattern(re.compile(pattern.regex.pattern, _FLAGS), line.endswith("/"), not pattern.include)


def _tamed(line: str) -> str:
    """Widen a pattern of many wildcards to one of few."""
    return "/".join(_parts(line))


def _parts(line: str) -> Iterator[str]:
    anywhere = 0
    for part in line.split("/"):
        anywhere += part == "**"
        literals = re.split(r"\*+", part)
        yield part if part == "**" or len(literals) <= _MOST_STARS + 1 else "*".join(literals[:_MOST_STARS]) + "*"
        if anywhere == _MOST_STARS:
            return

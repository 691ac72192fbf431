"""Token healing: let the model spell the end of the typed text its own way.

When the cursor stands inside a word or after indentation, the last token is often one the model would never have
written there: "    " + "return" is "   " + " return" to it. Healing takes the end back and only allows tokens that
spell it again, until it is spelt. Pure functions on ids and bytes; plain and speculative decoding share them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]


class Healer:
    """Which tokens may come next while some bytes still have to be spelt."""

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self._bytes = token_bytes
        self._sorted = sorted((b, i) for i, b in enumerate(token_bytes) if b)
        self._first: dict[bytes, list[int]] = {}
        for data, i in self._sorted:
            self._first.setdefault(data, []).append(i)

    @lru_cache(maxsize=256)  # noqa: B019  (lives as long as its engine)
    def allowed(self, owed: bytes) -> Mask:
        """Return a mask over the vocabulary: tokens that begin with `owed`, or that `owed` begins with."""
        mask = np.zeros(len(self._bytes), dtype=np.bool_)
        at = bisect_left(self._sorted, (owed, -1))
        while at < len(self._sorted) and self._sorted[at][0].startswith(owed):
            mask[self._sorted[at][1]] = True
            at += 1
        for end in range(1, len(owed)):
            mask[self._first.get(owed[:end], [])] = True
        return mask

    def after(self, owed: bytes, token: int) -> bytes | None:
        """Return what is still owed after `token`, or None when the token breaks the spelling."""
        if not owed:
            return b""
        data = self._bytes[token] if token < len(self._bytes) else b""
        if not data:
            return None
        if owed.startswith(data):
            return owed[len(data) :]
        return b"" if data.startswith(owed) else None

    def along(self, owed: bytes, draft: Sequence[int]) -> list[bytes]:
        """Return what is owed before each draft token and after the last; shorter when the draft breaks it."""
        states = [owed]
        for token in draft:
            following = self.after(states[-1], token)
            if following is None:
                break
            states.append(following)
        return states

"""What goes into a pass and what comes out of it: buffers at fixed addresses, and one copy each way."""

from __future__ import annotations

from collections.abc import Sequence

import torch


class Inputs:
    """A pass's ids, its first position and how many of its rows count, sent in one copy."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self._host = torch.zeros(rows + 2, dtype=torch.int64, pin_memory=device.type == "cuda")
        self._device = torch.zeros(rows + 2, dtype=torch.int64, device=device)
        self._sent = _event() if device.type == "cuda" else None
        self.start, self.count, self.ids = self._device[:1], self._device[1:2], self._device[2:]

    def send(self, ids: Sequence[int], start: int) -> None:
        """Fill the buffers; ids beyond those given are 0."""
        if self._sent is not None:
            self._sent.synchronize()  # the copy before must have left
        self._host.zero_()
        self._host[: len(ids) + 2] = torch.tensor([start, len(ids), *ids])
        self._device.copy_(self._host, non_blocking=True)
        if self._sent is not None:
            self._sent.record()


def _event() -> torch.cuda.Event:
    return torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch left it out


class Outcome:
    """Numbers a pass leaves on the device, float32 [2, count], fetched in one copy: the round's one wait."""

    def __init__(self, count: int, device: torch.device) -> None:
        self.device = torch.zeros(2, count, device=device)
        self._host = torch.zeros(2, count, pin_memory=device.type == "cuda")

    def fetch(self) -> list[list[float]]:
        """Wait for the pass and return its numbers."""
        self._host.copy_(self.device, non_blocking=True)
        if self.device.device.type == "cuda":
            torch.cuda.current_stream().synchronize()
        numbers: list[list[float]] = self._host.tolist()
        return numbers

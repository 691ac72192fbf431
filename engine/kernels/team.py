"""Threads that share jobs of the compiled kernels (see job_ir)."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from engine.kernels import job_ir
from engine.kernels.library import Library

PATIENCE = 150_000  # pauses, a few milliseconds, that a helper waits for the next pass before it goes to sleep


class Team:
    """Threads that share jobs. One caller at a time; a helper that sleeps is woken when a pass begins."""

    def __init__(self, library: Library) -> None:
        self._library = library
        room = np.zeros(job_ir.WORDS + 8, dtype=np.int64)
        skip = -(room.ctypes.data // 8) % 8  # words up to the next cache line
        self._words = room[skip : skip + job_ir.WORDS]
        self.job = self._words.ctypes.data
        self._helpers: list[_Helper] = []
        self._one = threading.RLock()
        self._threads, self._users, self._count = 1, 0, threading.Lock()
        atexit.register(self._end)  # compiled code must not go while a helper is in it

    def _end(self) -> None:
        self._words[job_ir.STOP] = 1
        for helper in self._helpers:
            helper.end()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep torch from calling threads of its own, which go on spinning where helpers should work."""
        before = torch.get_num_threads()
        with self._count:
            if not self._users:
                self._threads = before
            self._users += 1
        torch.set_num_threads(1)  # for this thread
        try:
            yield
        finally:
            with self._count:
                self._users -= 1
            torch.set_num_threads(before)

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Work on one pass, with as many threads as torch may have."""
        with self._one, self.alone():
            wanted = min(self._threads, _processors()) - 1  # more would take turns, spinning while they have one
            while len(self._helpers) < wanted:
                self._helpers.append(_Helper(self._library, self.job))
            self._words[job_ir.BUSY] = 1
            for helper in self._helpers[:wanted]:
                helper.wake()
            try:
                yield
            finally:
                self._words[job_ir.BUSY] = 0


def _processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Helper:
    """A thread that serves jobs until none came for a while, and then sleeps."""

    def __init__(self, library: Library, job: int) -> None:
        self._serve, self._job = library.serve, job
        self._called = threading.Event()
        self._thread: threading.Thread | None = threading.Thread(target=self._run, name="foretype-kernels", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._called.set()

    def end(self) -> None:
        thread, self._thread = self._thread, None
        self._called.set()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while self._called.wait() and self._thread is not None:
            self._called.clear()
            self._serve(self._job, PATIENCE)

"""How what went wrong is logged: by kind and place. An exception's message may quote a buffer, so only DEBUG has it."""

from __future__ import annotations

import asyncio
import logging
import traceback
from pathlib import PurePath
from typing import Any

log = logging.getLogger(__name__)

LONGEST_NAME = 100
FRAMES = 4


def describe(error: BaseException) -> str:
    """Return an exception's type and the innermost places it came through."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    places = [f"{PurePath(frame.filename).name}:{frame.lineno}" for frame in reversed(frames)]
    return f"{type(error).__name__} at {' < '.join(places) or 'an unknown place'}"


def log_failure(what: str, error: BaseException) -> None:
    """Log that something failed which is not the client's fault."""
    log.error("%s failed: %s", what[:LONGEST_NAME], describe(error))
    log.debug("%s failed", what[:LONGEST_NAME], exc_info=error)


def log_outcome(what: str, task: asyncio.Task[Any]) -> None:
    """Log a task's exception, if it has one."""
    if not task.cancelled() and (error := task.exception()):
        log_failure(what, error)

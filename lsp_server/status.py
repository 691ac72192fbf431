"""What the person is told: one state of the server, loading as a progress bar, and a fault once with its remedy.

Clients that ask for it hear `foretype/status`; others see loading as work-done progress and faults as a message.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Literal

from lsprotocol import types

from engine import LoadStep

State = Literal["loading", "ready", "busy", "degraded", "failed", "off"]
Send = Callable[[str, Any], None]

STATUS = "foretype/status"
EXTENDED = "foretype/extended"
REMEDIES = (
    ("pull", "Run `foretype pull` and restart the engine."),
    ("memory", "Choose a smaller profile, or close what takes the memory."),
)
OTHERWISE = "See the server's log, then restart the engine."


class StatusBoard:
    """Holds the state and sends it where it is wanted."""

    def __init__(self, send: Send, create_progress: Callable[[str], None]) -> None:
        """Take how a notification is sent and a progress announced; what the client wants is told later by `wants`."""
        self._send = send
        self._asked: frozenset[str] = frozenset()
        self._said: set[str] = set()
        self._progress = _Progress(send, create_progress)
        self.state: State = "loading"
        self.message = ""
        self.action = ""

    def wants(self, notifications: object, progress: bool) -> None:
        """Take what the client asked for in its `initializationOptions`, and whether it shows progress."""
        if isinstance(notifications, Mapping):
            self._asked = frozenset(str(name) for name, on in notifications.items() if on is True)
        self._progress.shown = progress

    def loading(self, step: LoadStep) -> None:
        """Show a step of loading; where a fraction is known it becomes a percentage."""
        percent = None if step.done is None else int(step.done * 100)
        text = step.text if percent is None else f"{step.text} … {percent} %"
        if text != self.message or self.state != "loading":
            self._progress.report(text, percent)
            self._set("loading", text)

    def ready(self, message: str = "ready") -> None:
        """Say that completions are served."""
        self._progress.end(message)
        self._set("ready", message)

    def degraded(self, message: str) -> None:
        """Say once that completions are served, but not all of them or not as asked."""
        self._progress.end(message)
        self._set("degraded", message)
        self._fault(message, types.MessageType.Warning)

    def failed(self, message: str) -> None:
        """Say once that there is no engine, why, and what to do."""
        action = next((remedy for word, remedy in REMEDIES if word in message), OTHERWISE)
        self._progress.end("no completions")
        self._set("failed", message, action)
        self._fault(f"Foretype has no model: {message} {action}", types.MessageType.Error)

    def resume(self, *, ready: bool) -> None:
        """Say that completions are wanted again."""
        self._set("ready" if ready else "loading", "ready" if ready else "loading")

    def off(self) -> None:
        """Say that the settings switch completions off."""
        self._set("off", "completions are switched off")

    def busy(self, on: bool) -> None:
        """Say whether a completion is being computed; only a ready server becomes busy."""
        if on and self.state == "ready":
            self._set("busy", "completing")
        elif not on and self.state == "busy":
            self._set("ready", "ready")

    def extended(self, uri: str, version: int) -> None:
        """Say that what is shown in a document has become longer."""
        if "extended" in self._asked:
            self._send(EXTENDED, {"uri": uri, "version": version})

    def say(self, message: str, kind: types.MessageType = types.MessageType.Warning) -> None:
        """Show a message to the person, the first time it is said."""
        if message not in self._said:
            self._said.add(message)
            self._send(types.WINDOW_SHOW_MESSAGE, types.ShowMessageParams(kind, message))

    def _fault(self, message: str, kind: types.MessageType) -> None:
        if "status" not in self._asked:  # such a client shows faults by itself, with their remedy
            self.say(message, kind)

    def as_json(self) -> dict[str, str]:
        """Return the state as the notification carries it."""
        told = {"state": self.state, "message": self.message}
        return told | {"action": self.action} if self.action else told

    def _set(self, state: State, message: str, action: str = "") -> None:
        if (state, message, action) != (self.state, self.message, self.action) or state == "failed":
            self.state, self.message, self.action = state, message, action
            if "status" in self._asked:
                self._send(STATUS, self.as_json())


class _Progress:
    """One work-done progress at a time, for clients that show it."""

    _tokens = itertools.count(1)

    def __init__(self, send: Send, create: Callable[[str], None]) -> None:
        self._send, self._create = send, create
        self._token: str | None = None
        self.shown = False

    def report(self, text: str, percent: int | None) -> None:
        if not self.shown:
            return
        if self._token is None:
            self._token = f"foretype-{next(self._tokens)}"
            self._create(self._token)  # the client reads in order, so what follows finds the token announced
            self._tell(types.WorkDoneProgressBegin("Foretype", message=text, percentage=percent or 0))
        self._tell(types.WorkDoneProgressReport(message=text, percentage=percent))

    def end(self, text: str) -> None:
        if self._token is not None:
            self._tell(types.WorkDoneProgressEnd(message=text))
            self._token = None

    def _tell(self, value: Any) -> None:  # noqa: ANN401  (begin, report or end)
        if self._token is not None:
            self._send(types.PROGRESS, types.ProgressParams(self._token, value))

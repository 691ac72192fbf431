"""What the person is told, by notification, progress or message."""

from __future__ import annotations

import pytest
from lsprotocol import types

from engine import LoadStep
from lsp_server.status import EXTENDED, STATUS, StatusBoard


@pytest.fixture
def sent() -> list:
    return []


@pytest.fixture
def board(sent) -> StatusBoard:
    def send(method, params):
        sent.append((method, params))

    return StatusBoard(send, lambda token: sent.append(("create", token)))


def test_nothing_is_sent_that_was_not_asked_for(board, sent):
    """A client that asked for nothing gets neither our notifications nor progress."""
    board.loading(LoadStep("loading 1.5B", 0.5))
    board.ready()
    board.busy(on=True)
    board.extended("file:///a.py", 3)
    assert sent == []
    assert board.state == "busy"


def test_states_are_told_in_order_and_once(board, sent):
    """Loading with its percentage, ready, busy and ready again; a state that stays is not repeated."""
    board.wants({"status": True, "extended": True}, progress=False)
    for done in (None, 0.621, 0.6211):
        board.loading(LoadStep("loading 1.5B", done))
    board.ready()
    board.busy(on=True)
    board.busy(on=True)
    board.busy(on=False)
    board.extended("file:///a.py", 3)
    states = [(params["state"], params["message"]) for method, params in sent if method == STATUS]
    assert states == [
        ("loading", "loading 1.5B"),
        ("loading", "loading 1.5B … 62 %"),
        ("ready", "ready"),
        ("busy", "completing"),
        ("ready", "ready"),
    ]
    assert sent[-1] == (EXTENDED, {"uri": "file:///a.py", "version": 3})


def test_loading_is_shown_as_progress(board, sent):
    """Progress is announced, begun, reported with percentages and ended; each load has a token of its own."""
    board.wants(None, progress=True)
    for _ in range(2):
        board.loading(LoadStep("loading", 0.0))
        board.loading(LoadStep("loading", 0.5))
        board.ready()
    created = [value for method, value in sent if method == "create"]
    assert len(set(created)) == 2
    values = [(params.token, params.value) for method, params in sent if method == types.PROGRESS]
    assert [value.kind for _, value in values] == ["begin", "report", "report", "end"] * 2
    assert [token for token, _ in values] == [created[0]] * 4 + [created[1]] * 4
    assert values[2][1].percentage == 50


def test_a_fault_is_a_message_with_its_remedy(board, sent):
    """A client without a status gets one message naming the fix; the same fault is not shown twice."""
    board.failed("a.gguf is not there; run `foretype pull cpu`")
    board.failed("a.gguf is not there; run `foretype pull cpu`")
    ((method, params),) = sent
    assert method == types.WINDOW_SHOW_MESSAGE
    assert params.type is types.MessageType.Error
    assert "Run `foretype pull` and restart the engine." in params.message


def test_a_client_with_a_status_gets_faults_there(board, sent):
    """Such a client gets state, message and action instead of a message; it is told again when it fails again."""
    board.wants({"status": True}, progress=False)
    board.failed("no memory")
    board.failed("no memory")
    assert [method for method, _ in sent] == [STATUS, STATUS]
    assert sent[0][1] == {"state": "failed", "message": "no memory", "action": board.action}
    board.degraded("no draft model")
    assert sent[-1][1] == {"state": "degraded", "message": "no draft model"}
    board.busy(on=True)  # what is wrong stays visible
    assert board.state == "degraded"


def test_odd_wishes_are_no_wishes(board, sent):
    """Anything but an object of names set to true asks for nothing."""
    for wish in (None, True, ["status"], {"status": "yes"}, {"status": False}):
        board.wants(wish, progress=False)
        board.ready(str(wish))
    assert sent == []


def test_off_and_on_again(board, sent):
    """Off is a state; coming back is ready or loading, as the engine is."""
    board.wants({"status": True}, progress=False)
    board.off()
    board.resume(ready=False)
    board.resume(ready=True)
    assert [params["state"] for _, params in sent] == ["off", "loading", "ready"]

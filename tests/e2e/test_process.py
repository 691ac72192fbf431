"""The life of the server process, and what its standard output carries, with a scripted engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.e2e.lsp_client import ROOT, LspClient, Refused, apply, frame, read_frame
from tests.e2e.scripted_engine import completions, read_record

URI = "untitled:one.py"
FOREVER = 10**7  # milliseconds: far beyond any test's patience
ENDLESS = {"default": "word " * 40, "token_ms": FOREVER / 100}
STATUS = {"notifications": {"status": True}}
PATIENCE = 30


def started_completion(record: Path) -> bool:
    return any(line["event"] == "begin" for line in read_record(record))


def wait_until(fact) -> None:
    end = time.monotonic() + PATIENCE
    while not fact():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


def bring_to(stage: str, client: LspClient, record: Path, process_id: int | None) -> None:
    """Bring a server to a stage of its life."""
    client.initialize(options=STATUS, process_id=process_id, initialized=stage != "before initialized")
    if stage == "loading":
        client.wait_for("foretype/status", lambda p: p["state"] == "loading" and "script" in p["message"])
    if stage in ("idle", "generating", "shut down"):
        client.wait_for("foretype/status", lambda p: p["state"] == "ready")
    if stage == "generating":
        client.open(URI, "x = ")
        client.request_inline(URI, 0, 4, trigger=1)
        wait_until(lambda: started_completion(record))
    if stage == "shut down":
        client.ask("shutdown")


def script_for(stage: str, record: Path) -> dict:
    return {**ENDLESS, "record": str(record), "load_ms": FOREVER if stage == "loading" else 0}


STAGES = ["before initialize", "before initialized", "loading", "idle", "generating", "shut down"]

CLIENT = """
import json, sys, time
from pathlib import Path
from tests.e2e.lsp_client import LspClient, OWN_PID
from tests.e2e.test_process import bring_to, script_for
stage, record = sys.argv[1], Path(sys.argv[2])
client = LspClient.scripted(script_for(stage, record))
if stage != "before initialize":
    bring_to(stage, client, record, OWN_PID)
print(client.process.pid, flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("stage", STAGES)
def test_the_server_goes_with_a_killed_editor(stage, tmp_path):
    """An editor killed outright takes the server with it, whatever the server is doing (B29)."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", CLIENT, stage, str(tmp_path / "record")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=ROOT) as editor:
        server = psutil.Process(int(editor.stdout.readline()))
        editor.kill()
    server.wait(PATIENCE)  # raises when it is still there


@pytest.mark.parametrize("stage", ["loading", "idle", "generating"])
def test_the_server_goes_with_its_parent_though_the_pipe_stays_open(stage, tmp_path):
    """Another process may hold the pipe: the end of the process named in initialize is enough (B29)."""
    record = tmp_path / "record"
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as editor,
        LspClient.scripted(script_for(stage, record)) as client,
    ):
        bring_to(stage, client, record, editor.pid)
        if stage != "idle":  # killed at once, or after the server has had a look at it
            time.sleep(2.5)
        editor.kill()
        assert client.wait_exit() == 1


def test_a_parent_that_cannot_be_seen_does_not_end_the_server():
    """An editor outside our container has an id that means nothing here; the server serves it all the same."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    with LspClient.scripted({"echo": True}) as client:
        client.initialize(process_id=gone.pid)
        client.open(URI, "x = ")
        time.sleep(2.5)
        assert client.inline_when_ready(URI, 0, 4)
        assert client.shutdown() == 0


@pytest.mark.parametrize(
    ("stage", "goodbye", "code"),
    [
        ("idle", ("shutdown", "exit"), 0),
        ("idle", ("exit",), 1),
        ("idle", ("shutdown",), 1),
        ("generating", ("shutdown", "exit"), 0),
        ("generating", (), 1),
    ],
)
def test_the_exit_code_says_whether_goodbye_was_said(stage, goodbye, code, tmp_path):
    """Shutdown and exit give 0; exit alone, shutdown alone and a closed pipe 1; a busy engine holds nobody (B29)."""
    record = tmp_path / "record"
    with LspClient.scripted(script_for(stage, record)) as client:
        bring_to(stage, client, record, None)
        for word in goodbye:
            client.send({"id": word, "method": word} if word == "shutdown" else {"method": word})
        client.hang_up()
        assert client.wait_exit() == code
        if "shutdown" in goodbye:
            assert client.wait("shutdown") is None


def test_a_client_that_no_longer_reads_takes_the_server_with_it():
    """When nobody reads our answers any more, nobody needs us."""
    command = [sys.executable, "-m", "tests.e2e.scripted_server", '{"echo": true}']
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as server:

        def ask(key: int, method: str) -> bytes:
            return frame({"jsonrpc": "2.0", "id": key, "method": method, "params": {"capabilities": {}}})

        server.stdin.write(ask(1, "initialize"))
        server.stdin.flush()
        assert read_frame(server.stdout)["id"] == 1
        server.stdout.close()
        server.stdin.write(ask(2, "nobody/knows"))
        server.stdin.flush()
        assert server.wait(PATIENCE) == 1


@pytest.mark.skipif(os.name == "nt", reason="there is no such signal")
def test_ctrl_c_ends_the_server():
    """A person who started it in a terminal leaves with Ctrl-C, without a trace of calls."""
    # Tests started in the background ignore the signal, and a child would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with LspClient.scripted({"echo": True}) as client:
        client.initialize()
        client.process.send_signal(signal.SIGINT)
        assert client.wait_exit() == 1
        assert "Traceback" not in client.stderr


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lsp_server", *arguments],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
    )


def test_help_and_version_are_for_people():
    """`--help` says in plain words what this is; `--version` has one line; what is unknown is refused."""
    assert "Editors start it" in " ".join(run("--help").stdout.split())
    assert run("--version").stdout.startswith("foretype-lsp ")
    assert run("--tcp").returncode == 2


def test_what_editors_add_to_the_command_line_is_taken():
    """`--stdio` and `--clientProcessId` change nothing but whose end is ours."""
    with LspClient.start("-m", "lsp_server", "--stdio", f"--clientProcessId={os.getpid()}") as client:
        assert client.initialize(initialized=False)["serverInfo"]["name"] == "foretype"
        assert client.shutdown() == 0


def test_the_server_is_announced_and_items_have_ranges():
    """The capability is announced and every item has a range, inline or in the list (B26)."""
    with LspClient.scripted({"echo": True}) as client:
        able = client.initialize()["capabilities"]
        assert able["inlineCompletionProvider"] == {}
        assert able["textDocumentSync"]["change"] == 2
        assert able["textDocumentSync"]["openClose"]
        assert able["notebookDocumentSync"]
        client.open(URI, "x = ")
        for trigger in (1, 2):
            items = client.inline_when_ready(URI, 0, 4, trigger)
            assert [apply("x = ", item) for item in items]
        assert client.shutdown() == 0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_frames_are_counted_in_bytes(encoding):
    """A reply with characters of one to four bytes is read by a client that counts bytes (B15)."""
    with LspClient.scripted({"default": "测试🙂"}) as client:
        client.initialize(encodings=[encoding])
        client.open(URI, "é🦊 = ")
        column = {"utf-8": 9, "utf-16": 6, "utf-32": 5}[encoding]
        (item, *_) = client.inline_when_ready(URI, 0, column, trigger=1)
        assert apply("é🦊 = ", item, encoding) == "é🦊 = 测试🙂"
        assert client.shutdown() == 0


def test_a_byte_order_mark_is_a_character_of_the_opened_text_only():
    """Positions count the mark of the opened text, the engine does not see it, and none comes back (B13)."""
    with LspClient.scripted({"echo": True}) as client:
        client.initialize()
        for uri, text, column in ((URI, "\ufeffx = 1; y = ", 12), ("untitled:two.py", "x = 1; y = ", 11)):
            client.open(uri, text)
            (item, *_) = client.inline_when_ready(uri, 0, column, trigger=1)
            assert item["insertText"].startswith("<x = 1; y = |")
            assert apply(text, item) == text + item["insertText"]
        assert client.shutdown() == 0


def test_a_storm_of_cancels_computes_the_newest(tmp_path):
    """Thirty requests 20 ms apart, each cancelling the one before: one answer each, the newest has text (B17)."""
    record = tmp_path / "record"
    with LspClient.scripted({"default": "one two three", "token_ms": 200, "record": str(record)}) as client:
        client.initialize()
        client.open(URI, "x = \n" * 30)
        client.inline_when_ready(URI, 0, 4, trigger=1)
        done = len(completions(record))
        asked = []
        for line in range(30):
            asked.append(client.request_inline(URI, line, 4, trigger=1))
            if line:
                client.cancel(asked[-2])
            time.sleep(0.02)
        assert client.wait_inline(asked[-1])
        client.wait_answered()
        for request in asked[:-1]:
            try:
                assert not client.wait_inline(request)
            except Refused as refused:
                assert refused.code == -32800
        storm = completions(record)[done:]
        assert len(storm) < 30
        assert sum(line["text"] == "one two three" and not line["temperature"] for line in storm) <= 2
        assert client.shutdown() == 0


def test_noise_on_standard_output_does_not_reach_the_client():
    """Prints, warnings, logs, bars, raw writes and child processes, at load and in requests: frames only (B30)."""
    script = {"default": "1 + 1", "noise": True}
    with LspClient.scripted(script, env={"PYTHONIOENCODING": "ascii"}) as client:  # which cannot print all of it
        client.initialize()
        client.open(URI, "x = ")
        assert client.inline_when_ready(URI, 0, 4, trigger=1)[0]["insertText"] == "1 + 1"
        assert client.shutdown() == 0
        client.check()
        for noise in ("noise in load", "noise in complete", "noise of a child", "2/3 |##", "noise on the file descr"):
            assert noise in client.stderr


def test_the_protocols_input_is_nobody_elses():
    """A library or a child process that reads standard input finds it empty and takes nothing from the client."""
    program = """
import subprocess, sys
from lsp_server.__main__ import main
from tests.e2e.scripted_engine import loader
def load(config, report):
    subprocess.run([sys.executable, "-c", "import sys; print(repr(sys.stdin.read()))"], check=True)
    sys.stderr.write(f"read {sys.stdin.read()!r}\\n")
    return loader({"echo": True})(config, report)
main([], load_engine=load)
"""
    with LspClient.start("-c", program) as client:
        client.initialize()
        client.open(URI, "x = ")
        assert client.inline_when_ready(URI, 0, 4, trigger=1)
        assert client.shutdown() == 0
        assert "read ''" in client.stderr


def test_asked_while_loading_the_server_says_so_and_answers_empty():
    """Requests before the model is there get empty lists, the client sees loading in steps, then text comes (B32)."""
    with LspClient.scripted({"echo": True, "load_ms": 4000}) as client:
        client.initialize(options=STATUS)
        client.open(URI, "x = ")
        client.wait_for("foretype/status", lambda p: p["state"] == "loading")
        early = [client.request_inline(URI, 0, 4, trigger=1 + n % 2) for n in range(10)]
        client.cancel(early[3])
        for request in early[:3] + early[4:]:
            assert not client.wait_inline(request)
        assert client.notifications("foretype/status")[-1]["state"] == "loading"
        client.wait_for("foretype/status", lambda p: p["state"] == "ready")
        assert client.inline(URI, 0, 4, trigger=1)[0]["insertText"].startswith("<x = |0|")
        assert not client.notifications("window/showMessage")
        (token,) = [r["params"]["token"] for r in client.requests if r["method"] == "window/workDoneProgress/create"]
        values = [p["value"] for p in client.notifications("$/progress") if p["token"] == token]
        assert [values[0]["kind"], values[-1]["kind"]] == ["begin", "end"]
        shares = [value["percentage"] for value in values if value.get("percentage") is not None]
        assert len(set(shares)) > 10
        assert shares == sorted(shares)
        assert client.shutdown() == 0


def test_a_client_without_progress_is_sent_none():
    """Loading is shown only where the client said that it can (B32)."""
    with LspClient.scripted({"echo": True, "load_ms": 200}) as client:
        client.initialize(capabilities={"textDocument": {"inlineCompletion": {}}})
        client.open(URI, "x = ")
        assert client.inline_when_ready(URI, 0, 4, trigger=1)
        assert not client.notifications("$/progress")
        assert not client.requests
        assert not client.notifications("foretype/status")
        assert client.shutdown() == 0


def test_text_of_buffers_is_not_logged(tmp_path):
    """At the level INFO neither the text of a buffer nor an answer, an exception or a path of settings is logged."""
    secret = "canary_7"
    script = {"default": secret + "_answer", "fail_on": "please_fail"}
    with LspClient.scripted(script, env={"FORETYPE_LOG": "INFO"}) as client:
        client.initialize(options={"target": secret})
        client.open(URI, f"{secret} = ")
        client.inline_when_ready(URI, 0, len(secret) + 3, trigger=1)
        client.open("untitled:two.py", f"please_fail = {secret}")
        client.inline("untitled:two.py", 0, 14, trigger=1)
        client.change(URI, 2, ((0, 0), (0, 0), json.dumps(secret)))
        client.notify("textDocument/didChange", {"textDocument": secret, "contentChanges": secret})
        with pytest.raises(Refused):
            client.ask("textDocument/inlineCompletion", {"textDocument": {"uri": 7}, "position": secret})
        assert client.shutdown() == 0
        assert secret not in client.stderr

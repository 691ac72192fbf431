"""The engine's one method on tiny random models: text handling, stops, cancellation, reuse, privacy."""

from __future__ import annotations

import json

import pytest

from engine import (
    Buffer,
    CancelToken,
    CompletionRequest,
    ConfigError,
    Engine,
    EngineConfig,
    Limits,
    OutOfMemory,
    RequestError,
    SamplingParams,
)
from engine.models import load_models

CODE = "def area(w, h):\n    return w * h\n\n\ndef main():\n    print(area(2, 3))\n"


@pytest.fixture(scope="module")
def models(tiny, tiny_draft, tmp_path_factory):
    config = EngineConfig(target=str(tiny), draft=str(tiny_draft), dtype="int8")
    return load_models(config, lambda _: None, tmp_path_factory.mktemp("cache") / "models")


@pytest.fixture
def engine(models):
    return Engine(models, EngineConfig(context_tokens=256))


def ask(engine, text, cursor, cancel=None, **fields):
    """Complete and return the summary; checks on the way that what was shown is what came out."""
    fields.setdefault("limits", Limits(max_tokens=24, stop="free"))
    request = CompletionRequest(fields.pop("path", "a.py"), "python", text, cursor, **fields)
    shown = ""
    for chunk in engine.complete(request, cancel):
        shown += chunk.text
        summary = chunk.summary
    assert shown == summary.text
    return summary


def test_drafters_do_not_change_the_answer(models):
    """None, lookup, model and both give the same tokens, greedy and sampled, with buffers open."""
    buffers = (Buffer("b.py", 1, CODE * 3),)
    for sampling in (SamplingParams(), SamplingParams(temperature=1.0, seed=7)):
        answers = {
            ask(Engine(models, EngineConfig(drafters=d)), CODE, 40, buffers=buffers, sampling=sampling).token_ids
            for d in ((), ("lookup",), ("model",), ("lookup", "model"))
        }
        assert len(answers) == 1


def test_a_repeated_request_is_computed_once(engine):
    """The second time, all prompt tokens but the last are reused and the earlier answer is drafted at once."""
    first = ask(engine, CODE, 30)
    second = ask(engine, CODE, 30)
    assert second.token_ids == first.token_ids
    assert second.stats.reused_tokens == second.stats.prompt_tokens - 1
    assert second.stats.computed_tokens == 1
    assert second.stats.target_passes < first.stats.target_passes


def test_typing_computes_a_few_tokens_and_answers_like_a_fresh_engine(engine, models):
    """Typing 30 characters one by one computes at most 3 tokens each at the median; every answer is a cold one's."""
    head, tail = CODE[:33], CODE[33:]
    typed = "    total = area(width, height)"[:30]
    computed = []
    ask(engine, head + tail, len(head))
    for n in range(1, len(typed) + 1):
        text = head + typed[:n] + tail
        warm = ask(engine, text, len(head) + n)
        cold = ask(Engine(models, EngineConfig(context_tokens=256)), text, len(head) + n)
        assert warm.token_ids == cold.token_ids
        assert warm.prompt_token_ids == cold.prompt_token_ids
        computed.append(warm.stats.computed_tokens)
    assert sorted(computed)[len(computed) // 2] <= 3


def test_two_documents_keep_their_caches(engine):
    """Switching between two files costs no prefill."""
    for path in ("a.py", "b.py"):
        ask(engine, CODE, 30, path=path)
    for path in ("a.py", "b.py"):
        assert ask(engine, CODE, 30, path=path).stats.computed_tokens == 1


def test_crlf_and_lf_twins_get_the_same_answer(engine, models):
    """A CRLF file gets its LF twin's tokens, with its own line breaks in the text and no lone CR (B07)."""
    lf = ask(engine, CODE, 32)
    crlf_text = CODE.replace("\n", "\r\n")
    cursor = len(CODE[:32].replace("\n", "\r\n"))
    crlf = ask(Engine(models, EngineConfig(context_tokens=256)), crlf_text, cursor)
    assert crlf.token_ids == lf.token_ids
    assert crlf.text == lf.text.replace("\n", "\r\n")


def test_a_byte_order_mark_never_reaches_the_prompt(engine, models):
    """A text that begins with U+FEFF gives the prompt of the text without it (B13)."""
    plain = ask(engine, CODE, 30)
    marked = ask(Engine(models, EngineConfig(context_tokens=256)), "\ufeff" + CODE, 31)
    assert marked.prompt_token_ids == plain.prompt_token_ids


@pytest.mark.parametrize("limit", range(1, 12))
def test_no_half_characters(engine, limit):
    """Whatever the token limit, the text holds no replacement mark and encodes to UTF-8 (B16)."""
    text = "# 你好，世界 🙂 — повтор: "
    summary = ask(engine, text, len(text), limits=Limits(limit, "free"), sampling=SamplingParams(2.0, seed=limit))
    assert "\ufffd" not in summary.text
    summary.text.encode()
    assert summary.stats.emitted_tokens <= limit


def test_literal_control_tokens_stay_text(engine, models):
    """Control tokens spelt out in the file, a buffer or a path leave the prompt's structure alone (B45)."""
    text = 'MID = "<|fim_middle|>"\nEND = "<|endoftext|>"\nprint(M'
    buffers = (Buffer("<|file_sep|>.py", 1, "x = '<|fim_prefix|><|repo_name|>'\nprint(MID)\n"),)
    controls = models.target.tokenizer.controls
    plan = engine.plan(CompletionRequest("<|fim_suffix|>.py", "python", text, len(text), buffers))
    ids = [i for i in plan.ids if i in controls]
    names = {i: name for name, i in models.target.tokenizer.added.items()}
    assert [names[i] for i in ids] == [
        "<|repo_name|>",
        "<|file_sep|>",
        "<|file_sep|>",
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
    ]
    assert not set(ask(engine, text, len(text), buffers=buffers).token_ids) & controls


def test_cancel_before_and_during(engine):
    """A cancelled completion ends with what it has, says so, and the next one is whole."""
    whole = ask(engine, CODE, 30)
    cancel = CancelToken()
    cancel.cancel()
    assert ask(engine, CODE, 30, cancel).finish_reason == "cancelled"
    cancel = CancelToken()
    request = CompletionRequest("a.py", "python", CODE + "\n" * 9, 30, limits=Limits(64, "free"))
    passes = 0
    for chunk in engine.complete(request, cancel):
        passes += 1
        cancel.cancel()
        last = chunk.summary
    assert last.finish_reason == "cancelled"
    assert passes <= 2
    assert ask(engine, CODE, 30).token_ids == whole.token_ids


def test_a_cancelled_prompt_counts_what_was_read_of_it(engine):
    """The figures of a completion cancelled while its prompt was read say what was computed, and that is not lost."""

    class Impatient(CancelToken):
        looks = 0

        @property
        def cancelled(self):
            self.looks += 1
            return self.looks > 3

    engine._runners[0]._chunks, engine._runners[0]._chunk = (16,), 16
    text = CODE * 3
    stats = ask(engine, text, 30, Impatient()).stats
    assert stats.target_passes == 0
    assert 0 < stats.computed_tokens < stats.prompt_tokens
    later = ask(engine, text, 30).stats
    assert later.reused_tokens == stats.computed_tokens
    assert later.reused_tokens + later.computed_tokens == later.prompt_tokens


def test_an_abandoned_completion_leaves_the_engine_usable(engine):
    """Closing the generator midway changes nothing for the next request."""
    whole = ask(engine, CODE, 30)
    running = engine.complete(CompletionRequest("a.py", "python", CODE, 20, limits=Limits(64, "free")))
    next(running)
    running.close()
    assert ask(engine, CODE, 30).token_ids == whole.token_ids


def test_forgotten_text_is_never_drafted_again(engine):
    """After `forget`, neither a buffer's text nor earlier completions are in any corpus (B82)."""
    canary = Buffer("secret.py", 1, "canary_name = 12345\n" * 5)
    ask(engine, CODE, 30, buffers=(canary,))
    ask(engine, "canary_name", 11, path="secret.py")
    engine.forget("secret.py")
    ask(engine, CODE, 30)
    marks = [[*map(int, c.tokens)] for c in engine._lookup.corpora if c.kind in ("buffer", "past")]
    wanted = engine._target.tokenizer.encode("canary_name")
    assert not any(str(wanted)[1:-1] in str(tokens)[1:-1] for tokens in marks)


def test_single_line_and_limits(engine):
    """Line mode never holds a line break, and a limit of n tokens emits at most n."""
    for cursor in (20, 33, 60):
        assert "\n" not in ask(engine, CODE, cursor, limits=Limits(40, "line")).text
    assert len(ask(engine, CODE, 33, limits=Limits(3, "free")).token_ids) <= 3


def test_empty_and_blank_documents(engine):
    """Nothing, blank lines, and a cursor before the first character are served without an exception (B48)."""
    for text, cursor in (("", 0), ("\n\n", 2), ("import os\n", 0), ("        ", 8)):
        ask(engine, text, cursor, path="new.py")


def test_bad_requests_are_refused_in_one_sentence(engine):
    """A cursor outside the text and an answer longer than the model are RequestErrors that name the fix."""
    with pytest.raises(RequestError, match="outside"):
        ask(engine, CODE, 9999)
    with pytest.raises(RequestError, match="lower max_tokens"):
        ask(engine, CODE, 30, limits=Limits(5000))
    ask(engine, CODE, 30)


def test_budgets_that_cannot_work_are_refused_at_start(models):
    """A context larger than the model, or too small for any prompt, is a ConfigError (B49)."""
    with pytest.raises(ConfigError, match="context_tokens"):
        Engine(models, EngineConfig(context_tokens=100_000))
    with pytest.raises(ConfigError, match="context_tokens"):
        EngineConfig(context_tokens=10)


def test_out_of_memory_refuses_one_request_and_frees_its_cache(engine, monkeypatch):
    """When a pass finds no memory the request is refused with the setting to change, and the next one works (B68)."""
    whole = ask(engine, CODE, 30)
    network = engine._target.network
    forward = type(network).forward

    def starved(self, ids, cache, last):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    monkeypatch.setattr(type(network), "forward", starved)
    with pytest.raises(OutOfMemory, match="lower context_tokens"):
        ask(engine, CODE, 32)
    assert not engine._runners[0].cache.ids
    monkeypatch.setattr(type(network), "forward", forward)
    assert ask(engine, CODE, 30).token_ids == whole.token_ids


def test_stats_add_up(engine):
    """Emitted tokens are accepted drafts plus one a pass; times cover the total."""
    stats = ask(engine, CODE, 34, buffers=(Buffer("b.py", 1, CODE),)).stats
    assert stats.emitted_tokens <= sum(stats.accepted.values()) + stats.target_passes
    assert stats.reused_tokens + stats.computed_tokens == stats.prompt_tokens
    parts = sum(stats.ms[name] for name in ("prefill", "draft", "verify", "overhead"))
    assert parts == pytest.approx(stats.ms["total"], rel=1e-6)
    assert all(stats.accepted[s] <= stats.drafted[s] for s in stats.drafted)


def test_work_done_ahead_leaves_a_cold_cache_alone(engine):
    """With `max_prefill` a completion gives up before it reads a longer prompt, and works where little is missing."""
    ahead = Limits(max_tokens=4, stop="free", max_prefill=8)
    declined = ask(engine, CODE, 30, limits=ahead)
    assert declined.finish_reason == "cancelled"
    assert declined.stats.target_passes == 0
    assert ask(engine, CODE, 30).stats.reused_tokens == 0
    assert ask(engine, CODE, 30, limits=ahead).stats.target_passes > 0
    with pytest.raises(ConfigError, match="max_prefill is -1"):
        Limits(max_prefill=-1)


def test_an_explanation_is_plain_data(engine):
    """The explained prompt joins to what the target reads, and the rounds spell the completion with their sources."""
    summary = ask(engine, CODE, 30)
    told = json.loads(json.dumps(engine.explain(CompletionRequest("a.py", "python", CODE, 30), summary)))
    text = "".join(part["text"] for part in told["prompt"])
    assert CODE[:30].splitlines()[0] in text
    assert "<|fim_middle|>" in [part["text"] for part in told["prompt"] if part["name"] == "control"]
    assert sum(part["tokens"] for part in told["prompt"]) == told["prompt_tokens"] == summary.stats.prompt_tokens
    tokens = [token for step in told["last"]["rounds"] for token in step["tokens"]]
    assert len(tokens) == summary.stats.emitted_tokens
    assert {token["source"] for token in tokens} <= {"target", "lookup", "model"}
    assert "last" not in engine.explain(CompletionRequest("a.py", "python", CODE, 30))

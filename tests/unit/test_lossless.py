"""The law: for any drafter, greedy speculative output equals greedy plain output, in float32 and on the int8 path."""

from __future__ import annotations

import random

import numpy as np
import pytest

from engine.config import SamplingParams
from engine.core import CancelToken
from engine.decoder import DecodeJob, SpeculativeDecoder
from engine.drafters import LookupDrafter, ModelDrafter
from engine.healing import Healer
from engine.loader import load
from engine.model import ModelRunner
from engine.planner import Planner
from engine.verifier import Verifier
from tests.fakes import EagerPlanner, ScriptedDrafter, proposer_of

TOKENS = 24
GREEDY = SamplingParams()


@pytest.fixture(scope="module", params=["float32", "int8"])
def pair(request, tiny, tiny_draft, tmp_path_factory):
    """Target and draft model in one weight format."""
    models = tmp_path_factory.mktemp("cache") / "models"
    return [load(str(folder), request.param, models, lambda _: None) for folder in (tiny, tiny_draft)]


def make_decoder(target, drafters, planner=None, max_draft=16):
    runner = ModelRunner(target.network)
    healer = Healer(target.tokenizer.token_bytes)
    verifier = Verifier(runner, healer, target.tokenizer.size)
    planner = planner or EagerPlanner()
    return SpeculativeDecoder(runner, verifier, healer, proposer_of(drafters, planner, healer), planner, max_draft)


def decode(decoder, prompt, tokens=TOKENS, params=GREEDY, ends=(), owed=b""):
    local = np.asarray(prompt, dtype=np.int32)
    job = DecodeJob(prompt, local, owed, params, tokens, ends, CancelToken())
    return [token for step in decoder.decode(job) for token in step.emitted]


def prompts(target, count=6):
    texts = [
        "def f(x):\n    return x",
        "a = 1\nb = 2\na = 1\nb =",
        "for i in range(10):\n",
        "x",
        "class A:\n\n    pass\n",
        "\n",
    ]
    return [target.tokenizer.encode(text) for text in texts[:count]]


def all_drafters(pair, truth, length, seed):
    target, draft = pair
    healer = Healer(target.tokenizer.token_bytes)
    size = target.tokenizer.size
    scripted = [ScriptedDrafter(rule, length, truth, seed) for rule in ("right", "wrong", "random")]
    model = ModelDrafter(ModelRunner(draft.network), healer, size)
    itself = ModelDrafter(ModelRunner(target.network), healer, size)
    lookup = LookupDrafter(healer)
    alone = [[d] for d in (*scripted, lookup, model, itself)]
    return [*alone, *([d, m] for d in (*scripted, lookup) for m in (model, itself))]


@pytest.mark.parametrize("length", range(1, 17))
def test_any_draft_of_any_length_leaves_the_text_alone(pair, length):
    """Right, wrong, random, looked-up and model drafts of 1 to 16 tokens all give the plain text."""
    prompt = prompts(pair[0])[length % 6]
    truth = decode(make_decoder(pair[0], []), prompt)
    for drafters in all_drafters(pair, truth, length, seed=length):
        assert decode(make_decoder(pair[0], drafters, max_draft=length), prompt) == truth


def test_one_token_prompts(pair):
    """A prompt of a single token is decoded alike with and without drafts."""
    for token in (0, 5, 77):
        truth = decode(make_decoder(pair[0], []), [token])
        for drafters in all_drafters(pair, truth, 8, seed=token):
            assert decode(make_decoder(pair[0], drafters), [token]) == truth


def test_prompts_after_edits(pair):
    """One decoder that serves edited prompts in turn writes what a fresh one writes for each (B81)."""
    rng = random.Random(3)
    target = pair[0]
    healer = Healer(target.tokenizer.token_bytes)
    model = ModelDrafter(ModelRunner(pair[1].network), healer, target.tokenizer.size)
    veteran = make_decoder(target, [LookupDrafter(healer), model])
    prompt = target.tokenizer.encode("def f(a, b):\n    c = a + b\n    return c\n\nprint(f(1, 2))\n")
    for _ in range(12):
        at = rng.randrange(1, len(prompt))
        drop = rng.randrange(0, min(5, len(prompt) - at) + 1)
        prompt = prompt[:at] + [rng.randrange(300) for _ in range(rng.randrange(4))] + prompt[at + drop :]
        assert decode(veteran, prompt, 12) == decode(make_decoder(target, []), prompt, 12)


def test_after_a_cancelled_completion(pair):
    """A completion abandoned or cancelled midway does not colour the next one."""
    target = pair[0]
    first, second = prompts(target)[:2]
    truth = decode(make_decoder(target, []), second)
    for cancel_after in (0, 1, 3):
        decoder = make_decoder(target, [ScriptedDrafter("random", 6, [1] * 50)])
        cancel = CancelToken()
        job = DecodeJob(first, np.asarray(first, dtype=np.int32), b"", GREEDY, TOKENS, (), cancel)
        for number, _ in enumerate(decoder.decode(job)):
            if number >= cancel_after:
                cancel.cancel()
        assert decode(decoder, second) == truth


def test_the_planner_of_the_product_changes_nothing(pair):
    """The real planner, whatever it has learnt, leaves the text alone."""
    target = pair[0]
    healer = Healer(target.tokenizer.token_bytes)
    model = ModelDrafter(ModelRunner(pair[1].network), healer, target.tokenizer.size)
    decoder = make_decoder(target, [LookupDrafter(healer), model], Planner())
    for prompt in prompts(target) * 3:
        assert decode(decoder, prompt) == decode(make_decoder(target, []), prompt)


def test_an_end_token_inside_an_accepted_block_ends_the_text_there(pair):
    """With the third greedy token declared an end, two tokens come out, whatever was accepted beyond it (B75)."""
    target = pair[0]
    prompt = next(p for p in prompts(target) if len(set(decode(make_decoder(target, []), p)[:3])) == 3)
    truth = decode(make_decoder(target, []), prompt)
    decoder = make_decoder(target, [ScriptedDrafter("right", 8, truth)])
    assert decode(decoder, prompt, ends={truth[2]}) == truth[:2]
    assert decoder.target.cache.ids == [*prompt, *truth[:2]][:-1]


def test_a_token_limit_inside_a_draft_cuts_there(pair):
    """No limit between 1 and 10 is overrun by an accepted draft."""
    target = pair[0]
    prompt = prompts(target)[0]
    truth = decode(make_decoder(target, []), prompt)
    for limit in range(1, 11):
        decoder = make_decoder(target, [ScriptedDrafter("right", 16, truth)])
        assert decode(decoder, prompt, limit) == truth[:limit]


def test_sampled_text_depends_on_the_seed_alone(pair):
    """At temperature 0.9 every drafter gives the text that plain sampling gives for the same seed."""
    target = pair[0]
    for seed, prompt in enumerate(prompts(target)):
        params = SamplingParams(temperature=0.9, top_p=0.95, seed=seed)
        truth = decode(make_decoder(target, []), prompt, params=params)
        for drafters in all_drafters(pair, truth, 5, seed):
            assert decode(make_decoder(target, drafters), prompt, params=params) == truth


def test_healed_starts_obey_the_spelling(pair):
    """With bytes owed, plain and speculative text agree and begin with those bytes."""
    target = pair[0]
    table = target.tokenizer.token_bytes
    for owed in (b"ret", b"    ", b"self.x", b"\xc3"):
        prompt = prompts(target)[0]
        truth = decode(make_decoder(target, []), prompt, owed=owed)
        assert b"".join(table[i] for i in truth).startswith(owed)
        for drafters in all_drafters(pair, truth, 6, seed=1):
            assert decode(make_decoder(target, drafters), prompt, owed=owed) == truth


def test_the_plain_path_is_transformers_greedy(tiny, tmp_path):
    """Without drafts, float32, the tokens are those of transformers' own greedy `generate` on the same weights."""
    import torch

    target = load(str(tiny), "float32", tmp_path / "models", lambda _: None)
    for prompt in prompts(target):
        with torch.inference_mode():
            out = target.network.module.generate(
                torch.tensor([prompt]), do_sample=False, max_new_tokens=TOKENS, eos_token_id=None, pad_token_id=0
            )
        ours = decode(make_decoder(target, []), prompt)
        theirs = out[0, len(prompt) :].tolist()
        padding = next((at for at, i in enumerate(theirs) if i >= target.tokenizer.size), len(theirs))
        assert ours[:padding] == theirs[:padding]

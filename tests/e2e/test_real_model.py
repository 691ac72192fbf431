"""The product with the real 0.5B: exactness on real holes, reuse while typing, agreement with transformers."""

from __future__ import annotations

import pytest
import torch

from engine import CompletionRequest, Engine, EngineConfig, Limits
from engine.catalog import models_dir
from engine.holes import exercism, humaneval, spread
from engine.models import LoadedModels, load_models
from tests.conftest import REAL
from tests.fakes import EagerPlanner

pytestmark = pytest.mark.real
SHORT = Limits(max_tokens=12)


def ask(engine, request):
    for chunk in engine.complete(request):
        summary = chunk.summary
    return summary


def test_drafts_do_not_change_real_text(real_models, data):
    """On 40 real holes in seven languages, lookup and a draft model leave every token of the plain text alone."""
    with_draft = LoadedModels(real_models.target, real_models.target, real_models.context_tokens)
    config = EngineConfig(context_tokens=256, drafters=())
    plain = Engine(with_draft, config)
    drafting = Engine(with_draft, EngineConfig(context_tokens=256), sharing=plain)
    lookup = EngineConfig(context_tokens=256, drafters=("lookup",))
    eager = Engine(with_draft, lookup, sharing=plain, planner=EagerPlanner())
    drafted = 0
    for hole in spread(humaneval(data, "MultiLine"), 20) + spread(exercism(data), 20):
        request = hole.request(SHORT)
        truth = ask(plain, request)
        for engine in (drafting, eager):
            answer = ask(engine, request)
            assert answer.token_ids == truth.token_ids, hole.name
            assert answer.text == truth.text, hole.name
            drafted += sum(answer.stats.drafted.values())
    assert drafted > 200


def test_typing_reuses_the_prompt(real_models):
    """Typing 30 characters computes at most 3 tokens a request at the median; answers equal a fresh engine's."""
    before = "import os\n\n\ndef total_size(folder):\n"
    after = "\n\n\nif __name__ == '__main__':\n    print(total_size('.'))\n"
    typed = '    """Sum the sizes of files."'
    config = EngineConfig(drafters=("lookup",))
    engine = Engine(real_models, config)
    ask(engine, request(before, after))
    computed = []
    for n in range(1, 31):
        warm = ask(engine, request(before + typed[:n], after))
        computed.append(warm.stats.computed_tokens)
        if n % 5 == 0:
            cold = ask(Engine(real_models, config), request(before + typed[:n], after))
            assert warm.token_ids == cold.token_ids
    assert sorted(computed)[15] <= 3


def request(before, after):
    return CompletionRequest("sizes.py", "python", before + after, len(before), limits=Limits(max_tokens=4))


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("import nump", "\n\nx = np.zeros(3)\n", "y"),
        (
            "class A:\n    def __init__(self):\n        self.configuration = 1\n\n"
            "    def f(self):\n        return self.conf",
            "\n",
            "iguration",
        ),
        ("one, two, three, four = 1, 2, 3, 4\nprint(one, two, thre", ", four)\n", "e"),
    ],
)
def test_a_cursor_inside_a_word_continues_it(real_models, before, after, wanted):
    """`nump|`, `self.conf|` and `thre|` are continued, not begun anew (B42)."""
    summary = ask(Engine(real_models, EngineConfig()), request(before, after))
    assert summary.text.startswith(wanted)


def test_the_instruct_checkpoint_stops_before_what_follows(real_models):
    """The text right of the cursor, which this checkpoint goes on to write, is no part of the completion (B36)."""
    before, after = "def add(a, b):\n    ", "\n    return total\n\n\ndef sub(a, b):\n    return a - b\n"
    answer = ask(Engine(real_models, EngineConfig()), CompletionRequest("m.py", "python", before + after, len(before)))
    assert "return total" not in answer.text
    assert "def sub" not in answer.text
    assert answer.text.strip()


def test_the_vocabulary_of_the_file_round_trips(real_models, data):
    """Holes, tabs, CRLF and emoji come back byte for byte from the file's own vocabulary (B69)."""
    tokenizer = real_models.target.tokenizer
    texts = [
        "\tif x:\r\n\t\ty = 1\r\n",
        "  🙂 é 你好 \u2028",
        "    leading",
        *(h.before for h in humaneval(data, "RandomSpanLight")),
    ]
    for text in texts:
        assert tokenizer.decode_bytes(tokenizer.encode(text)).decode() == text


def test_float32_is_transformers_greedy(data):
    """In float32, without drafts, the real 0.5B writes what transformers' own `generate` writes."""
    if not (models_dir() / REAL).is_file():
        pytest.skip(f"{REAL} is not here; run `foretype pull cpu-small`")
    torch.set_num_threads(2)
    config = EngineConfig(target=REAL, dtype="float32", drafters=(), context_tokens=256)
    models = load_models(config, lambda _: None, models_dir())
    engine = Engine(models, config)
    for hole in spread(humaneval(data, "MultiLine"), 4):
        answer = ask(engine, hole.request(Limits(max_tokens=8, stop="free")))
        prompt = torch.tensor([answer.prompt_token_ids])
        with torch.inference_mode():
            out = models.target.network.module.generate(
                prompt, do_sample=False, max_new_tokens=8, eos_token_id=None, pad_token_id=0, use_cache=True
            )
        theirs = out[0, prompt.shape[1] :].tolist()
        assert engine.plan(hole.request(SHORT)).owed == b""  # `generate` knows no healing, these holes need none
        assert list(answer.token_ids) == theirs[: len(answer.token_ids)]
    torch.set_num_threads(1)

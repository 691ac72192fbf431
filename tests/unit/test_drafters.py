"""The draft model, itself sped up by copies it checks: what it writes is its own, however it is written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from engine.config import SamplingParams
from engine.drafters import DraftContext, ModelDrafter
from engine.healing import Healer
from engine.loader import load
from engine.model import ModelRunner
from tests.tiny_models import quietly

SAMPLED = SamplingParams(temperature=0.8, seed=5)


@pytest.fixture(scope="module")
def loaded(tiny, tmp_path_factory):
    return load(str(tiny), "int8", tmp_path_factory.mktemp("cache") / "models", quietly)


@pytest.fixture
def drafter(loaded):
    healer = Healer(loaded.tokenizer.token_bytes)
    return ModelDrafter(ModelRunner(loaded.network), healer, loaded.tokenizer.size)


def context(loaded, params=SamplingParams(), owed=b""):  # noqa: B008  (frozen)
    ids = loaded.tokenizer.encode("def f(x):\n    return x")
    return DraftContext(ids, np.asarray(ids, dtype=np.int32), 0, owed, params)


def write(drafter, context, guess, limit=10):
    return drafter.propose(context, limit, limit, lambda evidence, spent: True, guess)


def nothing(context, most):
    return ()


@pytest.mark.parametrize("params", [SamplingParams(), SAMPLED], ids=["greedy", "sampled"])
def test_what_it_checks_does_not_change_what_it_writes(loaded, drafter, params):
    """Right, wrong and half-right guesses lead to the tokens it writes alone, in fewer passes the better they are."""
    alone = write(drafter, context(loaded, params), nothing)
    right = write(drafter, context(loaded, params), lambda c, most: alone.ids[c.generated :][:most])
    wrong = write(drafter, context(loaded, params), lambda c, most: [alone.ids[c.generated] ^ 1] * min(most, 3))
    half = write(drafter, context(loaded, params), lambda c, most: [alone.ids[c.generated], 0, 0][:most])
    assert alone.ids == right.ids == wrong.ids == half.ids and len(alone.ids) == 10
    assert [len(p.passes) for p in (right, half, wrong, alone)] == [1, 5, 10, 10]
    assert [rows for rows, _ in right.passes] == [10]


def test_tokens_it_has_to_read_count_as_rows_of_its_pass(loaded, drafter):
    """What a pass cost is put down to all its rows, also to those that only caught up."""
    unread = len(context(loaded).ids)
    found = write(drafter, context(loaded), nothing, 2)
    assert [rows for rows, _ in found.passes] == [unread, 1]


def test_agreement_is_evidence(loaded, drafter):
    """A token that a copy and the draft model both say is judged apart from one it says alone."""
    alone = write(drafter, context(loaded), nothing, 4)
    right = write(drafter, context(loaded), lambda c, most: alone.ids[c.generated :][:most], 4)
    assert {e.key.split("/")[0] for e in alone.evidence} == {"written"}
    assert [e.key.split("/")[0] for e in right.evidence] == ["agreed"] * 3 + ["written"]


def test_it_never_writes_beyond_its_limit(loaded, drafter):
    """Whatever it is given to check, no more tokens come than were asked for."""
    alone = write(drafter, context(loaded), nothing, 12).ids
    for limit in range(1, 7):
        found = write(drafter, context(loaded), lambda c, most: alone[c.generated :][:most], limit)
        assert found.ids == alone[:limit]


def test_what_cannot_be_spelt_is_not_checked(loaded, drafter):
    """While bytes are owed, a guess that breaks their spelling is left out, and what is written spells them."""
    owing = context(loaded, owed=b"(")
    found = write(drafter, owing, lambda c, most: [0, 0, 0][:most], 3)
    assert loaded.tokenizer.token_bytes[found.ids[0]].startswith(b"(")


class Fluent:
    """A network that writes several tokens in one go, from the same logits as one by one."""

    def __init__(self, network):
        self.network, self.asked = network, []
        self.vocab_size, self.max_length, self.row_exact = network.vocab_size, network.max_length, True

    def new_cache(self):
        return self.network.new_cache()

    def forward(self, ids, cache, last):
        return self.network.forward(ids, cache, last)

    def write(self, ids, cache, count):
        self.asked.append(count)
        cache.reuse(ids[:-1])
        done = list(ids)
        for _ in range(count):
            done.append(int(self.network.forward(done[len(cache) :], cache, 1)[0].argmax()))
        return Written(tuple(done[len(ids) :]), (0.9,) * count)


@dataclass(frozen=True)
class Written:
    ids: tuple[int, ...]
    probabilities: tuple[float, ...]


def test_a_network_that_writes_in_one_go_is_asked_once(loaded, drafter):
    """It writes what was promised, the same tokens; where bytes are owed or the choice is random, one by one."""
    fluent = Fluent(loaded.network)
    other = ModelDrafter(ModelRunner(fluent), Healer(loaded.tokenizer.token_bytes), loaded.tokenizer.size)
    found = write(other, context(loaded), nothing, 6)
    assert found.ids == write(drafter, context(loaded), nothing, 6).ids
    assert fluent.asked == [6] and [rows for rows, _ in found.passes] == [1] * 6
    for hard in (context(loaded, SAMPLED), context(loaded, owed=b"(")):
        assert write(other, hard, nothing, 3).ids == write(drafter, hard, nothing, 3).ids
    assert fluent.asked == [6]

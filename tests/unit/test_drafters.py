"""The draft model, itself sped up by copies it checks: what it writes is its own, however it is written."""

from __future__ import annotations

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
    return drafter.propose(context, limit, lambda evidence, spent: True, guess)


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

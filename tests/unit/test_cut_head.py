"""A draft model's cut head: common ids and those it has read, with the logits the whole head gives."""

from __future__ import annotations

import pytest
import torch

from engine import cut_head, prepare
from engine.codecs import choose_codec
from engine.loader import load
from tests.tiny_models import quietly

COMMON = 100


@pytest.fixture
def pair(tiny, tmp_path, monkeypatch):
    """One tiny model with its whole head and with a cut one."""
    for module in (cut_head, prepare):
        monkeypatch.setattr(module, "COMMON", COMMON)
    loaded = load(str(tiny), "int8", tmp_path / "models", quietly, drafts=True)
    (weights,) = loaded.prepared.glob("int*-*.safetensors")
    codec = choose_codec(drafts=True)
    return prepare.read_lean(weights, codec), prepare.read_lean(weights, codec, ends={7, 260})


def logits(network, ids, last=2):
    return network.forward(ids, network.new_cache(), last)


def test_common_ids_have_the_whole_heads_logits_to_the_bit(pair):
    """The common part is the same product with fewer rows."""
    whole, cut = (logits(network, [3, 150, 9, 201, 5]) for network in pair)
    assert torch.equal(whole[:, :COMMON], cut[:, :COMMON])


def test_ids_that_were_read_are_scored_and_others_are_not(pair):
    """A rare id can be written once it stands in the text; end ids always can."""
    whole, cut = (logits(network, [3, 150, 9, 201, 5]) for network in pair)
    scored = torch.isfinite(cut[0]).nonzero().flatten().tolist()
    assert scored == [*range(COMMON), 150, 201, 260]
    assert torch.allclose(whole[:, [150, 201, 260]], cut[:, [150, 201, 260]], atol=0.1)
    assert cut.shape == whole.shape


def test_what_was_taken_back_is_forgotten(pair):
    """After a rollback the ids behind it are rare again."""
    _, cut = pair
    cache = cut.new_cache()
    cut.forward([3, 150], cache, 1)
    cache.truncate(1)
    assert not torch.isfinite(cut.forward([4], cache, 1)[0, 150])


def test_a_small_vocabulary_is_not_cut(tiny, tmp_path):
    """Where all ids are common there is nothing to gain."""
    draft = load(str(tiny), "int8", tmp_path / "models", quietly, drafts=True).network
    assert torch.isfinite(logits(draft, [1, 2, 3])).all()

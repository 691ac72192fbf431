"""Pass costs are measured once for a machine and a model, and kept; a damaged record is measured anew."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from engine import calibration
from engine.calibration import costs_of, measure
from engine.loader import load
from tests.tiny_models import quietly

BROKEN = ["", "[]", "null", "{", '{"x": 1}', '{"KEY": {"one": "two"}}', '{"KEY": {"1": -3}}']


@pytest.fixture
def model(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "BUDGET_MS", 1.0)
    return load(str(tiny), "int8", tmp_path / "models", quietly)


def test_costs_are_measured_by_rows(model):
    """Every row count a draft can lead to has a cost, and none beyond."""
    assert list(measure(model.network, 17)) == [1, 2, 4, 8, 16]
    assert list(measure(model.network, 5)) == [1, 2, 4]


def test_a_slow_moment_does_not_bend_the_curve():
    """A pass that seems dearer than one of more rows is taken to cost little less, never as much: rows are not free."""
    curve = calibration._rising({1: 120.0, 2: 100.0, 4: 150.0, 8: 140.0})
    assert curve == pytest.approx({1: 100.0, 2: 102.5, 4: 140.0, 8: 140.0})


def test_costs_are_kept_with_the_prepared_model(model, monkeypatch):
    """A second start reads what the first measured."""
    first = costs_of(model, 17)
    monkeypatch.setattr(calibration, "quickest", lambda _: first.points[1])
    monkeypatch.setattr(calibration, "measure", lambda *_: pytest.fail("measured again"))
    assert costs_of(model, 17).points == pytest.approx(first.points, abs=1e-3)


def test_what_was_measured_in_a_slow_moment_is_measured_again(model):
    """When a plain pass proves much quicker than was kept, everything kept is replaced."""
    costs_of(model, 17)
    path = model.prepared / "costs.json"
    (key,) = json.loads(path.read_text())
    path.write_text(json.dumps({key: dict.fromkeys(["1", "2", "4"], 1e6)}))
    assert costs_of(model, 17).points[1] < 1e5
    assert json.loads(path.read_text())[key]["1"] < 1e5


def test_another_number_of_threads_is_measured_anew(model, monkeypatch):
    """What was kept for one number of threads says nothing about another, and stays beside it."""
    costs_of(model, 17)
    monkeypatch.setattr(calibration, "machine_key", lambda: "99 threads")
    costs_of(model, 17)
    assert len(json.loads((model.prepared / "costs.json").read_text())) == 2


@pytest.mark.parametrize(
    "content", ["", "[]", "null", "{", '{"x": 1}', '{"KEY": {"one": "two"}}', '{"KEY": {"1": -3}}']
)
def test_a_damaged_record_is_replaced(model, content):
    """Whatever stands in the file, costs come out and the file is whole afterwards."""
    path = model.prepared / "costs.json"
    costs_of(model, 17)
    key = next(iter(json.loads(path.read_text())))
    path.write_text(content.replace("KEY", key))
    assert min(costs_of(model, 17).points.values()) > 0
    assert json.loads(path.read_text())[key]


def test_a_model_without_a_folder_is_measured_each_time(model):
    """Nothing is written where there is no place for it."""
    assert costs_of(replace(model, prepared=None), 17).points
    assert not (model.prepared / "costs.json").exists()

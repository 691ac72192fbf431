"""Settings from a client's JSON: defaults, names, values that cannot be, and what the engine gets."""

from __future__ import annotations

import pytest

from engine import EngineConfig
from lsp_server.settings import Settings, read_settings


def test_nothing_given_means_the_defaults():
    """No settings, null values and an empty object all give the defaults without a complaint."""
    for values in (None, {}, {"enable": None, "profile": None}):
        assert read_settings(values) == (Settings(), ())
    assert Settings().engine_config() == EngineConfig()


def test_every_setting_can_be_set():
    """Names in camelCase reach their fields, lists become tuples."""
    settings, complaints = read_settings(
        {
            "enable": False,
            "languages": {"markdown": False},
            "exclude": ["docs/**"],
            "relatedFiles": False,
            "automaticDeadlineMs": 150,
            "explicitDeadlineMs": 900.0,
            "debounce": False,
            "maxTokens": 32,
            "profile": "cpu-small",
            "target": "/models/t.gguf",
            "draft": "",
            "drafters": ["lookup"],
            "contextTokens": 512,
            "threads": 2,
        }
    )
    assert complaints == ()
    assert (settings.automatic_deadline_ms, settings.explicit_deadline_ms, settings.max_tokens) == (150, 900, 32)
    assert (settings.exclude, settings.enable, settings.debounce) == (("docs/**",), False, False)
    assert not settings.language_on("markdown")
    assert settings.language_on("python")
    config = settings.engine_config()
    assert (config.profile, config.target, config.draft, config.drafters) == (
        "cpu-small",
        "/models/t.gguf",
        "",
        ("lookup",),
    )


def test_unknown_names_are_told_once_and_together():
    """All unknown names come in one sentence that lists the known ones; the rest of the settings counts."""
    settings, complaints = read_settings({"maxToken": 5, "colour": "red", "maxTokens": 7})
    (complaint,) = complaints
    assert complaint.startswith("unknown setting colour, maxToken; known are automaticDeadlineMs, contextTokens")
    assert settings.max_tokens == 7


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("enable", "yes", "true or false"),
        ("maxTokens", -1, "0 or more"),
        ("maxTokens", True, "0 or more"),
        ("maxTokens", float("nan"), "0 or more"),
        ("threads", "four", "0 or more"),
        ("exclude", "docs", "a list"),
        ("exclude", [1], "a text in quotes"),
        ("languages", ["python"], "an object"),
        ("languages", {"python": "no"}, "true or false"),
        ("profile", 3, "a text in quotes"),
        ("drafters", ["oracle"], "use lookup, model"),
        ("contextTokens", 10, "below 64 no prompt fits"),
    ],
)
def test_a_bad_value_gives_way_to_the_default(name, value, words):
    """A value of a wrong kind or size is named with what would be right, and costs nothing else."""
    settings, complaints = read_settings({name: value, "automaticDeadlineMs": 123})
    (complaint,) = complaints
    assert complaint.startswith(f"{name}: ")
    assert words in complaint
    assert complaint.endswith("the default is used")
    assert settings == Settings(automatic_deadline_ms=123)


def test_what_is_no_object_is_refused_whole():
    """A list or a text instead of settings is said in one sentence."""
    settings, complaints = read_settings(["enable"])
    assert settings == Settings()
    assert complaints == ("the settings are no object of names and values; the defaults are used",)

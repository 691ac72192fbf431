"""The variants of our own engine that a suite compares: which drafters, which planner, which form of the prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from engine.bench.planners import FixedLookup, FixedModel
from engine.bench.settings import Compare
from engine.config import DrafterName
from engine.planner import Planner
from engine.prompt import DEFAULT_STYLE, PromptStyle

PLAIN = "none"
LOOKUP_LENGTHS = (4, 8, 16)
MODEL_LENGTHS = (2, 4, 8)


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run the engine."""

    name: str
    drafters: tuple[DrafterName, ...]
    planner: Callable[[], Planner] | None = None  # the engine's own
    style: PromptStyle = DEFAULT_STYLE


def compared(compare: Compare, with_draft: bool) -> list[Variant]:
    """Return the variants of the generation suites, the one without drafts first, the product itself second or last."""
    return _fixed(with_draft) if compare == "fixed" else _drafters(with_draft)


def _drafters(with_draft: bool) -> list[Variant]:
    variants = [Variant(PLAIN, ()), Variant("lookup", ("lookup",))]
    if with_draft:
        variants += [Variant("model", ("model",)), Variant("both", ("lookup", "model"))]
    return variants


def _fixed(with_draft: bool) -> list[Variant]:
    both: tuple[DrafterName, ...] = ("lookup", "model") if with_draft else ("lookup",)
    variants = [Variant(PLAIN, ()), Variant("planner", both)]
    variants += [Variant(f"lookup {n}", ("lookup",), partial(FixedLookup, n)) for n in LOOKUP_LENGTHS]
    if with_draft:
        variants += [Variant(f"model {n}", ("model",), partial(FixedModel, n)) for n in MODEL_LENGTHS]
    return variants


def product(names: Sequence[str]) -> str:
    """Return which of some variants is the engine as it ships on these models."""
    return next(name for name in ("planner", "both", "lookup") if name in names)


def prompt_forms() -> list[Variant]:
    """Return the forms of the prompt that the suite `prompt` compares."""
    forms = {
        "split at the cursor": PromptStyle(0, 0),
        "anchored": PromptStyle(8, 0),
        "anchored, last token healed": PromptStyle(8, 1),
        "anchored, last word healed": PromptStyle(8, 4),
    }
    return [Variant(name, ("lookup",), style=style) for name, style in forms.items()]

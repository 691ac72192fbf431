"""A target and its draft, loaded by profile: what an engine is built on.

A broken target raises. A broken draft, or one that counts in other tokens, is said once; lookup then serves alone.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import torch

from engine.calibration import costs_of
from engine.catalog import Profile, resolve_profile
from engine.config import Dtype, EngineConfig
from engine.core import LoadStep
from engine.costs import Costs, RowCosts
from engine.errors import EngineError, VocabularyMismatch
from engine.gpu import card
from engine.gpu.placing import Placing, Placings, card_dtype, choose_device, place
from engine.loader import LoadedModel, Report, load, survey

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedModels:
    """What a profile or explicit names led to. `notes` are plain words for the user; `load_ms` took it all."""

    target: LoadedModel
    draft: LoadedModel | None = None
    context_tokens: int = 1024
    notes: tuple[str, ...] = ()
    load_ms: float = 0.0
    costs: Costs = field(default_factory=Costs)


def load_models(config: EngineConfig, report: Report, folder: Path) -> LoadedModels:
    """Load the models `config` asks for from the models folder."""
    began = time.perf_counter()
    profile, why = resolve_profile(config.profile)
    log.info("profile %s: %s", profile.name, why)
    # A profile's weight format belongs to its models; other models get the format that suits them.
    dtype: Dtype = config.dtype if config.target is not None or config.dtype != "auto" else profile.dtype
    target_name = config.target or profile.target.name
    name = _draft_name(config, profile.draft.name if profile.draft else "")
    placings: Placings | None = None
    if choose_device(config, profile, card.usable()) == "cuda":
        placings = _placings(config, profile, target_name, name, dtype, report, folder)
    target = load(target_name, dtype, folder, report, placing=placings.target if placings else None)
    draft, fault = None, placings.fault if placings else ""
    if name and not fault:
        try:
            draft = _load_draft(name, dtype, folder, report, target, placings.draft if placings else None)
        except EngineError as error:
            fault = str(error)
    if fault:
        fault = f"no draft model, prompt lookup alone: {fault}"
        log.warning("%s", fault)
    notes = (*target.notes, *((fault,) if fault else ()))
    costs = _costs(target, draft, config, report)
    return LoadedModels(target, draft, profile.context_tokens, notes, (time.perf_counter() - began) * 1e3, costs)


def _placings(
    config: EngineConfig, profile: Profile, target: str, draft: str, dtype: Dtype, report: Report, folder: Path
) -> Placings:
    """Plan the card before anything is on it. A draft model that cannot be looked at is said to be broken later."""
    shape = survey(target, folder, report)
    draft_shape = None
    if draft:
        with suppress(EngineError):
            draft_shape = survey(draft, folder, report)
    return place(config, profile, shape, draft_shape, card_dtype(dtype, shape), card.free_bytes())


def _draft_name(config: EngineConfig, profiled: str) -> str:
    if "model" not in config.drafters:
        return ""
    if config.draft is not None:
        return config.draft
    return profiled if config.target is None else ""  # a profile's draft belongs to the profile's target


def _costs(target: LoadedModel, draft: LoadedModel | None, config: EngineConfig, report: Report) -> Costs:
    """Find out what passes cost; without drafts nobody asks."""
    if not config.drafters:
        return Costs()
    if config.threads:
        torch.set_num_threads(config.threads)  # what is measured holds for a number of threads
    report(LoadStep("measuring passes"))
    most = config.max_draft + 1
    return Costs(costs_of(target, most), costs_of(draft, most) if draft else RowCosts())


def _load_draft(
    name: str, dtype: Dtype, folder: Path, report: Report, target: LoadedModel, placing: Placing | None
) -> LoadedModel:
    draft = load(name, "bfloat16" if dtype == "nf4" else dtype, folder, report, drafts=True, placing=placing)
    if difference := target.tokenizer.mismatch(draft.tokenizer):
        raise VocabularyMismatch(
            f"{name} counts in other tokens than {target.name} ({difference}); name a draft of the same family"
        )
    return draft

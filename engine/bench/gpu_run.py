"""The suite `gpu`: what a card can do with models of true shapes and random weights, the important things first."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from engine.bench.exact import Agreement, Mode, compare
from engine.bench.exact_run import other_bits
from engine.bench.gpu_attention import measure_attention, ways
from engine.bench.gpu_bars import JUDGED, find_rate
from engine.bench.gpu_budget import Deadline, Part, Tell, first_line
from engine.bench.gpu_drafting import Drafting, best_length, measure_drafting
from engine.bench.gpu_passes import Curve, copy_bandwidth, measure_curve
from engine.bench.gpu_peer import ASSISTED_TOKENS, LOOKUP_TOKENS, open_pair
from engine.bench.gpu_report import GpuReport
from engine.bench.gpu_scale import Scale, free_memory
from engine.bench.gpu_script import Script
from engine.bench.gpu_speed import (
    ACCEPTANCES,
    OURS,
    Contestant,
    our_contestants,
    peer_contestants,
    race,
)
from engine.catalog import GIB
from engine.errors import OutOfMemory
from engine.gpu import card
from engine.gpu.buckets import choose_exact_rows, choose_rows, fitting
from engine.gpu.build import random_model
from engine.gpu.linears import GpuDtype
from engine.gpu.memory import demand, need
from engine.gpu.model import GpuModel, GpuOptions

ROOM = 256  # positions beside prompt and text: drafts and padding
COMPARED = 64  # tokens decoded plainly and verified
EXACT = f"{OURS}, exact"


class GpuBench:
    """One run; what is measured is in `report` from the first figure on."""

    def __init__(self, scale: Scale, report: GpuReport, tell: Tell) -> None:
        self._scale, self.report, self._tell = scale, report, tell
        self._device = torch.device(scale.device)
        self._capacity = scale.prompt + scale.tokens + ROOM
        self._target: GpuModel | None = None
        self._draft: GpuModel | None = None

    @property
    def parts(self) -> Iterator[Part]:
        """What is done in turn, each with the seconds it may take of those that are left."""
        scale = self._scale
        yield "copy bandwidth", 15, self._bandwidth
        yield f"passes of {scale.target} nf4", 100, self._passes
        yield "drafting", 40, self._drafting
        yield "speed", 150, self._speed
        yield "exact mode", 50, self._exact
        yield "attention", 30, self._attention
        for name, dtype in scale.further:
            yield f"passes of {name} {dtype}", 50, partial(self._further, name, dtype)

    def _bandwidth(self, _: Deadline) -> None:
        self.report.bandwidth = copy_bandwidth(self._device, self._scale.copied_bytes)

    def _made(self, name: str, dtype: GpuDtype, rows: tuple[int, ...]) -> GpuModel:
        shape = self._scale.shapes[name]
        if self._scale.on_card:
            require_room(f"{name} {dtype}", need([demand(shape, dtype)], self._capacity), card.free_bytes())
        self._tell(f"making {name} {dtype}…")
        options = GpuOptions(rows=tuple(sorted(rows)), capacity=self._capacity)
        return random_model(shape, dtype, self._scale.device, options)

    def _curve(
        self, name: str, dtype: str, how: str, model: GpuModel, rows: tuple[int, ...], deadline: Deadline
    ) -> Curve:
        curve = Curve(name, dtype, how, model.weight_bytes, self._scale.prompt)
        self.report.curves.append(curve)
        missing = measure_curve(curve, model, rows, self._scale.queued, deadline)
        if missing:
            self.report.skipped.append(f"{name} {dtype}, {how}: no time for {len(missing)} of {len(rows)} row counts")
        return curve

    def _passes(self, deadline: Deadline) -> None:
        scale = self._scale
        model = self._made(scale.target, "nf4", scale.rows)
        self.report.facts["kernels"] = model.network.kernels.name
        rows = tuple(sorted(scale.eager_rows))
        eager = GpuModel(model.network, GpuOptions(graphs=False, rows=rows, capacity=self._capacity))
        self._curve(scale.target, "nf4", "eager", eager, rows, deadline)
        curve = self._curve(scale.target, "nf4", "graphs", model, scale.rows, deadline)
        buckets = choose_rows({n: ms for n, ms in curve.ms.items() if n <= 32})
        self.report.facts["row_buckets"] = list(buckets)
        self._target = GpuModel(model.network, GpuOptions(rows=buckets, capacity=self._capacity))

    def _drafting(self, deadline: Deadline) -> None:
        scale = self._scale
        self._draft = self._made(scale.draft, "bfloat16", (1, 2, 8, 16))
        self._curve(scale.draft, "bfloat16", "graphs", self._draft, (1, 2, 8, 16), deadline)
        eager = GpuModel(self._draft.network, GpuOptions(graphs=False, rows=(8,), capacity=self._capacity))
        for how, model, counts in (("graphs", self._draft, scale.written), ("eager", eager, scale.written[:1])):
            found = Drafting(scale.draft, "bfloat16", how)
            self.report.drafting.append(found)
            measure_drafting(found, model, counts, scale.prompt, deadline)

    def _lengths(self, buckets: tuple[int, ...], curve: Curve) -> dict[str, dict[float, int]]:
        drafting = self.report.drafting[0].ms
        return {
            "drafted": {a: best_length(a, curve.ms, buckets, drafting) for a in ACCEPTANCES},
            "copied": {a: best_length(a, curve.ms, buckets, {}) for a in ACCEPTANCES},
        }

    def _speed(self, deadline: Deadline) -> None:
        target, draft, curve = self._ready()
        scale = self._scale
        vocab = min(target.vocab_size, draft.vocab_size)
        script = Script(vocab, scale.prompt, scale.tokens, seed=self.report.settings.seed)
        contestants = our_contestants(OURS, target, draft, script, self._lengths(target.rows, curve))
        contestants += self._peers(script)
        self.report.rates += [contestant.rate for contestant in contestants]
        record(target)
        self._tell("decoding in turn…")
        self.report.skipped += race(contestants, scale.tokens, scale.repeats, deadline)
        self._overheads(target, curve)

    def _ready(self) -> tuple[GpuModel, GpuModel, Curve]:
        curve = self.report.curve(self._scale.target, "nf4", "graphs")
        if self._target is None or self._draft is None or curve is None or not self.report.drafting[0].ms:
            raise RuntimeError("passes and drafts were not measured before it")
        return self._target, self._draft, curve

    def _peers(self, script: Script) -> list[Contestant]:
        shapes = self._scale.shapes
        self._tell("making the same weights as transformers' modules…")
        try:
            pair = open_pair(shapes[self._scale.target], shapes[self._scale.draft], self._device)
        except Exception as error:  # whatever another engine raises, ours is still worth measuring
            self.report.skipped.append(f"transformers left out: {first_line(error)}")
            return []
        self.report.facts["transformers"] = {
            "prompt_lookup_num_tokens": LOOKUP_TOKENS,
            "num_assistant_tokens": f"{ASSISTED_TOKENS} at first, heuristic",
        }
        return peer_contestants(pair, script)

    def _overheads(self, target: GpuModel, curve: Curve) -> None:
        drafting = self.report.drafting[0].ms
        plain = find_rate(self.report.rates, OURS, "plain")
        drafted = find_rate(self.report.rates, OURS, "drafted", JUDGED)
        if plain and plain.round_ms is not None:
            self.report.overheads["plain"] = plain.round_ms - curve.ms[1]
        if drafted and drafted.round_ms is not None:
            rows = fitting(target.rows, drafted.length + 1)
            self.report.overheads["drafted"] = drafted.round_ms - curve.ms[rows] - drafting[drafted.length]

    def _exact(self, deadline: Deadline) -> None:
        target, draft, curve = self._ready()
        scale = self._scale
        rows = choose_exact_rows({n: ms for n, ms in curve.ms.items() if 1 < n <= 32})
        exact = GpuModel(target.network, GpuOptions(exact=True, rows=(rows,), capacity=self._capacity))
        self._curve(scale.target, "nf4", f"exact at {rows} rows", exact, (1, rows), deadline)
        script = Script(min(target.vocab_size, draft.vocab_size), scale.prompt, scale.tokens, seed=1)
        self._agreement("exact", exact, script.prompt, deadline)
        self._agreement("fast", target, script.prompt, deadline)
        self.report.failures += other_bits(self.report.agreements)
        record(exact)
        lengths = {"drafted": {JUDGED: min(rows - 1, self._lengths((rows,), curve)["drafted"][JUDGED])}}
        contestants = our_contestants(EXACT, exact, draft, script, lengths)
        self.report.rates += [contestant.rate for contestant in contestants]
        self.report.skipped += race(contestants, scale.tokens, scale.repeats, deadline)

    def _agreement(self, mode: Mode, model: GpuModel, prompt: list[int], deadline: Deadline) -> None:
        found = Agreement(f"{self._scale.target} nf4", mode)
        self.report.agreements.append(found)
        compare(found, model, prompt, COMPARED, model.vocab_size, deadline)

    def _attention(self, deadline: Deadline) -> None:
        found, shape = ways(self.report.facts.get("kernels") == "triton"), self._scale.shapes[self._scale.target]
        for keys in self._scale.keys:
            measure_attention(self.report.attention, found, shape, keys, self._device, deadline)

    def _further(self, name: str, dtype: GpuDtype, deadline: Deadline) -> None:
        self._target = self._draft = None
        free_memory()
        model = self._made(name, dtype, self._scale.few_rows)
        self._curve(name, dtype, "graphs", model, self._scale.few_rows, deadline)


def require_room(what: str, needed: int, free: int) -> None:
    """Refuse to make what would not fit on the card."""
    if needed > free:
        raise OutOfMemory(
            f"{what} needs about {needed / GIB:.0f} GiB of the card's memory and {free / GIB:.0f} are free"
        )


def record(model: GpuModel) -> None:
    """Run a pass of every size once, so that none is recorded while a text is timed."""
    cache = model.new_cache()
    for rows in model.rows:
        model.forward([1] * rows, cache, rows)
        cache.truncate(0)
    model.wait()

"""Completes: from a client's question to suggestions, by the cache, a run that is under way, or a new one.

The order of things: the newest question for a document makes older ones void; what may not or should not be completed
is refused; what is known is answered without the engine; a run that writes what the person is typing is joined; only
then a new run begins. At the deadline the finished lines are answered and the run goes on into the cache.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from engine import CompletionRequest, Limits, SamplingParams
from lsp_server.asks import Answer, Ask, Ticket, View
from lsp_server.context.gatherer import Context, ContextGatherer
from lsp_server.documents.store import Document, DocumentStore
from lsp_server.documents.uris import identity
from lsp_server.gates import Trigger, held_back, worth_showing
from lsp_server.generation import Generation
from lsp_server.place import Place, Suggestion
from lsp_server.postprocess import postprocess
from lsp_server.privacy.rules import FileRules
from lsp_server.privacy.secrets import holds_secret
from lsp_server.records import Records
from lsp_server.rhythm import TypingRhythm
from lsp_server.runs import Runs
from lsp_server.settings import Settings
from lsp_server.status import StatusBoard
from lsp_server.suggestions import SuggestionCache
from lsp_server.worker import EngineWorker

AUTOMATIC_TOKENS = 64
AHEAD_PREFILL = 64  # tokens that a follow-up may have to compute; more would cost the person their warm cache
ALTERNATIVES = 2
ALTERNATIVE_TEMPERATURE = 0.8
OVERTAKEN = 0.05  # seconds that a question waits for the change it has overtaken
AHEAD = 0.15  # seconds of rest before a follow-up is begun


class Completer:
    """Answers questions about open documents. Everything happens on the loop's thread."""

    def __init__(
        self,
        store: DocumentStore,
        rules: FileRules,
        gatherer: ContextGatherer,
        worker: EngineWorker,
        status: StatusBoard,
    ) -> None:
        """Take what it asks and whom it tells."""
        self._store, self._rules, self._gatherer = store, rules, gatherer
        self._worker, self._status = worker, status
        self.runs = Runs(worker, status, self._heard)
        self._tickets: dict[str, Ticket] = {}
        self._rhythm = TypingRhythm()
        self.settings = Settings()
        self.cache = SuggestionCache()
        self.records = Records()
        self.counts: Counter[str] = Counter()

    # What happens to documents.

    def opened(self, document: Document) -> None:
        """Begin anew with a document: what was wrong with it is forgiven."""
        self.runs.forgive(document.key)
        self._void(document.key)

    def changed(self, document: Document) -> None:
        """Take note of a change: answers for the older text are void."""
        self._rhythm.key(time.monotonic())
        ticket = self._tickets.get(document.key)
        if ticket is not None and ticket.version is not None:
            ticket.cancel()
        self.runs.changed(document.key)

    def forget(self, document: str) -> None:
        """Stop and drop everything about a document: it was closed, or may no longer be used."""
        self._void(document)
        self.runs.drop(document)
        self.runs.forgive(document)
        self._worker.forget(document)
        self.cache.forget(document)
        self.records.forget(document)

    def purge(self, dropped: Sequence[str], asking: Ticket | None = None) -> None:
        """Forget texts that may no longer be used, and all that may have come of them.

        The open questions are void but for the one that is `asking`, since it will not use them.
        """
        self.runs.discard(dropped)
        for key in dropped:
            self._worker.forget(key)
            self.records.forget(key)
        if dropped:
            self.cache.clear()
            for ticket in self._tickets.values():
                if ticket is not asking:
                    ticket.cancel()

    def stop(self) -> None:
        """Leave everything that is under way: off means off."""
        for document in list(self._tickets):
            self._void(document)
        self.runs.drop()

    def _void(self, document: str) -> None:
        if ticket := self._tickets.pop(document, None):
            ticket.cancel()

    # A question.

    async def answer(self, ask: Ask) -> Answer | None:
        """Return what to show, an answer without suggestions for nothing, None when the question became void."""
        self.counts["asked"] += 1
        key, ticket = identity(ask.uri), Ticket()
        self._void(key)
        self._tickets[key] = ticket
        try:
            answer = await self._answer(ask, ticket)
        finally:
            if self._tickets.get(key) is ticket:
                del self._tickets[key]
        self.counts["void"] += answer is None
        return answer

    async def _answer(self, ask: Ask, ticket: Ticket) -> Answer | None:
        document = await self._arrived(ask, ticket)
        if ticket.void:
            return None
        if document is None:
            return self._nothing(View.empty(ask), "the document is not open, or has no such position")
        ticket.version = document.version
        view = View.of(document, ask)
        if reason := self.refusal(document, view):
            self.counts["refused"] += 1
            return self._nothing(view, reason)
        hits = self.cache.find_all(view.place)
        known = [hit for hit in hits if hit.suggestion.text.strip()]
        if hits and not known and ask.automatic:
            return self._nothing(view, "the model had nothing to add here")
        if known and (ask.automatic or len(known) > ALTERNATIVES or not self._worker.ready):
            self.counts["cached"] += 1
            self._keep_going(view)
            return self._shown(view, self._fit(view, [hit.suggestion for hit in known]))
        if not self._worker.ready:
            return self._nothing(view, "the model is not loaded")
        return await self._computed(view, ticket)

    async def _arrived(self, ask: Ask, ticket: Ticket) -> Document | None:
        """Return the document once it has the position: a question may overtake the change it depends on."""
        document = self._store.get(ask.uri)
        if document is not None and not document.has_position(ask.line, ask.column):
            await ticket.sleep(OVERTAKEN)
            document = self._store.get(ask.uri)
        if document is None or not document.has_position(ask.line, ask.column):
            return None
        self._store.touch(ask.uri)
        return document

    def refusal(self, document: Document, view: View) -> str | None:
        """Return why nothing is suggested here, in plain words, or None."""
        if not self.settings.enable:
            return "completions are switched off"
        if not self.settings.language_on(document.language):
            return f"completions are switched off for {document.language}"
        if document.doubtful:
            return "its text is in doubt, since a change came out of order; reopen it"
        if self.runs.faulty(document.key):
            return "completing it failed repeatedly; reopen it"
        refused = self._rules.completion_refusal(document.uri)
        return refused or held_back(view.place, _trigger(view.ask))

    def _keep_going(self, view: View) -> None:
        """Let a run whose beginning is on the screen come to its end while the person types along it."""
        if (run := self.runs.joined(view.place)) is not None:
            run.kept, run.answered = True, view

    def _nothing(self, view: View, reason: str) -> Answer:
        self.records.refused(view.place.document, reason)
        return Answer(view, ())

    # With the engine.

    async def _computed(self, view: View, ticket: Ticket) -> Answer | None:
        run = self.runs.joined(view.place)
        if run is None:
            if not await ticket.sleep(self._pause(view)):
                return None
            run = await self._begun(view, ticket)
        else:
            self.counts["joined"] += 1
        deadline = time.monotonic() + self._patience(view.ask)
        await self._waited(run, view, ticket, deadline)
        if run.declined and not ticket.void:  # a follow-up that would not, or another document that came first
            run = await self._begun(view, ticket)
            await self._waited(run, view, ticket, deadline)
        return None if ticket.void else await self._judged(run, view, ticket, deadline)

    def _pause(self, view: View) -> float:
        if not (view.ask.automatic and self.settings.debounce):
            return 0.0
        return self._rhythm.pause_ms(view.place, self.runs.response_ms) / 1e3

    def _patience(self, ask: Ask) -> float:
        """Return seconds; a popup does not say whether it was asked for, so it gets the longer deadline."""
        automatic = ask.automatic and ask.inline
        return (self.settings.automatic_deadline_ms if automatic else self.settings.explicit_deadline_ms) / 1e3

    async def _begun(self, view: View, ticket: Ticket) -> Generation:
        request, context = await self.request(view, ticket)
        run = Generation(view.place, request)
        if not ticket.void:
            self.records.asked(view.place.document, request, context)
            self.counts["computed"] += 1
            self.runs.begin(run)
        return run

    async def request(self, view: View, ticket: Ticket | None = None) -> tuple[CompletionRequest, Context]:
        """Return what the engine is asked for a view of an open document, and where its context comes from."""
        place, document = view.place, view.document
        assert document is not None
        snapshot = self._gatherer.snapshot(document)
        # On a thread of its own: a slow disk must not keep keystrokes waiting.
        context = await asyncio.to_thread(self._gatherer.gather_from, snapshot, self.settings.related_files)
        self.purge(context.dropped, ticket)
        most = AUTOMATIC_TOKENS if view.ask.automatic else self.settings.max_tokens
        request = CompletionRequest(
            path=place.document,
            language=place.language,
            text=place.before + place.after,
            cursor=len(place.before),
            buffers=context.buffers,
            limits=Limits(max(1, min(most, self.settings.max_tokens))),
        )
        return request, context

    async def _waited(self, run: Generation, view: View, ticket: Ticket, deadline: float) -> None:
        """Wait for the run's end, or from the deadline on for something to show; popups wait no longer than that."""
        run.watchers.add(ticket.event)
        try:
            while not (ticket.void or run.ended):
                left = deadline - time.monotonic()
                if left <= 0 and (not view.ask.inline or self._suggestion(run, view.place) is not None):
                    break
                await ticket.news(left if left > 0 else None)
            run.kept = not ticket.void
        finally:
            run.watchers.discard(ticket.event)
            self.runs.leave(run)
        self._worker.yield_to_waiting(run)

    async def _judged(self, run: Generation, view: View, ticket: Ticket, deadline: float) -> Answer | None:
        first = self._suggestion(run, view.place)
        if first is None:
            if run.complete:  # asked again at this very place, it would say the same
                self.cache.put(view.place, Suggestion(""), finished=True)
            return self._nothing(view, _why_nothing(run))
        suggestions = [first]
        if not view.ask.automatic:
            suggestions += await self._alternatives(run, view.place, ticket, deadline)
            if ticket.void:
                return None
        run.answered = view
        fit = self._fit(view, suggestions)
        for rank, suggestion in enumerate(fit):
            self.cache.put(view.place, suggestion, finished=run.complete, rank=rank)
        return self._shown(view, fit)

    async def _alternatives(self, first: Generation, place: Place, ticket: Ticket, deadline: float) -> list[Suggestion]:
        """Return what else could stand here, as far as it is ready in time; the rest goes into the cache."""
        runs = []
        for rank in range(1, ALTERNATIVES + 1):
            sampling = SamplingParams(temperature=ALTERNATIVE_TEMPERATURE, seed=rank)
            runs.append(Generation(place, replace(first.request, sampling=sampling), background=True, rank=rank))
            runs[-1].watchers.add(ticket.event)
            self.runs.begin(runs[-1])
        while not (ticket.void or all(run.ended for run in runs)) and (left := deadline - time.monotonic()) > 0:
            await ticket.news(left)
        for run in runs:
            run.watchers.discard(ticket.event)
        return [s for run in runs if run.ended and (s := self._suggestion(run, place)) is not None]

    # What came of it.

    def _suggestion(self, run: Generation, place: Place) -> Suggestion | None:
        """Return what a run has for a place by now, fit to be shown."""
        rest = run.rest(place)
        if rest is None or run.error is not None:
            return None
        suggestion = postprocess(place, rest, finished=run.complete)
        return None if suggestion is None or holds_secret(suggestion.text, place.line_before) else suggestion

    def _fit(self, view: View, suggestions: Sequence[Suggestion]) -> list[Suggestion]:
        """Return what is worth showing, each once, and as many as were asked for."""
        trigger = _trigger(view.ask)
        fit = [s for s in dict.fromkeys(suggestions) if worth_showing(view.place, s, trigger)]
        return fit[: 1 if view.ask.automatic else None]

    def _shown(self, view: View, suggestions: Sequence[Suggestion]) -> Answer:
        for suggestion in suggestions:
            self.cache.shown(view.place, suggestion)
        if suggestions:
            self._prepare_next(view, suggestions[0])
        return Answer(view, tuple(suggestions))

    def _heard(self, run: Generation) -> None:
        """Hear that a run has grown or ended."""
        if run.answered is not None and (run.ended or "\n" in run.text):
            self._extend(run, run.answered)
        if run.ended:
            self.records.ended(run)
            if run.background and (suggestion := self._suggestion(run, run.place)) is not None:
                self.cache.put(run.place, suggestion, finished=run.complete, rank=run.rank)

    def _extend(self, run: Generation, view: View) -> None:
        longer, hit = self._suggestion(run, view.place), self.cache.find(view.place)
        if longer is None or hit is None or len(longer.text) <= len(hit.suggestion.text):
            return
        if self.cache.put(view.place, longer, finished=run.complete):
            self._status.extended(view.ask.uri, view.version)

    # Ahead of being asked.

    def _prepare_next(self, view: View, suggestion: Suggestion) -> None:
        """Compute, while nothing else happens, what would follow once the suggestion is accepted."""
        asyncio.get_running_loop().call_later(AHEAD, self._prepare, view, suggestion)

    def _prepare(self, view: View, suggestion: Suggestion) -> None:
        document, key = view.document, view.place.document
        record = self.records.get(key)
        rested = document is not None and document.version == view.version and key not in self._tickets
        then = view.place.accepting(suggestion)
        if not rested or len(self.runs) or record is None or record.request is None or self.cache.find(then):
            return
        request = replace(
            record.request,
            text=then.before + then.after,
            cursor=len(then.before),
            limits=Limits(AUTOMATIC_TOKENS, max_prefill=AHEAD_PREFILL),
        )
        self.runs.begin(Generation(then, request, background=True))


def _trigger(ask: Ask) -> Trigger:
    return Trigger(ask.automatic, ask.popup is not None, ask.inline)


def _why_nothing(run: Generation) -> str:
    if run.error is not None:
        return "the engine failed; see the log"
    return "nothing worth showing came" if run.ended else "nothing was finished by the deadline"

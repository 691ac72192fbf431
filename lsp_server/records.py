"""What became of each document's last question: enough to explain it later."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from engine import CompletionRequest, CompletionSummary
from lsp_server.context.gatherer import Context
from lsp_server.generation import Generation

KEPT = 16  # documents


@dataclass(slots=True)
class Record:
    """A question's fate: why there was nothing, or what the engine was asked and how it went."""

    reason: str = ""
    request: CompletionRequest | None = None
    context: Context | None = None
    summary: CompletionSummary | None = None

    def holds(self, document: str) -> bool:
        """Whether the engine was given a document's text beside the one it completed."""
        return self.request is not None and any(buffer.path == document for buffer in self.request.buffers)


class Records:
    """The last question of the documents last asked about."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, Record] = OrderedDict()

    def get(self, document: str) -> Record | None:
        """Return what is known of a document's last question."""
        return self._records.get(document)

    def refused(self, document: str, reason: str) -> None:
        """Note why a question got nothing; what the engine was asked before stays known."""
        record = self._records.pop(document, None) or Record()
        record.reason = reason
        self._keep(document, record)

    def asked(self, document: str, request: CompletionRequest, context: Context) -> None:
        """Note what the engine is asked."""
        self._records.pop(document, None)
        self._keep(document, Record(request=request, context=context))

    def ended(self, run: Generation) -> None:
        """Note how the run that was asked for went."""
        record = self._records.get(run.document)
        if record is not None and record.request is run.request:
            record.summary = run.summary

    def forget(self, document: str) -> None:
        """Drop what is known of a document, and every question for which its text was given: none is asked again."""
        for key in [key for key, record in self._records.items() if key == document or record.holds(document)]:
            del self._records[key]

    def _keep(self, document: str, record: Record) -> None:
        self._records[document] = record
        while len(self._records) > KEPT:
            self._records.popitem(last=False)

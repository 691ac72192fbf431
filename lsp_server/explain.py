"""What `foretype.explain` and `foretype.status` answer: plain data about one place, and about the server."""

from __future__ import annotations

import asyncio
from typing import Any

from engine import EngineError
from lsp_server.asks import Ask, View
from lsp_server.session import Session


async def explain(session: Session, ask: Ask) -> dict[str, Any]:
    """Return the exact prompt for a place, the context used and refused, what the last question came to, its trace."""
    document = session.store.get(ask.uri)
    if document is None or not document.has_position(ask.line, ask.column):
        return {"uri": ask.uri, "problem": "the document is not open, or has no such position"}
    if refusal := session.rules.completion_refusal(document.uri):
        return {"uri": ask.uri, "problem": refusal}
    view = View.of(document, ask)
    record = session.completer.records.get(document.key)
    request, context = await session.completer.request(view)
    summary = record.summary if record else None
    told: dict[str, Any] = {
        "uri": ask.uri,
        "used": [{"path": u.path, "why": u.why, "characters": u.characters} for u in context.used],
        "refused": [{"path": r.path, "rule": r.rule} for r in context.refused],
        "held_back": session.completer.refusal(document, view),
        "last_reason": record.reason if record else "",
        "known": session.completer.cache.find(view.place) is not None,
    }
    if not session.worker.ready:
        return told | {"problem": f"no model is ready: {session.status.message}"}
    try:
        engine = session.worker.call(lambda engine: engine.explain(request, summary))
        return told | await asyncio.wrap_future(engine)
    except EngineError as error:
        return told | {"problem": str(error)}


def status(session: Session) -> dict[str, Any]:
    """Return the state, what became of the questions so far, and what each drafter drafted and had accepted."""
    completer = session.completer
    runs = completer.runs
    return session.status.as_json() | {
        "counts": dict(completer.counts),
        "cache": dict(completer.cache.statistics),
        "response_ms": round(runs.response_ms, 1),
        "documents": len(session.store.recent()),
        "drafted": dict(runs.drafted),
        "accepted": dict(runs.accepted),
        "passes": dict(runs.passes),
        "watching": session.watcher.mode,
    }

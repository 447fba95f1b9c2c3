"""Turn an imported conversation into events for `POST /ingest`.

Pure. Ids are derived from the session and the position in the log, so importing a log again changes nothing, and
importing a longer version adds only the new spans.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from compact.events import PrunedMessagesEvent, SummaryCreatedEvent, TokenEstimateEvent, TriggerDecisionEvent
from compact.importers.conversation import Conversation, LogSpan

_DEFAULT_WINDOW = 200_000


def ingest_events(
    conversation: Conversation, *, session_id: str, window_tokens: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield a trace, a root span, and the spans of the log in order."""
    return _Session(conversation, session_id, window_tokens).events()


class _Session:
    def __init__(self, conversation: Conversation, session_id: str, window_tokens: int | None) -> None:
        self._conversation = conversation
        self._session_id = session_id
        self._window_tokens = window_tokens or conversation.window_tokens or _DEFAULT_WINDOW
        self._trace_id = self._id("trace", 32)
        self._root_id = self._id("root", 16)

    def events(self) -> Iterator[dict[str, Any]]:
        yield from self._opening_events()
        turn = step = 0
        for position, span in enumerate(self._conversation.spans):
            if span.kind == "compaction":
                step += 1
                yield from self._compaction_events(position, span, step)
                continue
            if span.kind == "generation":
                turn += 1
                if span.usage.get("input_tokens"):
                    yield self._token_estimate(position, span, turn)
            yield self._span_event(position, span)

    def _opening_events(self) -> Iterator[dict[str, Any]]:
        conversation = self._conversation
        times = [at for span in conversation.spans for at in (span.started_at, span.ended_at) if at]
        period = {"started_at": min(times, default=None), "ended_at": max(times, default=None)}
        yield {
            "type": "trace",
            "trace_id": self._trace_id,
            "name": f"{conversation.source} session",
            "group_id": self._session_id,
            **period,
            "metadata": {"imported_from": conversation.source},
        }
        yield {
            "type": "span",
            "trace_id": self._trace_id,
            "session_id": self._session_id,
            "span_id": self._root_id,
            "kind": "agent",
            "name": conversation.source,
            **period,
            "status": "ok",
            "data": {"model": conversation.model, "messages": len(conversation.items)},
        }

    def _span_event(self, position: int, span: LogSpan) -> dict[str, Any]:
        data = dict(span.data)
        if span.model:
            data["model"] = span.model
        if span.usage:
            data["usage"] = dict(span.usage)
        return {
            **self._common(span),
            "span_id": self._id(f"{position}", 16),
            "kind": span.kind if span.kind != "user" else "custom",
            "name": span.name,
            "status": "error" if span.is_error else "ok",
            "data": data,
            "payload": dict(span.payload),
        }

    def _token_estimate(self, position: int, span: LogSpan, turn: int) -> dict[str, Any]:
        """Return the prompt size that the provider reported, for the token timeline."""
        tokens = span.usage["input_tokens"]
        return {
            **self._common(span),
            "ended_at": span.started_at,
            "span_id": self._id(f"{position} estimate", 16),
            "kind": TokenEstimateEvent.name,
            "name": TokenEstimateEvent.name,
            "status": "ok",
            "properties": {
                "model": span.model,
                "t_est": tokens,
                "max_tokens": self._window_tokens,
                "usage_pct": round(tokens / self._window_tokens, 6),
                "turn": turn,
                "estimator": "provider",
                "source": "provider",
                "breakdown": {"history": tokens},
            },
        }

    def _compaction_events(self, position: int, span: LogSpan, step: int) -> Iterator[dict[str, Any]]:
        tokens_before = span.data.get("tokens_before")
        decision = {
            "triggered": True,
            "reason": span.name,
            "rule": span.data.get("trigger") or "agent",
            "t_est": tokens_before,
        }
        summary = {"strategy": "agent", "step": step, "version": step}
        for name, properties, payload in (
            (TriggerDecisionEvent.name, decision, {}),
            (SummaryCreatedEvent.name, summary, span.payload),
            (PrunedMessagesEvent.name, {"step": step, "tokens_before": tokens_before}, {}),
        ):
            event = {
                **self._common(span),
                "span_id": self._id(f"{position} {name}", 16),
                "kind": name,
                "name": name,
                "status": "ok",
                "properties": {key: value for key, value in properties.items() if value is not None},
            }
            yield {**event, "payload": dict(payload)} if payload else event

    def _common(self, span: LogSpan) -> dict[str, Any]:
        return {
            "type": "span",
            "trace_id": self._trace_id,
            "session_id": self._session_id,
            "parent_id": self._root_id,
            "started_at": span.started_at,
            "ended_at": span.ended_at,
        }

    def _id(self, name: str, digits: int) -> str:
        return hashlib.sha256(f"{self._session_id}\n{name}".encode()).hexdigest()[:digits]

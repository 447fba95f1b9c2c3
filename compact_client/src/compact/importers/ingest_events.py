"""Turn the spans of a log into events for `POST /ingest`.

Ids are derived from the session and from the ids in the log, so importing a log again changes nothing, and importing
a longer version adds only what is new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from compact import events
from compact.importers.conversation import Conversation, LogSpan, SessionLink, SessionLog
from compact.ledgers.foreign_compaction import MAIN, Compaction
from compact.ledgers.inferred_ledger import InferredLedger, MaskMessages, infer_ledger, mask_messages
from compact.messages import RedactedMessage
from compact.summarizers.extraction.summary_builder import estimate_tokens
from compact.summarizers.retention import MAX_LOST_LISTED

ArchiveTranscript = Callable[[str, tuple[RedactedMessage, ...], int], Mapping[str, Any]]
"""Stores the redacted prompt of a session before a compaction, and returns what `compact.archival` reports."""
_DEFAULT_WINDOW = 200_000
_LARGE_WINDOW = 1_000_000


def ingest_events(
    conversation: Conversation,
    *,
    session_id: str,
    window_tokens: int | None = None,
    archive: ArchiveTranscript | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the events of a whole log: a trace, a root span, and the spans of the log in order."""
    log = SessionLog(conversation.source, conversation.format or "anthropic")
    log.model, log.window_tokens, log.cwd = conversation.model, conversation.window_tokens, conversation.cwd
    log.version, log.link = conversation.version, conversation.link
    for span in conversation.spans:
        log.note_time(span.started_at)
        log.note_time(span.ended_at)
    builder = EventBuilder(log, session_id=session_id, window_tokens=window_tokens)
    yield from builder.session_events()
    for span in conversation.spans:
        yield from builder.span_events(span, archive=archive)


class EventBuilder:
    """Builds the events of one log. Compactions also give a transcript to archive."""

    def __init__(
        self,
        log: SessionLog,
        *,
        session_id: str,
        window_tokens: int | None = None,
        mask: MaskMessages = mask_messages,
    ) -> None:
        self._log = log
        self.session_id = session_id
        self._window_tokens = window_tokens
        self._mask = mask
        self._trace_id = self._id("trace", 32)
        self._root_id = self._id("root", 16)

    def session_events(self) -> Iterator[dict[str, Any]]:
        """Yield the trace and the root span, with the period that is known so far."""
        log = self._log
        period = {"started_at": log.first_at, "ended_at": log.last_at}
        link = _link_data(log.link)
        metadata = {"imported_from": log.source, "cwd": log.cwd, "version": log.version, **link}
        yield {
            "type": "trace",
            "trace_id": self._trace_id,
            "name": f"{log.source} session",
            "group_id": self.session_id,
            **period,
            "metadata": _without_none(metadata),
        }
        if log.agent_id:
            return  # The root span belongs to the log of the main agent.
        yield {
            "type": "span",
            "trace_id": self._trace_id,
            "session_id": self.session_id,
            "span_id": self._root_id,
            "kind": "agent",
            "name": log.source,
            **period,
            "status": "ok",
            "data": _without_none({"model": log.model, **link}),
        }

    def span_events(self, span: LogSpan, *, archive: ArchiveTranscript | None = None) -> Iterator[dict[str, Any]]:
        """Yield the events of one span. The prompt before a compaction is archived first."""
        if span.compaction is not None:
            yield from self._compaction_events(span, span.compaction, archive)
            return
        if span.kind == "generation" and span.usage.get("input_tokens") and span.thread == MAIN:
            yield self._token_estimate(span)
        yield self._span_event(span)

    def interrupted_events(self) -> Iterator[dict[str, Any]]:
        """Yield the calls that will not get a result any more, as ended."""
        for span in self._log.open_spans():
            event = self._span_event(span)
            yield {**event, "ended_at": self._log.last_at, "data": {**event["data"], "interrupted": True}}

    def _span_event(self, span: LogSpan) -> dict[str, Any]:
        data = {key: value for key, value in span.data.items() if key != "turn"}
        if span.model:
            data["model"] = span.model
        if span.usage:
            data["usage"] = dict(span.usage)
        return {
            **self._common(span),
            "span_id": self._id(span.key, 16),
            "kind": span.kind if span.kind != "user" else "custom",
            "name": span.name,
            "status": "error" if span.is_error else "ok",
            "data": data,
            "payload": dict(span.payload),
        }

    def _token_estimate(self, span: LogSpan) -> dict[str, Any]:
        """Return the prompt size that the provider reported, for the token timeline."""
        tokens = span.usage["input_tokens"]
        window = self._window(tokens)
        return {
            **self._common(span),
            "ended_at": span.started_at,
            "span_id": self._id(f"{span.key} estimate", 16),
            "kind": events.TokenEstimateEvent.name,
            "name": events.TokenEstimateEvent.name,
            "status": "ok",
            "properties": {
                "model": span.model,
                "t_est": tokens,
                "max_tokens": window,
                "usage_pct": round(tokens / window, 6),
                "turn": span.data.get("turn", 0),
                "estimator": "provider",
                "source": "provider",
                "breakdown": {"history": tokens},
            },
        }

    def _compaction_events(
        self, span: LogSpan, compaction: Compaction, archive: ArchiveTranscript | None
    ) -> Iterator[dict[str, Any]]:
        ledger = infer_ledger(compaction, mask=self._mask)
        check_id = self._id(f"{span.key} check", 16)
        check = {**self._common(span), "span_id": check_id}
        if compaction.duration_ms:
            check["started_at"] = _earlier(compaction.at, compaction.duration_ms)
        children = {**self._common(span), "parent_id": check_id}
        yield _event(check, events.CheckEvent.name, self._check_properties(compaction, ledger))
        archival = self._archival(compaction, ledger, archive)
        for name, properties, payload in (
            (events.TriggerDecisionEvent.name, self._decision_properties(span, compaction, ledger), None),
            *([(events.ArchivalEvent.name, archival, None)] if archival else []),
            *_summary_parts(compaction, ledger),
            *_retention_parts(compaction, ledger),
            (
                events.PrunedMessagesEvent.name,
                _pruned_properties(compaction, ledger),
                {"ledger": ledger.entries, "after": ledger.after_entries},
            ),
        ):
            own = {**children, "span_id": self._id(f"{span.key} {name}", 16)}
            yield _event(own, name, properties, payload)

    def _check_properties(self, compaction: Compaction, ledger: InferredLedger) -> dict[str, Any]:
        return {
            "turn": compaction.turn,
            "model": self._log.model,
            "trigger": compaction.trigger,
            "max_tokens": self._window(ledger.tokens_before),
            "triggered": True,
            "tokens_before": ledger.tokens_before,
            "tokens_after": ledger.tokens_after,
            "step": compaction.number,
        }

    def _decision_properties(self, span: LogSpan, compaction: Compaction, ledger: InferredLedger) -> dict[str, Any]:
        return {
            "triggered": True,
            "reason": span.name,
            "rule": compaction.trigger,
            "t_est": ledger.tokens_before,
            "max_tokens": self._window(ledger.tokens_before),
            "turn": compaction.turn,
        }

    def _archival(
        self, compaction: Compaction, ledger: InferredLedger, archive: ArchiveTranscript | None
    ) -> dict[str, Any] | None:
        if archive is None or not ledger.before:
            return None
        receipt = archive(self.session_id, ledger.before, compaction.number)
        return {"session_id": self.session_id, "storage_adapter": "ariadne", "redactions": {}, **receipt}

    def _window(self, tokens: int) -> int:
        known = self._window_tokens or self._log.window_tokens
        return known or (_DEFAULT_WINDOW if tokens <= _DEFAULT_WINDOW else _LARGE_WINDOW)

    def _common(self, span: LogSpan) -> dict[str, Any]:
        common: dict[str, Any] = {
            "type": "span",
            "trace_id": self._trace_id,
            "session_id": self.session_id,
            "started_at": span.started_at,
            "ended_at": span.ended_at,
        }
        if span.parent is not None:
            common["parent_id"] = self._id(span.parent, 16) if span.parent else self._root_id
        return common

    def _id(self, name: str, digits: int) -> str:
        return hashlib.sha256(f"{self.session_id}\n{name}".encode()).hexdigest()[:digits]


def _summary_parts(
    compaction: Compaction, ledger: InferredLedger
) -> Iterable[tuple[str, dict[str, Any], dict[str, Any] | None]]:
    summary = ledger.summary
    if summary is None:
        return
    removed = [entry for entry in ledger.entries if entry["id"] not in compaction.fates]
    input_tokens = sum(entry["tokens"] for entry in removed)
    own = [entry["tokens"] for entry in ledger.after_entries if entry["id"] == compaction.summary_id]
    tokens = sum(own) or (estimate_tokens(summary) if ledger.is_disclosed else 0)
    properties = {
        "strategy": "agent",
        "version": compaction.number,
        "step": compaction.number,
        "input_messages": len(removed),
        "input_tokens": input_tokens,
        "summary_tokens": tokens,
        "compression_ratio": round(tokens / input_tokens, 4) if input_tokens else 0.0,
        "latency_ms": compaction.duration_ms or 0.0,
        "summarizer": compaction.agent,
    }
    yield events.SummaryCreatedEvent.name, properties, {"summary": summary}


def _retention_parts(
    compaction: Compaction, ledger: InferredLedger
) -> Iterable[tuple[str, dict[str, Any], dict[str, Any] | None]]:
    if not ledger.is_disclosed or not ledger.facts:
        return  # It is unknown what an encrypted summary has kept.
    properties = {
        "step": compaction.number,
        "facts_total": ledger.facts_total,
        "facts_kept": ledger.facts_kept,
        **_counts_of(ledger.by_kind),
        "weighted_retention": ledger.weighted_retention,
        "by_kind": ledger.by_kind,
    }
    lost = [fact.to_dict() for fact in ledger.lost[:MAX_LOST_LISTED]]
    yield events.RetentionEvent.name, properties, {"lost": lost, "restored": []}


def _counts_of(by_kind: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return the totals of the kinds that `compact.retention` reports by name."""
    counts = {}
    for name, kind in (("goals", "goal"), ("decisions", "decision"), ("open_items", "open_item"), ("files", "file")):
        row = by_kind.get(kind, {})
        counts[f"{name}_total"], counts[f"{name}_kept"] = row.get("found", 0), row.get("kept", 0)
    return counts


def _pruned_properties(compaction: Compaction, ledger: InferredLedger) -> dict[str, Any]:
    fates = ledger.fates
    return {
        "step": compaction.number,
        "pruned_count": fates.get("summarized", 0) + fates.get("dropped", 0),
        "tokens_before": ledger.tokens_before,
        "tokens_after": ledger.tokens_after,
        "plan_version": compaction.number,
        "fates": fates,
        "inferred": True,
    }


def _event(
    common: Mapping[str, Any], name: str, properties: Mapping[str, Any], payload: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    event = {**common, "kind": name, "name": name, "status": "ok", "properties": _without_none(properties)}
    return {**event, "payload": dict(payload)} if payload is not None else event


def _link_data(link: SessionLink | None) -> dict[str, str]:
    return {f"{link.kind}_from": link.session_id} if link else {}


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _earlier(at: str | None, milliseconds: float) -> str | None:
    try:
        return (datetime.fromisoformat(at) - timedelta(milliseconds=milliseconds)).isoformat() if at else None
    except ValueError:
        return at

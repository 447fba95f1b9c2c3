"""Turn what a recorder has recorded into events for `POST /ingest`.

Ids are derived from the session and from the agent's own ids, so recording a session again changes nothing, and a
longer version adds only what is new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from compact.events import ArchivalEvent, Event, RequestEvent, TokenEstimateEvent
from compact.ledgers.foreign_compaction import MAIN, Compaction
from compact.ledgers.inferred_ledger import InferredLedger, MaskMessages, infer_ledger, mask_messages
from compact.messages import RedactedMessage
from compact.recording.compaction_events import check_event, child_events
from compact.recording.recorder import SessionRecorder
from compact.recording.spans import RecordedSpan

ArchiveTranscript = Callable[[str, tuple[RedactedMessage, ...], int], Mapping[str, Any]]
"""Stores the redacted prompt of a session before a compaction, and returns what `compact.archival` reports."""
_DEFAULT_WINDOW = 200_000
_LARGE_WINDOW = 1_000_000


class SessionEvents:
    """Builds the events of one recorded session. Compactions also give a transcript to archive."""

    def __init__(
        self,
        recorder: SessionRecorder,
        *,
        session_id: str,
        window_tokens: int | None = None,
        mask: MaskMessages = mask_messages,
    ) -> None:
        self._recorder = recorder
        self.session_id = session_id
        self._window_tokens = window_tokens
        self._mask = mask
        self._trace_id = self._id("trace", 32)
        self._root_id = self._id("root", 16)

    def session_events(self) -> Iterator[dict[str, Any]]:
        """Yield the trace and the root span, with the period that is known so far."""
        recorder = self._recorder
        period = {"started_at": recorder.first_at, "ended_at": recorder.last_at}
        link = {f"{recorder.link.kind}_from": recorder.link.session_id} if recorder.link else {}
        metadata = {"imported_from": recorder.source, "cwd": recorder.cwd, "version": recorder.version, **link}
        yield {
            "type": "trace",
            "trace_id": self._trace_id,
            "name": f"{recorder.source} session",
            "group_id": self.session_id,
            **period,
            "metadata": _without_none(metadata),
        }
        if recorder.agent_id:
            return  # The root span belongs to the recording of the main agent.
        yield {
            "type": "span",
            "trace_id": self._trace_id,
            "session_id": self.session_id,
            "span_id": self._root_id,
            "kind": "agent",
            "name": recorder.source,
            **period,
            "status": "ok",
            "data": _without_none({"model": recorder.model, **link}),
        }

    def span_events(self, span: RecordedSpan, *, archive: ArchiveTranscript | None = None) -> Iterator[dict[str, Any]]:
        """Yield the events of one span. The prompt before a compaction is archived first."""
        if span.compaction is not None:
            yield from self._compaction_events(span, span.compaction, archive)
            return
        is_turn = span.kind == "generation" and "turn" in span.data
        if is_turn and span.usage.get("input_tokens") and span.thread == MAIN:
            yield self._token_estimate(span)
        yield self._span_event(span)

    def request_event(self, span: RecordedSpan, event: RequestEvent) -> dict[str, Any]:
        """Return the event of the prompt that a model call was made with."""
        previous = None if event.previous is None else self._id(f"{event.previous} request", 16)
        own = {"parent_id": self._id(span.key, 16), "span_id": self._id(f"{span.key} request", 16)}
        return _record({**self._common(span), **own}, replace(event, previous=previous))

    def single_event(self, event: Event, *, at: str) -> dict[str, Any]:
        """Return an event of the session that belongs to no span."""
        common = {
            "type": "span",
            "trace_id": self._trace_id,
            "session_id": self.session_id,
            "parent_id": self._root_id,
            "span_id": self._id(f"{event.name} {at}", 16),
            "started_at": at,
            "ended_at": at,
        }
        return _record(common, event)

    def interrupted_events(self) -> Iterator[dict[str, Any]]:
        """Yield the calls that will not get a result any more, as ended."""
        for span in self._recorder.open_calls():
            event = self._span_event(span)
            yield {**event, "ended_at": self._recorder.last_at, "data": {**event["data"], "interrupted": True}}

    def _span_event(self, span: RecordedSpan) -> dict[str, Any]:
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

    def _token_estimate(self, span: RecordedSpan) -> dict[str, Any]:
        """Return the prompt size that the provider reported, for the token timeline."""
        tokens = span.usage["input_tokens"]
        window = self._window(tokens)
        event = TokenEstimateEvent(
            model=span.model,
            t_est=tokens,
            max_tokens=window,
            usage_pct=round(tokens / window, 6),
            turn=span.data.get("turn", 0),
            estimator="provider",
            source="provider",
            breakdown=span.breakdown or {"history": tokens},
            evidence="inferred" if span.breakdown is None else "exact",
        )
        own = {"ended_at": span.started_at, "span_id": self._id(f"{span.key} estimate", 16)}
        return _record({**self._common(span), **own}, event)

    def _compaction_events(
        self, span: RecordedSpan, compaction: Compaction, archive: ArchiveTranscript | None
    ) -> Iterator[dict[str, Any]]:
        ledger = infer_ledger(compaction, mask=self._mask)
        window = self._window(ledger.tokens_before)
        check_id = self._id(f"{span.key} check", 16)
        common = self._common(span)
        started_at = _earlier(compaction.at, compaction.duration_ms) if compaction.duration_ms else span.started_at
        check = check_event(ledger, model=self._recorder.model, window_tokens=window)
        yield _record({**common, "span_id": check_id, "started_at": started_at}, check)
        archival = self._archive(ledger, archive)
        for event in child_events(ledger, reason=span.name, window_tokens=window, archival=archival):
            own = {"parent_id": check_id, "span_id": self._id(f"{span.key} {event.name}", 16)}
            yield _record({**common, **own}, event)

    def _archive(self, ledger: InferredLedger, archive: ArchiveTranscript | None) -> ArchivalEvent | None:
        if archive is None or not ledger.before:
            return None
        step = ledger.compaction.number
        event = ArchivalEvent(
            session_id=self.session_id,
            state="stored",
            step=step,
            storage_adapter="ariadne",
            message_count=len(ledger.before),
            redactions={},
            evidence=ledger.compaction.evidence,
        )
        return event.add_receipt(archive(self.session_id, ledger.before, step))

    def _window(self, tokens: int) -> int:
        known = self._window_tokens or self._recorder.window_tokens
        return known or (_DEFAULT_WINDOW if tokens <= _DEFAULT_WINDOW else _LARGE_WINDOW)

    def _common(self, span: RecordedSpan) -> dict[str, Any]:
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


def _record(common: Mapping[str, Any], event: Event) -> dict[str, Any]:
    """Return the wire form of an event."""
    record = {**common, "kind": event.name, "name": event.name, "status": "ok", "properties": event.properties()}
    payload = event.payload()
    return record if payload is None else {**record, "payload": payload}


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _earlier(at: str | None, milliseconds: float) -> str | None:
    try:
        return (datetime.fromisoformat(at) - timedelta(milliseconds=milliseconds)).isoformat() if at else None
    except ValueError:
        return at

"""Encode events as the bodies that `POST /ingest` accepts."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from compact.delivery.counts import Counts
from compact.delivery.spool import Record
from compact.delivery.stderr import say
from compact.events import WarningEvent, flat_record, iso, utc_now

Event = dict[str, Any]

_HEAD, _TAIL = b'{"batch":[', b"]}"
_SPAN_FIELDS = ("trace_id", "span_id", "parent_id", "started_at", "ended_at", "status", "session_id")
# Encoding runs beside the agent, so speed matters more than size.
_GZIP_LEVEL = 1


class EventEncoder:
    """Encodes batches of events, and reports dropped events as an event."""

    content_type = "application/json"
    noun = "event"

    def __init__(self, counts: Counts, *, max_bytes: int, max_events: int) -> None:
        self._counts = counts
        self._max_bytes = max_bytes
        self._max_events = max_events
        self._last_session_id: str | None = None

    def count_drop(self, event: Event) -> None:
        """Count an event that did not fit into the queue. The next batch reports it."""
        self._counts.dropped += 1
        self._last_session_id = event.get("session_id") or self._last_session_id

    def encode(self, items: list[Event]) -> Iterator[Record]:
        """Pack events into records of at most `max_bytes` before compression."""
        if items:
            self._last_session_id = items[-1].get("session_id") or self._last_session_id
        if drops := self._counts.take_drops():
            items = [*items, self._report_drops(drops)]
        return pack_events(items, max_bytes=self._max_bytes, max_events=self._max_events)

    def request(self, record: Record) -> tuple[str, bytes]:
        """Return the request of a record: no query, and the body unchanged."""
        return "", record.body

    def split(self, record: Record) -> list[Record]:
        """Return the record as two halves, or nothing if it has a single event."""
        try:
            batch = json.loads(gzip.decompress(record.body))["batch"]
        except (OSError, EOFError, ValueError, KeyError, zlib.error):
            return []
        if len(batch) < 2:
            return []
        middle = len(batch) // 2
        return [_pack([_dumps(event) for event in half]) for half in (batch[:middle], batch[middle:])]

    def describe(self, record: Record) -> str:
        """Return the number of events in the record."""
        return f"{record.count} event{'s' if record.count != 1 else ''}"

    def _report_drops(self, count: int) -> Event:
        message = f"{count} events were dropped because the queue or the spool was full"
        say("Ariadne", f"{message}.")
        warning = WarningEvent(severity="high", code="events_dropped", message=message, count=count)
        session_id = self._last_session_id or "compact-exporter"
        return flat_record(session_id, warning, ts=iso(utc_now()), status="error")


def pack_events(events: Iterable[Event], *, max_bytes: int, max_events: int) -> Iterator[Record]:
    """Pack events into gzip bodies of at most `max_bytes` before compression."""
    parts: list[bytes] = []
    size = len(_HEAD) + len(_TAIL)
    for event in events:
        part = encode_event(event, max_bytes=max_bytes - len(_HEAD) - len(_TAIL))
        if parts and (size + len(part) + 1 > max_bytes or len(parts) >= max_events):
            yield _pack(parts)
            parts, size = [], len(_HEAD) + len(_TAIL)
        parts.append(part)
        size += len(part) + 1
    if parts:
        yield _pack(parts)


def encode_event(event: Event, *, max_bytes: int) -> bytes:
    """Return one event as JSON. If it is too large, its payload is replaced with a note, then its properties too."""
    span = to_span(event)
    data = _dumps(span)
    if len(data) <= max_bytes:
        return data
    note = {"omitted": f"{len(data):,} bytes are over the limit of {max_bytes:,}"}
    without_payload = _dumps({**span, "payload": note})
    if len(without_payload) <= max_bytes:
        return without_payload
    fields = {key: value for key, value in span.items() if key not in ("payload", "properties", "data", "metadata")}
    return _dumps({**fields, "properties": note})


def to_span(event: Event) -> Event:
    """Return a compaction event as a span. Traces, spans and flat events are returned unchanged."""
    if "type" in event or "span_id" not in event or "event" not in event:
        return event
    span: Event = {"type": "span", "kind": event["event"], "name": event["event"]}
    for name in _SPAN_FIELDS:
        if event.get(name) is not None:
            span[name] = event[name]
    span["properties"] = event.get("properties") or {}
    if event.get("payload") is not None:
        span["payload"] = event["payload"]
    return span


def _pack(parts: list[bytes]) -> Record:
    return Record(gzip.compress(_HEAD + b",".join(parts) + _TAIL, _GZIP_LEVEL, mtime=0), len(parts))


def _dumps(value: Any) -> bytes:
    try:
        # Escape non-ASCII characters, so that a lone surrogate in a tool's output is still valid JSON.
        return json.dumps(value, separators=(",", ":"), default=str).encode()
    except (TypeError, ValueError, RecursionError) as error:
        # A cycle, or a key that is not a string: send the fields that can be encoded.
        fields = {
            key: item for key, item in value.items() if isinstance(item, (str, int, float)) and isinstance(key, str)
        }
        return json.dumps({**fields, "properties": {"unencodable": str(error)}}).encode()

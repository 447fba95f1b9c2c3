"""Encode events as the bodies that `POST /ingest` accepts."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from compact.delivery import fast_json
from compact.delivery.drops import DropReport
from compact.delivery.segments import Record
from compact.delivery.sender import rejected_items
from compact.delivery.stderr import log_problem
from compact.events import WarningEvent, flat_record, iso, utc_now

Event = dict[str, Any]

_HEAD, _TAIL = b'{"batch":[', b"]}"
_SPAN_FIELDS = ("trace_id", "span_id", "parent_id", "started_at", "ended_at", "status", "session_id")
# Encoding runs beside the agent, so speed matters more than size.
_GZIP_LEVEL = 1
# An event larger than a body is sent by itself up to this size, which is well below the server's limit.
_MAX_EVENT_BYTES = 4 * 1024 * 1024
# A single event that the server or a proxy rejects as too large is halved down to this size.
_MIN_EVENT_BYTES = 16 * 1024
_MIN_TEXT_CHARS = 64


class EventEncoder:
    """Encodes batches of events, and reports of dropped events."""

    content_type = "application/json"
    noun = "event"

    def __init__(self, *, max_bytes: int, max_events: int) -> None:
        self._max_bytes = max_bytes
        self.merge_limit = max_events
        self.last_session_id: str | None = None

    def encode(self, items: list[Event]) -> Iterator[Record]:
        """Pack events into records of at most `max_bytes` before compression. A larger event gets its own record."""
        if items:
            self.last_session_id = items[-1].get("session_id") or self.last_session_id
        return pack_events(items, max_bytes=self._max_bytes, max_events=self.merge_limit)

    def merge(self, records: list[Record]) -> tuple[int, Record]:
        """Return how many of the first records fit into one body, and a record with all their events."""
        parts: list[bytes] = []
        size = len(_HEAD) + len(_TAIL)
        for record in records:
            part = _inner(record)
            if part is None or (parts and size + len(part) + 1 > self._max_bytes):
                break
            parts.append(part)
            size += len(part) + 1
        if len(parts) < 2:
            return 1, records[0]
        count = sum(record.count for record in records[: len(parts)])
        return len(parts), replace(_pack(parts), count=count)

    def report_drops(self, report: DropReport) -> Record:
        """Return a warning of the session that dropped events."""
        message = f"{report.count:,} events were dropped because the queue or the spool was full"
        warning = WarningEvent(severity="high", code="events_dropped", message=message, count=report.count)
        now = iso(utc_now())
        event = flat_record(report.session_id or "compact-exporter", warning, ts=now, status="error")
        ids = {"trace_id": report.id * 2, "span_id": report.id, "started_at": now, "ended_at": now}
        return _pack([_dumps(to_span({**event, **ids}))])

    def request(self, record: Record) -> tuple[str, bytes]:
        """Return the request of a record: no query, and the body unchanged."""
        return "", record.body

    def split(self, record: Record) -> list[Record]:
        """Return the record as two halves, or a single event with shorter texts, or nothing if it is small."""
        try:
            body = gzip.decompress(record.body)
            batch = json.loads(body)["batch"]
        except (OSError, EOFError, ValueError, KeyError, zlib.error):
            return []
        if len(batch) < 2:
            half = len(body) // 2
            return [_pack([encode_event(event, max_bytes=half)]) for event in batch] if half > _MIN_EVENT_BYTES else []
        middle = len(batch) // 2
        return [_pack([_dumps(event) for event in half]) for half in (batch[:middle], batch[middle:])]

    def is_confirmed(self, record: Record, body: Mapping[str, Any]) -> bool:
        """Return True if the server has counted each event of a record, as stored or as rejected."""
        count = body.get("count")
        return type(count) is int and count + len(rejected_items(body)) == record.count

    def resolve_conflict(self, record: Record, body: Mapping[str, Any]) -> list[Record]:
        """Return nothing: events do not conflict."""
        return []

    def report(self, record: Record, status: int, body: Mapping[str, Any]) -> None:
        """Do nothing: the counts are all that anybody needs."""

    def describe(self, record: Record) -> str:
        """Return the number of events in the record."""
        return f"{record.count} event{'s' if record.count != 1 else ''}"


def pack_events(events: Iterable[Event], *, max_bytes: int, max_events: int) -> Iterator[Record]:
    """Pack events into gzip bodies of at most `max_bytes` before compression. A larger event gets its own body."""
    parts: list[bytes] = []
    size = len(_HEAD) + len(_TAIL)
    for event in events:
        part = encode_event(event, max_bytes=max(max_bytes, _MAX_EVENT_BYTES) - len(_HEAD) - len(_TAIL))
        if parts and (size + len(part) + 1 > max_bytes or len(parts) >= max_events):
            yield _pack(parts)
            parts, size = [], len(_HEAD) + len(_TAIL)
        parts.append(part)
        size += len(part) + 1
    if parts:
        yield _pack(parts)


def encode_event(event: Event, *, max_bytes: int) -> bytes:
    """Return one event as JSON. If it is too large, its longest texts are truncated and say how long they were."""
    span = to_span(event)
    data = _dumps(span)
    return data if len(data) <= max_bytes else _dumps(_shrink(span, len(data), max_bytes))


def _shrink(span: Event, size: int, max_bytes: int) -> Event:
    """Return the event with texts truncated until it has at most `max_bytes`."""
    log_problem(
        "Ariadne", f"An event of {size:,} bytes is over the limit of {max_bytes:,}. Its longest texts are truncated."
    )
    max_chars = max_bytes // 2
    while max_chars >= _MIN_TEXT_CHARS:
        short: Event = _truncate_texts(span, max_chars)
        if isinstance(short.get("payload"), dict):
            short["payload"] = {**short["payload"], "truncated": {"original_bytes": size}}
        if len(_dumps(short)) <= max_bytes:
            return short
        max_chars //= 2
    # Many values instead of long texts.
    note = {"omitted": f"{size:,} bytes are over the limit of {max_bytes:,}"}
    without_payload = {**span, "payload": note}
    if len(_dumps(without_payload)) <= max_bytes:
        return without_payload
    fields = {key: value for key, value in span.items() if key not in ("payload", "properties", "data", "metadata")}
    return {**fields, "properties": note}


def _truncate_texts(value: Any, max_chars: int) -> Any:
    if isinstance(value, str):
        rest = len(value) - max_chars
        return (
            value if rest <= 0 else f"{value[:max_chars]}… (truncated, {rest:,} of {len(value):,} characters removed)"
        )
    if isinstance(value, dict):
        return {key: _truncate_texts(item, max_chars) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_truncate_texts(item, max_chars) for item in value]
    return value


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


def _inner(record: Record) -> bytes | None:
    """Return the events of a record without the brackets around them, or None if another program has written it."""
    try:
        body = gzip.decompress(record.body)
    except (OSError, EOFError, zlib.error):
        return None
    return body[len(_HEAD) : -len(_TAIL)] if body.startswith(_HEAD) and body.endswith(_TAIL) else None


def _pack(parts: list[bytes]) -> Record:
    return Record(gzip.compress(_HEAD + b",".join(parts) + _TAIL, _GZIP_LEVEL, mtime=0), len(parts))


def _dumps(value: Any) -> bytes:
    try:
        return fast_json.dump(value)
    except (TypeError, ValueError, RecursionError) as error:
        # A cycle, or a key that is not a string: send the fields that can be encoded.
        fields = {
            key: item for key, item in value.items() if isinstance(item, (str, int, float)) and isinstance(key, str)
        }
        return json.dumps({**fields, "properties": {"unencodable": str(error)}}).encode()

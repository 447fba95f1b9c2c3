"""Events as the server's `POST /ingest` takes them: bytes under its limits.

Pure: the same events give the same bodies. An event that is too large for any body loses its payload, and says so.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from compact.delivery.spool import Record

Event = dict[str, Any]

_HEAD, _TAIL = b'{"batch":[', b"]}"
_SPAN_FIELDS = ("trace_id", "span_id", "parent_id", "started_at", "ended_at", "status", "session_id")


def bodies(events: Iterable[Event], *, max_bytes: int, max_events: int, level: int = 1) -> Iterator[Record]:
    """Pack events into gzip bodies of at most `max_bytes` before compression."""
    parts: list[bytes] = []
    size = len(_HEAD) + len(_TAIL)
    for event in events:
        part = encode(event, max_bytes=max_bytes - len(_HEAD) - len(_TAIL))
        if parts and (size + len(part) + 1 > max_bytes or len(parts) >= max_events):
            yield _pack(parts, level)
            parts, size = [], len(_HEAD) + len(_TAIL)
        parts.append(part)
        size += len(part) + 1
    if parts:
        yield _pack(parts, level)


def encode(event: Event, *, max_bytes: int) -> bytes:
    """One event as JSON."""
    wire = as_wire(event)
    data = _dumps(wire)
    if len(data) <= max_bytes:
        return data
    note = {"omitted": f"{len(data):,} bytes are over the limit of {max_bytes:,}"}
    smaller = _dumps({**wire, "payload": note})
    if len(smaller) <= max_bytes:
        return smaller
    kept = {key: value for key, value in wire.items() if key not in ("payload", "properties", "data", "metadata")}
    return _dumps({**kept, "properties": note})


def as_wire(event: Event) -> Event:
    """A compaction event as a span; traces, spans and flat events pass as they are."""
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


def halves(record: Record) -> list[Record]:
    """A body that was too large after all, as two; none if it holds a single event."""
    try:
        batch = json.loads(gzip.decompress(record.body))["batch"]
    except (OSError, EOFError, ValueError, KeyError, zlib.error):
        return []
    if len(batch) < 2:
        return []
    middle = len(batch) // 2
    return [_pack([_dumps(event) for event in part], 1) for part in (batch[:middle], batch[middle:])]


def _pack(parts: list[bytes], level: int) -> Record:
    return Record(gzip.compress(_HEAD + b",".join(parts) + _TAIL, level, mtime=0), len(parts))


def _dumps(value: Any) -> bytes:
    try:
        # ASCII on purpose: a lone surrogate in a tool's output is still valid JSON this way.
        return json.dumps(value, separators=(",", ":"), default=str).encode()
    except (TypeError, ValueError, RecursionError) as error:
        # A key that is not a string, or a cycle: the event is kept as far as it can be told.
        known = {
            key: item for key, item in value.items() if isinstance(item, (str, int, float)) and isinstance(key, str)
        }
        return json.dumps({**known, "properties": {"unencodable": str(error)}}).encode()

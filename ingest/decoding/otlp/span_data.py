"""OTLP as it is written, in protobuf or in JSON, read into one form.

Each form has a module of its own, which walks its messages by hand: many times quicker than turning one into the other.
A span that cannot be read becomes a rejection in its place, whatever is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ingest.decoding.json_body import sound
from ingest.decoding.records import Rejection
from ingest.decoding.schema import Invalid

MAX_DEPTH = 64
# Stands where something nested deeper was.
TOO_DEEP = f"… (nested deeper than {MAX_DEPTH} levels)"
NO_SPAN = bytes(8)
# Who sent them is worth less than the spans themselves.
UNREADABLE = b'{"resource":"could not be read"}'
_encode = msgspec.json.Encoder().encode


class Moment(msgspec.Struct):
    """One event on a span."""

    name: str
    time_ns: int
    attributes: dict[str, Any]


class Told(msgspec.Struct):
    """A span as OTLP tells it, whichever way it was written. Its texts may hold NUL, which Postgres does not take."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    started_ns: int
    ended_ns: int
    attributes: dict[str, Any]
    moments: list[Moment]
    is_error: bool
    is_ok: bool
    message: str
    sender: bytes  # what the resource says of it, as JSON


def describe_sender(resource: dict[str, Any]) -> bytes:
    """What a resource says of itself, as JSON; of the library that wrote it nobody wants to know."""
    return _encode({key: value for key, value in sound(resource).items() if not key.startswith("telemetry.")})


def read_one(read: Callable[[Any, bytes], Told], span: Any, sender: bytes) -> Told | Rejection:
    try:
        return read(span, sender)
    except Invalid as invalid:
        return Rejection(0, invalid.path, invalid.message)

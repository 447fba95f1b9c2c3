"""OTLP spans in one form, read from protobuf or JSON.

`protobuf_format` and `json_format` each walk their own messages, which is many times faster than converting one format
to the other. A span that cannot be read becomes an error in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ingest.decoding.lenient_json import sanitize
from ingest.decoding.schema import InvalidEvent

MAX_DEPTH = 64
# Replaces values that are nested deeper.
TOO_DEEP = f"… (nested deeper than {MAX_DEPTH} levels)"
ZERO_SPAN_ID = bytes(8)
# A resource that cannot be read does not affect its spans.
UNREADABLE_RESOURCE = {"resource": "could not be read"}


class OtlpEvent(msgspec.Struct, gc=False):
    """An event on a span."""

    name: str
    time_ns: int
    attributes: dict[str, Any]


class OtlpSpan(msgspec.Struct, gc=False):
    """A span as sent, but without NUL characters, which Postgres rejects."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    started_ns: int
    ended_ns: int
    attributes: dict[str, Any]
    events: list[OtlpEvent]
    is_error: bool
    is_ok: bool
    message: str
    resource: dict[str, Any]


def clean_resource(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a resource without those that describe the OpenTelemetry library."""
    return {key: value for key, value in sanitize(attributes).items() if not key.startswith("telemetry.")}


def read_span(
    read: Callable[[Any, dict[str, Any]], OtlpSpan], span: Any, resource: dict[str, Any]
) -> OtlpSpan | InvalidEvent:
    """Read one span, or return the error that describes why it is invalid."""
    try:
        return read(span, resource)
    except InvalidEvent as error:
        return error

"""Decode and redact one request body, in the web process or in a worker process. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import msgspec

from ingest.archive.transcript_format import BadTranscript, parse_messages
from ingest.decoding import json_body
from ingest.decoding.door.project_rules import NO_RULES, ProjectRules
from ingest.decoding.door.redaction import redact, redact_messages
from ingest.decoding.otlp import conversion
from ingest.decoding.raw_records import Parsed, RawSpan
from ingest.decoding.records import Decoded, Span
from ingest.decoding.tool_arguments import TOOL, arguments_hash
from ingest.errors import Malformed, RequestError, TooLarge, UnsupportedType
from ingest.storage.messages import extract
from ingest.storage.payloads import pack, pack_data

Format = Literal["json", "lines", "otlp_protobuf", "otlp_json"]
ERRORS: dict[str, type[RequestError]] = {error.__name__: error for error in (Malformed, TooLarge, UnsupportedType)}


class ParsedTranscript(msgspec.Struct):
    """Messages of a transcript after redaction."""

    ids: list[str | None]
    texts: list[bytes]
    counts: dict[str, int]


def decode_events(body: bytes, body_format: Format, max_events: int, rules: ProjectRules = NO_RULES) -> Decoded:
    """Decode a body with at most `max_events` events, and redact them."""
    parsed = _PARSERS[body_format](body, max_events)
    decoded = redact(parsed, rules)
    # After redaction, because a message's hash must be that of the stored text.
    for record, event in zip(decoded.records, parsed.events, strict=True):
        if isinstance(record, Span) and isinstance(event, RawSpan):
            _to_stored_form(record, event.data, event.payload)
    return decoded


def _to_stored_form(span: Span, data: dict[str, Any], payload: Any) -> None:
    if payload is not None:
        extract(span, payload)
    if span.kind == TOOL:
        stored_payload = msgspec.json.decode(span.payload) if span.messages and span.payload else payload
        span.arguments_hash = arguments_hash(span.kind, data, stored_payload)
    if span.payload is not None:
        span.payload = pack(span.payload, span.kind)
    span.data = pack_data(span.data)


_PARSERS: dict[Format, Callable[[bytes, int], Parsed]] = {
    "json": lambda body, limit: json_body.decode(body, max_events=limit),
    "lines": lambda body, limit: json_body.decode(body, max_events=limit, is_lines=True),
    "otlp_protobuf": lambda body, limit: conversion.from_protobuf(body, max_events=limit),
    "otlp_json": lambda body, limit: conversion.from_json(body, max_events=limit),
}


def parse_transcript(body: bytes, rules: ProjectRules = NO_RULES) -> ParsedTranscript:
    """Parse and redact a transcript, or raise `Malformed`."""
    try:
        ids, texts, counts = parse_messages(body, partial(redact_messages, rules=rules))
    except BadTranscript as error:
        rejected = [{"index": 0, "path": error.path, "message": error.message}]
        raise Malformed(error.message, rejected=rejected) from None
    return ParsedTranscript(ids, texts, dict(counts))

"""The searchable parts of spans: messages, summaries, tool calls, names and ids. Pure.

A message that occurs in every prompt of a session is one document of that session. Everything here is redacted, because
spans are redacted before they are stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from compact.reading.parts import strip_summary_marks

from ingest.archive.hash_chain import canonical
from ingest.storage.messages import MESSAGE_KEYS, REFERENCE
from viewer.kinds import CHECK, DECISION, ERROR, PREFIX, RETENTION, SUMMARY, WARNING
from viewer.sessions.spans import SpanRow
from viewer.visibility.public_parts import public_data, public_name
from viewer.visibility.shapes import HIDDEN

# Compaction events whose payload or properties contain text. The others contain figures and the ledger's hashes.
_EVENTS_WITH_TEXT = frozenset({SUMMARY, RETENTION, ERROR, WARNING, DECISION, CHECK})
_NOT_TEXT = frozenset({"role", "type", "id", "hash", "fate", "rule", "into", REFERENCE, "policy"})
_MAX_DEPTH = 12


@dataclass(frozen=True, slots=True)
class Document:
    """A searchable part of a span. `message` is the hash of a message, or None for the rest of the span."""

    item: UUID
    message: bytes | None
    texts: list[str]
    ids: list[str]
    """Identifiers that everyone with access to the session may see."""


def span_documents(span: SpanRow, payload: Any) -> Iterator[Document]:
    """Return the documents of a span. The texts of stored messages are left to the caller."""
    rest = payload
    if isinstance(payload, Mapping) and not span.kind.startswith(PREFIX):
        rest = {key: value for key, value in payload.items() if not _is_message_list(key, value)}
        for message, texts in _messages(payload):
            yield Document(_item("message", message.hex()), message, texts, [])
    texts = list(span_texts(span, rest))
    ids = list(_public_ids(span))
    if texts or ids:
        yield Document(_item("span", span.key), None, texts, [span.span_id, *ids])


def span_texts(span: SpanRow, payload: Any) -> Iterator[str]:
    """Return the conversation texts of a span, except its messages."""
    is_event = span.kind.startswith(PREFIX)
    if is_event and span.kind not in _EVENTS_WITH_TEXT:
        return
    if span.name and public_name(span.kind, span.name) == HIDDEN:
        yield span.name
    if not is_event or span.kind != SUMMARY:
        yield from _hidden_strings(span)
    if isinstance(payload, Mapping):
        yield from strings({key: value for key, value in payload.items() if not _is_message_list(key, value)})
    else:
        yield from strings(payload)


def message_texts(message: Any) -> list[str]:
    return list(strings(message))


def find_message(payload: Any, digest: bytes) -> Any:
    """Return the message with this hash that a payload contains itself, or None."""
    if not isinstance(payload, Mapping):
        return None
    for key, value in payload.items():
        if _is_message_list(key, value):
            for item in value:
                if isinstance(item, Mapping) and REFERENCE not in item and _digest(item) == digest:
                    return item
    return None


def strings(value: Any, depth: int = 0) -> Iterator[str]:
    """Return the texts in a JSON value, except roles, types and hashes."""
    if isinstance(value, str):
        if text := strip_summary_marks(value):
            yield text
    elif depth < _MAX_DEPTH and isinstance(value, Mapping):
        for key, part in value.items():
            if key not in _NOT_TEXT:
                yield from strings(part, depth + 1)
    elif depth < _MAX_DEPTH and isinstance(value, list):
        for part in value:
            yield from strings(part, depth + 1)


def _messages(payload: Mapping[str, Any]) -> Iterator[tuple[bytes, list[str]]]:
    """Return the hash of each message in a payload, with its texts unless it is stored separately."""
    for key, value in payload.items():
        if not _is_message_list(key, value):
            continue
        for item in value:
            if not isinstance(item, Mapping):
                continue
            reference = item.get(REFERENCE)
            if isinstance(reference, str):
                try:
                    yield bytes.fromhex(reference), []
                except ValueError:
                    continue
            else:
                yield _digest(item), message_texts(item)


def _is_message_list(key: str, value: Any) -> bool:
    return key in MESSAGE_KEYS and isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def _digest(item: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(canonical({key: value for key, value in item.items() if key not in {"id", "hash"}})).digest()


def _hidden_strings(span: SpanRow) -> Iterator[str]:
    """Return the properties that readers without the right to view payloads do not see."""
    visible = public_data(span.kind, span.data)
    for key, value in span.data.items():
        if visible.get(key) != value:
            yield from strings(value)


def _public_ids(span: SpanRow) -> Iterable[str]:
    if span.kind.startswith(PREFIX):
        return []
    visible = public_data(span.kind, {key: value for key, value in span.data.items() if key.endswith("id")})
    session_keys = {"session_id", "session.id", "group_id", "trace_id", "span_id", "parent_id"}
    return [
        value
        for key, value in visible.items()
        if isinstance(value, str) and value != HIDDEN and key not in session_keys and "conversation" not in key
    ]


def _item(kind: str, text: str) -> UUID:
    return UUID(bytes=hashlib.blake2b(f"{kind}:{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest())

"""The texts of a session as passages to search: messages of its spans, tool calls, and archived messages.

Callers have checked that the reader sees the session's content. Everything is redacted, because spans and transcripts
are redacted before they are stored.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from threading import Lock
from typing import Any
from uuid import UUID

from compact.recall import PassageIndex, Source
from django.db import connection

from ingest.models import Session
from ingest.storage.messages import MESSAGE_KEYS, restore
from ingest.storage.payloads import decode_up_to
from viewer.compactions import queries as compaction_queries
from viewer.kinds import GENERATION, PREFIX
from viewer.search.documents import message_texts, strings
from viewer.sessions import queries
from viewer.sessions.queries import SPAN_COLUMNS, span_row
from viewer.sessions.spans import SpanRow
from viewer.visibility.public_parts import Visibility

_MAX_SPANS = 5_000
# Bytes of a payload as stored, and as JSON.
_MAX_STORED_BYTES = 400_000
_MAX_PAYLOAD_BYTES = 4_000_000
_MAX_CHARS = 8_000_000
_MAX_INDEXES = 8
_SPANS = f"""
SELECT {SPAN_COLUMNS}, data, payload FROM ingest_span
WHERE {queries.IN_SESSION} AND kind NOT LIKE 'compact.%%' AND payload IS NOT NULL
  AND pg_column_size(payload) < %s
ORDER BY started_at DESC NULLS LAST LIMIT %s
"""  # noqa: S608 - a constant

_indexes: OrderedDict[tuple[UUID, int], PassageIndex] = OrderedDict()
_lock = Lock()


def session_index(session: Session) -> PassageIndex:
    """Return the index of a session's texts. The newest indexes are kept until the session changes."""
    key = (session.session_key, session.last_seq)
    with _lock:
        if key not in _indexes:
            index = PassageIndex()
            index.add(_sources(session))
            _indexes[key] = index
        _indexes.move_to_end(key)
        while len(_indexes) > _MAX_INDEXES:
            _indexes.popitem(last=False)
        return _indexes[key]


def _sources(session: Session) -> list[Source]:
    """Return the texts, oldest first. Of a very long session, the oldest spans are left out."""
    sources: dict[str, Source] = {}
    turn = chars = 0
    for name, role, text, time in _texts(session):
        if name in sources or not text.strip() or chars > _MAX_CHARS:
            continue
        turn += role == "user"
        chars += len(text)
        sources[name] = Source(name, role, text, max(1, turn), time)
    return list(sources.values())


def _texts(session: Session) -> Iterator[tuple[str, str, str, str | None]]:
    """Yield the id, role, text and time of each message and tool call."""
    yield from _archived_messages(session)
    for span, payload in _spans(session):
        time = _iso(span)
        if isinstance(payload, Mapping) and span.kind == GENERATION:
            for message in _messages(payload):
                text = "\n".join(message_texts(message))
                role = str(message.get("role") or "message")
                yield f"{role}-{sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}", role, text, time
        else:
            role = "tool" if span.kind == "tool" else "user" if span.name == "user" else span.kind
            yield span.key, role, "\n".join([span.name or "", *strings(payload)]), time


def _archived_messages(session: Session) -> Iterator[tuple[str, str, str, str | None]]:
    """Yield the messages that compactions removed, from the archive."""
    for check in queries.checks(session, Visibility.CONTENT).compactions():
        entries = compaction_queries.fate_ledger(session, check).entries
        texts = compaction_queries.archived_texts(session, [entry.hash for entry in entries])
        time = check.started_at.isoformat().replace("+00:00", "Z") if check.started_at else None
        for entry in entries:
            if text := texts.get(entry.hash):
                yield entry.id or entry.hash, entry.role, text, time


def _spans(session: Session) -> Sequence[tuple[SpanRow, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(_SPANS, [*queries.in_session(session), _MAX_STORED_BYTES, _MAX_SPANS])
        rows = cursor.fetchall()
    spans = [(span_row(row[:-1]), decode_up_to(row[-1], _MAX_PAYLOAD_BYTES)) for row in reversed(rows)]
    return [(span, _restore(session, payload)) for span, payload in spans if not span.kind.startswith(PREFIX)]


def _restore(session: Session, payload: Any) -> Any:
    return restore(session.cell, payload) if isinstance(payload, Mapping) else payload


def _messages(payload: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for key in MESSAGE_KEYS:
        value = payload.get(key)
        if isinstance(value, str):
            yield {"role": "assistant" if key in ("output", "response") else "user", "content": value}
        for message in value if isinstance(value, list) else ():
            if isinstance(message, Mapping):
                yield message


def _iso(span: SpanRow) -> str | None:
    return span.started_at.isoformat().replace("+00:00", "Z") if span.started_at else None

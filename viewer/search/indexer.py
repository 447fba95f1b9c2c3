"""Bring the search index up to date with the spans of a cell.

Sessions are read in the order of their last change. The index stores how far it has read each session, in the same
transaction as the words, so a process that is killed continues where it was. A span that changes or moves to another
session gets a new number and is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import msgspec
import zstandard
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from ingest.cells import cells_of, learn
from ingest.models import Label, Project, SearchState, Session, Trace
from ingest.storage import search_index
from ingest.storage.database.job_lock import try_lock
from ingest.storage.payloads import decode_up_to
from ingest.storage.search_index import SESSION_ITEM, Entry
from viewer.search import words
from viewer.search.documents import Document, message_texts, span_documents, strings
from viewer.sessions.queries import SPAN_COLUMNS, span_row
from viewer.sessions.spans import SpanRow
from viewer.visibility.public_parts import public_name, public_trace_metadata
from viewer.visibility.shapes import HIDDEN

_SESSIONS, _SPANS, _TRACES = 100, 400, 200
# Larger payloads are not searchable: bytes as stored, and as JSON.
MAX_STORED_BYTES = 1_000_000
MAX_PAYLOAD_BYTES = 8_000_000
_READ_SPANS = f"""
SELECT k.n, {", ".join(f"s.{name}" for name in SPAN_COLUMNS.split(", "))}, data,
  CASE WHEN pg_column_size(payload) <= %s THEN payload END
FROM unnest(%s::uuid[], %s::date[], %s::bigint[], %s::bigint[]) WITH ORDINALITY k (key, day, after, upto, n)
JOIN ingest_span s ON s.session_key = k.key AND s.session_day = k.day AND s.seq > k.after AND s.seq <= k.upto
WHERE s.cell = %s
ORDER BY k.n, s.seq LIMIT %s
"""  # noqa: S608 - constants


def run_once() -> bool:
    """Index a batch of each cell that has changes. Return True if there may be more."""
    has_more = False
    counts = dict(Project.objects.order_by("pk").values_list("pk", "cell_count"))
    learn(counts.items())
    for cell in cells_of(*counts):
        has_more = index_batch(cell) or has_more
    return has_more


def catch_up(project_id: int) -> None:
    """Index everything that a project contains now."""
    for cell in cells_of(project_id):
        while index_batch(cell):
            pass


def index_batch(cell: int) -> bool:
    """Index the next batch of one cell in one transaction. Return True if there may be more."""
    state = SearchState.objects.filter(cell=cell).first() or SearchState(cell=cell)
    changed = Session.objects.filter(cell=cell, last_seq__gt=state.seq).order_by("last_seq", "session_key")
    sessions = list(changed[:_SESSIONS])
    if not sessions:
        return False
    with transaction.atomic(), connection.cursor() as cursor:
        if not try_lock(cursor, "search index"):
            return False
        # Another process may have indexed this batch before the lock was free.
        current = SearchState.objects.filter(cell=cell).first()
        if current is not None and current.seq != state.seq:
            return True
        search_index.create_partitions(cursor, {session.day for session in sessions})
        complete_seq, is_complete = _index_sessions(cursor, sessions)
        if complete_seq is not None:
            state.seq = complete_seq
            state.save()
    return not is_complete or len(sessions) == _SESSIONS


def _index_sessions(cursor: CursorWrapper, sessions: Sequence[Session]) -> tuple[int | None, bool]:
    """Index the new spans of sessions. Return the last number of the last complete session, and if all are complete."""
    progress = search_index.progress(cursor, sessions[0].cell, sessions)
    rows = _read_spans(cursor, sessions, progress)
    is_complete = len(rows) < _SPANS
    # The last session that was read may have more spans than this batch.
    last = len(sessions) if is_complete else rows[-1][0]
    complete_seq = None
    for number, session in enumerate(sessions[:last], start=1):
        spans = [(span, payload) for position, span, payload in rows if position == number]
        seq = session.last_seq if is_complete or number < last else spans[-1][0].seq
        _index_session(cursor, session, spans, seq)
        if seq == session.last_seq:
            complete_seq = seq
    return complete_seq, is_complete


def _read_spans(
    cursor: CursorWrapper, sessions: Sequence[Session], progress: dict[UUID, int]
) -> list[tuple[int, SpanRow, Any]]:
    values: list[Any] = [
        MAX_STORED_BYTES,
        [session.session_key for session in sessions],
        [session.day for session in sessions],
        [progress.get(session.session_key, 0) for session in sessions],
        [session.last_seq for session in sessions],
        sessions[0].cell,
        _SPANS,
    ]
    cursor.execute(_READ_SPANS, values)
    return [(row[0], span_row(row[1:12]), decode_up_to(row[12], MAX_PAYLOAD_BYTES)) for row in cursor.fetchall()]


def _index_session(cursor: CursorWrapper, session: Session, spans: Sequence[tuple[SpanRow, Any]], seq: int) -> None:
    documents = _new_documents(cursor, session, spans)
    texts = _stored_texts(cursor, session.cell, [document.message for _, document in documents if document.message])
    entries = [
        _entry(session.project_id, span, document, texts.get(document.message or b"", ()))
        for span, document in documents
    ]
    session_entry = _session_entry(session, [span for span, _ in spans], seq)
    search_index.write(cursor, session, [entry for entry in entries if entry.words], session_entry)


def _new_documents(
    cursor: CursorWrapper, session: Session, spans: Sequence[tuple[SpanRow, Any]]
) -> list[tuple[SpanRow, Document]]:
    """Return the documents of spans, without messages that are indexed: a prompt repeats those of the one before."""
    documents: dict[UUID, tuple[SpanRow, Document]] = {}
    for span, payload in spans:
        for document in span_documents(span, payload):
            documents.setdefault(document.item, (span, document))
    messages = [item for item, (_, document) in documents.items() if document.message is not None]
    for item in search_index.known_items(cursor, session, messages) if messages else ():
        del documents[item]
    return list(documents.values())


def _session_entry(session: Session, spans: Sequence[SpanRow], seq: int) -> Entry:
    names = words.words_of(_session_texts(session, spans))
    public = words.lexemes(names, project_id=session.project_id, kind=words.PUBLIC)
    values = Label.objects.filter(cell=session.cell, session_key=session.session_key).values_list("value", flat=True)
    hidden = words.words_of(set(values)) - names
    content = words.lexemes(hidden, project_id=session.project_id, kind=words.CONTENT)
    return Entry(SESSION_ITEM, seq, None, None, None, [*public, *content])


def _entry(project_id: int, span: SpanRow, document: Document, stored_texts: Iterable[str]) -> Entry:
    content = words.words_of((*document.texts, *stored_texts))
    ids = words.words_of(document.ids)
    return Entry(
        item=document.item,
        seq=span.seq,
        trace_id=span.trace_id,
        span_id=span.span_id,
        message=document.message,
        words=[
            *words.lexemes(content, project_id=project_id, kind=words.CONTENT),
            *words.lexemes(ids, project_id=project_id, kind=words.PUBLIC),
        ],
    )


def _stored_texts(cursor: CursorWrapper, cell: int, hashes: Sequence[bytes]) -> dict[bytes, list[str]]:
    """Return the texts of messages that are stored separately, by hash."""
    if not hashes:
        return {}
    cursor.execute(
        "SELECT hash, body, size FROM ingest_message WHERE cell = %s AND hash = ANY(%s)",
        [cell, list(hashes)],
    )
    return {bytes(digest): decode_message(body, size) for digest, body, size in cursor.fetchall()}


def decode_message(body: bytes, size: int) -> list[str]:
    """Return the texts of a stored message."""
    text = zstandard.ZstdDecompressor().decompress(bytes(body), max_output_size=size)
    return message_texts(msgspec.json.decode(text))


def _session_texts(session: Session, spans: Iterable[SpanRow]) -> Iterable[str]:
    """Return the ids, names and metadata of a session that everyone with access to it may see."""
    yield session.session_id
    yield session.model
    for trace in Trace.objects.filter(cell=session.cell, session_key=session.session_key).order_by("-seq")[:_TRACES]:
        yield trace.trace_id
        yield public_name("trace", trace.name)
        metadata = public_trace_metadata(trace.metadata)
        yield from (text for text in strings(metadata) if text != HIDDEN)
    for name in {public_name(span.kind, span.name) for span in spans}:
        if name != HIDDEN:
            yield name

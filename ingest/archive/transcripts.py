"""Archive pre-compact transcripts: texts stored once and compressed, steps linked by a hash chain.

A step is stored once and never replaced. Deleting a step removes its texts and appends a tombstone to the
chain, so that the archive always shows what it once contained.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import zstandard
from asgiref.sync import sync_to_async
from compact.redaction import MASK
from django.db import InterfaceError, InternalError, OperationalError, connection, transaction
from django.db.models import Max, QuerySet
from django.dispatch import Signal

from ingest import metrics
from ingest.archive.hash_chain import Link, format_time
from ingest.archive.link_clock import link_time
from ingest.archive.transcript_format import BadTranscript, Parsed, Redact, archived_line, parse_messages
from ingest.cells import cell_of_new, cells_of, learn, project_of
from ingest.decoding.door.redaction import redact_messages
from ingest.decoding.schema import CONTROL, SESSION_MAX_BYTES
from ingest.models import ChainLink, Content, Project, Session, Transcript, session_key

logger = logging.getLogger("ariadne.ingest")

BY_CLIENT = "client"
MAX_STEP = 2**31 - 1
# Texts fetched at a time when a transcript is read: a few megabytes of typical messages.
_READ_CHUNK = 200
# First half of a two-part advisory lock, distinct from the writer's. The second half is the project id.
_CONTENT_LOCK = 0x7E87
# Transcripts deleted in one transaction, which searches for unused texts once.
_EXPIRE_BATCH = 500

expired = Signal()
"""Sent after retention deleted transcripts, with `project`, `count` and `reason`. The audit log listens to it."""

_INSERT_TEXTS = """
INSERT INTO ingest_content (cell, hash, body, size, created_at)
VALUES (%s, unnest(%s::bytea[]), unnest(%s::bytea[]), unnest(%s::int[]), now())
ON CONFLICT DO NOTHING
"""
_DELETE_UNUSED_TEXTS = """
DELETE FROM ingest_content WHERE cell = %s AND hash = ANY(%s) AND hash NOT IN (
    SELECT substring(t.hashes FROM 1 + 32 * n FOR 32)
    FROM ingest_transcript t, generate_series(0, length(t.hashes) / 32 - 1) AS n
    WHERE t.cell = %s)
"""


class StepConflict(Exception):
    """The step is already archived with different content, or was deleted. `next_step` is the next free one."""

    def __init__(self, message: str, next_step: int) -> None:
        super().__init__(message)
        self.next_step = next_step


class LegalHold(Exception):
    """The project is under legal hold, so nothing can be deleted."""


@dataclass(frozen=True, slots=True)
class StoredTranscript:
    """Result of archiving a step."""

    session_key: uuid.UUID
    step: int
    sha256: str
    chain: str
    message_count: int
    size: int
    redactions: Mapping[str, int]
    created: bool


def _count_redactions(body: bytes, redacted: Mapping[str, int], reported: Mapping[str, int]) -> dict[str, int]:
    counts = Counter(redacted)
    counts.update(reported)
    # Redactions by the client can be counted, but their rules are unknown.
    if client_redactions := body.count(MASK.encode()):
        counts[BY_CLIENT] += client_redactions
    return dict(sorted(counts.items()))


def _find_step(cell: int, key: uuid.UUID, step: int, session_id: str, sha256: str) -> Transcript | None:
    """Return a step that is archived with these bytes, or None if the step is free. Otherwise raise `StepConflict`."""
    existing = Transcript.objects.filter(pk=(cell, key, step)).first()
    if existing is not None and existing.sent_sha256 != sha256:
        raise StepConflict(
            f"Step {step} of {session_id} is already archived with different content.", _next_step(cell, key)
        )
    deleted = ChainLink.objects.filter(cell=cell, session_key=key, step=step, kind=ChainLink.Kind.DELETED)
    if existing is None and deleted.exists():
        raise StepConflict(f"Step {step} of {session_id} was archived and then deleted.", _next_step(cell, key))
    return existing


def store(
    *,
    project_id: int,
    session_id: str,
    step: int,
    body: bytes,
    sha256: str,
    redact: Redact | None = None,
    parsed: Parsed | None = None,
    created_at: datetime | None = None,
    redactions: Mapping[str, int] | None = None,
) -> StoredTranscript:
    """Archive one step. `body` is its JSONL as sent and `sha256` the digest of these bytes.

    `parsed` is the result of `parse_messages` for this body, if it is known.

    The same bytes again change nothing. Other bytes for the same step raise `StepConflict`.
    """
    _check_arguments(session_id, step)
    if hashlib.sha256(body).hexdigest() != sha256.lower():
        raise BadTranscript("sha256", "does not match the body, which was truncated or changed in transit")
    ids, texts, redacted = parsed or parse_messages(body, redact or redact_messages)
    counts = _count_redactions(body, redacted, redactions or {})
    hashes = [hashlib.sha256(text).digest() for text in texts]
    lines = [archived_line(message_id, text) for message_id, text in zip(ids, texts, strict=True)]
    key = session_key(project_id, session_id)
    with transaction.atomic(), connection.cursor() as cursor:
        cell = _lock_session(cursor, project_id, key)
        _lock_chain(cursor, key)
        now = link_time(cursor)
        if existing := _find_step(cell, key, step, session_id, sha256.lower()):
            return _result(existing, created=False)
        _store_texts(cursor, cell, hashes, texts)
        transcript = Transcript(
            cell=cell,
            session_key=key,
            step=step,
            session_id=session_id,
            created_at=created_at or now,
            received_at=now,
            message_count=len(texts),
            size=sum(len(line) + 1 for line in lines),
            sha256=hashlib.sha256(b"".join(line + b"\n" for line in lines)).hexdigest(),
            sent_sha256=sha256.lower(),
            hashes=b"".join(hashes),
            ids=ids if any(ids) else None,
            redactions=counts,
        )
        manifest = {
            "created_at": format_time(transcript.created_at),
            "messages": transcript.message_count,
            "redactions": transcript.redactions,
            "sent_sha256": transcript.sent_sha256,
        }
        transcript.chain = _append_link(transcript, ChainLink.Kind.STORED, now, manifest)
        transcript.save(force_insert=True)
    return _result(transcript, created=True)


async def astore(**arguments: Any) -> StoredTranscript:
    """Run `store` on a thread. Raise `ConnectionError` if the database is unavailable or cannot write."""

    def run() -> StoredTranscript:
        try:
            return store(**arguments)
        except (InterfaceError, InternalError, OperationalError) as error:
            raise ConnectionError("The database is unavailable.") from error
        finally:
            connection.close()

    return await sync_to_async(run, thread_sensitive=False)()


def lines(transcript: Transcript, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """Yield the archived lines without newlines. Raise `KeyError` for a text that is missing or was changed."""
    hashes = message_hashes(transcript)
    stop = len(hashes) if stop is None else min(stop, len(hashes))
    ids: Sequence[str | None] = transcript.ids or [None] * len(hashes)
    for first in range(start, stop, _READ_CHUNK):
        chunk = slice(first, min(first + _READ_CHUNK, stop))
        texts = read_texts(transcript.cell, hashes[chunk])
        for message_id, digest in zip(ids[chunk], hashes[chunk], strict=True):
            yield archived_line(message_id, texts[digest])


def read_texts(cell: int, hashes: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return canonical texts by hash. Texts that are missing or do not match their hash are left out."""
    decompressor = zstandard.ZstdDecompressor()
    rows = Content.objects.filter(cell=cell, hash__in=set(hashes)).values_list("hash", "body", "size")
    texts: dict[bytes, bytes] = {}
    for digest, body, size in rows:
        try:
            text = decompressor.decompress(bytes(body), max_output_size=size)
        except zstandard.ZstdError:
            continue
        if hashlib.sha256(text).digest() == bytes(digest):
            texts[bytes(digest)] = text
    return texts


def message_hashes(transcript: Transcript) -> list[bytes]:
    """Return the hashes of a transcript's messages, in order."""
    joined = bytes(transcript.hashes)
    return [joined[start : start + 32] for start in range(0, len(joined), 32)]


def delete(selected: Sequence[Transcript], *, reason: str, by: str) -> None:
    """Delete transcripts of one project and the texts that no other transcript uses.

    Each leaves a tombstone in its chain. Raise `LegalHold` if the project is under legal hold.
    """
    if not selected:
        return
    project_id = selected[0].project_id
    hashes: dict[int, set[bytes]] = {}
    with transaction.atomic(), connection.cursor() as cursor:
        # The row lock makes a concurrent change of the legal hold either visible here or wait for this transaction.
        project = Project.objects.select_for_update().get(pk=project_id)
        if project.legal_hold:
            raise LegalHold(f"{project} is under legal hold. Its transcripts can't be deleted.")
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [_CONTENT_LOCK, project_id])
        for transcript in sorted(selected, key=lambda t: (t.session_key, t.step)):
            _lock_chain(cursor, transcript.session_key)
            current = Transcript.objects.filter(pk=transcript.pk).first()
            if current is None:
                continue
            hashes.setdefault(current.cell, set()).update(message_hashes(current))
            _append_link(current, ChainLink.Kind.DELETED, link_time(cursor), {"by": by, "reason": reason})
            current.delete()
        for cell, unused in hashes.items():
            cursor.execute(_DELETE_UNUSED_TEXTS, [cell, list(unused), cell])


def expire(cutoffs: Mapping[int, date]) -> dict[Project, int]:
    """Delete the transcripts received before a day, by project, and return their number. Honors legal holds."""
    counts = count_expired(cutoffs)
    for project, count in counts.items():
        cutoff = cutoffs[project.pk]
        reason = f"received before {cutoff}, kept for {project.retention_days} days"
        while batch := list(_received_before(project, cutoff)[:_EXPIRE_BATCH]):
            delete(batch, reason=reason, by="retention")
        metrics.retention_deleted.labels("transcripts").inc(count)
        logger.warning("retention_deleted project=%d target='before %s' transcripts=%d", project.pk, cutoff, count)
        expired.send(Project, project=project, count=count, reason=reason)
    return counts


def count_expired(cutoffs: Mapping[int, date]) -> dict[Project, int]:
    """Return the number of transcripts received before a day, for projects that have any."""
    projects = Project.objects.filter(pk__in=cutoffs, retention_days__isnull=False, legal_hold=False)
    counts = {project: _received_before(project, cutoffs[project.pk]).count() for project in projects}
    return {project: count for project, count in counts.items() if count}


def _received_before(project: Project, day: date) -> QuerySet[Transcript]:
    moment = datetime.combine(day, datetime.min.time(), UTC)
    return Transcript.objects.filter(cell__in=cells_of(project.pk), received_at__lt=moment).order_by("received_at")


def _check_arguments(session_id: str, step: int) -> None:
    if not session_id or len(session_id.encode()) > SESSION_MAX_BYTES or CONTROL.search(session_id):
        raise BadTranscript("session", f"must have 1 to {SESSION_MAX_BYTES} bytes and no control characters")
    if not 0 <= step <= MAX_STEP:
        raise BadTranscript("step", f"must be between 0 and {MAX_STEP}")


def _next_step(cell: int, key: uuid.UUID) -> int:
    """Return the first step after all that the session's chain has, also after deleted ones."""
    last = ChainLink.objects.filter(cell=cell, session_key=key).aggregate(Max("step"))["step__max"]
    return 1 if last is None else last + 1


def _lock_session(cursor: Any, project_id: int, key: uuid.UUID) -> int:
    """Return the cell of a session, and lock it if a commit could store the session in another one concurrently."""
    learn(Project.objects.filter(pk=project_id).values_list("pk", "cell_count"))
    cells = cells_of(project_id)
    if len(cells) == 1:
        return cells[0]
    cursor.execute("SELECT 1 FROM ingest_cell WHERE cell = ANY(%s) ORDER BY cell FOR UPDATE", [cells])
    stored = Session.objects.filter(cell__in=cells, session_key=key).values_list("cell", flat=True)
    chained = ChainLink.objects.filter(cell__in=cells, session_key=key).values_list("cell", flat=True)
    return stored.first() or chained.first() or cell_of_new(cells, key)


def _lock_chain(cursor: Any, key: uuid.UUID) -> None:
    cursor.execute("SELECT pg_advisory_xact_lock(%s)", [int.from_bytes(key.bytes[:8], "big", signed=True)])


def _store_texts(cursor: Any, cell: int, hashes: list[bytes], texts: list[bytes]) -> None:
    # A shared lock: many transactions may add texts at once, but not while `delete` searches for unused ones.
    cursor.execute("SELECT pg_advisory_xact_lock_shared(%s, %s)", [_CONTENT_LOCK, project_of(cell)])
    missing = dict(zip(hashes, texts, strict=True))
    cursor.execute("SELECT hash FROM ingest_content WHERE cell = %s AND hash = ANY(%s)", [cell, list(missing)])
    for (digest,) in cursor.fetchall():
        del missing[bytes(digest)]
    compressor = zstandard.ZstdCompressor(level=6)
    # Ordered by hash, so that two transactions with the same texts cannot deadlock.
    rows = [(digest, compressor.compress(text), len(text)) for digest, text in sorted(missing.items())]
    if rows:
        digests, bodies, sizes = (list(column) for column in zip(*rows, strict=True))
        cursor.execute(_INSERT_TEXTS, [cell, digests, bodies, sizes])


def _append_link(transcript: Transcript, kind: str, now: datetime, manifest: Mapping[str, Any]) -> str:
    """Append a link to the session's chain and return its hash."""
    chain = ChainLink.objects.filter(cell=transcript.cell, session_key=transcript.session_key)
    last = chain.order_by("-position").first()
    link = Link(
        project=transcript.project_id,
        session=transcript.session_id,
        position=last.position + 1 if last else 0,
        kind=str(kind),
        step=transcript.step,
        time=format_time(now),
        sha256=transcript.sha256,
        manifest=manifest,
        previous=last.chain if last else "",
    )
    ChainLink.objects.create(
        cell=transcript.cell,
        session_key=transcript.session_key,
        position=link.position,
        session_id=link.session,
        kind=link.kind,
        step=link.step,
        time=now,
        sha256=link.sha256,
        manifest=link.manifest,
        previous=link.previous,
        chain=link.hash(),
    )
    return link.hash()


def _result(transcript: Transcript, *, created: bool) -> StoredTranscript:
    return StoredTranscript(
        session_key=transcript.session_key,
        step=transcript.step,
        sha256=transcript.sha256,
        chain=transcript.chain,
        message_count=transcript.message_count,
        size=transcript.size,
        redactions=transcript.redactions,
        created=created,
    )

"""The archive of pre-compact transcripts: texts kept once, compressed; every step chained to the one before it.

A step is stored once and never replaced. Deleting one removes its texts and adds a tombstone to the chain, so that
the archive always says what it once held.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import zstandard
from asgiref.sync import sync_to_async
from compact.redaction import MASK, default_redactor
from django.db import InterfaceError, InternalError, OperationalError, connection, transaction
from django.dispatch import Signal
from django.utils import timezone

from ingest.archive.hash_chain import Link, canonical, spell
from ingest.decoding.json_body import sound
from ingest.decoding.schema import MAX_DEPTH, SESSION_MAX_BYTES, is_deep
from ingest.models import ChainLink, Content, Project, Transcript, session_key

Redact = Callable[[Any], tuple[Any, Mapping[str, int]]]

BY_CLIENT = "client"
MAX_STEP = 2**31 - 1
# Texts fetched at a time while a transcript is read: a few megabytes of typical messages.
_READ_CHUNK = 200
# The first half of a two-part advisory lock; the second is the project. Its own space, apart from the writer's locks.
_CONTENT_LOCK = 0x7E87


_NO_NUMBER = "holds NaN, an infinity, or a number beyond all numbers"
# One transaction deletes this many, and looks once for texts that nobody uses any more.
_EXPIRE_BATCH = 500

# Sent with project, count and reason: whoever keeps a log of what was done listens.
expired = Signal()


class BadTranscript(ValueError):
    """Nothing was stored; `path` says where it is wrong."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


class Conflict(Exception):
    """This step is already archived with another text, or was deleted: an archive does not change its mind."""


class Held(Exception):
    """A legal hold forbids it."""


@dataclass(frozen=True, slots=True)
class Stored:
    session_key: uuid.UUID
    step: int
    sha256: str
    chain: str
    message_count: int
    size: int
    redactions: Mapping[str, int]
    created: bool


def store(
    *,
    project_id: int,
    session_id: str,
    step: int,
    body: bytes,
    sha256: str,
    redact: Redact | None = None,
    created_at: datetime | None = None,
    redactions: Mapping[str, int] | None = None,
) -> Stored:
    """Archive one step: `body` is its JSONL as sent, `sha256` the digest of exactly those bytes.

    The same bytes again change nothing; other bytes for the same step are a `Conflict`.
    """
    _check_name(session_id, step)
    if hashlib.sha256(body).hexdigest() != sha256.lower():
        raise BadTranscript("sha256", "is not the digest of the body: it was cut or changed on the way")
    ids, texts, counts = _messages(body, redact or default_redactor().tree)
    counts.update(redactions or {})
    # What the client hid before it sent: how often, though not by which rule.
    if hidden := body.count(MASK.encode()):
        counts[BY_CLIENT] += hidden
    hashes = [hashlib.sha256(text).digest() for text in texts]
    sent = [line_of(message_id, text) for message_id, text in zip(ids, texts, strict=True)]
    key = session_key(project_id, session_id)
    now = timezone.now()
    with transaction.atomic(), connection.cursor() as cursor:
        _lock_chain(cursor, key)
        if existing := Transcript.objects.filter(session_key=key, step=step).first():
            if existing.sent_sha256 != sha256.lower():
                raise Conflict(f"step {step} of {session_id} is archived with another text")
            return _stored(existing, created=False)
        if ChainLink.objects.filter(session_key=key, step=step, kind=ChainLink.Kind.DELETED).exists():
            raise Conflict(f"step {step} of {session_id} was archived and deleted")
        _keep_texts(cursor, project_id, hashes, texts)
        transcript = Transcript(
            session_key=key,
            step=step,
            project_id=project_id,
            session_id=session_id,
            created_at=created_at or now,
            received_at=now,
            message_count=len(texts),
            size=sum(len(line) + 1 for line in sent),
            sha256=hashlib.sha256(b"".join(line + b"\n" for line in sent)).hexdigest(),
            sent_sha256=sha256.lower(),
            hashes=b"".join(hashes),
            ids=ids if any(ids) else None,
            redactions=dict(sorted(counts.items())),
        )
        manifest = {
            "created_at": spell(transcript.created_at),
            "messages": transcript.message_count,
            "redactions": transcript.redactions,
            "sent_sha256": transcript.sent_sha256,
        }
        transcript.chain = _append(transcript, ChainLink.Kind.STORED, now, manifest)
        transcript.save(force_insert=True)
    return _stored(transcript, created=True)


async def astore(**arguments: Any) -> Stored:
    """`store`, from the event loop: on a thread of its own, with a connection it gives back.

    A database that is away, or takes nothing, is a `ConnectionError`, as for the rest of the asynchronous write path.
    """

    def run() -> Stored:
        try:
            return store(**arguments)
        except (InterfaceError, InternalError, OperationalError) as error:
            raise ConnectionError("the database is away") from error
        finally:
            connection.close()

    return await sync_to_async(run, thread_sensitive=False)()


def lines(transcript: Transcript, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """The archived JSONL, line by line, each without its newline. A text that is gone or changed raises KeyError."""
    hashes = message_hashes(transcript)
    stop = len(hashes) if stop is None else min(stop, len(hashes))
    ids: Sequence[str | None] = transcript.ids or [None] * len(hashes)
    for at in range(start, stop, _READ_CHUNK):
        chunk = slice(at, min(at + _READ_CHUNK, stop))
        texts = read_texts(transcript.project_id, hashes[chunk])
        for message_id, digest in zip(ids[chunk], hashes[chunk], strict=True):
            yield line_of(message_id, texts[digest])


def read_texts(project_id: int, hashes: Sequence[bytes]) -> dict[bytes, bytes]:
    """Canonical JSON by hash; what is not stored, or no longer what its hash says, is left out."""
    unpack = zstandard.ZstdDecompressor()
    rows = Content.objects.filter(project_id=project_id, hash__in=set(hashes)).values_list("hash", "body", "size")
    texts: dict[bytes, bytes] = {}
    for digest, body, size in rows:
        try:
            text = unpack.decompress(bytes(body), max_output_size=size)
        except zstandard.ZstdError:
            continue
        if hashlib.sha256(text).digest() == bytes(digest):
            texts[bytes(digest)] = text
    return texts


def message_hashes(transcript: Transcript) -> list[bytes]:
    packed = bytes(transcript.hashes)
    return [packed[at : at + 32] for at in range(0, len(packed), 32)]


def delete(doomed: Sequence[Transcript], *, reason: str, by: str) -> None:
    """Remove transcripts of one project and the texts nothing else uses; each leaves a tombstone in its chain.

    Nothing of a project under legal hold is removed: `Held`.
    """
    if not doomed:
        return
    project_id = doomed[0].project_id
    hashes: set[bytes] = set()
    with transaction.atomic(), connection.cursor() as cursor:
        # Locked, so that a hold set this moment either stops us or waits until we are done.
        project = Project.objects.select_for_update().get(pk=project_id)
        if project.legal_hold:
            raise Held(f"{project} is under legal hold: nothing of it is deleted")
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [_CONTENT_LOCK, project_id])
        for transcript in sorted(doomed, key=lambda t: (t.session_key, t.step)):
            _lock_chain(cursor, transcript.session_key)
            current = Transcript.objects.filter(project_id=project_id, pk=transcript.pk).first()
            if current is None:
                continue
            hashes.update(message_hashes(current))
            _append(current, ChainLink.Kind.DELETED, timezone.now(), {"by": by, "reason": reason})
            current.delete()
        cursor.execute(_DELETE_UNUSED, [project_id, list(hashes), project_id])


def expire(*, is_dry: bool = False) -> dict[Project, int]:
    """Delete what is older than its project keeps it; how many of each project. Legal holds are honoured."""
    gone: dict[Project, int] = {}
    for project in Project.objects.filter(retention_days__isnull=False, legal_hold=False):
        before = timezone.now() - timedelta(days=project.retention_days or 0)
        old = Transcript.objects.filter(project_id=project.pk, received_at__lt=before).order_by("received_at")
        gone[project] = old.count()
        if is_dry or not gone[project]:
            continue
        reason = f"older than {project.retention_days} days"
        while batch := list(old[:_EXPIRE_BATCH]):
            delete(batch, reason=reason, by="retention")
        expired.send(Project, project=project, count=gone[project], reason=reason)
    return gone


# A text goes only when no transcript left in the project names it.
_DELETE_UNUSED = """
DELETE FROM ingest_content WHERE project_id = %s AND hash = ANY(%s) AND hash NOT IN (
    SELECT substring(t.hashes FROM 1 + 32 * n FOR 32)
    FROM ingest_transcript t, generate_series(0, length(t.hashes) / 32 - 1) AS n
    WHERE t.project_id = %s)
"""


def _check_name(session_id: str, step: int) -> None:
    if not session_id or len(session_id.encode()) > SESSION_MAX_BYTES or "\x00" in session_id:
        raise BadTranscript("session", f"must be 1 to {SESSION_MAX_BYTES} bytes, none of them NUL")
    if not 0 <= step <= MAX_STEP:
        raise BadTranscript("step", f"must be 0 to {MAX_STEP}")


def _messages(body: bytes, redact: Redact) -> tuple[list[str | None], list[bytes], Counter[str]]:
    """Ids, canonical texts and what was redacted. A line's own `hash` is dropped: ours is computed."""
    ids: list[str | None] = []
    texts: list[bytes] = []
    counts: Counter[str] = Counter()
    for number, raw in enumerate(body.split(b"\n"), start=1):
        if not raw.strip():
            continue
        path = f"line {number}"
        if is_deep(raw):
            raise BadTranscript(path, f"is nested deeper than {MAX_DEPTH} levels")
        try:
            message = json.loads(raw, parse_constant=_no_constant)
        except json.JSONDecodeError as error:
            raise BadTranscript(path, f"is not JSON: {error.msg}, at character {error.pos + 1}") from None
        except UnicodeDecodeError:
            raise BadTranscript(path, "is not UTF-8") from None
        except ValueError:
            raise BadTranscript(path, _NO_NUMBER) from None
        if not isinstance(message, dict):
            raise BadTranscript(path, "is not a JSON object")
        message, found = redact(message)
        message_id = message.pop("id", None)
        message.pop("hash", None)
        ids.append(None if message_id is None else sound(str(message_id)))
        try:
            texts.append(canonical(message))
        except ValueError:
            raise BadTranscript(path, _NO_NUMBER) from None
        counts.update(found)
    if not texts:
        raise BadTranscript("body", "holds no message")
    return ids, texts, counts


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def line_of(message_id: str | None, text: bytes) -> bytes:
    """A stored text with its id in front, which keeps the text itself the same wherever it was sent."""
    if message_id is None:
        return text
    head = b'{"id":' + canonical(message_id)
    return head + (b"}" if text == b"{}" else b"," + text[1:])


def _lock_chain(cursor: Any, key: uuid.UUID) -> None:
    cursor.execute("SELECT pg_advisory_xact_lock(%s)", [int.from_bytes(key.bytes[:8], "big", signed=True)])


def _keep_texts(cursor: Any, project_id: int, hashes: list[bytes], texts: list[bytes]) -> None:
    # Shared: many may add at once, but none while `delete` looks for texts that nobody uses.
    cursor.execute("SELECT pg_advisory_xact_lock_shared(%s, %s)", [_CONTENT_LOCK, project_id])
    wanted = dict(zip(hashes, texts, strict=True))
    cursor.execute(
        "SELECT hash FROM ingest_content WHERE project_id = %s AND hash = ANY(%s)", [project_id, list(wanted)]
    )
    for (known,) in cursor.fetchall():
        del wanted[bytes(known)]
    pack = zstandard.ZstdCompressor(level=6)
    # In order of hash, so that two writers of the same texts never wait for each other in a circle.
    rows = [(digest, pack.compress(text), len(text)) for digest, text in sorted(wanted.items())]
    if rows:
        digests, bodies, sizes = (list(column) for column in zip(*rows, strict=True))
        cursor.execute(
            "INSERT INTO ingest_content (hash, project_id, body, size, created_at)"
            " SELECT h, %s, b, s, now() FROM unnest(%s::bytea[], %s::bytea[], %s::int[]) AS t(h, b, s)"
            " ON CONFLICT DO NOTHING",
            [project_id, digests, bodies, sizes],
        )


def _append(transcript: Transcript, kind: str, now: datetime, manifest: Mapping[str, Any]) -> str:
    last = ChainLink.objects.filter(session_key=transcript.session_key).order_by("-position").first()
    link = Link(
        project=transcript.project_id,
        session=transcript.session_id,
        position=last.position + 1 if last else 0,
        kind=str(kind),
        step=transcript.step,
        time=spell(now),
        sha256=transcript.sha256,
        manifest=manifest,
        previous=last.chain if last else "",
    )
    ChainLink.objects.create(
        session_key=transcript.session_key,
        position=link.position,
        project_id=link.project,
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


def _stored(transcript: Transcript, *, created: bool) -> Stored:
    return Stored(
        session_key=transcript.session_key,
        step=transcript.step,
        sha256=transcript.sha256,
        chain=transcript.chain,
        message_count=transcript.message_count,
        size=transcript.size,
        redactions=transcript.redactions,
        created=created,
    )

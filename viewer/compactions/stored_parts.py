"""Store the parts of compaction pages, so that a page does not compute them.

The index process computes them after a compaction has arrived (`store_arrivals`). A page whose parts are missing or
outdated computes and stores them itself. Content is stored apart from what everyone may see.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import msgspec
import zstandard
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, OuterRef, QuerySet

from ingest.models import Project, Session
from viewer.compactions import queries
from viewer.compactions.lineage import previous_summary
from viewer.compactions.page_parts import ContentParts, PublicParts, Sources, all_lines, build
from viewer.kinds import PRUNED, RETENTION, SUMMARY
from viewer.live.queries import sessions_after
from viewer.models import CompactionArrivals, CompactionParts
from viewer.sessions.checks import Check
from viewer.sessions.queries import checks as session_checks

# Earlier compactions of a session have been stored when they arrived, or are stored when a user opens them.
_NEWEST = 20
_log = logging.getLogger("ariadne.compactions")
Parts = TypeVar("Parts", PublicParts, ContentParts)
_KINDS = [PRUNED, SUMMARY, RETENTION]
# What the parts are computed with. If one of these files changes, all parts are outdated.
_VIEWER = Path(__file__).resolve().parents[1]
_CODE = ("compactions", "visibility", "templatetags", "chat.py", "kinds.py", "numbers.py")
_CHANGED_SESSIONS = """
SELECT DISTINCT k.key FROM unnest(%s::uuid[], %s::date[], %s::bigint[]) k (key, day, upto)
JOIN ingest_span s ON s.session_key = k.key AND s.session_day = k.day AND s.seq > %s AND s.seq <= k.upto
WHERE s.kind = ANY(%s)
"""
_TRY_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('compaction parts'))"
_STORE = """
INSERT INTO viewer_compactionparts (session_key, number, project_id, version, public, content)
VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (session_key, number) DO UPDATE
SET project_id = excluded.project_id, version = excluded.version, public = excluded.public, content = excluded.content
"""


def read_parts(
    session: Session, compactions: Sequence[Check], number: int, *, has_content: bool
) -> tuple[PublicParts, ContentParts | None]:
    """Return the parts of compaction `number` of a session. Readers without the right get no content."""
    version = _version(_sources(compactions, number))
    columns = ("public", "content") if has_content else ("public",)
    stored = CompactionParts.objects.filter(
        session_key=session.session_key, number=number, project_id=session.project_id, version=version
    )
    row = stored.values_list(*columns).first()
    if row is not None:
        public = _decode(row[0], PublicParts)
        return public, _decode(row[1], ContentParts) if has_content else None
    public, content = _compute(session, number)
    return public, content if has_content else None


def read_all_lines(session: Session, compactions: Sequence[Check], number: int) -> str:
    """Return all lines of a summary as HTML. Those of a very long one are not stored."""
    sources = _sources(compactions, number)
    return all_lines(sources, queries.payloads(session, list(sources)))


def store_arrivals() -> None:
    """Compute the parts of compactions that arrived in any project. One process at a time does it."""
    for project_id in Project.objects.order_by("pk").values_list("pk", flat=True):
        _store_changes(project_id)


def delete_expired(sender: Any, session_keys: QuerySet[Session, Any], **_: Any) -> None:
    """Delete the parts of expired sessions, and of sessions that no longer exist."""
    CompactionParts.objects.filter(session_key__in=session_keys).delete()
    sessions = Session.objects.filter(session_key=OuterRef("session_key"))
    CompactionParts.objects.filter(~Exists(sessions)).delete()


def _store_changes(project_id: int) -> None:
    """Store the parts of compactions that changed in a project since the last call, in one transaction."""
    state = CompactionArrivals.objects.filter(project_id=project_id).first() or CompactionArrivals(
        project_id=project_id
    )
    sessions = sessions_after(project_id, state.seq)
    if not sessions:
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_TRY_LOCK)
        (is_locked,) = cursor.fetchone() or (False,)
        if not is_locked:
            return
        keys = _sessions_with_compactions(sessions, state.seq)
        for session in sessions:
            if session.session_key in keys:
                _store_newest(session)
        state.seq = sessions[-1].last_seq
        state.save()


def _sessions_with_compactions(sessions: Sequence[Session], after: int) -> set[UUID]:
    """Return the keys of the sessions in which something of a compaction arrived."""
    with connection.cursor() as cursor:
        cursor.execute(
            _CHANGED_SESSIONS,
            [
                [session.session_key for session in sessions],
                [session.day for session in sessions],
                [session.last_seq for session in sessions],
                after,
                _KINDS,
            ],
        )
        return {key for (key,) in cursor.fetchall()}


def _store_newest(session: Session) -> None:
    compactions = session_checks(session).compactions()
    stored = CompactionParts.objects.filter(session_key=session.session_key).order_by("-number")
    versions = dict(stored.values_list("number", "version")[:_NEWEST])
    for number in range(max(1, len(compactions) - _NEWEST + 1), len(compactions) + 1):
        if versions.get(number) == _version(_sources(compactions, number)):
            continue
        try:
            with transaction.atomic():
                _compute(session, number)
        except (ValueError, TypeError) as error:  # of content that no page can show. It must not stop the others
            _log.warning("compaction_parts_failed session=%s number=%s %s", session.session_key, number, error)


def _compute(session: Session, number: int) -> tuple[PublicParts, ContentParts]:
    """Compute and store the parts of a compaction. They do not depend on who asks for them.

    Parts of payloads that cannot be read are not stored.
    """
    sources = _sources(session_checks(session).compactions(), number)
    spans = list(sources)
    public, content = build(sources, queries.payloads(session, spans) if spans else {})
    if public.unreadable:
        # The same spans may be readable later: from a backup, or by a newer version of the server.
        return public, content
    key, version = session.session_key, _version(sources)
    with connection.cursor() as cursor:
        cursor.execute(_STORE, [key, number, session.project_id, version, _encode(public), _encode(content)])
    return public, content


def _sources(compactions: Sequence[Check], number: int) -> Sources:
    return Sources.of(number, compactions[number - 1], previous_summary(compactions, number))


def _version(sources: Sources) -> str:
    """Return a digest of the code and of the spans' versions. It changes with the parts."""
    spans = [(span.key, span.seq) for span in sources]
    return hashlib.sha256(repr((_code_digest(), spans, sources.sizes, sources.is_corrected)).encode()).hexdigest()


@cache
def _code_digest() -> str:
    digest = hashlib.sha256()
    for path in _files([*(_VIEWER / name for name in _CODE), settings.PAGES / "templates" / "compactions"]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _files(places: Iterable[Path]) -> Iterable[Path]:
    for place in places:
        yield from sorted((*place.glob("*.py"), *place.glob("*.html"))) if place.is_dir() else [place]


def _encode(parts: PublicParts | ContentParts) -> bytes:
    # msgspec does not encode Django's SafeString. A slice of it is an ordinary string.
    return zstandard.compress(msgspec.json.encode(parts, enc_hook=lambda html: html[:]))


def _decode(body: bytes, parts: type[Parts]) -> Parts:
    return msgspec.json.decode(zstandard.decompress(bytes(body)), type=parts)

"""Queries of live pages: changes of a project in the order of commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from django.db import connection

from ingest.cells import cells_of
from ingest.models import Project, Session
from viewer.sessions.queries import IN_SESSIONS, SPAN_COLUMNS, in_sessions, newest_sessions, span_row
from viewer.sessions.spans import SpanRow
from viewer.visibility.public_parts import Visibility

_NEWEST_SESSIONS = 20


def project_id(slug: str, allowed: Iterable[int]) -> int | None:
    return Project.objects.filter(slug=slug, pk__in=list(allowed)).values_list("pk", flat=True).first()


def has_session(session: Session) -> bool:
    return Session.objects.filter(pk=session.pk).exists()


def sessions_after(project_id: int, seq: int) -> list[Session]:
    """Return all sessions that changed after `seq`, oldest change first.

    There is no limit: a session that is left out could contain an older change.
    """
    changed = Session.objects.filter(cell__in=cells_of(project_id), last_seq__gt=seq)
    return list(changed.order_by("last_seq"))


def spans_between(
    sessions: Sequence[Session],
    after: int,
    upto: int,
    visibility: Visibility = Visibility.METADATA,
    *,
    limit: int,
) -> list[tuple[UUID, SpanRow]]:
    """Return the spans of these sessions that changed in (after, upto], in the order of commits."""
    if not sessions:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT session_key, {SPAN_COLUMNS}, data FROM ingest_span "  # noqa: S608 - constants
            f"WHERE {IN_SESSIONS} AND seq > %s AND seq <= %s ORDER BY seq LIMIT %s",
            [*in_sessions(sessions), after, upto, limit],
        )
        return [(row[0], span_row(row[1:]).as_seen(visibility)) for row in cursor.fetchall()]


def newest_spans(
    project: int, visibility: Visibility = Visibility.METADATA, *, limit: int
) -> list[tuple[Session, SpanRow]]:
    """Return the last changes of a project, oldest first, for a tail page that was just opened."""
    newest = newest_sessions(cells_of(project), _NEWEST_SESSIONS)
    sessions = {session.session_key: session for session in newest}
    if not sessions:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT session_key, {SPAN_COLUMNS}, data FROM ingest_span "  # noqa: S608 - constants
            f"WHERE {IN_SESSIONS} ORDER BY seq DESC LIMIT %s",
            [*in_sessions(sessions.values()), limit],
        )
        rows = cursor.fetchall()
    return [(sessions[row[0]], span_row(row[1:]).as_seen(visibility)) for row in reversed(rows)]

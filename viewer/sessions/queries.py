"""Queries of one session: spans, the span tree, checks and traces.

Callers have checked that the reader has access to the session. Content is hidden unless the caller asks for it with
`Visibility.CONTENT`, which only `viewer.audit.payload_views` grants.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

import msgspec
from django.db import connection
from django.db.models import QuerySet

from ingest.cells import cells_of
from ingest.decoding.span_stats import USAGE_KEYS
from ingest.decoding.tool_arguments import TOOL, tool_arguments
from ingest.models import Session, Trace, trace_key
from ingest.storage import payloads, sequence
from ingest.storage.messages import restore
from ingest.storage.payloads import decode_data, decode_fields
from viewer.kinds import GENERATION
from viewer.numbers import to_milliseconds
from viewer.sessions.checks import Check
from viewer.sessions.session_checks import SessionChecks
from viewer.sessions.spans import SpanRow
from viewer.visibility import public_parts
from viewer.visibility.public_parts import Visibility
from viewer.visibility.shapes import HIDDEN

_SEARCHED_SESSIONS = 1_000
_MAX_TRACES = 10_000
# More bars than a screen has columns, and as many as a page can load at once.
_MAX_CALLS = 5_000
# A client's ids may contain colons. Try this many ways to split a span name.
_MAX_SPLITS = 8
# A turn has a few calls. The tree lists all of them.
MAX_CHILDREN = 50
# Enough for one line about a tool call.
_MAX_ARGUMENT_CHARS = 2_000
SPAN_COLUMNS = "trace_id, span_id, parent_id, kind, name, status, started_at, ended_at, tokens, seq"
IN_SESSION = "cell = %s AND session_key = %s AND session_day = %s"
"""The condition for the spans of a session. `in_session` has its values."""
IN_SESSIONS = "cell = ANY(%s) AND session_key = ANY(%s) AND session_day = ANY(%s)"
"""The condition for the spans of sessions. `in_sessions` has its values."""
_SELECT = f"SELECT {SPAN_COLUMNS}, data FROM ingest_span "  # noqa: S608 - a constant

# Postgres builds the JSON: creating 100,000 Python rows would take three times as long. `date_part` returns a float,
# which is faster than the exact numeric of `extract`.
_TREE = """
SELECT json_build_object(
    'trace', CASE WHEN %(with_traces)s THEN coalesce(json_agg(trace_id), '[]') END,
    'id', coalesce(json_agg(span_id), '[]'),
    'parent', coalesce(json_agg(parent_id), '[]'),
    'kind', coalesce(json_agg({kind}), '[]'),
    'name', coalesce(json_agg({name}), '[]'),
    'status', coalesce(json_agg(status), '[]'),
    'start', coalesce(json_agg((date_part('epoch', started_at) * 1000)::bigint), '[]'),
    'end', coalesce(json_agg((date_part('epoch', ended_at) * 1000)::bigint), '[]'),
    'tokens', coalesce(json_agg(tokens), '[]'))::text
FROM ingest_span
WHERE cell = %(cell)s AND session_key = %(key)s AND session_day = %(day)s AND seq > %(after)s AND seq <= %(upto)s
"""
_TREES = {
    Visibility.CONTENT: _TREE.format(
        kind="kind", name="CASE WHEN octet_length(name) > 200 THEN left(name, 200) ELSE name END"
    ),
    # The same rules as in `public_parts`, which a test compares with this.
    Visibility.METADATA: _TREE.format(
        kind="CASE WHEN kind = '' OR kind ~ %(kind_pattern)s THEN kind ELSE %(hidden)s END",
        name="CASE WHEN name = '' OR name ~ %(name_pattern)s OR (kind = ANY(%(labeled_kinds)s) "
        "AND name ~ %(label_pattern)s) THEN name ELSE %(hidden)s END",
    ),
}

_REPEATED_CALLS = f"""
SELECT trace_id, span_id, started_at, earlier FROM (
    SELECT trace_id, span_id, started_at,
           lag(started_at) OVER (PARTITION BY name, arguments_hash ORDER BY started_at) AS earlier
    FROM ingest_span WHERE {IN_SESSION} AND kind = 'tool' AND started_at IS NOT NULL
      AND arguments_hash IS NOT NULL) calls
WHERE earlier IS NOT NULL ORDER BY started_at
"""  # noqa: S608 - constants


def in_session(session: Session) -> list[Any]:
    return [session.cell, session.session_key, session.day]


def in_sessions(sessions: Iterable[Session]) -> list[list[Any]]:
    """Cells and days repeat, so each is listed once."""
    cells, keys, days = zip(*map(in_session, sessions), strict=True)
    return [list(set(cells)), list(keys), list(set(days))]


def newest_sessions(
    cells: Iterable[int], limit: int, sessions: QuerySet[Session, Any] | None = None
) -> QuerySet[Session, Any]:
    """Return the sessions that changed last, newest first. They are the newest of each cell, merged."""
    rows = Session.objects.all() if sessions is None else sessions
    streams = [rows.filter(cell=cell).order_by("-last_seq")[:limit] for cell in cells]
    return merge(streams, limit, "-last_seq")


def merge(streams: Sequence[QuerySet[Session, Any]], limit: int, *order_by: str) -> QuerySet[Session, Any]:
    """Return the first rows of sorted queries. One query over all cells would have to sort every session."""
    if len(streams) < 2:
        return streams[0] if streams else Session.objects.none()
    return streams[0].union(*streams[1:], all=True).order_by(*order_by)[:limit]


def last_seq(project_id: int) -> int:
    """Return the number up to which a reader of a project may have seen all changes."""
    cells = cells_of(project_id)
    return newest_seq(cells[0]) if len(cells) == 1 else sequence.settle(cells)


def newest_seq(cell: int) -> int:
    """Return the number of the last change in a cell."""
    newest = Session.objects.filter(cell=cell).order_by("-last_seq").values_list("last_seq", flat=True)
    return newest.first() or 0


def tree_json(
    session: Session, visibility: Visibility = Visibility.METADATA, *, after: int = 0, with_traces: bool = True
) -> str:
    """Return all spans that changed after `after`, without data and payload, as a JSON object of columns.

    Without traces, the `trace` column is null: most sessions have one trace, whose id need not be repeated.
    """
    values: dict[str, Any] = {
        "with_traces": with_traces,
        "cell": session.cell,
        "key": session.session_key,
        "day": session.day,
        "after": after,
        "upto": session.last_seq,
        "hidden": HIDDEN,
        "kind_pattern": public_parts.KIND_PATTERN,
        "name_pattern": public_parts.NAME_PATTERN,
        "labeled_kinds": list(public_parts.LABELED_KINDS),
        "label_pattern": public_parts.LABELED_NAME_PATTERN,
    }
    with connection.cursor() as cursor:
        cursor.execute(_TREES[visibility], values)
        return str(cursor.fetchone()[0])


def traces(session: Session, visibility: Visibility = Visibility.METADATA) -> list[dict[str, Any]]:
    rows = Trace.objects.filter(cell=session.cell, session_key=session.session_key).order_by("started_at", "trace_id")
    return [
        {
            "id": trace.trace_id,
            "name": trace.name if visibility is Visibility.CONTENT else public_parts.public_name("trace", trace.name),
            "start": to_milliseconds(trace.started_at),
            "end": to_milliseconds(trace.ended_at),
            "is_mixed": trace.is_mixed,
        }
        for trace in rows[:_MAX_TRACES]
    ]


def first_spans(session: Session, visibility: Visibility = Visibility.METADATA, *, limit: int) -> list[SpanRow]:
    """Return the first spans of a session, for the page without scripts."""
    return _fetch_spans(
        f"{_SELECT}WHERE {IN_SESSION} ORDER BY seq LIMIT %s",
        [*in_session(session), limit],
        visibility,
    )


def checks(session: Session, visibility: Visibility = Visibility.METADATA) -> SessionChecks:
    """Return the checks of a session. They are shared between requests, so do not add spans to them."""
    return _cached_checks(tuple(in_session(session)), session.last_seq, session.span_count, visibility)


@lru_cache(maxsize=16)
def _cached_checks(place: tuple[Any, ...], _last_seq: int, _span_count: int, visibility: Visibility) -> SessionChecks:
    # A commit changes `last_seq`. A trace that moves to another session changes the count.
    return _read_checks(place, visibility)


def fresh_checks(session: Session, visibility: Visibility = Visibility.METADATA) -> SessionChecks:
    """Return checks that the caller may add spans to."""
    return _read_checks(in_session(session), visibility)


def _read_checks(place: Sequence[Any], visibility: Visibility) -> SessionChecks:
    select_events = f"{_SELECT}WHERE {IN_SESSION} AND kind LIKE 'compact.%%' ORDER BY seq"
    checks = SessionChecks(_fetch_spans(select_events, [*place], visibility))
    if not checks.has_estimates:
        newest_calls = f"{_SELECT}WHERE {IN_SESSION} AND kind = %s ORDER BY seq DESC LIMIT %s"
        with connection.cursor() as cursor:
            cursor.execute(newest_calls, [*place, GENERATION, _MAX_CALLS])
            # Decode only the usage: the tool schemas in a call's data may be a hundred times as long.
            calls = [SpanRow(*[*row[:10], decode_fields(row[10], USAGE_KEYS)]) for row in cursor.fetchall()]
        checks.add([call.as_seen(visibility) for call in calls])
    return checks


def repeated_calls(session: Session, compactions: Iterable[Check]) -> list[str]:
    """Return the keys of tool calls that repeat a call from before a compaction, with the same arguments."""
    times = sorted(check.started_at for check in compactions if check.started_at)
    if not times:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_REPEATED_CALLS, in_session(session))
        rows = cursor.fetchall()
    return [f"{trace}:{span}" for trace, span, at, earlier in rows if bisect(times, earlier) < bisect(times, at)]


def spans_with_arguments(session: Session, keys: Iterable[str]) -> list[tuple[SpanRow, str | None]]:
    """Return spans by their keys, with their content and the first characters of their arguments."""
    wanted = set(keys)
    ids = sorted({span_id for key in wanted for _, span_id in split_name(key)[:_MAX_SPLITS]})
    payload = "CASE WHEN kind = 'tool' THEN payload END"
    select = f"SELECT {SPAN_COLUMNS}, data, {payload} FROM ingest_span "  # noqa: S608 - constants
    with connection.cursor() as cursor:
        cursor.execute(f"{select}WHERE {IN_SESSION} AND span_id = ANY(%s)", [*in_session(session), ids])
        spans = [(span_row(row[:11]), row[11]) for row in cursor.fetchall()]
    return [(span, _first_arguments(span, payload)) for span, payload in spans if span.key in wanted]


def _first_arguments(span: SpanRow, stored_payload: bytes | None) -> str | None:
    if span.kind != TOOL:
        return None
    text = tool_arguments(span.data, payloads.decode(stored_payload))
    return text if text is None else text[:_MAX_ARGUMENT_CHARS]


def spans_page(
    session: Session,
    visibility: Visibility = Visibility.METADATA,
    *,
    after: int,
    limit: int,
    kind: str = "",
    status: str = "",
) -> list[SpanRow]:
    """Return a keyset page of spans in the order of seq."""
    return _fetch_spans(
        f"{_SELECT}WHERE {IN_SESSION} AND seq > %s "
        "AND (%s = '' OR kind = %s) AND (%s = '' OR status = %s) ORDER BY seq LIMIT %s",
        [*in_session(session), after, kind, kind, status, status, limit],
        visibility,
    )


@dataclass(frozen=True, slots=True)
class FullSpan:
    """A span with its payload."""

    row: SpanRow
    has_payload: bool
    payload: Any

    def as_seen(self, visibility: Visibility) -> FullSpan:
        """Return the span as a reader sees it."""
        if visibility is Visibility.CONTENT:
            return self
        payload = public_parts.public_payload(self.row.kind, self.payload)
        return FullSpan(self.row.as_seen(visibility), self.has_payload, payload)

    @property
    def has_content(self) -> bool:
        """True if the span contains anything that only readers with the right to view payloads see."""
        return self.as_seen(Visibility.METADATA) != self


def span(session: Session, name: str, *, with_payload: bool) -> FullSpan | None:
    """Return the span called `trace:span`, or with this span id, with its content. Callers apply `as_seen`."""
    payload = "payload" if with_payload else "NULL"
    select = f"SELECT {SPAN_COLUMNS}, data, payload IS NOT NULL, {payload} FROM ingest_span "  # noqa: S608 - constants
    where = f"WHERE {IN_SESSION} AND "
    conditions = [("trace_id = %s AND span_id = %s", pair) for pair in split_name(name)[:_MAX_SPLITS]]
    with connection.cursor() as cursor:
        for condition, values in [*conditions, ("span_id = %s", (name,))]:
            cursor.execute(select + where + condition + " LIMIT 1", [*in_session(session), *values])
            if row := cursor.fetchone():
                return _full_span(session, row)
    return None


def children(session: Session, parent: SpanRow) -> list[FullSpan]:
    """Return the model calls and tool calls of a turn in order, with their content."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {SPAN_COLUMNS}, data, payload IS NOT NULL, payload FROM ingest_span "  # noqa: S608 - constants
            f"WHERE {IN_SESSION} AND trace_id = %s AND parent_id = %s "
            "AND kind IN ('generation', 'tool') ORDER BY started_at, seq LIMIT %s",
            [*in_session(session), parent.trace_id, parent.span_id, MAX_CHILDREN],
        )
        rows = cursor.fetchall()
    return [_full_span(session, row) for row in rows]


def _full_span(session: Session, row: Sequence[Any]) -> FullSpan:
    return FullSpan(span_row(row[:11]), row[11], restore(session.cell, payloads.decode(row[12])))


def split_name(name: str) -> list[tuple[str, str]]:
    """Return every way to split `trace:span` into a trace id and a span id, longest trace id first."""
    parts = name.split(":")
    return [(":".join(parts[:at]), ":".join(parts[at:])) for at in range(len(parts) - 1, 0, -1)]


def session_of_trace(projects: Iterable[int], trace_id: str) -> Session | None:
    keys = {project: trace_key(project, trace_id) for project in projects}
    rows = Trace.objects.filter(cell__in=cells_of(*keys), trace_key__in=keys.values())
    trace = rows.order_by("-source", "seq").first()
    return Session.objects.filter(pk=(trace.cell, trace.session_key)).first() if trace else None


def session_of_span(projects: Iterable[int], span_id: str) -> Session | None:
    """Search the newest sessions for a span id. The index on span ids begins with the session."""
    newest = newest_sessions(cells_of(*projects), _SEARCHED_SESSIONS, Session.objects.only("day", "last_seq"))
    sessions = {session.session_key: session for session in newest}
    if not sessions:
        return None
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT cell, session_key FROM ingest_span WHERE {IN_SESSIONS} AND span_id = %s LIMIT 1",  # noqa: S608
            [*in_sessions(sessions.values()), span_id],
        )
        row = cursor.fetchone()
    return Session.objects.filter(pk=row).first() if row else None


def sessions_of(cells: Iterable[int], keys: Iterable[UUID]) -> dict[UUID, Session]:
    """Return the sessions with these keys in these cells."""
    sessions = Session.objects.filter(cell__in=list(cells), session_key__in=list(keys))
    return {session.session_key: session for session in sessions}


def _fetch_spans(sql: str, values: list[Any], visibility: Visibility) -> list[SpanRow]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return [span_row(row).as_seen(visibility) for row in cursor.fetchall()]


def span_row(row: Sequence[Any]) -> SpanRow:
    """Return a span from `SPAN_COLUMNS` and `DATA`, with its content."""
    return SpanRow(*[*row[:10], decode_data(row[10])])


def from_json(value: Any) -> Any:
    # Raw cursors of Django return jsonb as text.
    return msgspec.json.decode(value) if isinstance(value, str | bytes) else value

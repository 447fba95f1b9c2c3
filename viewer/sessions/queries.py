"""Every read, one function per question a screen asks.

Nothing here decides who may ask: callers pass the projects or the session that `access` granted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any
from uuid import UUID

import msgspec
from django.db import connection
from django.db.models import Count, F, Min, Q, QuerySet, Sum

from ingest.archive.transcripts import read_texts
from ingest.decoding.span_stats import USAGE_KEYS
from ingest.models import Project, Session, Trace, Transcript, trace_key
from ingest.storage.messages import restore
from viewer.compactions.ledger import Ledger, ledger
from viewer.kinds import GENERATION, PRUNED
from viewer.sessions.checks import Check
from viewer.sessions.session_checks import SessionChecks
from viewer.sessions.spans import SpanRow

PAGE_SIZE = 50
_SEARCHED_SESSIONS = 1_000
# More bars than a screen has columns, and no more than a page can load at once.
_DRAWN_CALLS = 5_000
SKELETON = "trace_id, span_id, parent_id, kind, name, status, started_at, ended_at, tokens, seq"
_ROWS = f"SELECT {SKELETON}, data FROM ingest_span "  # noqa: S608 - a constant

# Postgres builds the JSON: creating 100,000 Python rows would take three times as long. `date_part` returns a float,
# which is faster than the exact numeric of `extract`.
_TREE = """
SELECT json_build_object(
    'trace', CASE WHEN %s THEN coalesce(json_agg(trace_id), '[]') END,
    'id', coalesce(json_agg(span_id), '[]'),
    'parent', coalesce(json_agg(parent_id), '[]'),
    'kind', coalesce(json_agg(kind), '[]'),
    'name', coalesce(json_agg(CASE WHEN octet_length(name) > 200 THEN left(name, 200) ELSE name END), '[]'),
    'status', coalesce(json_agg(status), '[]'),
    'start', coalesce(json_agg((date_part('epoch', started_at) * 1000)::bigint), '[]'),
    'end', coalesce(json_agg((date_part('epoch', ended_at) * 1000)::bigint), '[]'),
    'tokens', coalesce(json_agg(tokens), '[]'))::text
FROM ingest_span WHERE session_key = %s AND session_day = %s AND seq > %s AND seq <= %s
"""


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """What the list shows, as its address says it."""

    q: str = ""
    model: str = ""
    state: str = ""
    before: tuple[int, UUID] | None = None

    @classmethod
    def from_query(cls, query: Mapping[str, Any]) -> SessionFilter:
        return cls(
            q=str(query.get("q", "")).strip()[:200],
            model=str(query.get("model", "")).strip()[:200],
            state=str(query.get("state", "")),
            before=_place(str(query.get("before", ""))),
        )

    def apply(self, sessions: QuerySet[Session]) -> QuerySet[Session]:
        if self.q:
            sessions = sessions.filter(Q(session_id__icontains=self.q) | Q(model__icontains=self.q))
        if self.model:
            sessions = sessions.filter(model=self.model)
        if self.state in STATES:
            sessions = sessions.filter(STATES[self.state])
        if self.before is not None:
            seq, key = self.before
            # Sessions of one commit may share a seq.
            sessions = sessions.filter(Q(last_seq__lt=seq) | Q(last_seq=seq, session_key__gt=key), last_seq__lte=seq)
        return sessions


def _place(text: str) -> tuple[int, UUID] | None:
    """Where a page begins: `seq.key` of the last row before it."""
    seq, _, key = text.partition(".")
    if not (seq.isascii() and seq.isdigit() and len(seq) < 19):
        return None
    try:
        return int(seq), UUID(key) if key else UUID(int=0)
    except ValueError:
        return None


# Within a tenth of the trigger the next turn or two will compact.
_NEAR_PCT = 0.9
STATES: dict[str, Q] = {
    "near": Q(trigger_tokens__gt=0, last_tokens__gte=F("trigger_tokens") * _NEAR_PCT),
    "running": Q(running_count__gt=0),
    "compacted": Q(compaction_count__gt=0),
    "errors": Q(error_count__gt=0),
    "fallback": Q(fallback_count__gt=0),
    "lossy": Q(worst_retention__lt=0.9),
}


def sessions_page(
    projects: Iterable[int], wanted: SessionFilter, *, limit: int = PAGE_SIZE
) -> tuple[list[Session], str | None]:
    """The newest sessions first, and the `before` of the next page."""
    page = list(_newest(projects, wanted, limit + 1))
    if len(page) <= limit:
        return page, None
    last = page[limit - 1]
    return page[:limit], f"{last.last_seq}.{last.session_key}"


def _newest(projects: Iterable[int], wanted: SessionFilter, limit: int) -> Iterable[Session]:
    """Project by project, each in the order of its index, then merged: together they would all be sorted."""
    each = [
        wanted.apply(Session.objects.filter(project_id=project)).order_by("-last_seq", "session_key")[:limit]
        for project in projects
    ]
    if len(each) < 2:
        return each[0] if each else []
    return each[0].union(*each[1:], all=True).order_by("-last_seq", "session_key")[:limit]


def sessions_after(project_id: int, seq: int) -> list[Session]:
    """Sessions that changed after `seq`, oldest change first. All of them: one left out could hold an older change."""
    return list(Session.objects.filter(project_id=project_id, last_seq__gt=seq).order_by("last_seq"))


def project_id(slug: str, allowed: Iterable[int]) -> int | None:
    return Project.objects.filter(slug=slug, pk__in=list(allowed)).values_list("pk", flat=True).first()


def has_session(session: Session) -> bool:
    return Session.objects.filter(session_key=session.session_key).exists()


def last_seq(project_id: int) -> int:
    newest = Session.objects.filter(project_id=project_id).order_by("-last_seq").values_list("last_seq", flat=True)
    return newest.first() or 0


@dataclass(frozen=True, slots=True)
class Fleet:
    """The newest sessions of a project at a glance."""

    sessions: int
    running: int
    near: int
    errors: int
    compactions: int
    fallbacks: int
    lossy: int
    worst_retention: float | None

    @property
    def fallback_pct(self) -> float:
        return self.fallbacks / self.compactions if self.compactions else 0.0


def fleet(projects: Iterable[int]) -> Fleet:
    """Over the newest thousand sessions, so that it costs the same in a small project and a large one."""
    row = (
        Session.objects.filter(project_id__in=list(projects))
        .order_by("-last_seq")[:1000]
        .aggregate(
            sessions=Count("pk"),
            running=Count("pk", filter=STATES["running"]),
            near=Count("pk", filter=STATES["near"]),
            errors=Count("pk", filter=STATES["errors"]),
            compactions=Sum("compaction_count", default=0),
            fallbacks=Sum("fallback_count", default=0),
            lossy=Count("pk", filter=STATES["lossy"]),
            worst_retention=Min("worst_retention"),
        )
    )
    return Fleet(**row)


def models_in(projects: Iterable[int]) -> list[str]:
    """The models of recent sessions, for the filter's menu."""
    recent = Session.objects.filter(project_id__in=list(projects)).order_by("-last_seq").values_list("model", flat=True)
    return sorted({model for model in recent[:500] if model})


def tree_json(session: Session, *, after: int = 0, with_traces: bool = True) -> str:
    """Return all spans that changed after `after`, without data and payload, as a JSON object of columns.

    Without traces, the `trace` column is null: most sessions have one trace, whose id need not be repeated.
    """
    with connection.cursor() as cursor:
        cursor.execute(_TREE, [with_traces, session.session_key, session.day, after, session.last_seq])
        return str(cursor.fetchone()[0])


def traces(session: Session) -> list[dict[str, Any]]:
    rows = Trace.objects.filter(session_key=session.session_key).order_by("started_at", "trace_id")
    return [
        {
            "id": trace.trace_id,
            "name": trace.name,
            "start": _ms(trace.started_at),
            "end": _ms(trace.ended_at),
            "is_mixed": trace.is_mixed,
        }
        for trace in rows[:10_000]
    ]


def titles(sessions: Sequence[Session]) -> dict[str, str]:
    """What the agents of these sessions call their work, by session id, where that is a trace's and says nothing."""
    keys = [trace_key(session.project_id, session.session_id) for session in sessions]
    return dict(Trace.objects.filter(trace_key__in=keys).exclude(name="").values_list("trace_id", "name"))


def first_spans(session: Session, *, limit: int) -> list[SpanRow]:
    """Where a session begins, for the page that needs no script."""
    return _spans(
        _ROWS + "WHERE session_key = %s AND session_day = %s ORDER BY seq LIMIT %s",
        [session.session_key, session.day, limit],
    )


def checks(session: Session) -> SessionChecks:
    """What weighed the session's prompts. To be read, not added to: the requests that draw one page share it."""
    return _checks_at(session.session_key, session.day, session.last_seq, session.span_count)


@lru_cache(maxsize=8)
def _checks_at(key: UUID, day: date, _seq: int, _count: int) -> SessionChecks:
    """A commit changes `last_seq`, moving a trace away the count: what neither changed has the same checks."""
    return _read_checks(key, day)


def fresh_checks(session: Session) -> SessionChecks:
    """The same, to be kept and added to."""
    return _read_checks(session.session_key, session.day)


def _read_checks(key: UUID, day: date) -> SessionChecks:
    mine = "WHERE session_key = %s AND session_day = %s "
    checks = SessionChecks(_spans(f"{_ROWS}{mine}AND kind LIKE 'compact.%%' ORDER BY seq", [key, day]))
    if not checks.has_estimates:
        usage = ", ".join(f"'{name}', data -> '{name}'" for name in USAGE_KEYS)
        # Tool schemas among the data of a call may be a hundred times as long as its usage.
        calls = f"SELECT {SKELETON}, jsonb_strip_nulls(jsonb_build_object({usage})) FROM ingest_span "  # noqa: S608
        checks.add(
            _spans(f"{calls}{mine}AND kind = %s ORDER BY seq DESC LIMIT %s", [key, day, GENERATION, _DRAWN_CALLS])
        )
    return checks


def spans_between(sessions: Sequence[Session], after: int, upto: int, *, limit: int) -> list[tuple[UUID, SpanRow]]:
    """Changes of these sessions in (after, upto], in the order of commits; at most `limit`."""
    if not sessions:
        return []
    keys, days = [session.session_key for session in sessions], list({session.day for session in sessions})
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT session_key, {SKELETON}, data FROM ingest_span WHERE session_key = ANY(%s) "  # noqa: S608
            "AND session_day = ANY(%s) AND seq > %s AND seq <= %s ORDER BY seq LIMIT %s",
            [keys, days, after, upto, limit],
        )
        return [(row[0], span_row(row[1:])) for row in cursor.fetchall()]


def newest_spans(project: int, *, limit: int) -> list[tuple[Session, SpanRow]]:
    """The last changes of a project, oldest first, for a tail that has just been opened."""
    sessions = {s.session_key: s for s in Session.objects.filter(project_id=project).order_by("-last_seq")[:20]}
    if not sessions:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT session_key, {SKELETON}, data FROM ingest_span WHERE session_key = ANY(%s) "  # noqa: S608
            "AND session_day = ANY(%s) ORDER BY seq DESC LIMIT %s",
            [list(sessions), list({s.day for s in sessions.values()}), limit],
        )
        rows = cursor.fetchall()
    return [(sessions[row[0]], span_row(row[1:])) for row in reversed(rows)]


def spans_page(session: Session, *, after: int, limit: int, kind: str = "", status: str = "") -> list[SpanRow]:
    """Spans by seq, for the API's keyset pages."""
    return _spans(
        _ROWS + "WHERE session_key = %s AND session_day = %s AND seq > %s "
        "AND (%s = '' OR kind = %s) AND (%s = '' OR status = %s) ORDER BY seq LIMIT %s",
        [session.session_key, session.day, after, kind, kind, status, status, limit],
    )


@dataclass(frozen=True, slots=True)
class FullSpan:
    row: SpanRow
    has_payload: bool
    payload: Any


def span(session: Session, name: str, *, with_payload: bool) -> FullSpan | None:
    """The span called `trace:span`, or by its span id alone. What of a payload may be shown, callers ask `access`."""
    payload = "payload" if with_payload else "NULL"
    head = f"SELECT {SKELETON}, data, payload IS NOT NULL, {payload} FROM ingest_span "  # noqa: S608 - constants
    mine = "WHERE session_key = %s AND session_day = %s AND "
    # Ids are the client's and may hold colons themselves, so every way to part the name is tried.
    parts = name.split(":")
    pairs = [(":".join(parts[:at]), ":".join(parts[at:])) for at in range(len(parts) - 1, 0, -1)]
    tries = [("trace_id = %s AND span_id = %s", list(pair)) for pair in pairs[:8]] + [("span_id = %s", [name])]
    with connection.cursor() as cursor:
        for condition, values in tries:
            cursor.execute(head + mine + condition + " LIMIT 1", [session.session_key, session.day, *values])
            if row := cursor.fetchone():
                return FullSpan(span_row(row[:11]), row[11], restore(session.project_id, from_json(row[12])))
    return None


def payloads(session: Session, spans: Iterable[SpanRow]) -> dict[str, Any]:
    """The payloads of some spans of a session, by the span's key."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT trace_id, span_id, payload FROM ingest_span WHERE session_key = %s AND session_day = %s "
            "AND span_id = ANY(%s) AND payload IS NOT NULL",
            [session.session_key, session.day, [span.span_id for span in spans]],
        )
        return {f"{trace}:{span}": from_json(payload) for trace, span, payload in cursor.fetchall()}


def payload(session: Session, span: SpanRow) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT payload FROM ingest_span WHERE session_key = %s AND session_day = %s "
            "AND trace_id = %s AND span_id = %s",
            [session.session_key, session.day, span.trace_id, span.span_id],
        )
        row = cursor.fetchone()
    return from_json(row[0]) if row else None


def fate_ledger(session: Session, check: Check) -> Ledger:
    span = check.span(PRUNED)
    return ledger(payload(session, span) if span else None)


def transcript(session: Session, step: int | None) -> Transcript | None:
    if step is None:
        return None
    return Transcript.objects.filter(session_key=session.session_key, step=step).first()


def message_text(session: Session, digest: str) -> str | None:
    """The stored text of a message, by its hash; nothing if it was never archived."""
    try:
        name = bytes.fromhex(digest)
    except ValueError:
        return None
    body = read_texts(session.project_id, [name]).get(name)
    return body.decode("utf-8", "replace") if body is not None else None


def children(session: Session, parent: SpanRow) -> list[SpanRow]:
    return _spans(
        _ROWS + "WHERE session_key = %s AND session_day = %s "
        "AND trace_id = %s AND parent_id = %s ORDER BY started_at NULLS LAST, seq LIMIT 200",
        [session.session_key, session.day, parent.trace_id, parent.span_id],
    )


def session_of_trace(projects: Iterable[int], trace_id: str) -> Session | None:
    trace = Trace.objects.filter(trace_key__in=[trace_key(project, trace_id) for project in projects]).first()
    return Session.objects.filter(session_key=trace.session_key).first() if trace else None


def session_of_span(projects: Iterable[int], span_id: str) -> Session | None:
    """The session of a span known by its id alone, among the newest: a span's id is indexed only within its session."""
    newest = Session.objects.filter(project_id__in=list(projects)).order_by("-last_seq").values_list("pk", "day")
    keys = newest[:_SEARCHED_SESSIONS]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT session_key FROM ingest_span WHERE session_key = ANY(%s) AND session_day = ANY(%s) "
            "AND span_id = %s LIMIT 1",
            [[key for key, _ in keys], list({day for _, day in keys}), span_id],
        )
        row = cursor.fetchone()
    return Session.objects.filter(session_key=row[0]).first() if row else None


def _spans(sql: str, values: list[Any]) -> list[SpanRow]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return [span_row(row) for row in cursor.fetchall()]


def span_row(row: Sequence[Any]) -> SpanRow:
    return SpanRow(*[*row[:10], from_json(row[10]) or {}])


def from_json(value: Any) -> Any:
    # Raw cursors of Django hand jsonb over as text.
    return msgspec.json.decode(value) if isinstance(value, str | bytes) else value


def _ms(moment: Any) -> int | None:
    return int(moment.timestamp() * 1000) if moment else None

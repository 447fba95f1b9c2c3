"""Queries of the session list: filters, pages and statistics.

Callers pass the projects that the reader has access to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from ingest.cells import cells_of
from ingest.models import IS_LOSSY, IS_NEAR_LIMIT, Session, Trace, trace_key
from ingest.storage.figures.table import FIGURES, STORED
from viewer.models import Bookmark
from viewer.sessions import labels
from viewer.sessions.queries import merge, newest_sessions
from viewer.visibility.public_parts import Visibility, public_name

PAGE_SIZE = 50
# Statistics cover the newest sessions, so that they cost the same in a small project and in a large one.
_STATS_SESSIONS = 1_000
STATES: dict[str, Q] = {
    "near": IS_NEAR_LIMIT,
    "lossy": IS_LOSSY,
    **{figure.state: Q(**{f"{figure.column}__gt": 0}) for figure in STORED if figure.state},
}
STATE_LABELS = {
    **{figure.state: figure.state_label for figure in FIGURES if figure.state_label},
    "near": "Near the limit",
    "bookmarked": "Bookmarked by you",
}
"""The filters by state, with their names."""
RANGES = {
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
SORTS = {figure.name: figure.order for figure in FIGURES if figure.order}
"""Columns that the list can be sorted by, besides the order of receipt. `-` in front means descending."""
# A search for a part of an id reads that many of the newest sessions, so that it costs the same in a larger project.
SEARCHED_SESSIONS = 20_000
# Sessions without a value come last in descending order.
_NO_VALUE = -1
_LAST_KEY = UUID(int=2**128 - 1)


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """The filters and the order in the address of the session list."""

    q: str = ""
    model: str = ""
    state: str = ""
    range: str = ""
    sort: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Values of labels by kind: `environment`, `user`, `tag` or `service`."""
    before: tuple[int, UUID] | None = None
    user_id: int | None = None
    """The person whose bookmarks the state `bookmarked` shows."""

    @classmethod
    def from_query(cls, query: Mapping[str, Any], user_id: int | None = None) -> SessionFilter:
        return cls(
            q=str(query.get("q", "")).strip()[:200],
            model=str(query.get("model", "")).strip()[:200],
            state=str(query.get("state", "")),
            range=range_name if (range_name := str(query.get("range", ""))) in RANGES else "",
            sort=sort if (sort := str(query.get("sort", ""))).removeprefix("-") in SORTS else "",
            labels=labels.filters_of(query),
            before=_parse_cursor(str(query.get("before", ""))),
            user_id=user_id,
        )

    @property
    def is_active(self) -> bool:
        return bool(self.is_search or self.range)

    @property
    def is_search(self) -> bool:
        """True if the reader looks for certain sessions, not only for those of a time range."""
        return bool(self.q or self.model or self.state or self.labels)

    @property
    def order(self) -> tuple[str, bool]:
        """The column of the order, and True if it is descending."""
        return SORTS[self.sort.removeprefix("-")] if self.sort else "last_seq", not self.sort or self.sort[0] == "-"

    def apply(self, cell: int, visibility: Visibility) -> QuerySet[Session]:
        """Return the sessions of a cell that pass the filters, in their order."""
        sessions = self._searchable(cell)
        if self.q:
            sessions = sessions.filter(Q(session_id__icontains=self.q) | Q(model__icontains=self.q))
        if self.model:
            sessions = sessions.filter(model=self.model)
        if self.state in STATES:
            sessions = sessions.filter(STATES[self.state])
        elif self.state == "bookmarked":
            marks = Bookmark.objects.filter(cell=cell, user_id=self.user_id or 0, session_key=OuterRef("session_key"))
            sessions = sessions.filter(Exists(marks))
        if self.range:
            since = timezone.now() - RANGES[self.range]
            sessions = sessions.alias(active_at=Coalesce("last_at", "created_at")).filter(active_at__gte=since)
        return self._sort(labels.with_labels(sessions, cell, self.labels, visibility))

    def _searchable(self, cell: int) -> QuerySet[Session]:
        """Return the sessions of a cell that a page is taken from."""
        sessions = Session.objects.filter(cell=cell)
        if self.q:
            newest = sessions.order_by("-last_seq").values_list("last_seq", flat=True)
            if (oldest := newest[SEARCHED_SESSIONS - 1 : SEARCHED_SESSIONS].first()) is not None:
                sessions = sessions.filter(last_seq__gte=oldest)
        return sessions

    def _sort(self, sessions: QuerySet[Session]) -> QuerySet[Session]:
        """Order the sessions as in an index, and leave out those before the cursor."""
        column, is_descending = self.order
        if column == "worst_lost":
            sessions = sessions.annotate(facts_order=Coalesce(column, _NO_VALUE))
        if self.before is not None:
            value, key = self.before
            column, side = self.order_by[0].removeprefix("-"), "lt" if is_descending else "gt"
            # Sessions may share a value. Only the first condition limits what is read from the index.
            sessions = sessions.filter(**{f"{column}__{side}e": value})
            sessions = sessions.filter(Q(**{f"{column}__{side}": value}) | Q(**{f"session_key__{side}": key}))
        return sessions.order_by(*self.order_by)

    @property
    def order_by(self) -> tuple[str, str]:
        column, is_descending = self.order
        sign = "-" if is_descending else ""
        return f"{sign}{'facts_order' if column == 'worst_lost' else column}", f"{sign}session_key"

    def cursor(self, last: Session) -> str:
        """Return the cursor of the page after this session."""
        column, _ = self.order
        value = getattr(last, column)
        return f"{_NO_VALUE if value is None else value}.{last.session_key}"


def _parse_cursor(text: str) -> tuple[int, UUID] | None:
    """Parse `value.key` of the last row on the previous page. The value is a seq, or that of the sorted column."""
    seq, _, key = text.partition(".")
    digits = seq.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        return None
    try:
        return int(seq), UUID(key) if key else _LAST_KEY
    except ValueError:
        return None


def sessions_page(
    projects: Iterable[int] | Mapping[int, Visibility], filters: SessionFilter, *, limit: int = PAGE_SIZE
) -> tuple[list[Session], str | None]:
    """Return a page of sessions, newest first, and the cursor of the next page.

    Projects may be given with what the reader sees of them, which matters for filters by labels.
    """
    seen = projects if isinstance(projects, Mapping) else dict.fromkeys(projects, Visibility.METADATA)
    page = list(_newest(seen, filters, limit + 1))
    if len(page) <= limit:
        return page, None
    return page[:limit], filters.cursor(page[limit - 1])


def _newest(projects: Mapping[int, Visibility], filters: SessionFilter, limit: int) -> Iterable[Session]:
    streams = [
        filters.apply(cell, visibility)[:limit]
        for project, visibility in projects.items()
        for cell in cells_of(project)
    ]
    return merge(streams, limit, *filters.order_by)


def is_search_limited(project_id: int, filters: SessionFilter) -> bool:
    """Return True if a search leaves out sessions that are older than the newest 20,000 of a cell."""
    return bool(filters.q) and any(
        Session.objects.filter(cell=cell).order_by("-last_seq")[SEARCHED_SESSIONS:][:1].exists()
        for cell in cells_of(project_id)
    )


_ACTIVE_HOURS = """
SELECT date_trunc('hour', first_at, 'UTC') AS first, date_trunc('hour', last_at, 'UTC') AS last, count(*) FROM (
  SELECT first_at, last_at FROM ingest_session WHERE cell = %s ORDER BY last_seq DESC LIMIT %s) newest
WHERE first_at IS NOT NULL AND last_at >= %s GROUP BY 1, 2
"""


def active_hours(projects: Iterable[int], since: datetime) -> list[tuple[datetime, datetime, int]]:
    """Return the first and last hours of the newest sessions that were active since a time, with their number."""
    hours = []
    with connection.cursor() as cursor:
        for cell in cells_of(*projects):
            cursor.execute(_ACTIVE_HOURS, [cell, _STATS_SESSIONS, since])
            hours += cursor.fetchall()
    return hours


@dataclass(frozen=True, slots=True)
class SessionStats:
    """The state of the newest sessions now."""

    running: int
    near: int


def session_stats(projects: Iterable[int]) -> SessionStats:
    states = {name: ExpressionWrapper(STATES[name], BooleanField()) for name in ("running", "near")}
    sessions = Session.objects.annotate(**states).values_list("last_seq", *states)
    rows = list(newest_sessions(cells_of(*projects), _STATS_SESSIONS, sessions))
    return SessionStats(running=sum(row[1] for row in rows), near=sum(row[2] for row in rows))


def recent_models(projects: Iterable[int]) -> list[str]:
    """Return the models of recent sessions for the filter menu."""
    recent = newest_sessions(cells_of(*projects), 500, Session.objects.values_list("last_seq", "model"))
    return sorted({model for _, model in recent if model})


def titles(sessions: Sequence[Session], visibility: Visibility) -> dict[str, str]:
    """Return the trace names of sessions whose id is a trace id, by session id. Hidden names are left to the id."""
    keys = [trace_key(session.project_id, session.session_id) for session in sessions]
    traces = Trace.objects.filter(cell__in={session.cell for session in sessions}, trace_key__in=keys)
    names = dict(traces.exclude(name="").values_list("trace_id", "name"))
    if visibility is Visibility.CONTENT:
        return names
    return {trace: name for trace, name in names.items() if public_name("trace", name) == name}

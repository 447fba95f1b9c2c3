"""The most frequent queries of the pages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from uuid import UUID

from ingest.cells import cells_of
from ingest.models import Session
from viewer.live import queries as live_queries
from viewer.search.queries import search
from viewer.sessions import overview, queries, session_list
from viewer.trends import periods
from viewer.trends import queries as trends
from viewer.visibility.public_parts import Visibility

Query = Callable[[], object]
FILTERS = {
    "sorted by facts": session_list.SessionFilter(sort="-facts"),
    "sorted by errors, ascending": session_list.SessionFilter(sort="errors"),
    "sorted by spans, a later page": session_list.SessionFilter(sort="-spans", before=(200, UUID(int=2**127))),
    "with fallbacks": session_list.SessionFilter(state="fallback"),
    "running": session_list.SessionFilter(state="running"),
    "lost facts of a day": session_list.SessionFilter(state="lossy", range="24h", sort="-facts"),
    "of one environment": session_list.SessionFilter(labels={"environment": "staging"}),
    "of one user": session_list.SessionFilter(labels={"user": "user-7"}),
    "of an unknown user": session_list.SessionFilter(labels={"user": "user-none"}),
}
"""Orders and filters of the session list."""


def page_queries(project: int, last_seq: int) -> dict[str, Query]:
    """Return the queries by name: the home page, trends, search, a session page, and the tail after a gap."""
    session = Session.objects.filter(cell__in=cells_of(project)).order_by("-last_seq")[150]
    no_filter = session_list.SessionFilter()

    def behind(changes: int) -> Query:
        def run() -> object:
            changed = live_queries.sessions_after(project, last_seq - changes)
            return live_queries.spans_between(changed, last_seq - changes, last_seq, limit=5_000)

        return run

    now = datetime.combine(session.day, time(23, 30), UTC)
    month = periods.last("30d", now)
    content, metadata = {project: Visibility.CONTENT}, {project: Visibility.METADATA}
    return {
        "home, figures": lambda: overview.figures([project], "", now),
        "home, needs attention": lambda: overview.attention([project], "", now),
        "home, needs attention in 30 days": lambda: overview.attention([project], "30d", now),
        **{
            f"home, {name}": lambda filters=filters: session_list.sessions_page(content, filters)
            for name, filters in FILTERS.items()
        },
        "trends, 30 days": lambda: trends.series([project], month, group="model"),
        "trends, costs of 30 days": lambda: trends.cost_series([project], month),
        "trends, sessions of an hour": lambda: trends.sessions_behind(
            [project], month.until - timedelta(hours=4), month.until - timedelta(hours=3)
        ),
        "search, a topic": lambda: search(content, "topic7"),
        "search, in one environment": lambda: search(content, "topic7", with_labels={"environment": "staging"}),
        "search, one word that exists once": lambda: search(content, "rare1x4"),
        "search, part of a session id": lambda: search(metadata, "session-12"),
        "search, nothing": lambda: search(content, "nosuchword"),
        "session list, first page": lambda: session_list.sessions_page([project], no_filter),
        "session list, last page": lambda: session_list.sessions_page(
            [project], session_list.SessionFilter(before=(last_seq // 2, UUID(int=0)))
        ),
        "session list, two projects": lambda: session_list.sessions_page([project, project + 1], no_filter),
        "session list, overview": lambda: session_list.session_stats([project]),
        "session page, tree": lambda: queries.tree_json(session),
        "session page, checks": lambda: queries.checks(session),
        "session page, traces": lambda: queries.traces(session),
        "session page, one span": lambda: queries.span(session, "c4", with_payload=True),
        "a span by its trace": lambda: queries.session_of_trace([project], "trace-5"),
        "a span by its id alone": lambda: queries.session_of_span([project], "nowhere"),
        "tail, 100 changes behind": behind(100),
        "tail, 5,000 changes behind": behind(5_000),
    }

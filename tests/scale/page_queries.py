"""The most frequent queries of the pages."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from ingest.models import Session
from viewer.live import queries as live_queries
from viewer.sessions import queries, session_list

Query = Callable[[], object]


def page_queries(project: int, last_seq: int) -> dict[str, Query]:
    """Return the queries by name: the session list, a session page, and the tail after a gap."""
    session = Session.objects.filter(project_id=project).order_by("-last_seq")[150]
    no_filter = session_list.SessionFilter()

    def behind(changes: int) -> Query:
        def run() -> object:
            changed = live_queries.sessions_after(project, last_seq - changes)
            return live_queries.spans_between(changed, last_seq - changes, last_seq, limit=5_000)

        return run

    return {
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

"""The most frequent queries of the pages."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from ingest.models import Session
from viewer.sessions import queries

Query = Callable[[], object]


def page_queries(project: int, last_seq: int) -> dict[str, Query]:
    """Return the queries by name: the session list, a session page, and the tail after a gap."""
    session = Session.objects.filter(project_id=project).order_by("-last_seq")[150]
    no_filter = queries.SessionFilter()

    def behind(changes: int) -> Query:
        def run() -> object:
            changed = queries.sessions_after(project, last_seq - changes)
            return queries.spans_between(changed, last_seq - changes, last_seq, limit=5_000)

        return run

    return {
        "session list, first page": lambda: queries.sessions_page([project], no_filter),
        "session list, last page": lambda: queries.sessions_page(
            [project], queries.SessionFilter(before=(last_seq // 2, UUID(int=0)))
        ),
        "session list, two projects": lambda: queries.sessions_page([project, project + 1], no_filter),
        "session list, overview": lambda: queries.fleet([project]),
        "session page, tree": lambda: queries.tree_json(session),
        "session page, checks": lambda: queries.checks(session),
        "session page, traces": lambda: queries.traces(session),
        "session page, one span": lambda: queries.span(session, "c4", with_payload=True),
        "a span by its trace": lambda: queries.session_of_trace([project], "trace-5"),
        "a span by its id alone": lambda: queries.session_of_span([project], "nowhere"),
        "tail, 100 changes behind": behind(100),
        "tail, 5,000 changes behind": behind(5_000),
    }

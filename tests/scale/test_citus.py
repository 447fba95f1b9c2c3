"""Tests on a real Citus cluster: `CITUS_URL=postgresql://…/empty_database pytest tests/scale/test_citus.py`.

Citus is in no package registry, so `make test` skips them. See docs/SCALING.md for the results of the last run. The
database must be empty, and its coordinator must know its workers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from conftest import ServerFactory
from live_server import ROOT
from retention_runs import expire_later
from scale.agent import post_events, span, stored_spans
from scale.plans import statements

URL = os.environ.get("CITUS_URL", "")
pytestmark = pytest.mark.skipif(not URL, reason="CITUS_URL is not set, so the tests on a Citus cluster are skipped")


def manage(*arguments: str) -> str:
    command = [sys.executable, "manage.py", *arguments]
    result = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "DATABASE_URL": URL}, capture_output=True, text=True, check=True
    )
    return result.stdout


def shards(query: Callable[[], object]) -> list[int]:
    """Return the number of shards that each statement of a query uses."""
    from django.db import connection

    counts = []
    for sql, values in statements(query):
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {sql}", values)
            plan = [line.strip() for (line,) in cursor.fetchall()]
        counts += [int(line.split(": ")[1]) for line in plan if line.startswith("Task Count")]
    return counts


def test_writes_and_page_queries_on_a_cluster(start_server: ServerFactory, django_db_blocker: Any) -> None:
    """Opening, completing, replaying and moving spans stores each span once, and session queries use one shard."""
    server = start_server("cluster", DATABASE_URL=URL)
    assert "ingest_span: distributed by session_key" in manage("distribute")
    assert "ingest_span: already distributed" in manage("distribute")
    opened = [span("one", f"s{number}", ended_at=None, data={}) for number in range(50)]
    post_events(server, opened)
    complete = [{**event, "ended_at": 1_790_000_002.0} for event in opened]
    post_events(server, complete)
    post_events(server, complete)
    post_events(server, [{"type": "trace", "trace_id": "trace-one", "group_id": "moved"}])
    post_events(server, [span(f"other-{number}", "s") for number in range(200)])
    payload = {"messages": [{"role": "user", "content": "the same long text, sent twice " * 20}]}
    post_events(server, [span("other-0", "said", payload=payload), span("other-1", "said", payload=payload)])
    strays = [span(f"stray-{number}", f"s{number}", trace_id="strayed", ended_at=None) for number in range(3)]
    post_events(server, strays)
    post_events(server, [{**stray, "ended_at": 1_790_000_002.0} for stray in strays])
    with psycopg.connect(URL) as connection:
        assert connection.execute("SELECT count(*) FROM ingest_spansession").fetchone() == (2,)
    post_events(server, [{"type": "trace", "trace_id": "strayed", "group_id": "gathered"}])
    rows = stored_spans(URL)
    assert len(rows) == len({row[:2] for row in rows}) == 255
    with psycopg.connect(URL) as connection:
        sessions = connection.execute(
            "SELECT span_count, running_count FROM ingest_session WHERE session_id IN ('moved', 'gathered') ORDER BY 1"
        )
        assert sessions.fetchall() == [(3, 0), (50, 0)]
        places = connection.execute("SELECT count(DISTINCT nodename || ':' || nodeport) FROM citus_shards").fetchone()
        assert places is not None
        assert connection.execute("SELECT count(*) FROM ingest_message").fetchone() == (1,)
        assert places[0] >= 2, "all shards are on one node, add workers"

    with django_db_blocker.unblock():
        from django.db import connection as django

        from ariadne.settings import database
        from ingest.models import Project, Session
        from viewer.sessions import queries, session_list

        before = dict(django.settings_dict)
        django.close()
        django.settings_dict.update(database(URL, server.data_dir))
        try:
            session = Session.objects.get(session_id="moved")
            for query in (
                lambda: queries.tree_json(session),
                lambda: queries.checks(session),
                lambda: queries.first_spans(session, limit=50),
                lambda: queries.span(session, "s1", with_payload=True),
                lambda: queries.spans_page(session, after=0, limit=100),
            ):
                assert set(shards(query)) == {1}
            page, _ = session_list.sessions_page([session.project_id], session_list.SessionFilter())
            assert len(page) == session_list.PAGE_SIZE
            assert session_list.titles(page) == {}
            Project.objects.update(retention_days=0)
            assert expire_later(days=2).session_count == 202
        finally:
            django.close()
            django.settings_dict.update(before)
    assert stored_spans(URL) == []

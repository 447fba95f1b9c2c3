"""The product on a real Citus cluster: `CITUS_URL=postgresql://…@coordinator/postgres pytest tests/scale -k citus`.

Citus is in no package registry, so `make test` skips these tests. See docs/SCALING.md for the last run. The coordinator
must know at least two workers. Each test module creates its own databases there. What operators do with a cluster is
in `test_citus_operation.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import psycopg
import pytest
from agent_session import play, send
from compact import AriadneExporter, AriadneStorage, CompactConfig, CompactManager, CompactPolicy, Message
from live_server import Server, run_server
from reader import client_of
from retention_runs import expire_later
from scale.agent import post_events, span, stored_spans
from scale.citus import SETTINGS, URL, Citus, Tenant, django_on, manage
from scale.plans import statements
from wait import wait_until

from ingest.cells import cells_of

pytestmark = pytest.mark.skipif(not URL, reason="CITUS_URL is not set, so the tests on a Citus cluster are skipped")
DATABASE = "ariadne_citus"
OURS, THEIRS = "violet-harbor-ours", "crimson-anvil-theirs"
ROLES = ("operator", "developer", "auditor", "admin")
PAGES = ("/", "/?label=environment:staging", "/?q=read", "/trends/", "/tail/", "/alerts/", "/bookmarks/", "/mentions/")
PAGES += ("/transcripts/", "/audit/", "/compare/", "/projects/", "/keys/", "/tokens/")
PAGES += ("/sessions/billing/", "/sessions/billing/compactions/1/", "/sessions/billing/cost/")
PAGES += ("/sessions/billing/comments/",)
PAGES += ("/api/sessions/", "/api/sessions/billing/", "/api/sessions/billing/tree/", "/api/sessions/billing/spans/")
PAGES += ("/api/sessions/billing/tokens/", "/api/sessions/billing/compactions/", "/api/sessions/billing/cost/")
PAGES += ("/api/search/?q=invoices", "/api/search/?q=invoices&label=environment:staging", "/api/trends/")
PAGES += ("/api/alerts/", "/api/bookmarks/", "/api/mentions/", "/api/transcripts/", "/api/audit/")


@pytest.fixture(scope="module")
def cluster() -> Citus:
    return Citus(URL)


@pytest.fixture(scope="module")
def server(cluster: Citus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on a distributed database."""
    url = cluster.create_database(DATABASE)
    data_dir = tmp_path_factory.mktemp("citus")
    manage(url, data_dir, "setup")
    assert "ingest_span: distributed by cell" in manage(url, data_dir, "distribute", "--shards", "8")
    assert "already" in manage(url, data_dir, "distribute")
    with run_server(data_dir, DATABASE_URL=url, **SETTINGS) as running:
        yield running
    cluster.drop_database(DATABASE)


@pytest.fixture(scope="module")
def url(cluster: Citus, server: Server) -> str:
    return cluster.coordinator.url(DATABASE)


@pytest.fixture(scope="module")
def theirs(cluster: Citus, server: Server, url: str) -> Tenant:
    """Another tenant, on another node than the first project, with a session that has the same name."""
    tenant = cluster.add_tenant(DATABASE, apart_from=1)
    send(server.ingest_url, tenant.key, session_events(THEIRS))
    compact_session(server, tenant.key, THEIRS)
    return tenant


@pytest.fixture(scope="module")
def filled(server: Server, theirs: Tenant) -> Server:
    """The server with a session of two tenants, each with a planted secret and a transcript."""
    send(server.ingest_url, server.ingest_key, session_events(OURS))
    compact_session(server, server.ingest_key, OURS)
    return server


def session_events(secret: str) -> list[dict[str, Any]]:
    events = play("billing", turns=24)
    events[0]["metadata"] = {"environment": "staging", "user": "ada"}
    trace_id = events[0]["trace_id"]
    payload = {"messages": [{"role": "user", "content": f"the planted text {secret} " * 20}]}
    return [*events, span("billing", "planted", trace_id=trace_id, kind="generation", payload=payload)]


def compact_session(server: Server, key: str, secret: str) -> None:
    """Archive a transcript as an agent does."""
    exporter = AriadneExporter(server.ingest_url, key, spool_dir=None)
    storage = AriadneStorage(server.url, key, spool_dir=None)
    policy = CompactPolicy(hard_cap_buffer=100, keep_recent_turns=2)
    manager = CompactManager(CompactConfig("gpt-5", 3_000, policy=policy, storage=storage, exporter=exporter))
    messages = [Message("user" if n % 2 == 0 else "assistant", f"{secret} step {n} " * 30) for n in range(24)]
    manager.manual_compact("archived", messages)
    assert storage.flush(60)
    storage.close()
    assert exporter.flush(60)
    exporter.close()


def task_counts(query: Callable[[], object]) -> list[int]:
    """Return the number of shards that each distributed statement of a query uses."""
    from django.db import connection

    counts = []
    for sql, values in statements(query):
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {sql}", values)
            plan = [line.strip() for (line,) in cursor.fetchall()]
        counts += [int(line.split(": ")[1]) for line in plan if line.startswith("Task Count")]
    return counts


def test_opening_completing_replaying_and_moving_store_each_span_once(server: Server, url: str) -> None:
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
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM ingest_spansession").fetchone() == (2,)
    post_events(server, [{"type": "trace", "trace_id": "strayed", "group_id": "gathered"}])
    rows = [row for row in stored_spans(url) if row[0].startswith("trace-") or row[0] == "strayed"]
    assert len(rows) == len({row[:2] for row in rows}) == 255
    with psycopg.connect(url) as connection:
        sessions = connection.execute(
            "SELECT span_count, running_count FROM ingest_session WHERE session_id IN ('moved', 'gathered') ORDER BY 1"
        )
        assert sessions.fetchall() == [(3, 0), (50, 0)]


def test_every_growing_table_is_distributed_with_the_others(filled: Server, cluster: Citus) -> None:
    """The rows of a cell are on one node. The projects of this module are on two."""
    placed = cluster.coordinator.execute(
        DATABASE, "SELECT DISTINCT colocationid FROM pg_dist_partition WHERE partmethod = 'h'"
    )
    assert len(placed) == 1
    local = cluster.coordinator.execute(
        DATABASE,
        "SELECT relname::text FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
        " AND oid NOT IN (SELECT logicalrelid FROM pg_dist_partition) AND relname ~ '^(ingest|viewer)_'",
    )
    growing = {"ingest_session", "ingest_span", "ingest_search", "ingest_trace", "ingest_transcript", "viewer_comment"}
    assert not growing & {name for (name,) in local}


def test_a_commit_asks_no_other_node(server: Server, cluster: Citus, theirs: Tenant, django_db_blocker: Any) -> None:
    """A commit on the node that holds the cell sends nothing to another node, and is one transaction."""
    notices = cluster.remote_commands_of_a_commit(DATABASE, theirs.project, django_db_blocker)
    assert notices == []


@pytest.mark.parametrize("role", ROLES)
def test_pages_of_every_role(filled: Server, role: str) -> None:
    """Every page answers as on one server, and none shows anything of another tenant."""
    with client_of(filled, role) as client:
        answers = {page: client.get(page) for page in PAGES}
    statuses = {page: answer.status_code for page, answer in answers.items()}
    assert set(statuses.values()) <= {200, 403}, statuses
    assert (statuses["/"], statuses["/sessions/billing/"]) == (200, 200)
    broken = [page for page, answer in answers.items() if "Something went wrong" in answer.text]
    assert broken == []
    leaking = [page for page, answer in answers.items() if THEIRS in answer.text]
    assert leaking == []


def test_search_with_labels_bookmarks_and_comments(filled: Server) -> None:
    with client_of(filled, "developer") as client:
        # The index is filled in the background.
        assert wait_until(lambda: "billing" in client.get("/api/search/?q=invoices").text, timeout_s=60)
        answer = client.get("/api/search/", params={"q": "invoices", "environment": "staging"})
        assert (answer.status_code, "billing" in answer.text) == (200, True), answer.text[:500]
        other = client.get("/api/search/", params={"q": "invoices", "environment": "production"})
        assert (other.status_code, "billing" in other.text) == (200, False)
        csrf = {"X-CSRFToken": client.cookies["csrftoken"], "Referer": f"{filled.url}/"}
        marked = client.put("/api/sessions/billing/bookmark/", headers=csrf, json={})
        assert marked.is_success, marked.text[:500]
        assert "billing" in client.get("/api/bookmarks/").text
        assert "billing" in client.get("/bookmarks/").text
        assert "billing" in client.get("/?bookmarked=1").text
        said = client.post("/api/sessions/billing/comments/", headers=csrf, json={"text": "look @auditor, a comment"})
        assert said.status_code == 201, said.text[:500]
        assert "a comment" in client.get("/api/sessions/billing/comments/").text
    with client_of(filled, "auditor") as client:
        assert "a comment" in client.get("/mentions/").text


def test_transcripts_their_chain_and_the_audit_log(filled: Server, url: str) -> None:
    """Transcripts are read and verified, the chain stays append-only on the shards, and so does the audit log."""
    with client_of(filled, "auditor") as client:
        listed = client.get("/api/transcripts/").json()
        items = listed["results"] if isinstance(listed, dict) else listed
        assert len(items) == 1
        csrf = {"X-CSRFToken": client.cookies["csrftoken"], "Referer": f"{filled.url}/"}
        verified = client.post("/audit/verify/", headers=csrf)
        assert verified.status_code == 200, verified.text[:500]
        assert "Something went wrong" not in verified.text
    manage(url, filled.data_dir, "verify_archive")
    for statement in ("UPDATE ingest_chainlink SET step = 9", "DELETE FROM viewer_auditentry"):
        with psycopg.connect(url) as connection, pytest.raises(psycopg.Error, match="append-only"):
            connection.execute(statement)


def test_an_alert_fires_once(filled: Server, url: str, django_db_blocker: Any) -> None:
    with django_on(url, django_db_blocker):
        from django.contrib.auth.models import User

        from viewer.alerts import evaluation
        from viewer.models import Alert, AlertRule

        owner = User.objects.get(username="developer")
        rule = AlertRule.objects.create(
            project_id=1, name="fallbacks", kind=AlertRule.Kind.FALLBACK, threshold=1, created_by=owner
        )
        evaluation.start_project(1)
        send(filled.ingest_url, filled.ingest_key, play("failing", turns=24, fails_at=15))
        for _ in range(2):
            evaluation.evaluate_all()
        assert Alert.objects.filter(cell__in=cells_of(1), rule=rule).count() == 1


def test_queries_of_a_session_use_one_shard(filled: Server, url: str, django_db_blocker: Any) -> None:
    with django_on(url, django_db_blocker):
        from ingest.models import Session
        from viewer.live import queries as live_queries
        from viewer.search.queries import search
        from viewer.sessions import queries, session_list
        from viewer.visibility.public_parts import Visibility

        session = next(row for row in Session.objects.filter(session_id="billing") if row.project_id == 1)
        content = {1: Visibility.CONTENT}
        for query in (
            lambda: queries.tree_json(session),
            lambda: queries.checks(session),
            lambda: queries.first_spans(session, limit=50),
            lambda: queries.span(session, "planted", with_payload=True),
            lambda: queries.spans_page(session, after=0, limit=100),
            lambda: session_list.sessions_page(content, session_list.SessionFilter()),
            lambda: search(content, "invoices"),
            lambda: live_queries.sessions_after(1, 0),
            lambda: session_list.session_stats([1]),
        ):
            assert set(task_counts(query)) <= {1}


def test_commands_and_retention(filled: Server, url: str, django_db_blocker: Any) -> None:
    """A recount changes nothing, and retention deletes everything of one project and nothing of the other."""
    with client_of(filled, "admin") as client:
        before = client.get("/api/sessions/billing/").json()
        manage(url, filled.data_dir, "recount")
        after = client.get("/api/sessions/billing/").json()
    assert json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True)
    with django_on(url, django_db_blocker):
        from ingest.models import Project

        Project.objects.filter(pk=1).update(retention_days=0)
        assert expire_later(days=2).session_count > 200
    with psycopg.connect(url) as connection:
        counts = connection.execute("SELECT cell, count(*) FROM ingest_span GROUP BY cell").fetchall()
    assert [cell for cell, _ in counts] and all(cell != 1024 for cell, _ in counts)
    assert httpx.get(f"{filled.url}/readyz", timeout=30).json()["unavailable_cells"] == []

"""Each statement of the product reads and writes one cell, or is listed here with the reason why not.

On a cluster, such a statement runs on one node. The proof needs no cluster: a server is used in every way, its
statements are taken from the log of Postgres, and `EXPLAIN` shows which partitions they touch in tables that are
partitioned by cell.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from agent_session import Session as AgentSession
from agent_session import play, send
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.utils import timezone
from live_server import Server, copy_prepared, run_server
from people import own_cell
from reader import client_of
from retention_runs import expire
from routes import ROUTES
from scale import statement_log
from scale.plans import database
from scale.statement_log import Statement
from wait import wait_until
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from ariadne.runtime.postgres import socket_dir
from ingest.archive import verification
from ingest.cells import AUDIT_LOG, cells_of
from ingest.models import Project, SearchState, Session, session_key
from ingest.storage.database import partitions
from viewer.alerts import cycle
from viewer.models import AlertRule, Bookmark, Comment, Membership

NAME = "one-cell"
SPAN = f"{hashlib.sha256(NAME.encode()).hexdigest()[:32]}:"

WITHOUT_CELL = {
    "axes_accessattempt": "logins of people",
    "axes_accessattemptexpiration": "logins of people",
    "axes_accessfailurelog": "logins of people",
    "axes_accesslog": "logins of people",
    "auth_group": "roles, which are few",
    "auth_group_permissions": "roles",
    "auth_permission": "permissions",
    "auth_user": "people",
    "auth_user_groups": "people",
    "auth_user_user_permissions": "people",
    "django_admin_log": "changes of people and projects by administrators",
    "django_content_type": "Django",
    "django_migrations": "Django",
    "django_session": "logins of people, which end",
    "ingest_anchormark": "one row",
    "ingest_ingestkey": "keys of projects",
    "ingest_project": "projects",
    "ingest_redactionrule": "rules of projects",
    "ingest_retentionclock": "one row",
    "ingest_retentionmark": "one row per project",
    "viewer_alertrule": "rules of projects",
    "viewer_apitoken": "tokens of people",
    "viewer_membership": "people in projects",
    "viewer_priceoverride": "prices of projects",
}
"""Tables that do not grow with sessions. They are in no cell, and each node of a cluster has a copy."""

SEVERAL_CELLS = {
    r"SELECT max\(newest\.day\) FROM ingest_cell": "the clock of retention is compared with the newest session of all",
    r'FROM "?ingest_cell"? ': "lists the cells that retention and recounts go through one by one",
    r'"ingest_session"\."cell" AS "cell", COUNT': "retention looks for the projects that still need a day",
    r'FROM "ingest_(chainlink|transcript)".*UNION': "a list of cells could hide links of the archive",
    r'COUNT.*FROM "ingest_chainlink" WHERE "ingest_chainlink"\."time"': "an anchor covers the links of all projects",
    r'FROM "viewer_alertdelivery" WHERE \("viewer_alertdelivery"\."cell" IN': "deliveries that are due",
    r"^COPY ingest_span ": "its rows have the cell of the commit, whose other statements name it",
    r"^(SELECT|WITH).*ingest_chainlink.*ORDER BY .*LIMIT": "an anchor covers the newest links of all projects",
}
"""Statements that may touch several cells, with the reason."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, prepared_data: Path) -> Iterator[Server]:
    """A server whose Postgres logs each statement."""
    folder = tmp_path_factory.mktemp("cells")
    copy_prepared(prepared_data, folder)
    with (folder / "postgres" / "postgresql.conf").open("a") as settings:
        settings.write(statement_log.CONFIGURATION)
    with run_server(folder, prepared_data) as running:
        yield running


@pytest.fixture(scope="module")
def statements(server: Server, django_db_blocker: Any) -> list[Statement]:
    """The statements of a server that was used in every way, with two projects that have the same ids."""
    with database("ariadne", str(socket_dir(server.data_dir))), django_db_blocker.unblock():
        other_key = create_second_project(server)
        for key in (server.ingest_key, other_key):
            ingest(server, key)
        people = create_people(server)
        for project in Project.objects.all():
            create_alert_rule(project)
        for cell in cells_of(*Project.objects.values_list("pk", flat=True)):
            assert wait_until(lambda cell=cell: SearchState.objects.filter(cell=cell, seq__gt=0).exists())  # type: ignore[misc]
        for role in people:
            read_everything(server, role)
        run_jobs_and_commands()
    return list(statement_log.read(server.data_dir / "postgres"))


def create_second_project(server: Server) -> str:
    key = "ari_" + hashlib.sha256(server.url.encode()).hexdigest()
    project = Project.objects.create(slug="theirs", name="Theirs")
    project.ingest_keys.create(label="k", digest=hashlib.sha256(key.encode()).hexdigest(), hint="ari_")
    return key


def create_people(server: Server) -> list[str]:
    """Give each role a member of the first project only, whose pages read one cell."""
    project = Project.objects.exclude(slug="theirs").get()
    roles = ["operators", "developers", "auditors", "admins"]
    for role in roles:
        user = User.objects.create_user(f"only-{role}", password=role)
        user.groups.add(Group.objects.get(name=role))
        Membership.objects.create(user=user, project=project)
        server.logins[role] = {"username": user.username, "password": role}
        cell, key = own_cell(project), session_key(project.pk, NAME)
        Comment.objects.create(cell=cell, session_key=key, author=user, text="@only-operators look")
        Bookmark.objects.create(cell=cell, user=user, session_key=key)
    return roles


def create_alert_rule(project: Project) -> None:
    owner = User.objects.filter(is_superuser=True).first()
    AlertRule.objects.create(
        project=project, name="any", kind="facts_lost", threshold=1, created_by=owner, emails=["a@example.com"]
    )


def ingest(server: Server, key: str) -> None:
    """Send a session with compactions twice, and traces that move, split and complete later, in each format."""
    events = play(NAME, turns=14, started=timezone.now() - timedelta(hours=1))
    for _ in range(2):
        send(server.ingest_url, key, events)
    late = {
        "type": "span",
        "trace_id": "late",
        "span_id": "a",
        "kind": "tool",
        "data": {"input": {"b": 1, "a": "x" * 300}},
    }
    send(server.ingest_url, key, [{**late, "started_at": "2026-11-16T04:00:00Z"}])
    send(server.ingest_url, key, [{**late, "ended_at": "2026-11-16T04:00:01Z"}])
    send(server.ingest_url, key, [{**late, "span_id": str(n), "data": {"session_id": f"mixed-{n}"}} for n in range(3)])
    send(server.ingest_url, key, [{**late, "span_id": "0"}])
    metadata = {"environment": "staging", "user_id": "u1"}
    send(server.ingest_url, key, [{"type": "trace", "trace_id": "late", "group_id": "moved", "metadata": metadata}])
    headers = {"Authorization": f"Bearer {key}"}
    span = {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "chat", "startTimeUnixNano": "1767225600000000000"}
    otlp = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    assert httpx.post(f"{server.url}/v1/traces", json=otlp, headers=headers, timeout=60).status_code == 200
    for step, text in ((1, "first"), (1, "first"), (1, "another"), (2, "second")):
        body = json.dumps({"id": "m0", "role": "user", "content": text}).encode() + b"\n"
        answer = httpx.post(
            f"{server.url}/ingest/transcripts",
            params={"session": NAME, "step": step, "sha256": hashlib.sha256(body).hexdigest()},
            content=gzip.compress(body),
            headers={**headers, "Content-Encoding": "gzip", "Content-Type": "application/x-ndjson"},
            timeout=60,
        )
        assert answer.status_code == (409 if text == "another" else 200), answer.text


QUERIES = {
    "session-list": (
        "q=one",
        "sort=-facts",
        "state=bookmarked",
        "state=lossy&range=24h",
        "environment=staging",
        "user=u1",
    ),
    "api-sessions": ("q=one", "environment=staging", "state=bookmarked"),
    "api-trends": ("group=model", "range=30d"),
    "api-trend-sessions": ("metric=facts", "metric=cost"),
    "trends": ("range=30d",),
    "compare": (f"a={NAME}&an=1&b={NAME}&bn=1",),
    "api-search": ("q=ledger", "q=ledger&environment=staging", f"q={SPAN}"),
    "bookmark-list": ("q=one",),
    "transcript-list": ("q=one",),
    "transcript-detail": ("show=text", "show=text&q=first"),
    "audit-log": ("q=one",),
}
"""Queries that change what is read, by the name of a route."""


def read_everything(server: Server, role: str) -> None:
    """Open each address and socket, and write what a person can write. Some addresses are not allowed to each role."""
    project = Project.objects.exclude(slug="theirs").get()
    key = session_key(project.pk, NAME)
    span = str(SPAN) + "any"
    with client_of(server, role) as client:
        listed = client.get(f"/api/sessions/{NAME}/spans/", params={"limit": 5}).json()["results"]
        span = f"{listed[0]['trace_id']}:{listed[0]['span_id']}"
        for name, route in ROUTES.items():
            if name in {"logout", "transcript-delete", "project-keep"}:
                continue
            path = route.path.format(session=NAME, span=span, key=key).replace(
                "/projects/ours/", f"/projects/{project.slug}/"
            )
            for query in ("", *QUERIES.get(name, ())):
                full = f"{path}{'&' if '?' in path else '?'}{query}" if query else path
                if "GET" in route.methods:
                    assert client.get(full).status_code < 500, full
            if "POST" in route.methods:
                form = {"csrfmiddlewaretoken": client.cookies["csrftoken"], "text": "a note", "reason": "because"}
                answer = client.post(path, data=form, headers={"Referer": f"{server.url}/"})
                assert answer.status_code < 500, path
        for path in (f"/ws/sessions/{NAME}/?after=0", "/ws/sessions/?after=0", "/ws/tail/?after=0", "/ws/tail/"):
            follow(server, client, path, AgentSession(NAME) if role == "developers" else None)


def follow(server: Server, client: httpx.Client, path: str, session: AgentSession | None) -> None:
    """Read what a socket sends from the beginning, and what it sends when the session goes on."""
    headers = {"Cookie": f"sessionid={client.cookies['sessionid']}"}
    with (
        suppress(TimeoutError, ConnectionClosed),
        connect(f"{server.url.replace('http', 'ws', 1)}{path}", additional_headers=headers, max_size=None) as stream,
    ):
        stream.recv(timeout=20)
        if session is not None:
            send(server.ingest_url, server.ingest_key, [session.span("tool", f"more {path}")])
        while True:
            stream.recv(timeout=0.5)


def run_jobs_and_commands() -> None:
    """Run the jobs of the server and the commands of administrators, also with data past retention."""
    today = timezone.now().date()
    for project in Project.objects.all():
        day = today - timedelta(days=40)
        old = Session(cell=own_cell(project), session_key=session_key(project.pk, "old"), session_id="old", day=day)
        old.created_at, old.last_seq = timezone.now() - timedelta(days=40), 1
        old.save(force_insert=True)
        with psycopg_cursor() as cursor:
            cursor.execute(partitions.create_statement(day))
    Project.objects.filter(slug="theirs").update(retention_days=30)
    cycle.evaluate_and_deliver(0)
    assert expire().session_count == 1
    assert [result.faults for result in verification.verify_all()] == [(), ()]
    for command in (["recount"], ["partitions", "--dry-run"]):
        call_command(*command, stdout=StringIO(), stderr=StringIO())


def psycopg_cursor() -> Any:
    from django.db import connection

    return connection.cursor()


@pytest.fixture(scope="module")
def growing(django_db_blocker: Any) -> list[str]:
    """The tables with a cell."""
    return sorted(
        model._meta.db_table
        for model in apps.get_models()
        if any(field.column == "cell" for field in model._meta.concrete_fields)
    )


def test_each_table_has_a_cell_or_does_not_grow(server: Server, growing: list[str]) -> None:
    with psycopg.connect(server.database_url) as client:
        rows = client.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
            " AND NOT relispartition"
        ).fetchall()
    assert {name for (name,) in rows} == {*growing, *WITHOUT_CELL}


def test_each_statement_touches_one_cell(server: Server, statements: list[Statement], growing: list[str]) -> None:
    names = re.compile(rf"\b({'|'.join(growing)})\b")
    used = [statement for statement in statements if names.search(statement.text)]
    assert {table for statement in used for table in names.findall(statement.text)} == set(growing)
    with psycopg.connect(server.database_url, autocommit=True) as client:
        stored = [cell for (cell,) in client.execute("SELECT cell FROM ingest_cell")]
        assert len(stored) == 2
        statement_log.create_shadow(client, growing, [AUDIT_LOG, *stored])
        client.execute(f"SET search_path = {statement_log.SCHEMA}, public")  # type: ignore[arg-type]
        client.execute("SET plan_cache_mode = force_custom_plan")
        faults = {}
        for statement in used:
            reason = next(
                (why for pattern, why in SEVERAL_CELLS.items() if re.search(pattern, statement.text, re.S)), ""
            )
            if reason or not re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", statement.text, re.I):
                continue
            cells = statement_log.cells_read(client, statement) | statement_log.cells_written(
                client, statement, growing
            )
            if len(cells) > 1:
                faults[statement.shape[:600]] = (statement.application, cells)
    assert not faults, "\n".join(f"{where} {shape}" for shape, where in faults.items())


def test_no_exception_is_out_of_date(statements: list[Statement]) -> None:
    unused = [p for p in SEVERAL_CELLS if not any(re.search(p, s.text, re.DOTALL) for s in statements)]
    assert unused == []

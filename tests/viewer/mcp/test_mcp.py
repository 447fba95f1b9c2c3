"""`POST /mcp` with the official client: two tenants, three roles, and nothing that a token may not see."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from channels.db import database_sync_to_async
from compact import TiktokenEstimator
from compact.importers.conversation import Conversation
from compact.importers.uncompaction import LogIndex
from django.contrib.auth.models import User
from django.utils import timezone
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from people import create_project, create_session, create_user, data_bytes
from recall_cases import CASES, MESSAGES

from ingest.models import Project, Session, Span
from viewer.accounts import api_tokens
from viewer.accounts.access import Right
from viewer.mcp import endpoint, session_texts
from viewer.models import AuditEntry
from viewer.search import indexer

pytestmark = pytest.mark.django_db(transaction=True)
URL = "http://testserver/mcp"
TOOLS = {"recall", "uncompact", "explain_compaction", "list_sessions", "search"}


@pytest.fixture(autouse=True)
def empty_cache() -> Iterator[None]:
    session_texts._indexes.clear()
    yield
    session_texts._indexes.clear()


def add_span(
    session: Session, span_id: str, kind: str, *, data: Any = None, payload: Any = None, parent: str = ""
) -> None:
    now = timezone.now()
    Span.objects.create(
        session_key=session.session_key, session_day=session.day, trace_id=f"t-{session.session_id}", span_id=span_id,
        parent_id=parent or None, cell=session.cell, seq=session.last_seq + 1, kind=kind, name=kind,
        started_at=now, ended_at=now, data=data_bytes(data or {}), payload=data_bytes(payload) if payload else None,
    )  # fmt: skip
    session.last_seq += 1
    session.span_count += 1
    session.compaction_count = 1
    session.last_at = now
    session.save()


def add_project(slug: str) -> Project:
    """Create a project with one compacted session. Both projects use the same session id."""
    project = create_project(slug)
    name = slug.upper()
    session = create_session(project, session_id="checkout", text=f"The {name}-hello span.")
    messages = [
        {"role": "user", "content": f"The staging port of {name} is 54877. Never deploy {name}-prod on Fridays."},
        {"role": "assistant", "content": "Noted."},
    ]
    add_span(session, "g1", "generation", payload={"input": messages})
    check = {"turn": 3, "triggered": True, "tokens_before": 150_000, "tokens_after": 40_000, "max_tokens": 200_000}
    add_span(session, "c1", "compact.check", data=check)
    decision = {"triggered": True, "reason": "over_threshold", "t_est": 150_000, "max_tokens": 200_000}
    add_span(session, "d1", "compact.trigger_decision", data=decision, parent="c1")
    pruned = {
        "step": 1,
        "pruned_count": 4,
        "tokens_before": 150_000,
        "tokens_after": 40_000,
        "fates": {"summarized": 4},
    }
    add_span(session, "p1", "compact.pruned_messages", data=pruned, payload={"ledger": [], "after": []}, parent="c1")
    lost = [
        {"kind": "number", "text": f"{name}-54877", "source_ids": ["m1"]},
        {"kind": "constraint", "text": f"Never deploy {name}-prod on Fridays.", "source_ids": ["m1"]},
    ]
    facts = {"facts_total": 9, "facts_kept": 7, "by_kind": {}}
    add_span(session, "r1", "compact.retention", data=facts, payload={"lost": lost, "restored": []}, parent="c1")
    indexer.catch_up(project.pk)
    return project


def token_for(user: User, *, scopes: tuple[Right, ...] = (Right.SESSIONS, Right.PAYLOAD), project: Any = None) -> str:
    return api_tokens.create(user, label="mcp", scopes=scopes, project=project)[1]


@asynccontextmanager
async def connect(token: str) -> AsyncIterator[Client]:
    transport = httpx2.ASGITransport(app=endpoint.application)
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(transport=transport, headers=headers) as http,
        Client(streamable_http_client(URL, http_client=http)) as client,
    ):
        yield client


async def call(client: Client, name: str, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    return "".join(block.text for block in result.content)


@pytest.mark.req("A-REC-1")
@pytest.mark.parametrize("slug", ["alice", "bob"])
async def test_each_tenant_sees_only_their_own_project(slug: str, db: None) -> None:
    projects = await database_sync_to_async(lambda: {name: add_project(name) for name in ("alice", "bob")})()
    token = await database_sync_to_async(lambda: token_for(create_user("developer", projects[slug])))()
    own, other = slug.upper(), "BOB" if slug == "alice" else "ALICE"
    async with connect(token) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
        answers = {
            "recall": await call(client, "recall", query="staging port", session="checkout"),
            "newest": await call(client, "recall", query=f"{other} {own} staging port"),
            "uncompact": await call(client, "uncompact", session="checkout", last=0),
            "explain": await call(client, "explain_compaction", session="checkout", n=1),
            "sessions": await call(client, "list_sessions"),
            "search": await call(client, "search", query="staging"),
        }
    assert f"port of {own} is 54877" in answers["recall"] and "[turn " in answers["recall"]
    assert answers["uncompact"].index(f"Never deploy {own}-prod") < answers["uncompact"].index(f"{own}-54877")
    assert "150,000" in answers["explain"] and "Never deploy" in answers["explain"]
    assert answers["sessions"].count("checkout") == 1
    assert "0 turns, 1 compaction, " in answers["sessions"]
    assert own in answers["search"]
    assert other not in str(answers)
    entries = await database_sync_to_async(
        lambda: list(AuditEntry.objects.values_list("action", "project_id", "target"))
    )()
    assert ("payload.view", projects[slug].pk, "checkout") in entries
    assert {project for _, project, _ in entries} <= {projects[slug].pk}


@pytest.mark.req("A-PRI-2")
async def test_without_view_payload_no_text_is_shown(db: None) -> None:
    project = await database_sync_to_async(lambda: add_project("alice"))()
    operator = await database_sync_to_async(lambda: token_for(create_user("operator", project)))()
    narrow = await database_sync_to_async(
        lambda: token_for(create_user("auditor", project), scopes=(Right.SESSIONS,))
    )()
    for token in (operator, narrow):
        async with connect(token) as client:
            answers = [
                await call(client, "recall", query="staging port"),
                await call(client, "uncompact", session="checkout"),
                await call(client, "explain_compaction", session="checkout"),
                await call(client, "search", query="staging"),
            ]
            assert "checkout" in await call(client, "list_sessions")
        assert "permission to view payloads" in answers[0] and "permission to view payloads" in answers[1]
        assert "150,000" in answers[2]
        assert "54877" not in str(answers) and "Never deploy" not in str(answers)
    assert not await database_sync_to_async(AuditEntry.objects.filter(action="payload.view").exists)()


async def test_a_token_of_one_project_sees_only_that_project(db: None) -> None:
    projects = await database_sync_to_async(lambda: {name: add_project(name) for name in ("alice", "bob")})()
    user = await database_sync_to_async(lambda: create_user("developer", *projects.values()))()
    token = await database_sync_to_async(lambda: token_for(user, project=projects["bob"]))()
    async with connect(token) as client:
        answer = await call(client, "recall", query="staging port", session="checkout")
        assert "BOB" in answer and "ALICE" not in answer


async def test_answers_have_a_token_budget(db: None) -> None:
    project = await database_sync_to_async(lambda: add_project("alice"))()
    token = await database_sync_to_async(lambda: token_for(create_user("developer", project)))()
    async with connect(token) as client:
        assert len(await call(client, "recall", query="staging port deploy", max_tokens=100)) < 600
        result = await client.call_tool("recall", {"query": "x", "max_tokens": 1_000_000})
        assert result.is_error
        missing = await client.call_tool("recall", {"query": "x", "session": "missing"})
        assert missing.is_error
        assert "Call list_sessions" in "".join(block.text for block in missing.content)


HOSTILE = (
    "\x00",
    "54877\x00",
    "🔥",
    "!?… ---",
    "码头",
    "x" * 3_900,
    '"*^NEAR(',
    "",
    "%s %(a)s {0}",
    "'; DROP TABLE x; --",
    "\u202e",
)


async def test_hostile_arguments_get_a_short_answer_without_another_tenants_text(db: None) -> None:
    projects = await database_sync_to_async(lambda: {name: add_project(name) for name in ("alice", "bob")})()
    token = await database_sync_to_async(lambda: token_for(create_user("developer", projects["bob"])))()
    async with connect(token) as client:
        for text in HOSTILE:
            for arguments in ({"query": f"{text} ALICE"}, {"query": "ALICE port", "session": text[:500]}):
                result = await client.call_tool("recall", arguments)
                answer = "".join(block.text for block in result.content)
                assert len(answer) < 2_000 and "of ALICE" not in answer, arguments
                # There is no session with such a name. An empty one means the newest.
                assert result.is_error == bool(arguments.get("session")), arguments
        for session, max_tokens in (("x" * 100_000, 100), ("", 99), ("", 0), ("", -1), ("", 2**70), ("", 1.5)):
            arguments = {"query": "port", "session": session, "max_tokens": max_tokens}
            assert (await client.call_tool("recall", arguments)).is_error, (session[:9], max_tokens)


@pytest.mark.parametrize("authorization", ["", "Bearer arip_wrong", "Bearer ari_key", "Basic YTpi"])
async def test_a_request_without_a_valid_token_is_rejected(authorization: str, db: None) -> None:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=endpoint.application)) as http:
        answer = await http.post(URL, json={}, headers={"Authorization": authorization})
        assert answer.status_code == 401 and "token" in answer.json()["error"]
        assert (await http.get(URL)).status_code == 405
    stranger = await database_sync_to_async(lambda: token_for(create_user("developer")))()
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=endpoint.application)) as http:
        answer = await http.post(URL, json={}, headers={"Authorization": f"Bearer {stranger}"})
        assert answer.status_code == 403


@pytest.mark.parametrize(("question", "found"), CASES)
async def test_http_and_stdio_give_the_same_passages_in_the_same_order(question: str, found: str, db: None) -> None:
    def add() -> str:
        project = create_project("alice")
        session = create_session(project, session_id="checkout", text="hello")
        items = [{"role": role, "content": text} for role, text in MESSAGES]
        add_span(session, "g1", "generation", payload={"input": items})
        return token_for(create_user("developer", project))

    items = [{"role": role, "content": text} for role, text in MESSAGES]
    index = LogIndex(Conversation(items, format="chat"))
    local = index.search(question, limit=8, max_tokens=1_680, count_tokens=TiktokenEstimator().count_tokens)
    async with connect(await database_sync_to_async(add)()) as client:
        answer = await call(client, "recall", query=question, session="checkout")
    expected = [passage.text.splitlines()[0] for passage in local]
    assert found in local[0].text and found in answer.partition("\n\n")[0]
    places = [answer.index(line) for line in expected if not line.startswith("[")]
    assert places == sorted(places)

"""Websockets of a real server: reconnects, filters, access control and flow control."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from typing import Any

import pytest
from agent_session import Session, send
from live_server import Server
from reader import client_of
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from ingest.models import Session as StoredSession
from viewer.live.consumers import RECHECK_S
from viewer.live.flow_control import WINDOW_FRAMES
from viewer.live.hub import QUEUE_FRAMES, TICK_S, Change, Subscription
from viewer.sessions.spans import SpanRow


def socket(server: Server, path: str, person: str | None = "developer") -> connect:
    headers = {"Origin": server.url}
    if person is not None:
        with client_of(server, person) as client:
            headers["Cookie"] = f"sessionid={client.cookies['sessionid']}"
    return connect(server.url.replace("http", "ws") + path, additional_headers=headers)


async def post(server: Server, *events: dict[str, Any]) -> None:
    await asyncio.to_thread(send, server.ingest_url, server.ingest_key, events)


async def frame(stream: ClientConnection, kind: str) -> dict[str, Any]:
    while True:
        message: dict[str, Any] = json.loads(await asyncio.wait_for(stream.recv(), 15))
        if message["type"] == kind:
            return message


@pytest.fixture
def session() -> Session:
    return Session(f"ws-{uuid.uuid4().hex[:8]}")


@pytest.mark.req("P-KR-5")
async def test_a_session_socket_sends_spans_and_checks(server: Server, session: Session) -> None:
    await post(server, session.trace(), session.span("agent", "start"))
    async with socket(server, f"/ws/sessions/{session.session_id}/", "operator") as stream:
        hello = await frame(stream, "hello")
        await post(server, *session.play_turn())
        names: list[str] = []
        checks: dict[str, Any] = {}
        while "Turn 1" not in names or not checks:
            message = await frame(stream, "spans")
            assert message["seq"] > hello["seq"]
            names += message["spans"]["name"]
            checks |= {check["id"]: check for check in message.get("checks", [])}
        assert "data" not in message["spans"] and "payload" not in message["spans"]
        assert next(iter(checks.values()))["sentence"].startswith("Not compacted: 9,000 of 128,000")


@pytest.mark.req("P-SEC-1")
async def test_content_that_a_session_socket_sends_is_in_the_audit_log(server: Server, session: Session) -> None:
    """Live content and content that is caught up with, once per person. Metadata is no view."""
    path = f"/ws/sessions/{session.session_id}/"

    def viewers() -> list[str]:
        with client_of(server, "auditor") as client:
            rows = client.get("/api/audit/", params={"action": "payload.view"}).json()["results"]
        return [row["actor"] for row in rows if row["target"] == session.session_id]

    await post(server, session.trace(), session.span("agent", "start"))
    async with socket(server, path, "operator") as operator, socket(server, path) as developer:
        await frame(operator, "hello")
        await frame(developer, "hello")
        await post(server, session.span("custom", "our margin is 4711 percent"))
        assert "4711" in str(await frame(developer, "spans"))
        assert "4711" not in str(await frame(operator, "spans"))
    async with socket(server, f"{path}?after=0") as stream:
        assert "4711" in str(await frame(stream, "spans"))
    assert viewers() == ["developer"]


@pytest.mark.req("K-UI-2")
@pytest.mark.parametrize("parameter", ["after", "last_seq"])
async def test_a_reconnect_with_the_last_seq_gets_each_event_once(
    server: Server, session: Session, parameter: str
) -> None:
    path = f"/ws/tail/?session={session.session_id}"
    await post(server, session.trace())
    seen: list[str] = []
    async with socket(server, path) as stream:
        seq = (await frame(stream, "hello"))["seq"]
        await post(server, session.span("tool", "one"))
        message = await frame(stream, "events")
        seen += [event["name"] for event in message["events"]]
        seq = message["seq"]
    await post(server, *(session.span("tool", f"missed {n}") for n in range(5)))
    async with socket(server, f"{path}&{parameter}={seq}") as stream:
        while len(seen) < 6:
            seen += [event["name"] for event in (await frame(stream, "events"))["events"]]
        await post(server, session.span("tool", "last"))
        seen += [event["name"] for event in (await frame(stream, "events"))["events"]]
    assert seen == ["one", *(f"missed {n}" for n in range(5)), "last"]


@pytest.mark.req("K-UI-2")
async def test_a_comment_is_announced_to_the_pages_of_its_session(server: Server, session: Session) -> None:
    """Without its text. Pages read it with the rights of their reader."""
    other = Session(f"ws-{uuid.uuid4().hex[:8]}")
    await post(server, session.trace(), session.span("agent", "start"), other.trace(), other.span("agent", "start"))

    def comment(target: Session) -> None:
        with client_of(server, "developer") as client:
            headers = {"X-CSRFToken": client.cookies["csrftoken"], "Referer": server.url}
            address = f"{server.url}/api/sessions/{target.session_id}/comments/"
            assert client.post(address, json={"text": "a private remark"}, headers=headers).status_code == 201

    async with socket(server, f"/ws/sessions/{session.session_id}/", "operator") as stream:
        hello = await frame(stream, "hello")
        await asyncio.to_thread(comment, other)
        await asyncio.to_thread(comment, session)
        message = await frame(stream, "comments")
        assert message == {"type": "comments", "seq": hello["seq"]}
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(frame(stream, "comments"), 0.5)


async def test_the_tail_filters_by_kind_status_and_text(server: Server, session: Session) -> None:
    await post(server, session.trace())
    path = f"/ws/tail/?session={session.session_id}&kind=tool&status=error&q=SPECIAL"
    async with socket(server, path) as stream:
        await frame(stream, "hello")
        await post(
            server,
            session.span("tool", "special but well"),
            session.span("agent", "special agent", status="error"),
            session.span("tool", "ordinary", status="error"),
            session.span("tool", "a special failure", status="error"),
        )
        message = await frame(stream, "events")
        assert [event["name"] for event in message["events"]] == ["a special failure"]


async def test_the_list_socket_sends_changed_sessions(server: Server, session: Session) -> None:
    async with socket(server, "/ws/sessions/", "operator") as stream:
        await frame(stream, "hello")
        await post(server, session.trace(), session.span("agent", "start"))
        ids: set[str] = set()
        while session.session_id not in ids:
            ids |= {row["id"] for row in (await frame(stream, "sessions"))["sessions"]}


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize(
    ("path", "person", "code"), [("/ws/tail/", "operator", 4403), ("/ws/sessions/none/", "operator", 4404)]
)
async def test_a_socket_without_the_right_is_closed(server: Server, path: str, person: str, code: int) -> None:
    async with socket(server, path, person) as stream:
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(stream.recv(), 15)
        assert stream.close_code == code


@pytest.mark.req("P-SEC-1")
async def test_an_anonymous_socket_is_rejected(server: Server) -> None:
    try:
        async with socket(server, "/ws/tail/", None) as stream:
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(stream.recv(), 15)
            assert stream.close_code in {4401, 4403}
    except InvalidStatus as error:
        assert error.response.status_code == 403


async def test_frames_in_flight_are_bounded(server: Server, session: Session) -> None:
    """A client that acknowledges late gets the remaining events from the database, in order."""
    await post(server, session.trace())
    async with socket(server, f"/ws/tail/?session={session.session_id}&ack=1") as stream:
        await frame(stream, "hello")
        for batch in range(60):
            await post(server, *(session.span("tool", f"{batch}-{n}") for n in range(3)))
        names: list[str] = []
        while len(names) < 180:
            message = json.loads(await asyncio.wait_for(stream.recv(), 15))
            await stream.send("ack")
            names += [event["name"] for event in message.get("events", [])]
        assert names == [f"{batch}-{n}" for batch in range(60) for n in range(3)]


async def test_a_delayed_heartbeat_loses_no_events(server: Server, session: Session) -> None:
    """The window is full when a heartbeat is due, and then the queue overflows. All events still arrive."""
    await post(server, session.trace())
    async with socket(server, f"/ws/tail/?session={session.session_id}&ack=1") as stream:
        await frame(stream, "hello")
        opened = time.monotonic()
        names: set[str] = set()
        sent = 0
        for _ in range(WINDOW_FRAMES - 1):
            await post(server, session.span("tool", str(sent)))
            names |= {event["name"] for event in (await frame(stream, "events"))["events"]}
            sent += 1
        # The window is full and the heartbeat is due at the next change. Then send more than the queue can hold.
        await asyncio.sleep(max(0.0, opened + RECHECK_S + 0.2 - time.monotonic()))
        for _ in range(QUEUE_FRAMES + 10):
            await post(server, session.span("tool", str(sent)))
            sent += 1
            await asyncio.sleep(TICK_S)
        for _ in range(WINDOW_FRAMES):
            await stream.send("ack")
        expected = {str(number) for number in range(sent)}
        with contextlib.suppress(TimeoutError):
            while not expected <= names:
                message = json.loads(await asyncio.wait_for(stream.recv(), 5))
                await stream.send("ack")
                names |= {event["name"] for event in message.get("events", [])}
        assert names == expected


def test_a_slow_subscription_knows_how_far_to_catch_up() -> None:
    """Changes that a full queue dropped count toward `newest_seq`."""
    subscription = Subscription(1, None, True)
    for seq in range(1, QUEUE_FRAMES + 3):
        subscription.put(Change(seq - 1, seq, {}, []))
    assert subscription.is_behind
    assert subscription.newest_seq == QUEUE_FRAMES + 2


def test_a_change_is_cut_to_the_part_after_a_seq() -> None:
    """A socket that caught up does not get the first part of the change again."""
    old, new = (StoredSession(session_key=uuid.uuid4(), session_id=name, last_seq=7) for name in ("old", "new"))
    new.last_seq = 9
    spans = [
        (session.session_key, SpanRow("t", f"s{seq}", None, "span", "", "ok", None, None, None, seq))
        for session, seq in ((old, 6), (old, 7), (new, 8), (new, 9))
    ]
    change = Change(5, 9, {old.session_key: old, new.session_key: new}, spans).since(8)
    assert [span.seq for _, span in change.spans] == [9]
    assert (change.after, change.seq, list(change.sessions)) == (8, 9, [new.session_key])

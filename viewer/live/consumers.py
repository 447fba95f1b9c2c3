"""Websockets: the list, one session, the tail. Join, replay from the client's last seq, follow.

Each frame carries a seq, and a client that comes back with the last one it saw misses nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer
from django.core.exceptions import PermissionDenied
from django.http import Http404

from ingest import metrics
from ingest.models import Session
from viewer.accounts import access
from viewer.accounts.access import Grant, Right
from viewer.live import hub
from viewer.sessions import queries
from viewer.sessions.descriptions import describe_span
from viewer.sessions.serializers import columns, event_json, session_json
from viewer.sessions.session_checks import SessionChecks
from viewer.sessions.spans import SpanRow

# How long a page may show what its reader lost the right to, or a session whose spans have moved away.
RECHECK_S = 10.0
# A browser acknowledges frames, so that what is under way to a slow one is bounded here and not in the kernel.
WINDOW_FRAMES = 32
# What clients call the last seq they saw; ours says `after`.
_LAST_SEEN = ("after", "last_seq", "seq", "since")
UNAUTHENTICATED, FORBIDDEN, MISSING, TRY_AGAIN = 4401, 4403, 4404, 4503
_log = logging.getLogger(__name__)


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """What the three have in common: rights, the subscription, acknowledgement."""

    right = Right.SESSIONS
    wants_spans = True

    async def connect(self) -> None:
        self.query = {name: values[-1] for name, values in parse_qs(self.scope["query_string"].decode()).items()}
        self.pump: asyncio.Task[None] | None = None
        self.subscription: hub.Subscription | None = None
        self.in_flight = 0
        self.room = asyncio.Event()
        self.room.set()
        metrics.live_sockets.inc()
        await self.accept()
        grant = await access.socket_grant(self.scope)
        if grant.user_id is None:
            await self.close(UNAUTHENTICATED)
            return
        try:
            self.project_id, self.session = await self.find(grant)
        except (PermissionDenied, Http404) as refusal:
            await self.close(FORBIDDEN if isinstance(refusal, PermissionDenied) else MISSING)
            return
        self.pump = asyncio.create_task(self.follow_or_close())

    async def disconnect(self, code: int) -> None:
        metrics.live_sockets.dec()
        if self.pump is not None:
            self.pump.cancel()
        if self.subscription is not None:
            hub.hub().unsubscribe(self.subscription)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if text_data == "ack":
            self.in_flight = max(0, self.in_flight - 1)
            self.room.set()

    async def find(self, grant: Grant) -> tuple[int, Session | None]:
        """The project this socket follows, and its session if it follows one."""
        allowed = grant.projects(self.right)
        named = self.query.get("project", "")
        if named:
            chosen = await hub.read(queries.project_id, named, allowed)
            if chosen is None:
                raise Http404
            return chosen, None
        if not allowed:
            raise PermissionDenied
        return min(allowed), None

    async def follow_or_close(self) -> None:
        """Follow; where that fails, close: a page that is told comes back by itself, one that is not stands still."""
        try:
            await self.follow()
        except Exception as error:
            _log.warning("a live page was closed: %s", type(error).__name__)
            await self.close(TRY_AGAIN)

    async def follow(self) -> None:
        self.subscription = await hub.hub().subscribe(self.project_id, self.session, spans=self.wants_spans)
        after = next((self.query[name] for name in _LAST_SEEN if name in self.query), "")
        now = await hub.read(queries.last_seq, self.project_id)
        self.seq = int(after) if after.isascii() and after.isdigit() and len(after) < 19 else now
        await self.say({"type": "hello", "seq": self.seq, "project": self.project_id})
        await self.catch_up(now)
        checked = time.monotonic()
        while True:
            try:
                change = await asyncio.wait_for(self.subscription.queue.get(), RECHECK_S)
            except TimeoutError:
                change = None
            if time.monotonic() - checked > RECHECK_S:
                checked = time.monotonic()
                if not await self.is_allowed():
                    await self.close(FORBIDDEN)
                    return
                if await self.has_moved():
                    await self.close(MISSING)
                    return
                if self.query.get("ack"):
                    # So that a page can tell a quiet server from a connection that is gone.
                    await self.say({"type": "beat", "seq": self.seq})
            if change is None or change.seq <= self.seq:
                continue
            if self.subscription.is_behind:
                self.subscription.is_behind = False
                await self.say({"type": "behind", "seq": self.seq})
                await self.catch_up(self.subscription.newest)
                continue
            # Caught up past its beginning: what was sent already is not sent again.
            await self.deliver(change.since(self.seq) if change.after < self.seq else change)
            self.seq = change.seq

    async def is_allowed(self) -> bool:
        grant = await access.socket_grant(self.scope)
        return grant.may(self.right, self.project_id)

    async def has_moved(self) -> bool:
        """Whether what this socket follows is no longer here; then it has said so."""
        return False

    async def say(self, message: dict[str, Any] | str) -> None:
        if self.query.get("ack"):
            while self.in_flight >= WINDOW_FRAMES:
                self.room.clear()
                await self.room.wait()
            self.in_flight += 1
        await self.send(message if isinstance(message, str) else json.dumps(message))

    async def catch_up(self, upto: int) -> None:
        raise NotImplementedError

    async def deliver(self, change: hub.Change) -> None:
        raise NotImplementedError


class NoConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """An address that is none: said as a refusal, where Channels itself would fail."""

    async def connect(self) -> None:
        await self.accept()
        await self.close(MISSING)


class SessionListConsumer(LiveConsumer):
    """Sessions whose row changed."""

    wants_spans = False

    async def catch_up(self, upto: int) -> None:
        while self.seq < upto:
            sessions = await hub.read(queries.sessions_after, self.project_id, self.seq)
            if not sessions:
                return
            self.seq = sessions[-1].last_seq
            await self.say_sessions(sessions)

    async def deliver(self, change: hub.Change) -> None:
        self.seq = change.seq
        await self.say_sessions(list(change.sessions.values()))

    async def say_sessions(self, sessions: list[Session]) -> None:
        # In the order of their changes, so that a page cut off between two frames resumes behind the first.
        for first in range(0, len(sessions), hub.BATCH_ROWS):
            part = sessions[first : first + hub.BATCH_ROWS]
            seq = self.seq if part[-1] is sessions[-1] else part[-1].last_seq
            await self.say({"type": "sessions", "seq": seq, "sessions": [session_json(s) for s in part]})


class SessionConsumer(LiveConsumer):
    """The spans of one session."""

    async def find(self, grant: Grant) -> tuple[int, Session | None]:
        session = await access.asession(grant, self.scope["url_route"]["kwargs"]["session"], self.right)
        return session.project_id, session

    async def catch_up(self, upto: int) -> None:
        assert self.session is not None
        while self.seq < upto:
            rows = await hub.read(queries.spans_between, [self.session], self.seq, upto, limit=hub.BATCH_ROWS)
            if not rows:
                return
            self.seq = rows[-1][1].seq
            spans = [span for _, span in rows]
            # A check depends on all of its spans, so a page that missed some has to reload the checks.
            is_stale = any(map(SessionChecks().is_relevant, spans))
            await self.say({"type": "spans", "seq": self.seq, "spans": columns(spans), "checks_stale": is_stale})

    async def deliver(self, change: hub.Change) -> None:
        assert self.session is not None
        frame = change.session_frame(self.session.session_key)
        if frame is not None:
            await self.say(frame)

    async def has_moved(self) -> bool:
        """A session known by its trace alone ends when the trace turns out to belong to another."""
        assert self.session is not None
        if await hub.read(queries.has_session, self.session):
            return False
        owner = await hub.read(queries.session_of_trace, [self.project_id], self.session.session_id)
        await self.say({"type": "moved", "seq": self.seq, "to": str(owner.session_key) if owner else None})
        return True


class TailConsumer(LiveConsumer):
    """Every event of a project that passes the filters."""

    right = Right.TAIL

    async def catch_up(self, upto: int) -> None:
        while self.seq < upto:
            sessions = await hub.read(queries.sessions_after, self.project_id, self.seq)
            rows = await hub.read(queries.spans_between, sessions, self.seq, upto, limit=hub.BATCH_ROWS)
            if not rows:
                return
            self.seq = rows[-1][1].seq
            await self.say_events({s.session_key: s for s in sessions}, rows)

    async def deliver(self, change: hub.Change) -> None:
        # The hub may have read from before the place that this socket caught up to.
        rows = [(key, span) for key, span in change.spans if span.seq > self.seq]
        self.seq = change.seq
        await self.say_events(change.sessions, rows)

    async def say_events(self, sessions: dict[Any, Session], rows: list[tuple[Any, SpanRow]]) -> None:
        events = [event_json(sessions[key], s) for key, s in rows if key in sessions and self.passes(sessions[key], s)]
        if events:
            await self.say({"type": "events", "seq": self.seq, "events": events})

    def passes(self, session: Session, span: SpanRow) -> bool:
        wanted = self.query
        if wanted.get("session") and wanted["session"] not in {session.session_id, str(session.session_key)}:
            return False
        if wanted.get("kind") and not span.kind.startswith(wanted["kind"]):
            return False
        if wanted.get("status") and span.status != wanted["status"]:
            return False
        text = wanted.get("q", "").lower()
        return not text or any(
            text in part.lower() for part in (span.name, span.kind, session.session_id, describe_span(span))
        )

"""Websockets of the session list, one session and the tail.

A socket subscribes, replays everything after the client's last seq, and then follows. Each frame has a seq, and a
client that reconnects with the last one it saw misses nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
from time import monotonic
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from channels.generic.websocket import AsyncWebsocketConsumer
from django.core.exceptions import PermissionDenied
from django.http import Http404

from ingest import metrics
from ingest.cells import cells_of
from ingest.models import Session
from viewer.accounts import access, identity
from viewer.accounts.access import Grant, Right
from viewer.audit import payload_views
from viewer.audit.log import Origin
from viewer.live import hub, queries
from viewer.live.flow_control import ClientFlow, Stalled
from viewer.sessions.descriptions import describe_span
from viewer.sessions.queries import last_seq, session_of_trace
from viewer.sessions.serializers import columns, event_json, session_json
from viewer.sessions.session_checks import SessionChecks
from viewer.sessions.spans import SpanRow
from viewer.visibility.public_parts import Visibility

# Nothing is sent later than this after the reader lost access, or after the spans of a session moved away.
RECHECK_S = 10.0
# Names under which clients send the last seq they saw. Our own client sends `after`.
_LAST_SEEN = ("after", "last_seq", "seq", "since")
UNAUTHENTICATED, FORBIDDEN, MISSING, TRY_AGAIN = 4401, 4403, 4404, 4503
_log = logging.getLogger("ariadne.live")


class Closing(Exception):
    """The socket must be closed with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Base of all live sockets: access control, subscription and flow control."""

    right = Right.SESSIONS
    wants_spans = True

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Run the socket from its first message to its end.

        Everything is cleaned up here and not in `disconnect`, because daphne cancels a socket that does not finish in
        time after its connection broke, and such a socket never gets a disconnect message.
        """
        self.task: asyncio.Task[None] | None = None
        self.query = {name: values[-1] for name, values in parse_qs(scope["query_string"].decode("latin-1")).items()}
        self.flow = ClientFlow(scope, acknowledges=bool(self.query.get("ack")))
        self.flow.open()
        metrics.live_sockets.inc()
        try:
            await super().__call__(scope, receive, send)
        finally:
            metrics.live_sockets.dec()
            self.flow.close()
            if self.task is not None:
                self.task.cancel()
                await asyncio.wait([self.task])

    async def connect(self) -> None:
        await self.accept()
        if _has_nul(self.scope):
            # Postgres does not accept NUL in text, so no project, session or span has such a name.
            await self.close(MISSING)
            return
        self.checked_at = monotonic()
        grant = await identity.socket_grant(self.scope)
        if grant.user_id is None:
            await self.close(UNAUTHENTICATED)
            return
        try:
            self.project_id, self.session = await self.find_target(grant)
            self.visibility = await self.find_visibility(grant)
        except (PermissionDenied, Http404) as error:
            await self.close(FORBIDDEN if isinstance(error, PermissionDenied) else MISSING)
            return
        self.task = asyncio.create_task(self.run())

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if text_data == "ack":
            self.flow.acknowledge()

    async def find_target(self, grant: Grant) -> tuple[int, Session | None]:
        """Return the project that this socket follows, and the session if it follows only one."""
        allowed = grant.projects(self.right)
        slug = self.query.get("project", "")
        if slug:
            project_id = await hub.read(queries.project_id, slug, allowed)
            if project_id is None:
                raise Http404
            return project_id, None
        if not allowed:
            raise PermissionDenied
        return min(allowed), None

    async def find_visibility(self, grant: Grant) -> Visibility:
        """Return whether this socket sends content or only metadata."""
        return Visibility.METADATA

    def origin(self, grant: Grant) -> Origin:
        """Return the reader for the audit log."""
        address = str((self.scope.get("client") or [""])[0])
        return Origin(grant.user_id, grant.username, address, "websocket")

    async def run(self) -> None:
        """Follow until the reader loses access, stops reading, or an error. Then close the socket."""
        try:
            async with hub.hub().subscription(self.project_id, self.session, spans=self.wants_spans) as subscription:
                self.subscription = subscription
                await self.follow()
        except Closing as closing:
            await self.end(closing.code)
        except Stalled:
            metrics.live_closed.labels("stalled").inc()
            await self.close(TRY_AGAIN)
        except Exception as error:
            _log.warning("Closing a live socket after %s.", type(error).__name__)
            await self.close(TRY_AGAIN)

    async def end(self, code: int) -> None:
        """Close the socket. A reader who lost access does not get what waits for them."""
        if code in {UNAUTHENTICATED, FORBIDDEN} and self.flow.is_slow:
            self.flow.abort()
        else:
            await self.close(code)

    async def follow(self) -> None:
        """Replay what the client missed, then send changes until the socket is closed."""
        newest_seq = await hub.read(last_seq, self.project_id)
        self.seq = self.last_seen(default=newest_seq)
        await self.send_frame({"type": "hello", "seq": self.seq, "project": self.project_id})
        await self.catch_up(newest_seq)
        while True:
            change = await self.next_change()
            await self.require_access()
            if isinstance(change, hub.CommentsChanged):
                await self.send_frame({"type": "comments", "seq": self.seq})
            elif change is not None and change.seq > self.seq:
                await self.send_change(change)

    def last_seen(self, *, default: int) -> int:
        """Return the last seq that the client saw, as its query says."""
        seq = next((self.query[name] for name in _LAST_SEEN if name in self.query), "")
        return int(seq) if seq.isascii() and seq.isdigit() and len(seq) < 19 else default

    async def next_change(self) -> hub.Change | hub.CommentsChanged | None:
        """Return the next change, or None when the rights of the reader must be checked again."""
        try:
            async with asyncio.timeout(self.time_until_check):
                return await self.subscription.get()
        except TimeoutError:
            return None

    @property
    def time_until_check(self) -> float:
        return max(0.0, self.checked_at + RECHECK_S - monotonic())

    async def require_access(self) -> None:
        """Raise Closing if the reader lost access or the session moved. Asks again when the last answer is too old."""
        if self.time_until_check:
            return
        # The answer is as old as its question.
        self.checked_at = monotonic()
        grant = await identity.socket_grant(self.scope)
        if grant.user_id is None:
            raise Closing(UNAUTHENTICATED)
        if not grant.may(self.right, self.project_id):
            raise Closing(FORBIDDEN)
        if await self.is_target_gone():
            raise Closing(MISSING)
        self.visibility = await self.find_visibility(grant)
        if not self.time_until_check:
            # The database took so long that the answer is too old again.
            raise Closing(TRY_AGAIN)
        beat = json.dumps({"type": "beat", "seq": self.seq})
        if self.query.get("ack") and self.flow.has_room(len(beat)):
            # A page distinguishes a quiet server from a lost connection by this frame.
            await self.send_frame(beat)

    async def send_change(self, change: hub.Change) -> None:
        if self.subscription.is_behind:
            self.subscription.is_behind = False
            await self.send_frame({"type": "behind", "seq": self.seq})
            await self.catch_up(self.subscription.newest_seq)
            return
        # Catching up may have sent the first part of this change.
        await self.deliver(change.since(self.seq) if change.after < self.seq else change)
        self.seq = change.seq

    async def is_target_gone(self) -> bool:
        """Return True if the session that this socket follows no longer exists. The client has been notified."""
        return False

    async def send_frame(self, frame: dict[str, Any] | str) -> None:
        """Send a frame as soon as there is room, if its reader still has access to it."""
        text = frame if isinstance(frame, str) else json.dumps(frame)
        size, visibility = len(text), self.visibility
        await self.require_access()
        while not self.flow.has_room(size):
            with self.subscription.blocked():
                await self.flow.wait_for_room(size, self.time_until_check)
            await self.require_access()
        if self.visibility is not visibility:
            # The frame was made for other rights. The client reconnects and gets one for its own.
            raise Closing(TRY_AGAIN)
        self.flow.send(size)
        await self.send(text)

    async def catch_up(self, upto: int) -> None:
        """Send everything between the client's seq and `upto` from the database."""
        raise NotImplementedError

    async def deliver(self, change: hub.Change) -> None:
        raise NotImplementedError


class UnknownAddressConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Close sockets at unknown addresses. Channels itself would raise an exception."""

    async def connect(self) -> None:
        await self.accept()
        await self.close(MISSING)


class SessionListConsumer(LiveConsumer):
    """Sessions of a project whose row changed."""

    wants_spans = False

    async def catch_up(self, upto: int) -> None:
        while self.seq < upto:
            sessions = await hub.read(queries.sessions_after, self.project_id, self.seq)
            if not sessions:
                return
            self.seq = sessions[-1].last_seq
            if len(cells_of(self.project_id)) > 1:
                # Not all changes up to the last session are committed yet.
                self.seq = min(self.seq, upto)
            await self.send_sessions(sessions)

    async def deliver(self, change: hub.Change) -> None:
        self.seq = change.seq
        await self.send_sessions(list(change.sessions.values()))

    async def send_sessions(self, sessions: list[Session]) -> None:
        # In the order of their changes, so that a page that loses its connection between two frames can resume.
        for first in range(0, len(sessions), hub.BATCH_ROWS):
            batch = sessions[first : first + hub.BATCH_ROWS]
            seq = self.seq if batch[-1] is sessions[-1] else min(batch[-1].last_seq, self.seq)
            rows = [session_json(session) for session in batch]
            await self.send_frame({"type": "sessions", "seq": seq, "sessions": rows})


class SessionConsumer(LiveConsumer):
    """The spans of one session."""

    recorded_at: float | None = None

    async def find_target(self, grant: Grant) -> tuple[int, Session | None]:
        session = await access.aget_session(grant, self.scope["url_route"]["kwargs"]["session"], self.right)
        return session.project_id, session

    async def find_visibility(self, grant: Grant) -> Visibility:
        assert self.session is not None
        self.grant = grant
        return (await hub.read(payload_views.sight_of, grant, self.session)).visibility

    async def record_view(self) -> None:
        """Write to the audit log that this socket is about to send content, once per window."""
        assert self.session is not None
        window_s = payload_views.WINDOW.total_seconds()
        if self.recorded_at is not None and monotonic() - self.recorded_at < window_s:
            return
        self.recorded_at = monotonic()
        await hub.read(payload_views.record_view_by, self.origin(self.grant), self.session, part="websocket")

    async def catch_up(self, upto: int) -> None:
        assert self.session is not None
        while self.seq < upto:
            rows = await hub.read(
                queries.spans_between, [self.session], self.seq, upto, self.visibility, limit=hub.BATCH_ROWS
            )
            if not rows:
                return
            self.seq = rows[-1][1].seq
            spans = [span for _, span in rows]
            if self.visibility is Visibility.CONTENT and any(map(_has_content, spans)):
                await self.record_view()
            # A check depends on all of its spans, so a page that missed some has to reload the checks.
            is_stale = any(map(SessionChecks().is_relevant, spans))
            await self.send_frame({"type": "spans", "seq": self.seq, "spans": columns(spans), "checks_stale": is_stale})

    async def deliver(self, change: hub.Change) -> None:
        assert self.session is not None
        frame = change.session_frame(self.session.session_key, self.visibility)
        if frame is not None:
            if self.visibility is Visibility.CONTENT and change.has_content(self.session.session_key):
                await self.record_view()
            await self.send_frame(frame)

    async def is_target_gone(self) -> bool:
        # A session that was named after its trace disappears when the trace turns out to belong to another session.
        assert self.session is not None
        if await hub.read(queries.has_session, self.session):
            return False
        owner = await hub.read(session_of_trace, [self.project_id], self.session.session_id)
        await self.send_frame({"type": "moved", "seq": self.seq, "to": str(owner.session_key) if owner else None})
        return True


class TailConsumer(LiveConsumer):
    """All events of a project that match the filters."""

    right = Right.TAIL

    async def find_visibility(self, grant: Grant) -> Visibility:
        visibility = await hub.read(payload_views.project_visibility, grant, self.project_id)
        if visibility is Visibility.CONTENT:
            await hub.read(payload_views.record_tail_view, self.origin(grant), grant, self.project_id)
        return visibility

    async def catch_up(self, upto: int) -> None:
        while self.seq < upto:
            sessions = await hub.read(queries.sessions_after, self.project_id, self.seq)
            rows = await hub.read(
                queries.spans_between, sessions, self.seq, upto, self.visibility, limit=hub.BATCH_ROWS
            )
            if not rows:
                return
            self.seq = rows[-1][1].seq
            await self.send_events({session.session_key: session for session in sessions}, rows)

    async def deliver(self, change: hub.Change) -> None:
        # The change may start before the seq that this socket caught up to.
        rows = [(key, span.as_seen(self.visibility)) for key, span in change.spans if span.seq > self.seq]
        self.seq = change.seq
        await self.send_events(change.sessions, rows)

    async def send_events(self, sessions: dict[UUID, Session], rows: list[tuple[UUID, SpanRow]]) -> None:
        events = [
            event_json(sessions[key], span)
            for key, span in rows
            if key in sessions and self.matches(sessions[key], span)
        ]
        if events:
            await self.send_frame({"type": "events", "seq": self.seq, "events": events})

    def matches(self, session: Session, span: SpanRow) -> bool:
        filters = self.query
        if filters.get("session") and filters["session"] not in {session.session_id, str(session.session_key)}:
            return False
        if filters.get("kind") and not span.kind.startswith(filters["kind"]):
            return False
        if filters.get("status") and span.status != filters["status"]:
            return False
        text = filters.get("q", "").lower()
        if not text:
            return True
        return any(text in part.lower() for part in (span.name, span.kind, session.session_id, describe_span(span)))


def _has_nul(scope: Any) -> bool:
    return "\x00" in scope["path"] or b"%00" in scope["query_string"] or b"\x00" in scope["query_string"]


def _has_content(span: SpanRow) -> bool:
    public = span.as_seen(Visibility.METADATA)
    return (span.kind, span.name) != (public.kind, public.name)

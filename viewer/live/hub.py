"""One reader per process for everything that is watched live.

A notice from `ingest.storage.notifications` only wakes the hub; what changed is read from the database after the
last seq, once per tick for all sockets. So a lost notice costs at most one poll, and a socket that cannot keep up
reads for itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from channels.layers import get_channel_layer

from ingest.models import Session
from ingest.storage.notifications import GROUP
from viewer.sessions import queries
from viewer.sessions.descriptions import describe_session
from viewer.sessions.serializers import check_json, columns, session_json
from viewer.sessions.session_checks import SessionChecks, projected_turns
from viewer.sessions.spans import SpanRow

P = ParamSpec("P")
T = TypeVar("T")

TICK_S = 0.05
POLL_S = 1.0
QUEUE_FRAMES = 64
# A frame must stay below the websocket's largest message, with long names and texts too.
BATCH_ROWS = 1_000
# Two readers: one may wait for a large session while the other keeps everybody else's ticks going.
_executor = ThreadPoolExecutor(max_workers=2, thread_name_prefix="live")
_log = logging.getLogger(__name__)


async def read(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a query off the event loop."""
    reader = database_sync_to_async(function, thread_sensitive=False, executor=_executor)
    return await reader(*args, **kwargs)  # type: ignore[no-any-return]


@dataclass
class Change:
    """What happened in one project between two seqs, and its frames, encoded once for all sockets."""

    after: int
    seq: int
    sessions: dict[UUID, Session]
    spans: list[tuple[UUID, SpanRow]]
    checks: dict[UUID, dict[str, Any]] = field(default_factory=dict)
    _frames: dict[UUID, str] = field(default_factory=dict)

    def since(self, seq: int) -> Change:
        """The part of it that a socket which has seen everything up to `seq` has not."""
        sessions = {key: session for key, session in self.sessions.items() if session.last_seq > seq}
        return Change(seq, self.seq, sessions, [pair for pair in self.spans if pair[1].seq > seq], self.checks)

    def session_frame(self, key: UUID) -> str | None:
        if key not in self.sessions:
            return None
        if key not in self._frames:
            self._frames[key] = json.dumps(
                {
                    "type": "spans",
                    "seq": self.seq,
                    "spans": columns(span for owner, span in self.spans if owner == key),
                    "session": session_json(self.sessions[key]),
                    **self.checks.get(key, {}),
                }
            )
        return self._frames[key]


@dataclass(eq=False)
class Subscription:
    """One socket's share: the changes of a project, or of one session in it."""

    project_id: int
    session_key: UUID | None
    wants_spans: bool
    queue: asyncio.Queue[Change] = field(default_factory=lambda: asyncio.Queue(QUEUE_FRAMES))
    is_behind: bool = False
    newest: int = 0
    """The seq of the last change that was put, kept or not: how far to catch up, whatever change is in hand by then."""

    def put(self, change: Change) -> None:
        if self.session_key is not None and self.session_key not in change.sessions:
            return
        self.newest = change.seq
        try:
            self.queue.put_nowait(change)
        except asyncio.QueueFull:
            # Nothing is kept for a socket that does not read: it catches up from the database instead.
            self.is_behind = True
            while not self.queue.empty():
                self.queue.get_nowait()
            self.queue.put_nowait(change)


class Hub:
    def __init__(self) -> None:
        self._subscriptions: dict[int, set[Subscription]] = defaultdict(set)
        self._cursors: dict[int, int] = {}
        self._checks: dict[UUID, SessionChecks] = {}
        self._counts: dict[UUID, int] = {}
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def subscribe(self, project_id: int, session: Session | None = None, *, spans: bool = True) -> Subscription:
        """From now on; what was before is read by seq."""
        if project_id not in self._cursors:
            self._cursors[project_id] = await read(queries.last_seq, project_id)
        if session is not None and session.session_key not in self._checks:
            self._checks[session.session_key] = await read(queries.fresh_checks, session)
            self._counts[session.session_key] = session.span_count
        subscription = Subscription(project_id, session.session_key if session else None, spans)
        self._subscriptions[project_id].add(subscription)
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._run())]
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        mine = self._subscriptions[subscription.project_id]
        mine.discard(subscription)
        if all(other.session_key != subscription.session_key for other in mine):
            self._checks.pop(subscription.session_key, None)  # type: ignore[arg-type]
            self._counts.pop(subscription.session_key, None)  # type: ignore[arg-type]
        if not mine:
            del self._subscriptions[subscription.project_id]
            self._cursors.pop(subscription.project_id, None)
        if not self._subscriptions:
            for task in self._tasks:
                task.cancel()
            self._tasks = []

    async def _listen(self) -> None:
        """Turn notices into a wake-up; without a channel layer the poll remains."""
        while True:
            layer = get_channel_layer()
            channel = await layer.new_channel()
            try:
                await layer.group_add(GROUP, channel)
                while True:
                    await layer.receive(channel)
                    self._wake.set()
            except asyncio.CancelledError:
                with contextlib.suppress(Exception):
                    await layer.group_discard(GROUP, channel)
                raise
            except Exception:
                _log.warning("the channel layer is away; live pages fall back to a poll", exc_info=True)
                await asyncio.sleep(POLL_S)

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), POLL_S)
            self._wake.clear()
            began = time.monotonic()
            for project_id in list(self._subscriptions):
                try:
                    await self._advance(project_id)
                except Exception:
                    _log.warning("reading changes failed; the next tick tries again", exc_info=True)
            await asyncio.sleep(max(0.0, TICK_S - (time.monotonic() - began)))

    async def _advance(self, project_id: int) -> None:
        while True:
            after = self._cursors.get(project_id)
            if after is None:
                return
            change = await read(self._fetch, project_id, after)
            if change is None or project_id not in self._subscriptions:
                return
            self._cursors[project_id] = change.seq
            await self._forget_moved(change)
            self._note_checks(change)
            for subscription in list(self._subscriptions[project_id]):
                subscription.put(change)
            if len(change.spans) < BATCH_ROWS:
                return

    def _fetch(self, project_id: int, after: int) -> Change | None:
        subscriptions = self._subscriptions.get(project_id, set())
        sessions = queries.sessions_after(project_id, after)
        if not sessions:
            return None
        # Everything up to here is committed: seqs are given in the order of commits within a project.
        upto = sessions[-1].last_seq
        watched = {s.session_key for s in subscriptions if s.session_key}
        everything = any(s.session_key is None and s.wants_spans for s in subscriptions)
        wanted = [session for session in sessions if everything or session.session_key in watched]
        spans = queries.spans_between(wanted, after, upto, limit=BATCH_ROWS)
        if len(spans) == BATCH_ROWS:
            upto = spans[-1][1].seq
        return Change(after, upto, {session.session_key: session for session in sessions}, spans)

    async def _forget_moved(self, change: Change) -> None:
        """A trace that moved to another session took its spans along: fewer than before means reading anew."""
        for key in self._checks.keys() & change.sessions.keys():
            session = change.sessions[key]
            if session.span_count < self._counts.get(key, 0):
                self._checks[key] = await read(queries.fresh_checks, session)
            self._counts[key] = session.span_count

    def _note_checks(self, change: Change) -> None:
        by_session: dict[UUID, list[SpanRow]] = defaultdict(list)
        for key, span in change.spans:
            if key in self._checks and self._checks[key].is_relevant(span):
                by_session[key].append(span)
        for key, spans in by_session.items():
            checks = self._checks[key]
            found = [checks.get(check_key) for check_key in checks.add(spans)]
            ordered = checks.timeline()
            change.checks[key] = {
                "checks": [check_json(check) for check in found if check and checks.is_drawn(check)],
                "projected_turns": projected_turns(ordered),
                "story": describe_session(ordered),
            }


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """The hub of this process, that is of its event loop."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())

"""The hub reads changes from the database once per process, for all live sockets.

A notification from `ingest.storage.notifications` only wakes the hub. The hub then reads everything after its last
seq, at most once per tick. A lost notification is made up for by the next poll, and a socket that cannot keep up reads
from the database itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from channels.layers import get_channel_layer

from ingest.cells import cells_of
from ingest.models import Session
from ingest.outage import Outage
from ingest.storage.notifications import GROUP, channel_layer
from viewer.live import comment_notifications, queries
from viewer.sessions.queries import fresh_checks, last_seq
from viewer.sessions.serializers import check_json, columns, session_json
from viewer.sessions.session_checks import SessionChecks
from viewer.sessions.spans import SpanRow
from viewer.visibility.public_parts import Visibility

P = ParamSpec("P")
T = TypeVar("T")

TICK_S = 0.05
POLL_S = 1.0
# A queue with more is dropped. Its socket reads from the database instead.
QUEUE_FRAMES, QUEUE_SPANS = 64, 10_000
# Keeps a frame below the maximum size of a websocket message, even with long names and texts.
BATCH_ROWS = 1_000
# Two threads: while one reads a large session, the other serves the ticks of all other sockets.
_executor = ThreadPoolExecutor(max_workers=2, thread_name_prefix="live")
_changes = Outage(logging.getLogger("ariadne.live"), "live_changes", "wait for the database, open pages catch up")


async def read(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a query off the event loop."""
    run = database_sync_to_async(function, thread_sensitive=False, executor=_executor)
    return await run(*args, **kwargs)  # type: ignore[no-any-return]


@dataclass
class Change:
    """The changes of one project between two seqs, with frames that are encoded once for all sockets."""

    after: int
    seq: int
    sessions: dict[UUID, Session]
    spans: list[tuple[UUID, SpanRow]]
    checks: dict[tuple[UUID, Visibility], dict[str, Any]] = field(default_factory=dict)
    _frames: dict[tuple[UUID, Visibility], str] = field(default_factory=dict)

    def since(self, seq: int) -> Change:
        """Return the part after `seq`."""
        sessions = {key: session for key, session in self.sessions.items() if session.last_seq > seq}
        return Change(seq, self.seq, sessions, [pair for pair in self.spans if pair[1].seq > seq], self.checks)

    def session_frame(self, key: UUID, visibility: Visibility) -> str | None:
        if key not in self.sessions:
            return None
        frame = self._frames.get((key, visibility))
        if frame is None:
            frame = self._frames[key, visibility] = json.dumps(
                {
                    "type": "spans",
                    "seq": self.seq,
                    "spans": columns(span.as_seen(visibility) for owner, span in self.spans if owner == key),
                    "session": session_json(self.sessions[key]),
                    **self.checks.get((key, visibility), {}),
                }
            )
        return frame

    def has_content(self, key: UUID) -> bool:
        """True if the frame of a session contains more than metadata."""
        return self.session_frame(key, Visibility.CONTENT) != self.session_frame(key, Visibility.METADATA)


@dataclass(frozen=True, slots=True)
class CommentsChanged:
    """Someone commented on the session of a socket."""


@dataclass(eq=False)
class Subscription:
    """The changes that one socket follows: those of a project, or of one session in it."""

    project_id: int
    session_key: UUID | None
    wants_spans: bool
    queue: asyncio.Queue[Change | CommentsChanged] = field(default_factory=lambda: asyncio.Queue(QUEUE_FRAMES))
    is_behind: bool = False
    newest_seq: int = 0
    """The seq of the last change, including dropped ones. A socket that is behind catches up to it."""
    _is_blocked: bool = False
    _span_count: int = 0

    async def get(self) -> Change | CommentsChanged:
        """Return the next change, as soon as there is one."""
        change = await self.queue.get()
        if isinstance(change, Change):
            self._span_count -= len(change.spans)
        return change

    @contextlib.contextmanager
    def blocked(self) -> Iterator[None]:
        """Keep no changes during the context, because the client of the socket does not read."""
        self._is_blocked = True
        try:
            yield
        finally:
            self._is_blocked = False

    def put(self, change: Change) -> None:
        if self.session_key is not None and self.session_key not in change.sessions:
            return
        self.newest_seq = change.seq
        if self._is_blocked or self.queue.full() or self._span_count + len(change.spans) > QUEUE_SPANS:
            # Drop the queue of a slow socket. It catches up from the database instead.
            self.is_behind = True
            while not self.queue.empty():
                self.queue.get_nowait()
            self._span_count = 0
            change = Change(change.after, change.seq, {}, [])
        self._span_count += len(change.spans)
        self.queue.put_nowait(change)

    def announce_comments(self) -> None:
        # Pages also read comments from time to time, so a slow socket does without.
        with contextlib.suppress(asyncio.QueueFull):
            self.queue.put_nowait(CommentsChanged())


class Hub:
    """Reads the changes of all subscribed projects and distributes them to sockets."""

    def __init__(self) -> None:
        self._subscriptions: dict[int, set[Subscription]] = defaultdict(set)
        self._cursors: dict[int, int] = {}
        self._checks: dict[UUID, SessionChecks] = {}
        self._span_counts: dict[UUID, int] = {}
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @contextlib.asynccontextmanager
    async def subscription(
        self, project_id: int, session: Session | None = None, *, spans: bool = True
    ) -> AsyncIterator[Subscription]:
        """Subscribe to changes from now on, until the context ends. The caller reads earlier ones by seq."""
        subscription = Subscription(project_id, session.session_key if session else None, spans)
        # Added first, so that another socket that leaves concurrently does not remove what this one is about to use.
        self._subscriptions[project_id].add(subscription)
        try:
            if project_id not in self._cursors:
                seq = await read(last_seq, project_id)
                # Another socket may have set it in between. A later seq would skip changes that it waits for.
                self._cursors.setdefault(project_id, seq)
            if session is not None and session.session_key not in self._checks:
                self._checks[session.session_key] = await read(fresh_checks, session, Visibility.CONTENT)
                self._span_counts[session.session_key] = session.span_count
            if not self._tasks:
                self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._run())]
            yield subscription
        finally:
            self._unsubscribe(subscription)

    @property
    def is_idle(self) -> bool:
        """True if nothing is left of past subscriptions."""
        return not (self._subscriptions or self._cursors or self._checks or self._span_counts or self._tasks)

    def _unsubscribe(self, subscription: Subscription) -> None:
        remaining = self._subscriptions[subscription.project_id]
        remaining.discard(subscription)
        if all(other.session_key != subscription.session_key for other in remaining):
            self._checks.pop(subscription.session_key, None)  # type: ignore[arg-type]
            self._span_counts.pop(subscription.session_key, None)  # type: ignore[arg-type]
        if not remaining:
            del self._subscriptions[subscription.project_id]
            self._cursors.pop(subscription.project_id, None)
        if not self._subscriptions:
            for task in self._tasks:
                task.cancel()
            self._tasks = []

    async def _listen(self) -> None:
        """Wake the hub at each notification. Without a channel layer, the hub polls."""
        while True:
            layer = get_channel_layer()
            channel = await layer.new_channel()
            try:
                await layer.group_add(GROUP, channel)
                channel_layer.succeed("pages")
                while True:
                    message = await layer.receive(channel)
                    if message["type"] == comment_notifications.MESSAGE_TYPE:
                        self._announce_comments(message["project"], UUID(message["session"]))
                    else:
                        self._wake.set()
            except asyncio.CancelledError:
                with contextlib.suppress(Exception):
                    await layer.group_discard(GROUP, channel)
                raise
            except Exception as error:
                channel_layer.fail("pages", error)
                await asyncio.sleep(POLL_S)

    def _announce_comments(self, project_id: int, session_key: UUID) -> None:
        for subscription in self._subscriptions.get(project_id, ()):
            if subscription.session_key == session_key:
                subscription.announce_comments()

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), POLL_S)
            self._wake.clear()
            started = time.monotonic()
            failure: Exception | None = None
            for project_id in list(self._subscriptions):
                try:
                    await self._advance(project_id)
                except Exception as error:
                    failure = error
            if failure is None:
                _changes.succeed("hub")
            else:
                _changes.fail("hub", failure)
            await asyncio.sleep(max(0.0, TICK_S - (time.monotonic() - started)))

    async def _advance(self, project_id: int) -> None:
        while True:
            after = self._cursors.get(project_id)
            if after is None:
                return
            readers = set(self._subscriptions.get(project_id, ()))
            change = await read(self._fetch, project_id, after, readers)
            if change is None or project_id not in self._subscriptions:
                return
            self._cursors[project_id] = change.seq
            await self._reload_moved(change)
            self._update_checks(change)
            for subscription in list(self._subscriptions[project_id]):
                # The query does not know what a socket wants that came after it began. That socket reads by itself.
                subscription.is_behind |= subscription not in readers
                subscription.put(change)
            if len(change.spans) < BATCH_ROWS:
                return

    def _fetch(self, project_id: int, after: int, readers: Collection[Subscription]) -> Change | None:
        """Read the sessions that changed after a seq, and the spans of those that readers follow."""
        sessions = queries.sessions_after(project_id, after)
        if not sessions:
            return None
        # Everything up to here is committed, because seqs follow the order of commits within a cell.
        upto = sessions[-1].last_seq
        if len(cells_of(project_id)) > 1:
            upto = last_seq(project_id)
            sessions = queries.sessions_after(project_id, after)
        watched = {reader.session_key for reader in readers if reader.session_key}
        wants_all = any(reader.session_key is None and reader.wants_spans for reader in readers)
        selected = [session for session in sessions if wants_all or session.session_key in watched]
        spans = queries.spans_between(selected, after, upto, Visibility.CONTENT, limit=BATCH_ROWS)
        if len(spans) == BATCH_ROWS:
            upto = spans[-1][1].seq
        return Change(after, upto, {session.session_key: session for session in sessions}, spans)

    async def _reload_moved(self, change: Change) -> None:
        """Read the checks of a session again if it has fewer spans than before: a trace moved to another session."""
        for key in self._checks.keys() & change.sessions.keys():
            session = change.sessions[key]
            if session.span_count < self._span_counts.get(key, 0):
                self._checks[key] = await read(fresh_checks, session, Visibility.CONTENT)
            self._span_counts[key] = session.span_count

    def _update_checks(self, change: Change) -> None:
        by_session: dict[UUID, list[SpanRow]] = defaultdict(list)
        for key, span in change.spans:
            if key in self._checks and self._checks[key].is_relevant(span):
                by_session[key].append(span)
        for key, spans in by_session.items():
            checks = self._checks[key]
            changed = [checks.get(check_key) for check_key in checks.add(spans)]
            drawn = [check for check in changed if check and checks.is_drawn(check)]
            for visibility in Visibility:
                change.checks[key, visibility] = {
                    "checks": [check_json(check.as_seen(visibility)) for check in drawn],
                }


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """Return the hub of this process. Tests have one per event loop."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())

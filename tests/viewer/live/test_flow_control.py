"""A socket sends nothing after its reader lost access, and keeps little for a client that does not read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from viewer.accounts import identity
from viewer.accounts.access import ALL_RIGHTS, EMPTY_GRANT, Grant
from viewer.live import consumers, flow_control, hub
from viewer.live.consumers import FORBIDDEN, RECHECK_S, TRY_AGAIN, UNAUTHENTICATED, LiveConsumer
from viewer.live.flow_control import EXTENSION, PROCESS_BYTES, SOCKET_BYTES, ClientFlow, Outgoing
from viewer.live.hub import Change, Subscription
from viewer.visibility.public_parts import Visibility

READER = Grant(1, "ann", {1: ALL_RIGHTS})
STRANGER = Grant(1, "ann", {})
FRAME_BYTES = 100_000


class Connection:
    """A connection whose client reads when the test says so."""

    def __init__(self) -> None:
        self.waiting_bytes = 0
        self.is_aborted = False
        self._is_read = asyncio.Event()

    async def wait_until_read(self) -> None:
        self._is_read.clear()
        await self._is_read.wait()

    def write(self, size: int) -> None:
        self.waiting_bytes += size

    def read(self) -> None:
        self.waiting_bytes = 0
        self._is_read.set()

    def abort(self) -> None:
        self.is_aborted = True
        self.waiting_bytes = 0


class Clock:
    """Moves by a second with every frame, or when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class CatchingUp(LiveConsumer):
    """A socket that catches up without an end."""

    def __init__(self, clock: Clock, connection: Connection, *, seconds_per_frame: float = 1.0) -> None:
        super().__init__()
        self.clock, self.connection, self.seconds_per_frame = clock, connection, seconds_per_frame
        self.scope: dict[str, Any] = {"extensions": {EXTENSION: connection}}
        self.query: dict[str, str] = {}
        self.project_id, self.session, self.seq = 1, None, 0
        self.visibility = Visibility.CONTENT
        self.flow = ClientFlow(self.scope, acknowledges=False)
        self.checked_at = clock.now
        self.sent_at: list[float] = []
        self.closed: list[int] = []
        self.visible = Visibility.CONTENT

    async def find_visibility(self, grant: Grant) -> Visibility:
        return self.visible

    async def follow(self) -> None:
        while True:
            self.clock.now += self.seconds_per_frame
            await self.send_frame("x" * FRAME_BYTES)
            await asyncio.sleep(0)

    async def send(self, text_data: str = "", *_: Any, **__: Any) -> None:
        self.sent_at.append(self.clock.now)
        self.connection.write(len(text_data))

    async def close(self, code: int | None = None, reason: str | None = None) -> None:
        self.closed.append(code or 0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(consumers, "monotonic", clock)
    monkeypatch.setattr(flow_control, "monotonic", clock)
    monkeypatch.setattr(flow_control, "outgoing", Outgoing())

    class NoHub:
        @contextlib.asynccontextmanager
        async def subscription(self, *_: Any, **__: Any) -> AsyncIterator[Subscription]:
            yield Subscription(1, None, True)

    monkeypatch.setattr(hub, "hub", NoHub)
    return clock


def grants(monkeypatch: pytest.MonkeyPatch, clock: Clock, after: Grant, *, ends_after_s: float) -> None:
    """Let the reader have the grant `after` from then on."""
    end = clock.now + ends_after_s

    async def socket_grant(_scope: Any) -> Grant:
        return READER if clock.now < end else after

    monkeypatch.setattr(identity, "socket_grant", socket_grant)


@pytest.mark.req("A-PRI-5")
@pytest.mark.parametrize(("after", "code"), [(STRANGER, FORBIDDEN), (EMPTY_GRANT, UNAUTHENTICATED)])
@pytest.mark.parametrize("ends_after_s", [0.5, 4.5, 9.5, 23.5])
async def test_a_socket_that_catches_up_stops_in_time(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, after: Grant, code: int, ends_after_s: float
) -> None:
    """It has more to send than it can before the right ends. Its client reads everything at once."""
    grants(monkeypatch, clock, after, ends_after_s=ends_after_s)
    connection = Connection()
    page = CatchingUp(clock, connection)
    write = connection.write

    def write_and_read(size: int) -> None:
        write(size)
        connection.read()

    monkeypatch.setattr(connection, "write", write_and_read)
    end = clock.now + ends_after_s
    async with asyncio.timeout(30):
        await page.run()
    assert page.closed == [code]
    assert page.sent_at and page.sent_at[-1] <= end + RECHECK_S


@pytest.mark.req("A-PRI-5")
async def test_a_frame_for_other_rights_is_not_sent(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """It was made with content, and waited until its reader might see only metadata. The client connects again."""
    grants(monkeypatch, clock, READER, ends_after_s=0)
    page = CatchingUp(clock, Connection())
    page.visible = Visibility.METADATA
    page.clock.now += RECHECK_S
    await page.run()
    assert (page.sent_at, page.closed) == ([], [TRY_AGAIN])


@pytest.mark.req("A-PRI-5")
async def test_bytes_that_wait_for_a_reader_without_access_are_discarded(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    grants(monkeypatch, clock, STRANGER, ends_after_s=5)
    connection = Connection()
    await CatchingUp(clock, connection).run()
    assert connection.is_aborted and not connection.waiting_bytes


async def test_a_client_that_does_not_read_gets_a_bounded_part_and_a_retry_code(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """Nothing is read, so after the limit no frame is sent. The client resumes from its seq."""
    grants(monkeypatch, clock, READER, ends_after_s=1e9)
    monkeypatch.setattr(flow_control, "STALL_S", 0.0)
    connection = Connection()
    page = CatchingUp(clock, connection, seconds_per_frame=0.0)
    page.checked_at = clock.now = clock.now + 1
    monkeypatch.setattr(consumers, "RECHECK_S", 0.05)
    async with asyncio.timeout(30):
        await page.run()
    assert page.closed == [TRY_AGAIN]
    assert SOCKET_BYTES - FRAME_BYTES <= connection.waiting_bytes <= SOCKET_BYTES
    assert len(page.sent_at) == SOCKET_BYTES // FRAME_BYTES


async def test_a_client_that_reads_slowly_gets_everything(clock: Clock) -> None:
    """Each read makes room for more, so it is never called stalled."""
    connection = Connection()
    flow = ClientFlow({"extensions": {EXTENSION: connection}}, acknowledges=False)
    for _ in range(3):
        connection.write(SOCKET_BYTES)
        assert not flow.has_room(1)
        waiting = asyncio.create_task(flow.wait_for_room(1, 30))
        clock.now += 2 * flow_control.STALL_S
        await asyncio.sleep(0)
        connection.read()
        await waiting
        assert flow.has_room(SOCKET_BYTES)


async def test_the_process_cuts_off_the_clients_that_read_least(clock: Clock) -> None:
    """Together they would exceed the limit. One that reads keeps its connection."""
    sockets = Outgoing()
    slow, healthy = [Connection() for _ in range(100)], Connection()
    for connection in (*slow, healthy):
        sockets.add(connection)
    for number, connection in enumerate(slow):
        sockets.reserve(SOCKET_BYTES)
        connection.write(SOCKET_BYTES - number)
        sockets.reserve(10)
        healthy.write(10)
        healthy.read()
        assert sockets.waiting_bytes <= PROCESS_BYTES
    assert [connection.is_aborted for connection in slow].count(True) == 100 - PROCESS_BYTES // SOCKET_BYTES
    assert slow[0].is_aborted and not healthy.is_aborted


def test_a_blocked_socket_keeps_no_changes() -> None:
    """Only how far it must catch up."""
    subscription = Subscription(1, None, True)
    with subscription.blocked():
        for seq in range(1, 5):
            subscription.put(Change(seq - 1, seq, {}, [("key", "span")] * 1_000))  # type: ignore[list-item]
    assert subscription.is_behind and subscription.newest_seq == 4
    assert [change.spans for change in (subscription.queue.get_nowait(),) if isinstance(change, Change)] == [[]]
    assert subscription.queue.empty()

"""A live connection whose query fails is closed, so that the client reconnects."""

from __future__ import annotations

from django.db import OperationalError
from live_server import Server
from reader import cookie_header
from scale.agent import post_events, span
from scale.watcher import Watcher
from wait import wait_until

from viewer.live.consumers import TRY_AGAIN, LiveConsumer


class FailingConsumer(LiveConsumer):
    """A consumer whose database fails while it catches up."""

    def __init__(self) -> None:
        super().__init__()
        self.closed: list[int] = []

    async def follow(self) -> None:
        raise OperationalError("the database system is shutting down")

    async def close(self, code: int | None = None, reason: str | None = None) -> None:
        self.closed.append(code or 0)


async def test_failed_connection_is_closed_with_a_retry_code() -> None:
    """Clients reconnect after every close code except those for missing permission."""
    page = FailingConsumer()
    await page.run()
    assert page.closed == [TRY_AGAIN]
    assert TRY_AGAIN not in {4401, 4403, 4404}


def test_page_far_behind_catches_up(server: Server) -> None:
    """A page that missed six thousand events with long names receives all of them once."""
    cookies = cookie_header(server, "developer")
    page = Watcher(server.url, cookies)
    page.start()
    assert page.is_open.wait(20), page.faults
    page.finish()
    events = [span("far-behind", f"span-{number:060}", name="n" * 300) for number in range(6000)]
    for first in range(0, len(events), 1000):
        post_events(server, events[first : first + 1000])
    second_page = Watcher(server.url, cookies)
    second_page.seq = page.seq
    second_page.start()
    assert wait_until(lambda: len(second_page.keys) >= 6000), (len(second_page.keys), second_page.faults[-3:])
    second_page.finish()
    assert second_page.duplicates == 0
    assert second_page.connects == 1

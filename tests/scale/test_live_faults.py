"""A live page whose reading fails is closed, so that it comes back; it does not stand still."""

from __future__ import annotations

from django.db import OperationalError
from live_server import Server
from scale.agent import span, tell
from scale.watch import Watcher, sign_in
from wait import wait_until

from viewer.live.consumers import TRY_AGAIN, LiveConsumer


class Failing(LiveConsumer):
    """Postgres goes away while this page catches up."""

    def __init__(self) -> None:
        super().__init__()
        self.closed: list[int] = []

    async def follow(self) -> None:
        raise OperationalError("the database system is shutting down")

    async def close(self, code: int | None = None, reason: str | None = None) -> None:
        self.closed.append(code or 0)


async def test_a_page_that_cannot_be_followed_is_closed() -> None:
    """Clients come back on any code that does not say who may not."""
    page = Failing()
    await page.follow_or_close()
    assert page.closed == [TRY_AGAIN]
    assert TRY_AGAIN not in {4401, 4403, 4404}


def test_a_page_far_behind_catches_up_in_frames_that_fit(server: Server) -> None:
    """Six thousand events of long names, then a page that saw none of them: all are shown, none twice."""
    cookies = sign_in(server.url, server.logins["developer"])
    page = Watcher(server.url, cookies)
    page.start()
    assert page.is_open.wait(20), page.faults
    page.finish()
    events = [span("far-behind", f"span-{number:060}", name="n" * 300) for number in range(6000)]
    for first in range(0, len(events), 1000):
        tell(server, events[first : first + 1000])
    back = Watcher(server.url, cookies)
    back.seq = page.seq
    back.start()
    assert wait_until(lambda: len(back.keys) >= 6000), (len(back.keys), back.faults[-3:])
    back.finish()
    assert back.duplicates == 0
    assert back.connects == 1

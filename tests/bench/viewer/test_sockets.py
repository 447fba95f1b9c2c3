"""A thousand websockets that connect and disappear: nothing is left of them.

pytest tests/bench/viewer/test_sockets.py -q -s
"""

from __future__ import annotations

import asyncio
import time

import psutil
from live_server import Server
from reader import client_of
from wait import wait_until

from tests.viewer.live.test_disconnects import connect_and_reset, open_sockets

SOCKETS, AT_ONCE = 1_000, 50
IDLE_S = 10.0


def web_process(server: Server) -> psutil.Process:
    children = psutil.Process(server.process.pid).children(recursive=True)
    return next(child for child in children if "ariadne.runtime.web_process" in child.cmdline())


async def test_a_thousand_abrupt_disconnects_leave_nothing_behind(server: Server) -> None:
    with client_of(server, "developer") as client:
        cookie = client.cookies["sessionid"]
    process = web_process(server)

    async def burst(count: int) -> None:
        for first in range(0, count, AT_ONCE):
            await asyncio.gather(
                *(connect_and_reset(server, cookie, reads=number % 2 == 0) for number in range(first, first + AT_ONCE))
            )

    await burst(200)
    assert wait_until(lambda: open_sockets(server) == 0)
    before_mb = process.memory_info().rss / 2**20
    await burst(SOCKETS)
    assert wait_until(lambda: open_sockets(server) == 0, timeout_s=60)
    after_mb = process.memory_info().rss / 2**20
    began, busy = time.monotonic(), sum(process.cpu_times()[:2])
    await asyncio.sleep(IDLE_S)
    share = (sum(process.cpu_times()[:2]) - busy) / (time.monotonic() - began)
    print(f"\n{SOCKETS} sockets: 0 left, memory {before_mb:.0f} → {after_mb:.0f} MB, idle CPU {share:.1%}")
    assert after_mb < before_mb + 30
    assert share < 0.05

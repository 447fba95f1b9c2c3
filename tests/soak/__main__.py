"""`make soak`: agents, pages and faults for a bounded time, one table at the end. Anything lost or doubled fails it.

    make soak                    ten minutes
    make soak SOAK_MINUTES=2     a shorter one

The first half has faults (a web process killed, all renewed, Redis away, Postgres crashed), the second half none: there
memory and descriptors of the same processes are compared.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

import psutil  # noqa: E402
from live_server import Server, run_server  # noqa: E402
from scale.agent import stored  # noqa: E402
from scale.load import Agent  # noqa: E402
from scale.redis_server import Redis  # noqa: E402
from scale.watch import Watcher, sign_in  # noqa: E402
from soak.faults import Faults  # noqa: E402
from wait import wait_until  # noqa: E402

from ariadne.runtime.postgres import Postgres  # noqa: E402

MINUTES = float(os.environ.get("SOAK_MINUTES", "10"))
RUNS = int(os.environ.get("SOAK_RUNS", "1000"))
AGENTS, PAGES, SLOW_PAGES = 6, 3, 2
FAULT_EVERY_S = 12.0
# Growth that is a leak and not a cache that has not filled up yet.
MAX_GROWTH_MB, MAX_GROWTH_DESCRIPTORS = 60.0, 20
Key = tuple[str, str]


@dataclass
class Footprint:
    """Memory and open descriptors of the web processes together."""

    processes: set[int] = field(default_factory=set)
    rss_mb: float = 0.0
    descriptors: int = 0

    @classmethod
    def of(cls, processes: list[psutil.Process]) -> Footprint:
        found = cls()
        for process in processes:
            with contextlib.suppress(psutil.Error):
                found.rss_mb += process.memory_info().rss / 1e6
                found.descriptors += process.num_fds()
                found.processes.add(process.pid)
        return found


class Churn(threading.Thread):
    """Opens a page, looks, and goes away, again and again."""

    def __init__(self, url: str, cookies: str) -> None:
        super().__init__(daemon=True)
        self._url, self._cookies = url, cookies
        self.stop_asked = threading.Event()
        self.visits = 0

    def run(self) -> None:
        addresses = ["/ws/sessions/", "/ws/tail/", "/ws/sessions/agent-0/"]
        while not self.stop_asked.wait(0.2):
            visitor = Watcher(self._url, self._cookies, address=random.choice(addresses))
            visitor.start()
            visitor.is_open.wait(3)
            visitor.finish()
            self.visits += 1


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


@contextlib.contextmanager
def system() -> Iterator[tuple[Server, Redis, Postgres, Path]]:
    """A durable Postgres, a Redis and two web processes, each a process of its own that can be hurt alone."""
    with tempfile.TemporaryDirectory(prefix="ariadne-soak-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        redis, database = Redis(), Postgres(folder / "database")
        redis.start()
        stack.callback(redis.cut)
        database.start()
        stack.callback(database.stop)
        database.create_database("ariadne")
        environment = {"PROCESSES": "2", "REDIS_URL": redis.url, "DATABASE_URL": database.dsn()}
        server = stack.enter_context(run_server(folder / "server", **environment))
        yield server, redis, database, folder


def agents(server: Server) -> list[Agent]:
    """Senders, of which two have clocks that jump by hours in both directions."""
    made = [Agent(server.ingest_url, server.ingest_key, f"agent-{number}", pause_s=0.08) for number in range(AGENTS)]
    for jumping in made[:2]:
        jumping.clock = lambda: time.time() + random.choice([0, 0, 0, -86_400, 7_200, 400 * 86_400])
    return made


def compactions(server: Server, folder: Path) -> tuple[subprocess.Popen[bytes], Path]:
    report = folder / "compactions.json"
    command = [sys.executable, "-m", "tests.soak.compaction", server.ingest_url, server.ingest_key]
    return subprocess.Popen([*command, str(RUNS), str(report)], cwd=TESTS.parent), report


def soak() -> int:
    with system() as (server, redis, database, folder):
        say(f"{server.url}: {MINUTES:g} minutes, {AGENTS} agents, {PAGES + SLOW_PAGES} pages, {RUNS} compaction runs")
        cookies = sign_in(server.url, server.logins["developer"])
        pages = [Watcher(server.url, cookies) for _ in range(PAGES)]
        slow = [Watcher(server.url, cookies, pause_s=0.25) for _ in range(SLOW_PAGES)]
        for page in [*pages, *slow]:
            page.start()
        assert all(page.is_open.wait(30) for page in [*pages, *slow]), pages[0].faults
        churn, senders = Churn(server.url, cookies), agents(server)
        runs, report = compactions(server, folder)
        for thread in [churn, *senders]:
            thread.start()
        faults = Faults(server, redis, database)
        end = time.monotonic() + MINUTES * 60
        _hurt(faults, until=time.monotonic() + MINUTES * 30)
        first = Footprint.of(faults.web())
        _wait(end)
        last = Footprint.of(faults.web())
        return _judge(server, database, senders, pages, slow, churn, runs, report, faults, (first, last))


def _hurt(faults: Faults, *, until: float) -> None:
    while time.monotonic() < until:
        _wait(min(until, time.monotonic() + FAULT_EVERY_S))
        if time.monotonic() < until or not faults.caused:
            say(faults.next())
    # The pools and caches of new processes fill up before they are measured.
    time.sleep(5)


def _wait(until: float) -> None:
    time.sleep(max(0.0, until - time.monotonic()))


def _judge(
    server: Server,
    database: Postgres,
    senders: list[Agent],
    pages: list[Watcher],
    slow: list[Watcher],
    churn: Churn,
    runs: subprocess.Popen[bytes],
    report: Path,
    faults: Faults,
    footprints: tuple[Footprint, Footprint],
) -> int:
    churn.stop_asked.set()
    for sender in senders:
        sender.finish()
    say("waiting for the compaction runs and for slow pages")
    if runs.wait(timeout=1800):
        say("the compaction runs ended with an error")
        return 1
    told = json.loads(report.read_text())
    emitted = {(trace, span) for trace, span in told["keys"]}
    sent = set[Key]().union(*(sender.sent for sender in senders)) | emitted
    acknowledged = set[Key]().union(*(sender.acknowledged for sender in senders))
    acknowledged |= emitted if told["delivered"] else set()
    rows = stored(database.dsn())
    found = {(trace, span) for trace, span, _ in rows}
    for page in slow:
        page.hurry()
    everyone = [*pages, *slow]
    unseen = 0
    for page in everyone:
        wait_until(lambda page=page: found <= page.keys, timeout_s=60)  # type: ignore[misc]
        unseen = max(unseen, len(found - page.keys))
        page.finish()
    first, last = footprints
    refused = [refusal for sender in senders for refusal in sender.refused]
    same = bool(first.processes) and first.processes == last.processes
    checks = {
        "lost": len(acknowledged - found) == 0,
        "sent but not acknowledged": len(sent - acknowledged) == 0,
        "stored twice": len(rows) == len(found),
        "unseen by a page": unseen == 0,
        "shown twice": not any(page.duplicates for page in everyone),
        "refused": not refused,
        "over the window": told["overflows"] == 0,
        "compaction success": told["failed"] <= 0.05 * max(1, told["near"]),
        "memory": not same or last.rss_mb - first.rss_mb < MAX_GROWTH_MB,
        "descriptors": not same or last.descriptors - first.descriptors < MAX_GROWTH_DESCRIPTORS,
    }
    lines = {
        "faults": ", ".join(f"{name} × {faults.caused.count(name)}" for name in dict.fromkeys(faults.caused)),
        "events sent": f"{len(sent):,}",
        "acknowledged": f"{len(acknowledged):,}",
        "stored": f"{len(found):,}",
        "shown (by each of the pages)": ", ".join(f"{len(page.keys & found):,}" for page in everyone),
        "lost": str(len(acknowledged - found)),
        "duplicated (stored, shown)": f"{len(rows) - len(found)}, {sum(page.duplicates for page in everyone)}",
        "requests sent again": f"{sum(s.failures for s in senders):,} of {sum(s.attempts for s in senders):,}",
        "page reconnects": str(sum(page.connects - 1 for page in everyone)),
        "visits of passing pages": str(churn.visits),
        "compaction: runs, calls, compacted": f"{told['runs']:,}, {told['calls']:,}, {told['compacted']:,}",
        "compaction: above 75 %, failed, over the window": f"{told['near']:,}, {told['failed']}, {told['overflows']}",
        "RSS of the web processes, first / last": f"{first.rss_mb:.0f} / {last.rss_mb:.0f} MB",
        "descriptors, first / last": f"{first.descriptors} / {last.descriptors}",
    }
    print()
    for name, value in lines.items():
        print(f"  {name:<50} {value}")
    failed = [name for name, is_good in checks.items() if not is_good]
    print(f"\n  {'FAILED: ' + ', '.join(failed) if failed else 'passed'}", *refused[:3], sep="\n  ")
    if failed:
        print(server.log[-3000:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(soak())

"""Run agents, pages and faults for a limited time, and fail if an event is lost or duplicated.

    make soak                    ten minutes
    make soak SOAK_MINUTES=2     two minutes

The first half has faults (`tests/soak/faults.py`), with four web processes. The second half has none, so that memory
and file descriptors of the same processes can be compared.
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
from reader import cookie_header  # noqa: E402
from scale.agent import stored_spans  # noqa: E402
from scale.load import Agent  # noqa: E402
from scale.redis_server import Redis  # noqa: E402
from scale.watcher import Watcher  # noqa: E402
from soak.faults import Faults  # noqa: E402
from wait import wait_until  # noqa: E402

from ariadne.runtime.postgres import Postgres  # noqa: E402

MINUTES = float(os.environ.get("SOAK_MINUTES", "10"))
RUNS = int(os.environ.get("SOAK_RUNS", "1000"))
AGENTS, PAGES, SLOW_PAGES, PROCESSES = 6, 3, 2, 4
FAULT_EVERY_S = 12.0
# Growth beyond this is a leak and not a cache that still fills up.
MAX_GROWTH_MB, MAX_GROWTH_DESCRIPTORS = 60.0, 20
Key = tuple[str, str]


@dataclass
class Footprint:
    """Memory and open file descriptors of all web processes."""

    processes: set[int] = field(default_factory=set)
    rss_mb: float = 0.0
    descriptors: int = 0

    @classmethod
    def of(cls, processes: list[psutil.Process]) -> Footprint:
        total = cls()
        for process in processes:
            with contextlib.suppress(psutil.Error):
                total.rss_mb += process.memory_info().rss / 1e6
                total.descriptors += process.num_fds()
                total.processes.add(process.pid)
        return total


class ShortVisits(threading.Thread):
    """Opens and closes pages repeatedly."""

    def __init__(self, url: str, cookies: str) -> None:
        super().__init__(daemon=True)
        self._url, self._cookies = url, cookies
        self.is_stopping = threading.Event()
        self.count = 0

    def run(self) -> None:
        addresses = ["/ws/sessions/", "/ws/tail/", "/ws/sessions/agent-0/"]
        while not self.is_stopping.wait(0.2):
            visitor = Watcher(self._url, self._cookies, address=random.choice(addresses))
            visitor.start()
            visitor.is_open.wait(3)
            visitor.finish()
            self.count += 1


def log(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


@contextlib.contextmanager
def system() -> Iterator[tuple[Server, Redis, Postgres, Path]]:
    """Start a durable Postgres, a Redis and four web processes, which can be killed separately."""
    with tempfile.TemporaryDirectory(prefix="ariadne-soak-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        redis, database = Redis(), Postgres(folder / "database")
        redis.start()
        stack.callback(redis.kill)
        database.start()
        stack.callback(database.stop)
        database.create_database("ariadne")
        environment = {"PROCESSES": str(PROCESSES), "REDIS_URL": redis.url, "DATABASE_URL": database.dsn()}
        server = stack.enter_context(run_server(folder / "server", **environment))
        yield server, redis, database, folder


def agents(server: Server) -> list[Agent]:
    """Create the agents. The clocks of two of them jump by hours in both directions."""
    senders = [Agent(server.ingest_url, server.ingest_key, f"agent-{number}", pause_s=0.08) for number in range(AGENTS)]
    for sender in senders[:2]:
        sender.clock = lambda: time.time() + random.choice([0, 0, 0, -86_400, 7_200, 400 * 86_400])
    return senders


def start_compactions(server: Server, folder: Path) -> tuple[subprocess.Popen[bytes], Path]:
    report = folder / "compactions.json"
    command = [sys.executable, "-m", "tests.soak.compaction", server.ingest_url, server.ingest_key]
    return subprocess.Popen([*command, str(RUNS), str(report)], cwd=TESTS.parent), report


def soak() -> int:
    with system() as (server, redis, database, folder):
        log(f"{server.url}: {MINUTES:g} minutes, {AGENTS} agents, {PAGES + SLOW_PAGES} pages, {RUNS} compaction runs")
        cookies = cookie_header(server, "developer")
        pages = [Watcher(server.url, cookies) for _ in range(PAGES)]
        slow = [Watcher(server.url, cookies, pause_s=0.25) for _ in range(SLOW_PAGES)]
        for page in [*pages, *slow]:
            page.start()
        assert all(page.is_open.wait(30) for page in [*pages, *slow]), pages[0].faults
        visits, senders = ShortVisits(server.url, cookies), agents(server)
        runs, report = start_compactions(server, folder)
        for thread in [visits, *senders]:
            thread.start()
        faults = Faults(server, redis, database)
        end = time.monotonic() + MINUTES * 60
        _cause_faults(faults, until=time.monotonic() + MINUTES * 30)
        first = Footprint.of(faults.web())
        _sleep_until(end)
        last = Footprint.of(faults.web())
        return _judge(server, database, senders, pages, slow, visits, runs, report, faults, (first, last))


def _cause_faults(faults: Faults, *, until: float) -> None:
    while time.monotonic() < until:
        _sleep_until(min(until, time.monotonic() + FAULT_EVERY_S))
        if time.monotonic() < until or not faults.caused:
            log(faults.next())
    # Let the pools and caches of new processes fill up before measuring.
    time.sleep(5)


def _sleep_until(until: float) -> None:
    time.sleep(max(0.0, until - time.monotonic()))


def _judge(
    server: Server,
    database: Postgres,
    senders: list[Agent],
    pages: list[Watcher],
    slow: list[Watcher],
    visits: ShortVisits,
    runs: subprocess.Popen[bytes],
    report: Path,
    faults: Faults,
    footprints: tuple[Footprint, Footprint],
) -> int:
    visits.is_stopping.set()
    for sender in senders:
        sender.finish()
    log("waiting for the compaction runs and the slow pages")
    if runs.wait(timeout=1800):
        log("the compaction runs failed")
        return 1
    results = json.loads(report.read_text())
    emitted = {(trace, span) for trace, span in results["keys"]}
    sent = set[Key]().union(*(sender.sent for sender in senders)) | emitted
    acknowledged = set[Key]().union(*(sender.acknowledged for sender in senders))
    acknowledged |= emitted if results["delivered"] else set()
    rows = stored_spans(database.dsn())
    stored = {(trace, span) for trace, span, _ in rows}
    for page in slow:
        page.stop_pausing()
    all_pages = [*pages, *slow]
    unseen = 0
    for page in all_pages:
        wait_until(lambda page=page: stored <= page.keys, timeout_s=60)  # type: ignore[misc]
        unseen = max(unseen, len(stored - page.keys))
        page.finish()
    first, last = footprints
    rejections = [rejection for sender in senders for rejection in sender.rejections]
    same = bool(first.processes) and first.processes == last.processes
    checks = {
        "lost": len(acknowledged - stored) == 0,
        "sent but not acknowledged": len(sent - acknowledged) == 0,
        "stored twice": len(rows) == len(stored),
        "unseen by a page": unseen == 0,
        "shown twice": not any(page.duplicates for page in all_pages),
        "rejected": not rejections,
        "over the window": results["overflows"] == 0,
        "compaction success": results["failed"] <= 0.05 * max(1, results["near"]),
        "memory": not same or last.rss_mb - first.rss_mb < MAX_GROWTH_MB,
        "descriptors": not same or last.descriptors - first.descriptors < MAX_GROWTH_DESCRIPTORS,
    }
    lines = {
        "faults": ", ".join(f"{name} × {faults.caused.count(name)}" for name in dict.fromkeys(faults.caused)),
        "events sent": f"{len(sent):,}",
        "acknowledged": f"{len(acknowledged):,}",
        "stored": f"{len(stored):,}",
        "shown (by each of the pages)": ", ".join(f"{len(page.keys & stored):,}" for page in all_pages),
        "lost": str(len(acknowledged - stored)),
        "duplicated (stored, shown)": f"{len(rows) - len(stored)}, {sum(page.duplicates for page in all_pages)}",
        "requests retried": f"{sum(s.failures for s in senders):,} of {sum(s.attempts for s in senders):,}",
        "page reconnects": str(sum(page.connects - 1 for page in all_pages)),
        "visits of short-lived pages": str(visits.count),
        "compaction: runs, calls, compacted": f"{results['runs']:,}, {results['calls']:,}, {results['compacted']:,}",
        "compaction: calls above 75 %": f"{results['near']:,}",
        "compaction: failed, over the window": f"{results['failed']}, {results['overflows']}",
        "RSS of the web processes, first / last": f"{first.rss_mb:.0f} / {last.rss_mb:.0f} MB",
        "descriptors, first / last": f"{first.descriptors} / {last.descriptors}",
    }
    print()
    for name, value in lines.items():
        print(f"  {name:<50} {value}")
    failed = [name for name, is_ok in checks.items() if not is_ok]
    print(f"\n  {'FAILED: ' + ', '.join(failed) if failed else 'passed'}", *rejections[:3], sep="\n  ")
    if failed:
        print(server.log[-3000:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(soak())

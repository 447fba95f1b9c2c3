"""A server whose processes can be killed, and senders that retry, for tests and soaks of durability."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg

from ariadne.runtime.postgres import Postgres, PostgresError
from ingest.storage.payloads import unpack
from tests.ports import reserve_port
from tests.wait import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass
class Stack:
    """Postgres with fsync, as in production, and one web process."""

    folder: Path
    port: int
    postgres: Postgres = field(init=False)
    web: subprocess.Popen[bytes] | None = None
    key: str = ""
    other_key: str = ""
    """A key of a second project."""

    def __post_init__(self) -> None:
        self.postgres = Postgres(self.folder / "data")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.postgres.start()
        self.postgres.create_database("ariadne")
        self.key, self.other_key = self._python(
            "import django; django.setup();"
            "from django.core.management import call_command as c; c('migrate', verbosity=0);"
            "from ingest.http import keys; from ingest.models import Project;"
            "projects = [Project.objects.get_or_create(slug=s, defaults={'name': s})[0] for s in ('default', 'other')];"
            "print(*(keys.create(p, label='faults') for p in projects))"
        ).split()
        self.start_web()

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DATABASE_URL": self.postgres.dsn(),
            "DATA_DIR": str(self.folder),
            "DJANGO_SETTINGS_MODULE": "ariadne.settings",
            "ARIADNE_INGEST_ANSWER_TIMEOUT_S": "2",
        }

    def _python(self, code: str) -> str:
        result = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=self._environment(), capture_output=True, text=True, check=True
        )
        return result.stdout

    def start_web(self) -> None:
        with (self.folder / "web.log").open("ab") as log:
            self.web = subprocess.Popen(
                [sys.executable, "-m", "ariadne.runtime.web_process", "--bind", f"127.0.0.1:{self.port}"],
                cwd=ROOT,
                env=self._environment(),
                stdout=log,
                stderr=log,
            )

    def kill_web(self) -> None:
        assert self.web is not None
        self.web.kill()
        self.web.wait()

    def kill_postgres(self) -> None:
        """Kill the postmaster with SIGKILL. Its children notice and exit, after a commit that they may just do."""
        process = self.postgres.process
        assert process is not None
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        assert wait_until(lambda: not any(map(_is_alive, children))), "processes of the killed server still run"

    def stall_postgres(self, is_stalled: bool) -> None:
        """Suspend or resume all processes of the server."""
        process = self.postgres.process
        assert process is not None
        postmaster = psutil.Process(process.pid)
        for part in (postmaster, *postmaster.children(recursive=True)):
            part.send_signal(signal.SIGSTOP if is_stalled else signal.SIGCONT)

    def start_postgres(self) -> None:
        errors: list[PostgresError] = []

        def is_started() -> bool:
            try:
                self.postgres.start()
            except PostgresError as error:
                # A child that started just before the kill may not have released its shared memory yet.
                errors.append(error)
                return False
            return True

        assert wait_until(is_started), errors[-1:]

    def wait_until_ready(self, timeout_s: float = 90) -> None:
        assert wait_until(lambda: get(self.port, "/readyz")[0] == 200, timeout_s=timeout_s), "not ready"

    def stop(self) -> None:
        if self.web is not None and self.web.poll() is None:
            self.web.terminate()
            try:
                self.web.wait(20)
            except subprocess.TimeoutExpired:
                self.web.kill()
                self.web.wait()
        self.postgres.stop()

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.postgres.dsn(), autocommit=True)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Stack]:
    with reserve_port() as port:
        stack = Stack(folder, port)
        try:
            stack.start()
            stack.wait_until_ready()
            yield stack
        finally:
            stack.stop()


def get(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


# Senders repeat these, so that hourly figures and billed tokens change too.
_KINDS: list[dict[str, Any]] = [
    {"kind": "tool", "data": {}},
    {"kind": "compact.pruned_messages", "data": {"tokens_before": 900, "tokens_after": 300, "model": "gpt-5"}},
    {"kind": "tool", "data": {}, "status": "error"},
    {"kind": "generation", "data": {"model": "gpt-5", "usage": {"input_tokens": 1_000, "output_tokens": 7}}},
]


class Senders:
    """Threads that send numbered spans and retry each body until it is acknowledged."""

    def __init__(self, stack: Stack, *, count: int, name: str, batch: int = 20) -> None:
        self.stack = stack
        self.name = name
        self.batch = batch
        self.acknowledged: set[tuple[str, str]] = set()
        self.statuses: dict[int, int] = {}
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(count)]

    def __enter__(self) -> Senders:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=60)

    def _send(self, sender: int) -> None:
        number = 0
        trace_id = f"{self.name}-{sender}"
        while not self._stop.is_set():
            ids = [f"s{number + offset}" for offset in range(self.batch)]
            # Most spans are sent twice, first running and then ended, so that merging is tested as well.
            opened = [span(trace_id, span_id) | _KINDS[position % len(_KINDS)] for position, span_id in enumerate(ids)]
            for event in opened:
                event["data"] = event["data"] | {"note": f"{trace_id} {event['span_id']}"}
            closed = [{"status": "ok", **event, "ended_at": "2026-11-16T05:00:01Z"} for event in opened]
            body = json.dumps({"batch": [*opened, *closed] if number % 3 else closed}).encode()
            # Every second sender belongs to another project.
            if self._send_until_acknowledged(body, self.stack.other_key if sender % 2 else self.stack.key):
                with self._lock:
                    self.acknowledged |= {(trace_id, span_id) for span_id in ids}
            number += self.batch

    def _send_until_acknowledged(self, body: bytes, key: str) -> bool:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.stack.port, timeout=15)
            try:
                connection.request("POST", "/ingest", body, headers)
                response = connection.getresponse()
                status = response.status
                response.read()
            except (OSError, http.client.HTTPException):
                status = 0
            finally:
                connection.close()
            with self._lock:
                self.statuses[status] = self.statuses.get(status, 0) + 1
            if status == 200:
                return True
            if self._stop.is_set():
                return False
            time.sleep(random.uniform(0.02, 0.1))

    def wait_for(self, more: int, timeout_s: float = 90) -> None:
        """Wait until `more` additional spans are acknowledged."""
        target = len(self.acknowledged) + more
        are_enough = wait_until(lambda: len(self.acknowledged) >= target, timeout_s=timeout_s)
        assert are_enough, f"{len(self.acknowledged)} of {target}, statuses {self.statuses}"


def span(trace_id: str, span_id: str) -> dict[str, Any]:
    return {
        "type": "span",
        "trace_id": trace_id,
        "span_id": span_id,
        "kind": "tool",
        "name": "work",
        "started_at": "2026-11-16T05:00:00Z",
        "data": {"note": f"{trace_id} {span_id}"},
    }


# Rows of roll-ups that differ from a recount of the spans, or from the rows that they sum.
_ROLL_UPS = {
    "figures of sessions": """
        SELECT * FROM (SELECT session_key, count(*) FILTER (WHERE kind = 'compact.pruned_messages') AS compactions,
            coalesce(sum((data->>'tokens_before')::int - (data->>'tokens_after')::int), 0) AS freed,
            count(*) FILTER (WHERE status = 'error') AS errors FROM unpacked GROUP BY 1) spans
        FULL JOIN (SELECT session_key, sum(compactions) AS compactions, sum(tokens_freed) AS freed,
            sum(errors) AS errors FROM ingest_activity GROUP BY 1) figures USING (session_key)
        WHERE (coalesce(spans.compactions, 0), coalesce(spans.freed, 0), coalesce(spans.errors, 0))
          <> (coalesce(figures.compactions, 0), coalesce(figures.freed, 0), coalesce(figures.errors, 0))""",
    "trends": """
        SELECT * FROM (SELECT cell, hour, model, sum(compactions) AS compactions, sum(tokens_freed) AS freed,
            sum(errors) AS errors FROM ingest_activity GROUP BY 1, 2, 3) a
        FULL JOIN ingest_trend t USING (cell, hour, model)
        WHERE (a.compactions, a.freed, a.errors) IS DISTINCT FROM (t.compactions, t.tokens_freed, t.errors)
          AND coalesce(t.compactions + t.errors, 1) > 0""",
    "billed tokens of sessions": """
        SELECT * FROM (SELECT session_key, sum((data->'usage'->>'input_tokens')::int) AS tokens FROM unpacked
            WHERE kind = 'generation' GROUP BY 1) spans
        FULL JOIN (SELECT session_key, sum(input_tokens) AS tokens FROM ingest_usage GROUP BY 1) u USING (session_key)
        WHERE coalesce(spans.tokens, 0) <> coalesce(u.tokens, 0)""",
    "billed tokens of projects": """
        SELECT * FROM (SELECT cell, hour, model, sum(input_tokens) AS tokens, sum(call_count) AS calls
            FROM ingest_usage GROUP BY 1, 2, 3) u
        FULL JOIN ingest_hourlyusage h USING (cell, hour, model)
        WHERE (u.tokens, u.calls) IS DISTINCT FROM (h.input_tokens::numeric, h.call_count::bigint)
          AND coalesce(h.call_count, 1) > 0""",
}


def _unpack_data(database: psycopg.Connection[Any]) -> None:
    """Create a temporary table of all spans with their data as jsonb, which the queries above read."""
    columns = "session_key, trace_id, span_id, kind, status, ended_at"
    spans = database.execute(f"SELECT {columns}, data FROM ingest_span").fetchall()
    database.execute("DROP TABLE IF EXISTS unpacked")
    database.execute(f"CREATE TEMP TABLE unpacked AS SELECT {columns}, NULL::jsonb AS data FROM ingest_span LIMIT 0")
    with database.cursor().copy(f"COPY unpacked ({columns}, data) FROM STDIN") as copy:
        for *values, data in spans:
            copy.write_row([*values, unpack(data).decode()])


def check(stack: Stack, senders: Senders) -> dict[str, int]:
    """Check that each acknowledged span is stored once and complete, and that counts and roll-ups equal a recount."""
    with stack.connect() as database:
        _unpack_data(database)
        rows = database.execute(
            "SELECT trace_id, span_id, ended_at, data->>'note' FROM unpacked WHERE trace_id LIKE %s",
            (f"{senders.name}-%",),
        ).fetchall()
        stored = {(row[0], row[1]) for row in rows}
        assert len(rows) == len(stored), "a span is stored twice"
        lost = senders.acknowledged - stored
        assert not lost, f"{len(lost)} acknowledged spans are lost"
        complete = {(row[0], row[1]) for row in rows if row[2] is not None and row[3] == f"{row[0]} {row[1]}"}
        assert senders.acknowledged <= complete, "an acknowledged span is incomplete"
        wrong = database.execute(
            """
            SELECT s.session_id, s.span_count, s.running_count, n.spans, n.running FROM ingest_session s JOIN (
              SELECT session_key, count(*) AS spans, count(*) FILTER (WHERE ended_at IS NULL) AS running
              FROM ingest_span GROUP BY session_key) n USING (session_key)
            WHERE (s.span_count, s.running_count) <> (n.spans, n.running)
            """
        ).fetchall()
        assert not wrong, wrong
        for name, statement in _ROLL_UPS.items():
            assert not (wrong := database.execute(statement).fetchall()), (name, wrong)
    return {"acknowledged": len(senders.acknowledged), "stored": len(stored)}


Fault = Callable[[Stack], None]


def kill_web(stack: Stack) -> None:
    stack.kill_web()
    stack.start_web()


def _is_alive(process: psutil.Process) -> bool:
    """False also for a process that has ended and only waits for its parent."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill_postgres(stack: Stack) -> None:
    stack.kill_postgres()
    stack.start_postgres()

"""Agents that send events until they are stopped, and record which ones were acknowledged.

Like an exporter, an agent retries a batch until it is acknowledged. Tests can therefore check that no acknowledged
event is lost and that none is stored twice.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

Key = tuple[str, str]


class Agent(threading.Thread):
    """Sends the spans of one session. Half of them are open_spans first and completed by a later batch."""

    def __init__(self, url: str, ingest_key: str, name: str, *, batch: int = 10, pause_s: float = 0.01) -> None:
        super().__init__(name=name, daemon=True)
        self._address = urlsplit(url)
        self._headers = {"Authorization": f"Bearer {ingest_key}", "Content-Type": "application/json"}
        self._batch, self._pause_s = batch, pause_s
        self._is_stopping = threading.Event()
        self._is_reconnecting = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self.clock: Callable[[], float] = time.time
        self.sent: set[Key] = set()
        self.acknowledged: set[Key] = set()
        self.attempts = self.failures = 0
        self.rejections: list[str] = []

    def run(self) -> None:
        number = 0
        open_spans: list[dict[str, Any]] = []
        while not self._is_stopping.is_set():
            events = [{**event, "ended_at": self.clock()} for event in open_spans]
            fresh = [self._span(f"{number + offset}") for offset in range(self._batch)]
            number += self._batch
            open_spans = fresh[::2]
            events += [event if event in open_spans else {**event, "ended_at": self.clock()} for event in fresh]
            self._deliver(events)
            self._is_stopping.wait(self._pause_s)
        if open_spans:
            self._deliver([{**event, "ended_at": self.clock()} for event in open_spans])
        self._disconnect()

    def finish(self, timeout_s: float = 60) -> None:
        """Complete the open spans and stop."""
        self._is_stopping.set()
        self.join(timeout=timeout_s)
        assert not self.is_alive(), f"{self.name} could not deliver its last batch"

    def _span(self, number: str) -> dict[str, Any]:
        return {
            "type": "span",
            "trace_id": f"trace-{self.name}",
            "span_id": f"{self.name}-{number}",
            "kind": "tool",
            "name": "read_file",
            "started_at": self.clock(),
            "data": {"session_id": self.name, "input": "x" * 200},
        }

    def reconnect(self) -> None:
        """Send the next batch over a new connection, which another process may accept."""
        self._is_reconnecting.set()

    def _deliver(self, events: list[dict[str, Any]]) -> None:
        if self._is_reconnecting.is_set():
            self._is_reconnecting.clear()
            self._disconnect()
        body = json.dumps({"batch": events}).encode()
        keys = {(event["trace_id"], event["span_id"]) for event in events}
        self.sent |= keys
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            self.attempts += 1
            if self._post(body, len(events)):
                self.acknowledged |= keys
                return
            self.failures += 1
            time.sleep(0.05)

    def _post(self, body: bytes, count: int) -> bool:
        try:
            if self._connection is None:
                address = (self._address.hostname or "", self._address.port)
                self._connection = http.client.HTTPConnection(*address, timeout=15)
            self._connection.request("POST", self._address.path, body, self._headers)
            answer = self._connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            self._disconnect()
            return False
        if answer.getheader("Connection") == "close":
            self._disconnect()
        if answer.status == 200 and json.loads(body)["count"] == count:
            return True
        if answer.status not in {429, 503}:
            self.rejections.append(f"{answer.status} {body[:200]!r}")
        return False

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._connection = None

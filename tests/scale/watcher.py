"""A websocket client that reconnects with its last sequence number, like a page in a browser."""

from __future__ import annotations

import json
import threading
import time

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage
from websockets.sync.client import connect

Key = tuple[str, str]


class Watcher(threading.Thread):
    """Follows the tail. `shown` counts how often each (trace, span, seq) arrived. More than once is a duplicate."""

    def __init__(self, url: str, cookies: str, *, address: str = "/ws/tail/", pause_s: float = 0.0) -> None:
        super().__init__(daemon=True)
        self._url = url.replace("http://", "ws://") + address
        self._origin = url
        self._cookies = cookies
        self._pause_s = pause_s
        self._is_stopping = threading.Event()
        self.seq: int | None = None
        self.shown: dict[tuple[str, str, int], int] = {}
        self.connects = 0
        self.is_open = threading.Event()
        self.faults: list[str] = []

    def run(self) -> None:
        while not self._is_stopping.is_set():
            try:
                self._follow()
            except (OSError, TimeoutError, ConnectionClosed, InvalidHandshake, InvalidMessage) as error:
                self.faults.append(f"{type(error).__name__}: {error}")
            self.is_open.clear()
            self._is_stopping.wait(0.1)

    def stop_pausing(self) -> None:
        """Read without pauses from now on."""
        self._pause_s = 0.0

    def finish(self) -> None:
        self._is_stopping.set()
        self.join(timeout=20)

    @property
    def keys(self) -> set[Key]:
        return {(trace, span) for trace, span, _ in list(self.shown)}

    @property
    def duplicates(self) -> int:
        return sum(count - 1 for count in list(self.shown.values()))

    def _follow(self) -> None:
        query = "?ack=1" + (f"&after={self.seq}" if self.seq is not None else "")
        headers = {"Cookie": self._cookies}
        with connect(
            self._url + query, origin=self._origin, additional_headers=headers, open_timeout=10, close_timeout=1,
            max_size=None, ping_interval=5, ping_timeout=10,
        ) as socket:  # fmt: skip
            self.connects += 1
            while not self._is_stopping.is_set():
                try:
                    frame = json.loads(socket.recv(timeout=0.5))
                except TimeoutError:
                    continue
                self._record(frame)
                socket.send("ack")
                if self._pause_s:
                    time.sleep(self._pause_s)

    def _record(self, frame: dict[str, object]) -> None:
        events = frame.get("events", [])
        assert isinstance(events, list)
        for event in events:
            key = (event["trace"], event["id"], event["seq"])
            self.shown[key] = self.shown.get(key, 0) + 1
        if frame["type"] == "hello":
            self.is_open.set()
        if frame["type"] not in {"behind", "beat"}:
            seq = frame["seq"]
            assert isinstance(seq, int)
            self.seq = seq

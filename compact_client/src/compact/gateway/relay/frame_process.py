"""A process that reads frames: start it, write to it, restart it when it dies. Nothing here waits."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from compact.gateway.frames import Frame, FrameDecoder, FrameError, Kind
from compact.gateway.relay.frame_queue import FrameQueue

_SOCKET_BUFFER_BYTES = 1 << 20
_FLUSH_SIZE_BYTES = 1 << 18
_BUFFERS_PER_CALL = 64
_CALLS_PER_FLUSH = 8
_RESTART_DELAYS_S = (0.1, 0.5, 2.0, 10.0, 30.0)
_STABLE_S = 60.0


class FrameProcess:
    """A child process. Without a command, frames go nowhere."""

    def __init__(self, command: Sequence[str], limit_bytes: int, *, flush_delay_s: float) -> None:
        self._flush_delay_s = flush_delay_s
        self._command = command
        self._loop = asyncio.get_running_loop()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._decoder = FrameDecoder()
        self._flush_timer: asyncio.Handle | None = None
        self._is_due = False
        self._is_waiting = False
        self._is_closing = False
        self._ended = asyncio.Event()
        self._started_at = 0.0
        self._failures = 0
        self.queue = FrameQueue(limit_bytes)
        self.restarts_total = 0
        if command:
            self._start()

    @property
    def is_on(self) -> bool:
        """Return True if frames are wanted."""
        return bool(self._command)

    @property
    def is_running(self) -> bool:
        """Return True while the process reads frames."""
        return self._socket is not None

    @property
    def pid(self) -> int:
        """Return the process id, or 0."""
        return self._process.pid if self._process else 0

    def add(self, kind: Kind, exchange: int, payload: bytes = b"") -> None:
        """Add a frame."""
        self.queue.add(kind, exchange, time.time(), payload)
        self._schedule()

    def add_json(self, kind: Kind, exchange: int, payload: Mapping[str, Any]) -> None:
        """Add a frame with a JSON payload."""
        self.queue.add_json(kind, exchange, time.time(), payload)
        self._schedule()

    async def close(self, timeout_s: float) -> None:
        """Write what waits, end the stream, and give the process time to finish."""
        self._is_closing = True
        deadline = self._loop.time() + timeout_s
        while self.queue and self._socket is not None and self._loop.time() < deadline:
            self._flush()
            await asyncio.sleep(0.01)
        if self._socket is not None:
            self._loop.remove_writer(self._socket)
            self._socket.shutdown(socket.SHUT_WR)
            # It has finished when it closes its end.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), max(deadline - self._loop.time(), 0))
        self._close_socket()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER_BYTES)
        ours.setblocking(False)
        with theirs:
            # A session of its own, so that Ctrl-C in the terminal of the gateway does not end it before the last event.
            self._process = subprocess.Popen(  # noqa: S603
                self._command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, start_new_session=True
            )
        self._socket = ours
        self._decoder = FrameDecoder()
        self._started_at = self._loop.time()
        self._loop.add_reader(ours, self._on_readable)
        self.queue.add_gaps(time.time())
        self._schedule()

    def _schedule(self) -> None:
        if self._is_waiting or self._socket is None:
            return
        if self.queue.size >= _FLUSH_SIZE_BYTES:
            self._flush_soon()
        elif self._flush_timer is None:
            self._flush_timer = self._loop.call_later(self._flush_delay_s, self._flush)

    def _flush_soon(self) -> None:
        if not self._is_due:
            self._cancel_timer()
            self._is_due = True
            self._flush_timer = self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._cancel_timer()
        if self._socket is None:
            return
        try:
            for _ in range(_CALLS_PER_FLUSH):
                if not self.queue:
                    break
                self.queue.consume(self._socket.sendmsg(self.queue.first(_BUFFERS_PER_CALL)))
        except BlockingIOError:
            if not self._is_waiting:
                self._is_waiting = True
                self._loop.add_writer(self._socket, self._on_writable)
            return
        except OSError:
            self._on_death()
            return
        if self.queue and not self._is_waiting:
            self._flush_soon()

    def _on_writable(self) -> None:
        if self._socket is not None:
            self._loop.remove_writer(self._socket)
            self._is_waiting = False
            self.queue.add_gaps(time.time())
            self._flush()

    def _on_readable(self) -> None:
        if self._socket is None:
            return
        try:
            data = self._socket.recv(1 << 16)
            frames = list(self._decoder.feed(data))
        except BlockingIOError:
            return
        except (OSError, FrameError):
            data, frames = b"", []
        for frame in frames:
            self._take(frame)
        if not data:
            self._on_death()

    def _take(self, frame: Frame) -> None:
        """Read a frame from the process."""
        raise NotImplementedError

    def _on_lost(self) -> None:
        """Note that the process has died."""

    def _on_death(self) -> None:
        self._close_socket()
        self.queue.drop_all()
        self._ended.set()
        self._on_lost()
        if self._is_closing:
            return
        if self._process is not None and self._process.poll() is None:
            # It closed its stream but still runs. Two processes would send twice.
            self._process.kill()
        self._failures = 0 if self._loop.time() - self._started_at > _STABLE_S else self._failures + 1
        delay = _RESTART_DELAYS_S[min(self._failures, len(_RESTART_DELAYS_S)) - 1] if self._failures else 0.1
        self._loop.call_later(delay, self._restart)

    def _restart(self) -> None:
        if self._is_closing:
            return
        if self._process is not None:
            self._process.poll()
        self.restarts_total += 1
        try:
            self._start()
        except OSError:
            self._loop.call_later(_RESTART_DELAYS_S[-1], self._restart)

    def _close_socket(self) -> None:
        self._cancel_timer()
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()
            self._socket = None
        self._is_waiting = False

    def _cancel_timer(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        self._is_due = False

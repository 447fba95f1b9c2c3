"""The compactor process, and the requests that wait for it. None of them waits longer than its deadline."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from compact.gateway.frames import Frame, Kind, Verdict
from compact.gateway.relay.frame_process import FrameProcess

_LIMIT_BYTES = 128 << 20
"""The bytes that wait for the compactor. A request beyond them is sent as it is."""
_PING_S = 1.0
_HUNG_S = 8.0
"""A compactor that gives no sign of life for this long, while a request waits, is killed."""
_START_S = 60.0
"""The time that a compactor may take to load before it counts as hung."""

OnVerdict = Callable[[Verdict | None, bytes], None]
"""Called once, with the body to send. None: the deadline has passed, or the compactor has died."""


@dataclass(slots=True)
class _Waiting:
    on_verdict: OnVerdict
    timer: asyncio.TimerHandle
    longest_s: float
    body: list[bytes]


class CompactorProcess(FrameProcess):
    """Decides about requests in compact mode."""

    def __init__(self, command: Sequence[str]) -> None:
        self._waiting: dict[int, _Waiting] = {}
        self._ping_timer: asyncio.TimerHandle | None = None
        self._heard_at = 0.0
        self._has_spoken = False
        super().__init__(command, _LIMIT_BYTES, flush_delay_s=0.0)

    def wait(self, exchange: int, on_verdict: OnVerdict, deadline_s: float, *, longest_s: float = 0.0) -> None:
        """Call a function with the verdict about a request or an answer.

        `longest_s` is the deadline from when the compactor says that it has found an overflow.
        """
        if not self.is_running or self.queue.has_dropped(exchange):
            self._loop.call_soon(on_verdict, None, b"")
            return
        timer = self._loop.call_later(deadline_s, self._resolve, exchange, None)
        if not self._waiting:
            self._heard_at = self._loop.time()
        self._waiting[exchange] = _Waiting(on_verdict, timer, max(deadline_s, longest_s), [])
        if self._ping_timer is None:
            self._ping_timer = self._loop.call_later(_PING_S, self._ping)

    def forget(self, exchange: int) -> None:
        """Stop to wait, without a call."""
        waiting = self._waiting.pop(exchange, None)
        if waiting is not None:
            waiting.timer.cancel()

    def _resolve(self, exchange: int, verdict: Verdict | None) -> None:
        waiting = self._waiting.pop(exchange, None)
        if waiting is not None:
            waiting.timer.cancel()
            waiting.on_verdict(verdict, b"".join(waiting.body))

    def _take(self, frame: Frame) -> None:
        self._heard_at, self._has_spoken = self._loop.time(), True
        waiting = self._waiting.get(frame.exchange)
        if waiting is None:
            return
        if frame.kind is Kind.BODY:
            waiting.body.append(frame.payload)
        elif frame.kind is Kind.VERDICT:
            verdict = _read_verdict(frame)
            if verdict is not None and verdict["action"] == "wait":
                waiting.timer.cancel()
                waiting.timer = self._loop.call_later(waiting.longest_s, self._resolve, frame.exchange, None)
            else:
                self._resolve(frame.exchange, verdict)

    def _ping(self) -> None:
        self._ping_timer = None
        if not self._waiting:
            return
        silence_s = self._loop.time() - self._heard_at
        if silence_s > (_HUNG_S if self._has_spoken else _START_S):
            self._kill()
            return
        self.add(Kind.PING, 0)
        self._ping_timer = self._loop.call_later(_PING_S, self._ping)

    def _kill(self) -> None:
        """End a process that does not answer. The end of its stream is seen, and the next one is started."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def _on_lost(self) -> None:
        self._has_spoken = False
        for exchange in list(self._waiting):
            self._resolve(exchange, None)


def _read_verdict(frame: Frame) -> Verdict | None:
    try:
        value: Any = frame.json()
        return {
            "action": value["action"],
            "session": str(value["session"]),
            "compactions": int(value["compactions"]),
            "saved_tokens": int(value["saved_tokens"]),
        }
    except (ValueError, KeyError, TypeError, json.JSONDecodeError):
        return None

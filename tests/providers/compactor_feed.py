"""Feed a compactor with requests, as a relay would, and read its verdicts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from compact import CompactManager
from compact.gateway import frames
from compact.gateway.compactor.compactor import Compactor
from compact.gateway.frames import Frame, FrameDecoder, Kind

PATHS = {
    "anthropic": "/v1/messages",
    "responses": "/v1/responses",
    "chat": "/v1/chat/completions",
    "gemini": "/v1beta/models/gemini-2.5-flash:generateContent",
}
MODELS = {"anthropic": "claude-opus-4-6", "responses": "gpt-5", "chat": "gpt-5", "gemini": ""}
KEYS = {"anthropic": "messages", "responses": "input", "chat": "messages", "gemini": "contents"}


class OneManager:
    """The managers of a compactor that has one for all models."""

    agents: frozenset[str] = frozenset()

    def __init__(self, manager: CompactManager) -> None:
        self._manager = manager

    def get(self, model: str) -> CompactManager:
        return self._manager


class CompactorFeed:
    """A compactor that runs in this thread."""

    def __init__(self, manager: CompactManager) -> None:
        self._decoder = FrameDecoder()
        self.frames: list[Frame] = []
        self.number = 0
        self.compactor = Compactor(OneManager(manager), self._take, _call)

    def _take(self, data: bytes) -> None:
        self.frames += self._decoder.feed(data)

    def feed(self, kind: Kind, payload: Any = b"", *, number: int = 0) -> None:
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        decoder = FrameDecoder()
        for frame in decoder.feed(frames.encode(kind, number or self.number, time.time(), data)):
            self.compactor.feed(frame)

    def ask(
        self,
        protocol: str,
        body: bytes,
        *,
        headers: dict[str, str] | None = None,
        credential: str = "one",
        path: str = "",
        **head: Any,
    ) -> bytes:
        """Return the body that is sent for a request."""
        self.number += 1
        self.frames.clear()
        opening = {
            "method": "POST", "path": path or PATHS[protocol], "upstream": "u", "url": "http://127.0.0.1:9",
            "protocol": protocol, "headers": list((headers or {}).items()), "credential": credential, "client": "",
            "is_compacted": True,
        }  # fmt: skip
        self.feed(Kind.OPEN, {**opening, **head})
        for start in range(0, len(body), 60_000):
            self.feed(Kind.REQUEST_BODY, body[start : start + 60_000])
        self.feed(Kind.REQUEST_END)
        return self.body_of_verdict(body)

    def answer(self, document: Any, *, status: int = 200) -> None:
        """Give the answer to the last request, as one document."""
        self.feed(Kind.ANSWER, {"status": status, "headers": [["content-type", "application/json"]]})
        self.feed(Kind.ANSWER_BODY, document)
        self.feed(Kind.ANSWER_END)

    def body_of_verdict(self, original: bytes) -> bytes:
        """Return the body of the last verdict."""
        return b"".join(frame.payload for frame in self.frames if frame.kind is Kind.BODY) or original

    @property
    def verdict(self) -> dict[str, Any]:
        verdict: dict[str, Any] = [frame for frame in self.frames if frame.kind is Kind.VERDICT][-1].json()
        return verdict


def _call(function: Callable[[], None]) -> None:
    function()

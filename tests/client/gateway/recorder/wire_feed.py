"""Feed a recorder with exchanges, as a relay would, and read what it emits.

The exchanges in `exchanges/` were recorded with the real agents against a scripted provider on loopback. All texts of
the agents' own prompts are replaced by generated ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from compact.gateway import frames
from compact.gateway.frames import Frame, Kind
from compact.gateway.recorder.recorder import Recorder

EXCHANGES = Path(__file__).parent / "exchanges"
LOGS = Path(__file__).parent / "logs"
Record = dict[str, Any]


def read_exchanges(name: str) -> list[Record]:
    """Return the exchanges of a file."""
    return [json.loads(line) for line in (EXCHANGES / f"{name}.jsonl").read_text().splitlines()]


def protocol_of(path: str) -> str:
    """Return the protocol that a relay would name."""
    path = urlsplit(path).path
    ends = {"/chat/completions": "chat", "/responses": "responses"}
    if "/messages" in path:
        return "anthropic"
    return next((name for end, name in ends.items() if path.endswith(end)), "gemini" if ":" in path else "unknown")


def open_frame(record: Record, number: int, *, credential: str = "one", client: str = "") -> Frame:
    """Return the frame with the head of a request."""
    head = {
        "method": "POST",
        "path": record["path"],
        "upstream": "upstream",
        "url": "http://127.0.0.1:9",
        "protocol": protocol_of(record["path"]),
        "headers": record.get("headers", []),
        "credential": credential,
        "client": client,
    }
    return Frame(Kind.OPEN, number, record["time"], json.dumps(head).encode())


def frames_of(record: Record, number: int, *, piece: int = 700, **head: str) -> Iterator[Frame]:
    """Yield the frames of one exchange, with bodies that are cut anywhere."""
    at = record["time"]
    yield open_frame(record, number, **head)
    body = record["body"] if isinstance(record["body"], bytes) else json.dumps(record["body"]).encode()
    for start in range(0, len(body), piece):
        yield Frame(Kind.REQUEST_BODY, number, at, body[start : start + piece])
    yield Frame(Kind.REQUEST_END, number, at)
    answer_head = {"status": record.get("status", 200), "headers": record.get("answer_headers", [])}
    yield Frame(Kind.ANSWER, number, at + 0.01, json.dumps(answer_head).encode())
    answer = record["answer"] if isinstance(record["answer"], bytes) else record["answer"].encode()
    for start in range(0, len(answer), piece):
        yield Frame(Kind.ANSWER_BODY, number, at + 0.02, answer[start : start + piece])
    yield Frame(Kind.ANSWER_END, number, at + 0.05)


class Recording:
    """A recorder, and what it has emitted."""

    def __init__(self) -> None:
        self.events: list[Record] = []
        self.sessions: dict[str, str] = {}
        self.recorder = Recorder(self.events.append, report_session=self.sessions.__setitem__)
        self._number = 0

    def play(self, records: Iterable[Record], **head: str) -> Recording:
        """Feed exchanges, one after the other."""
        for record in records:
            self._number += 1
            self.feed(frames_of(record, self._number, **head))
        return self

    def feed(self, wire: Iterable[Frame]) -> None:
        """Feed frames, through their bytes."""
        decoder = frames.FrameDecoder()
        for frame in wire:
            data = frames.encode(frame.kind, frame.exchange, frame.time, frame.payload)
            for part in decoder.feed(data):
                self.recorder.feed(part)

    def of_kind(self, *kinds: str) -> list[Record]:
        """Return the last version of each span of some kinds, in order."""
        spans = {event["span_id"]: event for event in self.events if event.get("kind") in kinds}
        return list(spans.values())

    def requests(self) -> list[Record]:
        """Return the properties of each recorded request."""
        return [event["properties"] for event in self.of_kind("compact.request")]


def anthropic(
    messages: Sequence[Record], *, answer: Sequence[Record], at: float = 1_800_000_000.0, **more: Any
) -> Record:
    """Return an exchange of Anthropic's API that is not streamed."""
    number = more.pop("number", int(at))
    headers = more.pop("headers", [])
    usage = more.pop("usage", {"input_tokens": 100 + len(json.dumps(messages)) // 4, "output_tokens": 9})
    document = {"id": f"msg_{number}", "model": "claude-test", "type": "message", "content": answer, "usage": usage}
    return {
        "time": at,
        "path": "/v1/messages",
        "headers": headers,
        "body": {"model": "claude-test", "messages": list(messages), **more},
        "answer_headers": [["content-type", "application/json"]],
        "answer": json.dumps(document),
    }

"""Sessions of the real Codex, over HTTP and over its websocket, beside what its own log says."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from client.gateway.recorder.wire_feed import LOGS, Recording, read_exchanges
from compact.gateway.frames import Frame, Kind
from compact.importers.log_file import LogFile

HTTP, WEBSOCKET = "codex_0.169.0", "codex_0.169.0_websocket"
_MASK = b"\x11\x22\x33\x44"


class Socket:
    """Writes one direction of a websocket with permessage-deflate, in pieces that do not end with messages."""

    def __init__(self, *, is_client: bool, keeps_context: bool) -> None:
        self._is_client = is_client
        self._keeps_context = keeps_context
        self._deflate = zlib.compressobj(wbits=-12)

    def write(self, message: Any) -> bytes:
        data = self._deflate.compress(json.dumps(message).encode()) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        if not self._keeps_context:
            self._deflate = zlib.compressobj(wbits=-12)
        data = data.removesuffix(b"\x00\x00\xff\xff")
        half = len(data) // 2
        ping = self._frame(0x89, b"ping")
        return self._frame(0x41, data[:half]) + ping + self._frame(0x80, data[half:])

    def _frame(self, first: int, payload: bytes) -> bytes:
        size = len(payload)
        length = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big")
        if size > 0xFFFF:
            length = b"\x7f" + size.to_bytes(8, "big")
        if not self._is_client:
            return bytes([first]) + length + payload
        masked = bytes(byte ^ _MASK[index % 4] for index, byte in enumerate(payload))
        return bytes([first, length[0] | 0x80]) + length[1:] + _MASK + masked


def socket_frames(*, keeps_context: bool = True, piece: int = 500) -> Iterator[Frame]:
    """Yield the recorded connections as frames of a relay."""
    extensions = "permessage-deflate; server_max_window_bits=12; client_max_window_bits=12"
    if not keeps_context:
        extensions += "; server_no_context_takeover; client_no_context_takeover"
    sides: dict[tuple[int, str], Socket] = {}
    for record in read_exchanges(WEBSOCKET):
        number, kind, at = record["socket"], record["kind"], record["time"]
        if kind == "open":
            head = {
                "method": "GET",
                "path": record["path"],
                "upstream": "openai",
                "url": "",
                "protocol": "responses",
                "headers": record["headers"],
                "credential": "one",
                "client": "",
            }
            yield Frame(Kind.OPEN, number, at, json.dumps(head).encode())
            yield Frame(Kind.REQUEST_END, number, at)
            answer = {"status": 101, "headers": [["sec-websocket-extensions", extensions]]}
            yield Frame(Kind.ANSWER, number, at, json.dumps(answer).encode())
            for side in ("client", "server"):
                sides[number, side] = Socket(is_client=side == "client", keeps_context=keeps_context)
        elif kind == "closed":
            yield Frame(Kind.ABORTED, number, at, b"{}")
        else:
            data = sides[number, kind].write(record["message"])
            frame = Kind.CLIENT_FRAME if kind == "client" else Kind.SERVER_FRAME
            for start in range(0, len(data), piece):
                yield Frame(frame, number, at, data[start : start + piece])


def turns(recording: Recording) -> list[tuple[str, int, int]]:
    """Return change, turn and number of blocks of each turn."""
    requests = [request for request in recording.requests() if request["request_class"] == "main"]
    return [(request["change"], request["turn"], request["message_count"]) for request in requests]


@pytest.mark.parametrize("keeps_context", [True, False])
def test_prompts_are_rebuilt_from_the_frames_of_the_websocket(keeps_context: bool) -> None:
    """A frame has only the new items. The others come from the response that it refers to."""
    recording = Recording()
    recording.feed(socket_frames(keeps_context=keeps_context))
    assert recording.recorder.figures["unreadable"] == 0
    changes = turns(recording)
    assert [change for change, *_ in changes] == ["start", "append", "compaction"]
    assert [turn for _, turn, _ in changes] == [1, 2, 3]
    assert changes[1][2] == changes[0][2] + 2
    classes = [request["request_class"] for request in recording.requests()]
    assert classes.count("probe") == 3  # the connection is warmed up with the tools and without a prompt


def http() -> Recording:
    return Recording().play(read_exchanges(HTTP))


def websocket() -> Recording:
    recording = Recording()
    recording.feed(socket_frames())
    return recording


@pytest.mark.parametrize("record", [http, websocket])
def test_a_compaction_by_the_provider_is_exact(record: Any) -> None:
    """The instructions and the user's messages stay. The summary is sealed, so no facts are counted."""
    recording = record()
    (result,) = recording.of_kind("compact.pruned_messages")
    assert result["properties"]["evidence"] == "exact"
    fates = {entry["role"]: entry["fate"] for entry in result["payload"]["ledger"]}
    assert fates["developer"] == fates["user"] == "kept"
    assert fates["assistant"] == "summarized"
    assert recording.of_kind("compact.retention") == []
    (request,) = [span for span in recording.of_kind("generation") if span["name"] == "summary request"]
    assert request["parent_id"] == recording.of_kind("compact.check")[0]["span_id"]


def test_the_log_of_the_session_names_the_same_spans() -> None:
    """The rollout and the wire are one session. Only the request for the summary is not in the rollout."""
    wire = {event["span_id"]: event for event in http().events if "span_id" in event}
    log = {
        event["span_id"]: event
        for path in (LOGS / HTTP).glob("*.jsonl")
        for step in LogFile(path).steps(None, is_final=True)
        for event in step.events
        if "span_id" in event
    }
    assert {event["name"] for name, event in wire.items() if name not in log} == {"compact.request", "summary request"}
    assert [event["name"] for name, event in log.items() if name not in wire] == []


def test_tools_among_the_items_are_parts_of_their_own() -> None:
    """Codex sends its tools as an item of the input."""
    parts = http().requests()[0]["parts"]
    assert {part["part"] for part in parts} == {"tools", "system", "user"}
    assert all(part.get("name") for part in parts if part["part"] == "tools")

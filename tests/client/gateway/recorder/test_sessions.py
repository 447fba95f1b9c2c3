"""Sessions come from what agents say, or from content and credential, for each API. Two users never share one."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import brotli
import pytest
import zstandard
from client.gateway.recorder.wire_feed import Recording, anthropic, frames_of, open_frame
from compact.gateway.frames import Frame, Kind

Record = dict[str, Any]
Turn = Callable[[Sequence[tuple[str, str]], str, int], Record]


def reply_to(who: str, number: int) -> str:
    return f"The answer has enough words to be recognized: number {number} of {who}, as a person would write it."


def name_of(reply: str, number: int) -> int:
    """Return a number that only this answer has."""
    return zlib.crc32(f"{number} {reply}".encode())


def stream(events: Sequence[Record]) -> str:
    return "".join(f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n" for event in events)


def exchange(path: str, body: Record, answer: str, at: float, *, kind: str = "text/event-stream") -> Record:
    return {"time": at, "path": path, "body": body, "answer": answer, "answer_headers": [["content-type", kind]]}


def anthropic_turn(history: Sequence[tuple[str, str]], reply: str, number: int) -> Record:
    messages = [{"role": role, "content": words} for role, words in history]
    content = [{"type": "text", "text": reply}]
    return anthropic(messages, answer=content, at=1_800_000_000.0 + number, number=name_of(reply, number))


def chat_turn(history: Sequence[tuple[str, str]], reply: str, number: int) -> Record:
    name, half = f"chatcmpl-{name_of(reply, number)}", len(reply) // 2
    deltas: list[Record] = [{"role": "assistant", "content": ""}, {"content": reply[:half]}, {"content": reply[half:]}]
    chunks: list[Record] = [{"id": name, "model": "gpt-5", "choices": [{"index": 0, "delta": d}]} for d in deltas]
    usage = {"prompt_tokens": 90, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 40}}
    chunks.append({"id": name, "model": "gpt-5", "choices": [], "usage": usage})
    body = {"model": "gpt-5", "stream": True, "messages": [{"role": r, "content": w} for r, w in history]}
    answer = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    return exchange("/v1/chat/completions", body, answer, 1_800_000_000.0 + number)


def responses_turn(history: Sequence[tuple[str, str]], reply: str, number: int) -> Record:
    item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
    item["content"] = [{"type": "output_text", "text": reply, "annotations": []}]  # type: ignore[assignment]
    usage = {"input_tokens": 90, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 9}
    response = {"id": f"resp_{name_of(reply, number)}", "model": "gpt-5", "status": "completed", "output": [item]}
    events = [
        {"type": "response.created", "response": {**response, "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**response, "usage": usage}},
    ]
    body = {"model": "gpt-5", "input": [{"role": r, "content": w} for r, w in history]}
    return exchange("/v1/responses", body, stream(events), 1_800_000_000.0 + number)


def gemini_turn(history: Sequence[tuple[str, str]], reply: str, number: int) -> Record:
    roles = {"user": "user", "assistant": "model"}
    body = {"contents": [{"role": roles[r], "parts": [{"text": w}]} for r, w in history]}
    body["systemInstruction"] = {"parts": [{"text": "Be brief."}]}  # type: ignore[assignment]
    half = len(reply) // 2
    name = f"gemini-{name_of(reply, number)}"
    chunks = [
        {"responseId": name, "candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": part}]}}]}
        for part in (reply[:half], reply[half:])
    ]
    usage = {"promptTokenCount": 90, "candidatesTokenCount": 9, "cachedContentTokenCount": 40}
    chunks.append({"responseId": name, "modelVersion": "gemini-3", "usageMetadata": usage})
    answer = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    return exchange("/v1beta/models/gemini-3:streamGenerateContent?alt=sse", body, answer, 1_800_000_000.0 + number)


EACH_API = pytest.mark.parametrize("turn", [anthropic_turn, chat_turn, responses_turn, gemini_turn])


def conversation(turn: Turn, who: str, turns: int = 3) -> list[Record]:
    """Return the requests of a conversation in which each prompt repeats everything before."""
    history: list[tuple[str, str]] = []
    records = []
    for number in range(turns):
        history.append(("user", f"Question {number} of {who}, please."))
        reply = reply_to(who, number)
        records.append(turn(history, reply, number))
        history.append(("assistant", reply))
    return records


@EACH_API
def test_a_conversation_without_a_name_is_one_session(turn: Turn) -> None:
    """Each prompt continues the one before, with the provider's counts."""
    recording = Recording().play(conversation(turn, "Ada"))
    requests = recording.requests()
    assert len({event["session_id"] for event in recording.events if "session_id" in event}) == 1
    assert [request["change"] for request in requests] == ["start", "append", "append"]
    assert [request["turn"] for request in requests] == [1, 2, 3]
    assert all(sum(part["tokens"] for part in request["parts"]) == request["tokens"] for request in requests)
    outputs = [str(span["payload"]) for span in recording.of_kind("generation")]
    assert [reply_to("Ada", number) in output for number, output in enumerate(outputs)] == [True] * 3
    users = [event["payload"]["text"] for event in recording.of_kind("custom")]
    assert users == [f"Question {number} of Ada, please." for number in range(3)]
    if turn is not anthropic_turn:
        assert (requests[0]["tokens"], requests[0]["usage"]["cached_tokens"]) == (90, 40)


@EACH_API
def test_two_users_who_say_the_same_share_nothing(turn: Turn) -> None:
    """Their requests interleave, with the same beginning, and each has a planted text of its own."""
    users = {"one": "zebra-4711-quartz", "two": "otter-9083-cobalt"}
    recordings = {name: conversation(turn, secret) for name, secret in users.items()}
    recording = Recording()
    for pair in zip(*recordings.values(), strict=True):
        for credential, record in zip(users, pair, strict=True):
            recording.play([record], credential=credential)
    assert_separate(recording, users)


@EACH_API
def test_two_users_with_the_same_cache_key_share_nothing(turn: Turn) -> None:
    """The name of a session belongs to the credential that used it first."""
    users = {"one": "zebra-4711-quartz", "two": "otter-9083-cobalt"}
    recording = Recording()
    for number in range(3):
        for credential, secret in users.items():
            record = conversation(turn, secret)[number]
            record["body"]["prompt_cache_key"] = "my-app"
            recording.play([record], credential=credential)
    assert_separate(recording, users)
    assert "my-app" in {event.get("session_id") for event in recording.events}


def assert_separate(recording: Recording, users: dict[str, str]) -> None:
    sessions: dict[str, str] = {}
    for event in recording.events:
        sessions[event["session_id" if "session_id" in event else "group_id"]] = sessions.get(
            event.get("session_id", event.get("group_id")), ""
        ) + json.dumps(event)
    assert len(sessions) == 2
    first, second = sessions.values()
    one, two = users.values()
    assert (one in first, two in first) != (one in second, two in second)
    assert (one in first) != (two in first)
    assert (one in second) != (two in second)
    traces = [{event["trace_id"] for event in recording.events if event.get("session_id") == name} for name in sessions]
    assert not traces[0] & traces[1]


@EACH_API
def test_the_same_first_request_twice_is_two_sessions(turn: Turn) -> None:
    """Two runs of a script say the same. Each run is its own session, because nothing says that they are one."""
    first = conversation(turn, "Ada", turns=1)
    second = [turn([("user", "Question 0 of Ada, please.")], "Another answer, which is long enough, too.", 7)]
    recording = Recording().play(first).play(second)
    assert len({event["session_id"] for event in recording.events if "session_id" in event}) == 2


def test_a_renewed_token_stays_in_the_session_of_the_agent() -> None:
    """The request repeats what only the owner of the session knows."""
    headers = [["x-claude-code-session-id", "aaaaaaaa-0000-4000-8000-000000000001"]]
    records = [{**record, "headers": headers} for record in conversation(anthropic_turn, "Ada")]
    recording = Recording().play(records[:2], credential="old").play(records[2:], credential="new")
    assert len({event["session_id"] for event in recording.events if "session_id" in event}) == 1
    assert recording.requests()[-1]["change"] == "append"


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
    "gzip, br": lambda data: brotli.compress(gzip.compress(data)),
}


@pytest.mark.parametrize("coding", CODINGS)
def test_compressed_requests_and_answers_are_read(coding: str) -> None:
    """Bodies are cut anywhere, also inside a compressed block."""
    record = conversation(chat_turn, "Ada", turns=1)[0]
    record["headers"] = [["content-encoding", coding]]
    record["body"] = CODINGS[coding](json.dumps(record["body"]).encode())
    record["answer"] = CODINGS[coding](record["answer"].encode())
    record["answer_headers"].append(["content-encoding", coding])
    recording = Recording()
    recording.play([record])
    assert recording.requests()[0]["tokens"] == 90
    assert reply_to("Ada", 0) in str(recording.of_kind("generation")[0]["payload"])


@pytest.mark.parametrize("body", [b"no json", b"[1, 2]", b"\x1f\x8b broken", b""])
def test_a_body_that_cannot_be_read_does_not_stop_the_others(body: bytes) -> None:
    """It is counted, and the next request is recorded."""
    broken = {**conversation(chat_turn, "Ada", turns=1)[0], "body": body}
    recording = Recording().play([broken]).play(conversation(chat_turn, "Ada"))
    assert len(recording.requests()) == 3
    assert recording.recorder.figures["exchanges"] == 4


def test_a_compressed_bomb_is_not_unpacked() -> None:
    """One megabyte of zeros becomes a gigabyte. The recorder stops at its limit."""
    record = conversation(chat_turn, "Ada", turns=1)[0]
    record["headers"] = [["content-encoding", "gzip"]]
    record["body"] = gzip.compress(bytes(1 << 26), 9)
    recording = Recording().play([record])
    assert recording.requests() == []
    assert recording.recorder.figures["unreadable"] == 1


def test_a_secret_in_a_prompt_is_in_no_event() -> None:
    """Texts, results, names and the answer are redacted before anything leaves."""
    secret = "sk-ant-api03-" + "abcdefGHIJKL1234567890" * 3
    records = conversation(chat_turn, f"Ada with the key {secret}")
    assert secret in str(records)
    recording = Recording().play(records)
    assert recording.requests()
    assert secret not in json.dumps(recording.events)


def test_a_gap_is_recorded_and_makes_the_next_compaction_inferred() -> None:
    """The request before it may be missing, so the prompt before is not known exactly."""
    headers = [["x-claude-code-session-id", "aaaaaaaa-0000-4000-8000-000000000001"]]
    records = [{**record, "headers": headers} for record in conversation(anthropic_turn, "Ada")]
    recording = Recording().play(records[:2])
    lost = records[2]
    gap = {"exchanges": [99], "bytes_dropped": 4_096}
    recording.feed([open_frame(lost, 99), Frame(Kind.GAP, 0, lost["time"], json.dumps(gap).encode())])
    summary = {"role": "user", "content": "This session is being continued from a previous conversation. All is well."}
    recording.play([anthropic([summary], answer=[], headers=headers, at=1_800_000_090.0)])
    (event,) = recording.of_kind("compact.gap")
    assert event["properties"] == {
        "source": "gateway",
        "request_count": 1,
        "bytes_dropped": 4_096,
        "reason": "recorder_busy",
    }
    (result,) = recording.of_kind("compact.pruned_messages")
    assert result["properties"]["evidence"] == "inferred"
    assert recording.recorder.figures["gaps"] == 1


def test_an_aborted_answer_is_recorded_as_far_as_it_came() -> None:
    """The next request continues without it."""
    records = conversation(chat_turn, "Ada")
    recording = Recording()
    wire = list(frames_of(records[0], 1, piece=120))
    recording.feed(wire[:-4])
    recording.feed([Frame(Kind.ABORTED, 1, records[0]["time"] + 1, b'{"by": "client", "reason": "closed"}')])
    (span,) = recording.of_kind("generation")
    assert (span["data"]["interrupted"], span["ended_at"] is not None) == (True, True)

"""Worker processes decode bodies like the web process does, fairly, and are replaced when they fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

import pytest

from ingest.decoding.door.project_rules import ProjectRules
from ingest.decoding.records import Record, Span
from ingest.errors import Malformed, RequestError, TooLarge, Unavailable
from ingest.http.decode_jobs import decode_events, parse_transcript
from ingest.http.decode_pool import MAX_INLINE_BYTES, DecodePool, Trust
from ingest.storage.payloads import unpack

SECRETS = {1: "ghp_" + "a1B2" * 9, 2: "ghp_" + "z9Y8" * 9}


def body_of(project: int, *, events: int = 200, text_bytes: int = 100) -> bytes:
    """Return a body that names its project in each event and contains the project's secret once."""
    batch = [
        {
            "type": "span",
            "trace_id": f"p{project}",
            "span_id": str(number),
            "started_at": 1_763_265_600,
            "data": {"text": f"project {project} " + "word " * (text_bytes // 5)},
            "payload": {"input": [{"role": "user", "content": f"message of {project} " * 20}]},
        }
        for number in range(events)
    ]
    batch[0]["data"] = {"note": f"token {SECRETS[project]}"}
    return json.dumps({"batch": [*batch, {"type": "trace", "trace_id": f"p{project}"}, {"type": "odd"}]}).encode()


def readable(records: Sequence[Record]) -> str:
    """Return everything that the records contain, with payloads and data unpacked."""
    spans = [record for record in records if isinstance(record, Span)]
    payloads = [unpack(value) for span in spans for value in (span.payload, span.data) if value]
    return str([*records, *payloads])


@pytest.fixture
async def pool() -> AsyncIterator[DecodePool]:
    pool = DecodePool(2, timeout_s=30)
    yield pool
    await pool.close()


async def test_custom_rules_reach_the_workers_and_stay_in_their_project(pool: DecodePool) -> None:
    """Inline, in a worker, and in transcripts. The same worker serves both projects."""
    rules = {
        1: ProjectRules(b"key 1", patterns=(("motto", r"message of \d"),), allow=(SECRETS[1],)),
        2: ProjectRules(b"key 2", patterns=(("broken", "("), ("name", r"project (?P<secret>\d)"))),
    }
    for project, other in ((1, 2), (2, 1)) * 2:
        for events in (2, 200):
            body = body_of(project, events=events)
            result = await pool.decode_events(project, body, "json", max_events=500, rules=rules[project])
            text = readable(result.records)
            assert (SECRETS[1] in text) == (project == 1) and SECRETS[2] not in text
            assert ("message of 1" in text, "project 2" in text) == (False, False)
            assert f"project {project}" in text or project == 2
            plain = await pool.decode_events(other, body, "json", max_events=500)
            assert SECRETS[project] not in readable(plain.records)
    for repeat in (1, 2_000):
        line = json.dumps({"role": "user", "content": "message of 1 " * repeat}).encode() + b"\n"
        transcript = await pool.parse_transcript(1, line, rules[1])
        assert transcript.counts == {"motto": repeat} and b"message of" not in transcript.texts[0]


async def test_workers_give_the_same_result_as_the_web_process(pool: DecodePool) -> None:
    """Two projects at once: records, indexes, rejections and redactions are the same, and no project sees the other."""
    bodies = {project: body_of(project) for project in SECRETS}
    assert all(len(body) > MAX_INLINE_BYTES for body in bodies.values())
    results = await asyncio.gather(
        *(pool.decode_events(project, body, "json", max_events=500) for project, body in bodies.items())
    )
    for (project, body), result in zip(bodies.items(), results, strict=True):
        assert result.cpu_s > 0
        result.cpu_s = 0.0
        assert result == decode_events(body, "json", 500)
        assert (len(result.records), len(result.rejections), result.redacted_count) == (201, 1, 1)
        text = readable(result.records)
        assert not any(secret in text for secret in SECRETS.values())
        assert f"message of {project}" in text and f"message of {3 - project}" not in text


async def test_errors_of_a_body_reach_the_caller(pool: DecodePool) -> None:
    for body, error in ((b"[" * 20_000, Malformed), (b"[" + b"{}," * 20_000 + b"{}]", TooLarge)):
        with pytest.raises(error):
            await pool.decode_events(1, body, "json", max_events=500)
    with pytest.raises(Malformed, match="is not valid JSON") as caught:
        await pool.parse_transcript(1, b'{"role":"user"}\n' * 2_000 + b"{nope}")
    assert caught.value.rejected == [{"index": 0, "path": "line 2001", "message": caught.value.message}]
    transcript = b'{"id":"m","role":"user","content":"hello"}\n' * 1_000
    assert await pool.parse_transcript(1, transcript) == parse_transcript(transcript)


@pytest.mark.req("A-FAIR-1")
async def test_large_bodies_of_one_project_leave_a_worker_for_others(pool: DecodePool) -> None:
    """A small body of another project, and of the same one, does not wait for the second large body."""
    finished: list[str] = []

    async def decode(name: str, project: int, body: bytes) -> None:
        await pool.decode_events(project, body, "json", max_events=10_000)
        finished.append(name)

    large = body_of(1, events=600, text_bytes=2_000)
    small = {project: body_of(project) for project in SECRETS}
    await asyncio.gather(
        *(decode(f"large {number}", 1, large) for number in range(2)),
        decode("small", 1, small[1]),
        decode("other", 2, small[2]),
    )
    assert finished.index("other") < finished.index("large 1")
    assert finished.index("small") < finished.index("large 1")


async def test_waiting_projects_take_turns() -> None:
    """With one worker, the only body of a project runs after one body of the project that sent ten."""
    pool = DecodePool(1, timeout_s=30)
    finished: list[int] = []

    async def decode(project: int) -> None:
        await pool.decode_events(project, body_of(project), "json", max_events=500)
        finished.append(project)

    await asyncio.gather(*(decode(1) for _ in range(10)), decode(2))
    await pool.close()
    assert finished.index(2) <= 2


async def test_a_worker_that_takes_too_long_is_replaced() -> None:
    pool = DecodePool(1, timeout_s=30)
    await pool.decode_events(1, body_of(1), "json", max_events=500)
    pool._timeout_s = 0.001
    with pytest.raises(TooLarge, match="Send fewer events"):
        await pool.decode_events(1, body_of(1, events=1_000), "json", max_events=10_000)
    pool._timeout_s = 30
    assert (await pool.decode_events(2, body_of(2), "json", max_events=500)).count == 201
    await pool.close()


async def test_a_worker_that_dies_is_replaced(pool: DecodePool) -> None:
    await pool.decode_events(1, body_of(1), "json", max_events=500)
    (worker,) = pool._idle
    worker.process.kill()
    worker.process.wait()
    with pytest.raises(Unavailable):
        await pool.decode_events(1, body_of(1), "json", max_events=500)
    assert (await pool.decode_events(1, body_of(1), "json", max_events=500)).count == 201


async def test_a_canceled_request_does_not_disturb_the_next_one() -> None:
    """The worker finishes the job of a client that disconnected, and its result goes nowhere."""
    pool = DecodePool(1, timeout_s=30)
    requests = [
        asyncio.ensure_future(pool.decode_events(project, body_of(project), "json", max_events=500))
        for project in (1, 1, 2)
    ]
    await asyncio.sleep(0)
    requests[0].cancel()
    requests[1].cancel()
    decoded = await requests[2]
    assert {record.trace_id for record in decoded.records} == {"p2"}
    assert pool.waiting_count == 0
    await pool.close()


async def test_small_bodies_need_no_worker(pool: DecodePool) -> None:
    """But a small body with many short events does."""
    assert (await pool.decode_events(1, b'[{"trace_id":"t","span_id":"s"}]', "json", max_events=10)).count == 1
    assert not pool._idle
    with pytest.raises(RequestError):
        await pool.decode_events(1, b"[" * 1_000, "json", max_events=10)
    assert len(pool._idle) == 1


async def test_a_single_event_does_not_wait_for_the_bodies_of_others(pool: DecodePool) -> None:
    """A flood of larger bodies is decoded one after the other. The event of another project is decoded concurrently."""
    async with asyncio.timeout(5), pool._inline:
        result = await pool.decode_events(2, body_of(2, events=2), "json", max_events=10)
    text = readable(result.records)
    assert "project 2" in text and SECRETS[2] not in text


def test_only_projects_with_ordinary_bodies_are_trusted() -> None:
    """One expensive body ends the trust, and another project is not affected."""
    trust = Trust(allows_larger=True)
    size = 50_000
    for project_id in (1, 2):
        for _ in range(20):
            assert not trust.allows(project_id, size)
            trust.observe(project_id, size, size * 30e-9)
        assert trust.allows(project_id, size)
        assert not trust.allows(project_id, 1_000_000)
    trust.observe(1, size, size * 500e-9)
    for _ in range(100):
        assert not trust.allows(1, size)
        trust.observe(1, size, size * 30e-9)
    assert trust.allows(2, size)


def test_small_bodies_of_a_project_with_an_expensive_body_need_a_worker() -> None:
    """Many ordinary bodies end that. Another project is not affected, and very small bodies say nothing."""
    trust = Trust(allows_larger=False)
    size = 15_000
    trust.observe(1, 500, 500 * 5_000e-9)
    assert trust.allows_small(1)
    trust.observe(1, size, size * 5_000e-9)
    for _ in range(500):
        assert not trust.allows_small(1)
        assert trust.allows_small(2)
        trust.observe(1, size, size * 30e-9)
    assert trust.allows_small(1)
    assert not trust.allows(1, size)

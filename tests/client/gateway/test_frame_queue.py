"""The copies that wait for the recorder: what is kept while it is behind."""

from __future__ import annotations

from compact.gateway.frames import FrameDecoder, Kind
from compact.gateway.relay.frame_queue import FrameQueue

LIMIT = 1_000_000


def drain(queue: FrameQueue) -> bytes:
    """Take everything that waits."""
    data = b""
    while queue:
        (buffer,) = queue.first(1)
        queue.consume(len(buffer))
        data += bytes(buffer)
    return data


def test_a_request_whose_body_has_no_room_is_named_by_its_head_and_a_gap() -> None:
    """The recorder learns which session has the gap, although it is far behind."""
    queue = FrameQueue(LIMIT)
    for number in range(20):
        queue.add(Kind.OPEN, number, 1.0, bytes(1_000))
        for _ in range(100):
            queue.add(Kind.REQUEST_BODY, number, 1.0, bytes(1_000))
    assert queue.size <= LIMIT
    frames = list(FrameDecoder().feed(drain(queue)))
    queue.add_gaps(2.0)
    frames += FrameDecoder().feed(drain(queue))
    heads = {frame.exchange for frame in frames if frame.kind is Kind.OPEN}
    gaps = [number for frame in frames if frame.kind is Kind.GAP for number in frame.json()["exchanges"]]
    assert heads == set(range(20))
    assert sorted(gaps) == list(range(7, 20))

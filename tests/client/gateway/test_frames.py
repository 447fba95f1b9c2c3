"""Frames between relay and recorder."""

from __future__ import annotations

import subprocess
import sys

import pytest
from compact.gateway.frames import MAX_PAYLOAD_BYTES, Frame, FrameDecoder, FrameError, Kind, encode, encode_json
from hypothesis import given
from hypothesis import strategies as st

FRAMES = st.builds(
    Frame,
    st.sampled_from(Kind),
    st.integers(0, 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.binary(max_size=100),
)


@given(st.lists(FRAMES, max_size=8), st.lists(st.integers(1, 40), min_size=1))
def test_frames_survive_any_cut(frames, sizes):
    """The decoder returns the frames that were encoded, wherever their bytes are cut."""
    data = b"".join(encode(frame.kind, frame.exchange, frame.time, frame.payload) for frame in frames)
    decoder = FrameDecoder()
    decoded, start, turn = [], 0, 0
    while start < len(data):
        size = sizes[turn % len(sizes)]
        decoded += decoder.feed(data[start : start + size])
        start, turn = start + size, turn + 1
    assert decoded == frames
    assert decoder.is_complete


def test_an_incomplete_frame_is_known():
    """A writer that died inside a frame leaves the decoder incomplete."""
    decoder = FrameDecoder()
    assert list(decoder.feed(encode(Kind.REQUEST_END, 7, 1.5)[:-1])) == []
    assert not decoder.is_complete


def test_json_payloads():
    """A JSON payload is read back."""
    data = encode_json(Kind.GAP, 0, 1.0, {"exchanges": [3, 4], "bytes_dropped": 12})
    (frame,) = FrameDecoder().feed(data)
    assert frame.json() == {"exchanges": [3, 4], "bytes_dropped": 12}


def test_bytes_out_of_step_are_an_error():
    """A length or a kind that cannot be is an error, and never a huge buffer."""
    with pytest.raises(FrameError, match="exceeds the limit"):
        list(FrameDecoder().feed(b"\xff" * 21))
    with pytest.raises(FrameError, match="no kind of frame"):
        list(FrameDecoder().feed(b"\x00" * 21))
    with pytest.raises(FrameError, match="exceeds the limit"):
        encode(Kind.REQUEST_BODY, 1, 1.0, bytes(MAX_PAYLOAD_BYTES + 1))


def test_only_the_standard_library_is_imported():
    """Neither redaction, nor a tokenizer, nor a server framework is loaded with the frames."""
    code = "import sys, compact.gateway.frames; print([m for m in sys.modules if m.startswith('compact')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "['compact', 'compact.gateway', 'compact.gateway.frames']"

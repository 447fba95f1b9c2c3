"""Ids are lines of pages, mails and logs, so they have no control characters."""

from __future__ import annotations

import json

import pytest

from ingest.archive.transcripts import BadTranscript, _check_arguments
from ingest.decoding.records import Span
from ingest.http.decode_jobs import decode_events

CONTROL = ["\n", "\r", "\x1b", "\x7f", "\x85", "\u2028"]


@pytest.mark.parametrize("character", CONTROL)
@pytest.mark.parametrize("name", ["trace_id", "span_id", "parent_id", "session_id"])
def test_an_id_with_a_control_character_is_rejected(name: str, character: str) -> None:
    """The other events of the body are stored."""
    span = {"type": "span", "trace_id": "t", "span_id": "s", "parent_id": "p", "session_id": "a"}
    body = json.dumps([{**span, name: f"one{character}two"}, span])
    decoded = decode_events(body.encode(), "json", 10)
    assert [(one.index, one.path) for one in decoded.rejections] == [(0, name)]
    assert "control character" in decoded.rejections[0].message
    assert len(decoded.records) == 1


def test_a_group_and_a_session_in_the_data_have_none_either() -> None:
    """Data may contain anything under the key of an id, so there it is not an id."""
    group = {"type": "trace", "trace_id": "t", "group_id": "a\nb"}
    named = {"type": "span", "trace_id": "t", "span_id": "s", "data": {"session_id": "a\nb"}}
    decoded = decode_events(json.dumps([group, named]).encode(), "json", 10)
    assert [one.path for one in decoded.rejections] == ["group_id"]
    (span,) = decoded.records
    assert isinstance(span, Span)
    assert span.session_id is None


@pytest.mark.parametrize("text", ["Größe 7", "日本語", "a b", "👩‍💻", "a\u200db", "a\u00a0b"])
def test_an_id_may_have_any_other_character(text: str) -> None:
    body = json.dumps({"type": "span", "trace_id": text, "span_id": text, "session_id": text})
    assert decode_events(body.encode(), "json", 10).rejections == []


@pytest.mark.parametrize("character", CONTROL)
def test_a_transcript_of_such_a_session_is_rejected(character: str) -> None:
    with pytest.raises(BadTranscript):
        _check_arguments(f"one{character}two", 1)

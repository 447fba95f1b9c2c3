"""Scanning a whole request finds the same secrets as scanning each event."""

from __future__ import annotations

from typing import Any

import msgspec
from compact.redaction import default_redactor
from hypothesis import given, settings
from hypothesis import strategies as st
from redaction_corpus import corpus

from ingest.decoding.door.redaction import redact
from ingest.decoding.json_body import decode
from ingest.decoding.raw_records import Raw, RawTrace
from ingest.decoding.records import Span, Trace

_CASES = [case.text for case in corpus()]
# None of these is ever redacted, so a generated batch has only the suspect value to redact.
words = st.sampled_from(["gpt-5", "read_file", "step 7: looked at the files", "", "é" * 9, "x" * 90])
plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 10**9), words),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["note", "usage", "model"]), inner, max_size=3)
    ),
    max_leaves=6,
)
secret_names = st.sampled_from(
    ["password", "api_key", "access_token", "input_tokens", "Cookie", "redactions", "x.auth"]
)
suspects = st.one_of(
    st.sampled_from(_CASES),
    st.dictionaries(secret_names, st.one_of(words, st.just("q7Xz81kP99"), st.integers(0, 99), plain), min_size=1),
)
PLACES = ("name", "data", "payload", "metadata")


@st.composite
def batches(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Some events, one of which has a value that the rules may redact."""
    events = [
        {"type": "span", "trace_id": "t", "span_id": str(number), "name": draw(words), "data": {"a": draw(plain)}}
        for number in range(draw(st.integers(1, 3)))
    ]
    events.append({"type": "trace", "trace_id": "t", "name": draw(words), "metadata": {"a": draw(plain)}})
    place, suspect = draw(st.sampled_from(PLACES)), draw(suspects)
    event = events[-1 if place == "metadata" else draw(st.integers(0, len(events) - 2))]
    if place == "name":
        event["name"] = suspect if isinstance(suspect, str) else "name"
    else:
        event[place] = {"a": draw(plain), "b": draw(st.sampled_from([suspect, [suspect], {"c": suspect}]))}
    return events


@settings(max_examples=200)
@given(batches())
def test_a_request_is_redacted_like_its_events(batch: list[dict[str, Any]]) -> None:
    """The scan misses nothing that the rules redact, and redacts nothing else."""
    body = msgspec.json.encode(batch)
    expected = [_redact_directly(event) for event in decode(body, max_events=10).events]
    decoded = redact(decode(body, max_events=10))
    assert [_stored_values(record) for record in decoded.records] == [stored for stored, _ in expected]
    assert decoded.redacted_count == sum(is_changed for _, is_changed in expected)


def test_every_secret_of_the_corpus_is_found_in_a_request() -> None:
    """In any surrounding text, including text that is not ASCII."""
    for around in ("{}", "Größe 5, {}", "[{}]"):
        for text in _CASES:
            body = {"type": "span", "trace_id": "t", "span_id": "1", "data": {"note": around.format(text)}}
            parsed = decode(msgspec.json.encode(body), max_events=1)
            expected, _ = _redact_directly(parsed.events[0])
            (record,) = redact(parsed).records
            assert _stored_values(record) == expected


def _redact_directly(event: Raw) -> tuple[tuple[Any, ...], bool]:
    """Apply the rules to one event. Return the result, and True if anything was redacted."""
    before = (
        (event.name, event.metadata)
        if isinstance(event, RawTrace)
        else (event.name or event.kind, event.data, event.payload)
    )
    after = tuple(default_redactor().tree(part)[0] for part in before)
    return after, after != before


def _stored_values(record: Span | Trace) -> tuple[Any, ...]:
    if isinstance(record, Trace):
        return record.name, msgspec.json.decode(record.metadata)
    return record.name, msgspec.json.decode(record.data), msgspec.json.decode(record.payload or b"null")

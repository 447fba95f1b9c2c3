"""Looking at a whole request in one go finds what looking at each event by itself finds."""

from __future__ import annotations

from typing import Any

import msgspec
from compact.redaction import default_redactor
from hypothesis import given, settings
from hypothesis import strategies as st
from redaction_corpus import corpus

from ingest.decode import decode
from ingest.events import Span, Trace
from ingest.redact import redact

_CASES = [case.text for case in corpus()]
texts = st.one_of(st.sampled_from(_CASES), st.text(max_size=40), st.sampled_from(["gpt-5", "read_file", "q7Xz81kP99"]))
names = st.one_of(
    st.sampled_from(["password", "api_key", "access_token", "input_tokens", "note", "model", "redactions", "Cookie"]),
    st.text(max_size=12),
)
trees = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(0, 1e9), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=8,
)
events = st.fixed_dictionaries(
    {"type": st.just("span"), "trace_id": st.just("t"), "span_id": st.uuids().map(str), "name": texts},
    optional={"data": st.dictionaries(names, trees, max_size=5), "payload": trees},
) | st.fixed_dictionaries(
    {"type": st.just("trace"), "trace_id": st.just("t"), "name": texts},
    optional={"metadata": st.dictionaries(names, trees, max_size=4)},
)


@settings(max_examples=300, deadline=None)
@given(st.lists(events, min_size=1, max_size=6))
def test_a_request_is_redacted_as_its_events_are(batch: list[dict[str, Any]]) -> None:
    """The quick look never lets pass what the rules would hide, and hides nothing else."""
    body = msgspec.json.encode(batch)
    expected = [_alone(record) for record in decode(body, max_events=10).records]
    together = decode(body, max_events=10)
    found = redact(together.records)
    assert [_stored(record) for record in together.records] == [stored for stored, _ in expected]
    assert found == sum(is_changed for _, is_changed in expected)


def _alone(record: Span | Trace) -> tuple[tuple[Any, ...], bool]:
    """What the rules make of one record, and whether they hid something."""
    before = _stored(record)
    after = tuple(default_redactor().tree(part)[0] for part in before)
    return after, after != before


def _stored(record: Span | Trace) -> tuple[Any, ...]:
    if isinstance(record, Trace):
        return record.name, msgspec.json.decode(record.metadata)
    return record.name, msgspec.json.decode(record.data), msgspec.json.decode(record.payload or b"null")

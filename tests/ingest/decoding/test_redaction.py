"""Looking at a whole request in one go finds what looking at each event by itself finds."""

from __future__ import annotations

from typing import Any

import msgspec
from compact.redaction import default_redactor
from hypothesis import given, settings
from hypothesis import strategies as st
from redaction_corpus import corpus

from ingest.decoding.json_body import decode
from ingest.decoding.records import Span, Trace
from ingest.decoding.redaction import redact

_CASES = [case.text for case in corpus()]
# Nothing here is ever hidden, so that what is put among it is all that there is to find.
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
    """A few events, and in one place of one of them something that the rules may hide."""
    made = [
        {"type": "span", "trace_id": "t", "span_id": str(number), "name": draw(words), "data": {"a": draw(plain)}}
        for number in range(draw(st.integers(1, 3)))
    ]
    made.append({"type": "trace", "trace_id": "t", "name": draw(words), "metadata": {"a": draw(plain)}})
    place, suspect = draw(st.sampled_from(PLACES)), draw(suspects)
    event = made[-1 if place == "metadata" else draw(st.integers(0, len(made) - 2))]
    if place == "name":
        event["name"] = suspect if isinstance(suspect, str) else "name"
    else:
        event[place] = {"a": draw(plain), "b": draw(st.sampled_from([suspect, [suspect], {"c": suspect}]))}
    return made


@settings(max_examples=200, deadline=None)
@given(batches())
def test_a_request_is_redacted_as_its_events_are(batch: list[dict[str, Any]]) -> None:
    """The quick look never lets pass what the rules would hide, and hides nothing else."""
    body = msgspec.json.encode(batch)
    expected = [_alone(record) for record in decode(body, max_events=10).records]
    together = decode(body, max_events=10)
    found = redact(together.converted)
    assert [_stored(record) for record in together.records] == [stored for stored, _ in expected]
    assert found == sum(is_changed for _, is_changed in expected)


def test_every_known_secret_is_found_in_a_request() -> None:
    """The quick look, by words and by the shape of numbers, overlooks none of the corpus, in any script around it."""
    for around in ("{}", "Größe 5, {}", "[{}]"):
        for text in _CASES:
            body = {"type": "span", "trace_id": "t", "span_id": "1", "data": {"note": around.format(text)}}
            decoded = decode(msgspec.json.encode(body), max_events=1)
            (record,) = decoded.records
            expected, _ = _alone(record)
            redact(decoded.converted)
            assert _stored(record) == expected


def _alone(record: Span | Trace) -> tuple[tuple[Any, ...], bool]:
    """What the rules make of one record, and whether they hid something."""
    before = _stored(record)
    after = tuple(default_redactor().tree(part)[0] for part in before)
    return after, after != before


def _stored(record: Span | Trace) -> tuple[Any, ...]:
    if isinstance(record, Trace):
        return record.name, msgspec.json.decode(record.metadata)
    return record.name, msgspec.json.decode(record.data), msgspec.json.decode(record.payload or b"null")

"""Environments, users and tags of traces are stored with their session, and move with it."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.decoding.labels import MAX_CHARS, MAX_LABELS, labels_of

from ..conftest import Wire

LABELS = (
    "SELECT key, value FROM ingest_label JOIN ingest_session USING (session_key) WHERE session_id = %s ORDER BY 1, 2"
)


def labels(wire: Wire, session_id: str) -> list[tuple[str, str]]:
    return [(row["key"], row["value"]) for row in wire.rows(LABELS, session_id)]


def trace(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "trace", "trace_id": name, **more}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"deployment.environment.name": "prod", "note": "x"}, [("deployment.environment.name", "prod")]),
        ({"tags": ["b", "a", "a", {"no": 1}, None]}, [("tags", "a"), ("tags", "b")]),
        ({"user.id": 7}, [("user.id", "7")]),
        ({"user": {"name": "Jane"}, "tags": " ", "environment": "x" * (MAX_CHARS + 1), "user_id": True}, []),
    ],
)
def test_metadata_has_labels(metadata: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """Texts, numbers and lists of them. Objects, empty texts and long texts are no labels."""
    assert labels_of(metadata) == expected


def test_the_number_of_labels_is_limited() -> None:
    assert len(labels_of({"tags": [str(number) for number in range(1_000)]})) == MAX_LABELS


def test_labels_are_stored_once(wire: Wire, name: str) -> None:
    """Replays add nothing, a later event adds to them, and spans need no label."""
    first = trace(name, group_id=name, metadata={"tags": ["nightly"], "environment": "staging"})
    span = {"type": "span", "trace_id": name, "span_id": "a", "started_at": "2026-11-16T04:20:00Z"}
    for _ in range(3):
        wire.send(first, span)
    assert labels(wire, name) == [("environment", "staging"), ("tags", "nightly")]
    wire.send(trace(name, metadata={"user.id": "u-1"}))
    assert labels(wire, name) == [("environment", "staging"), ("tags", "nightly"), ("user.id", "u-1")]


def test_labels_move_with_their_trace(wire: Wire, name: str) -> None:
    """The session that the trace leaves keeps the labels of its other traces."""
    wire.send(
        {"type": "span", "trace_id": name, "span_id": "a", "session_id": f"{name}-old"},
        {"type": "span", "trace_id": f"{name}-2", "span_id": "b", "session_id": f"{name}-old"},
        trace(name, metadata={"tags": ["moves"]}),
        trace(f"{name}-2", metadata={"tags": ["stays"]}),
    )
    assert labels(wire, f"{name}-old") == [("tags", "moves"), ("tags", "stays")]
    wire.send(trace(name, group_id=f"{name}-new"))
    assert labels(wire, f"{name}-old") == [("tags", "stays")]
    assert labels(wire, f"{name}-new") == [("tags", "moves")]
    orphans = "SELECT 1 FROM ingest_label l LEFT JOIN ingest_session s USING (session_key) WHERE s IS NULL"
    assert wire.rows(orphans) == []


def test_attributes_of_opentelemetry_spans_are_labels(wire: Wire, name: str) -> None:
    """The environment is an attribute of the resource, and the user and the tags are attributes of spans."""

    def text(key: str, value: str) -> dict[str, Any]:
        return {"key": key, "value": {"stringValue": value}}

    tags = {"key": "tag.tags", "value": {"arrayValue": {"values": [{"stringValue": "a"}, {"stringValue": "b"}]}}}
    span = {"traceId": "ab" * 16, "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000001000000000"}
    spans = [
        {**span, "spanId": "11" * 8, "parentSpanId": "22" * 8, "attributes": [text("session.id", name), tags]},
        {**span, "spanId": "22" * 8, "attributes": [text("session.id", name), text("enduser.id", "u-2")]},
    ]
    resource = {"attributes": [text("deployment.environment.name", "prod")]}
    body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}
    assert wire.post(body, path="/v1/traces").status_code == 200
    assert labels(wire, name) == [
        ("deployment.environment.name", "prod"),
        ("enduser.id", "u-2"),
        ("tag.tags", "a"),
        ("tag.tags", "b"),
    ]

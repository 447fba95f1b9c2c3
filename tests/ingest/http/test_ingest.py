"""POST /ingest accepts every form of body and event, stores each event once, and aggregates sessions correctly."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from typing import Any

import pytest
import zstandard

from ingest import credentials

from ..conftest import Wire

T0 = "2026-11-16T04:00:00Z"
T1 = "2026-11-16T04:00:01.5Z"
COMPRESSORS = [("gzip", gzip.compress), ("zstd", zstandard.ZstdCompressor().compress), ("deflate", zlib.compress)]


def span(trace: str, number: int, **more: Any) -> dict[str, Any]:
    return {"type": "span", "trace_id": trace, "span_id": f"s{number}", "started_at": T0, "ended_at": T1, **more}


@pytest.mark.req("K-ING-1")
@pytest.mark.parametrize(
    "wrap",
    [
        lambda events: {"batch": events},
        lambda events: {"events": events},
        lambda events: events,
    ],
    ids=["batch", "events", "list"],
)
def test_a_body_can_be_an_envelope_or_a_list(wire: Wire, name: str, wrap: Any) -> None:
    """The response has the number of stored events."""
    response = wire.post(wrap([span(name, 1), span(name, 2, parent_id="s1")]))
    assert response.json() == {"success": True, "count": 2, "rejected": []}
    assert [(row["span_id"], row["parent_id"]) for row in wire.spans(name)] == [("s1", None), ("s2", "s1")]


@pytest.mark.req("K-ING-1")
def test_a_body_can_be_a_single_event(wire: Wire, name: str) -> None:
    """A span needs no envelope. Its payload can be JSON in a string."""
    wire.post(span(name, 1, kind="tool", name="search", data={"a": 1}, payload='{"text": "hello"}'))
    (row,) = wire.spans(name)
    assert (row["kind"], row["name"], row["data"], row["payload"]) == ("tool", "search", {"a": 1}, {"text": "hello"})


@pytest.mark.req("K-ING-1")
def test_data_and_properties_are_merged(wire: Wire, name: str) -> None:
    """They are synonyms. If an event has both, `data` takes precedence."""
    wire.post(span(name, 1, data={"a": 1, "both": "data"}, properties={"b": 2, "both": "properties"}))
    (row,) = wire.spans(name)
    assert row["data"] == {"a": 1, "b": 2, "both": "data"}


@pytest.mark.req("K-ING-1")
def test_the_example_of_document_000_updates_its_session(wire: Wire, name: str) -> None:
    """Section 9's event sets the session's model, window and peak."""
    event = {"event": "compact.trigger_decision", "ts": T0, "session_id": name, "model": "gpt-5-reasoning"}
    wire.post({**event, "t_est": 112_345, "max": 128_000, "policy": {"trigger_pct": 0.85, "buffer": 1500}})
    (row,) = wire.rows("SELECT * FROM ingest_session WHERE session_id = %s", name)
    assert (row["model"], row["peak_tokens"], row["window_tokens"]) == ("gpt-5-reasoning", 112_345, 128_000)


@pytest.mark.req("K-ING-1")
@pytest.mark.parametrize(
    ("media_type", "body", "status"),
    [
        ("text/plain", b'{"type": "span", "trace_id": "t", "span_id": "s"}', 415),
        ("application/xml", b"<span/>", 415),
        ("application/x-www-form-urlencoded", b"type=span", 415),
        ("application/x-www-form-urlencoded", b'{"type": "span", "trace_id": "t", "span_id": "s"}', 200),
    ],
)
def test_other_media_types_are_415(wire: Wire, media_type: str, body: bytes, status: int) -> None:
    """JSON with curl's default media type is accepted."""
    assert wire.post(body, content_type=media_type).status_code == status


@pytest.mark.req("K-ING-1")
@pytest.mark.parametrize("media_type", ["application/x-ndjson", "application/json"])
def test_ndjson_is_accepted(wire: Wire, name: str, media_type: str) -> None:
    """Even if the media type is application/json."""
    body = "\n".join(json.dumps(span(name, number)) for number in range(3)).encode()
    assert wire.post(body, content_type=media_type).json()["count"] == 3


@pytest.mark.parametrize("media_type", ["application/x-ndjson", "application/json"])
def test_invalid_lines_do_not_affect_other_lines(wire: Wire, name: str, media_type: str) -> None:
    """Invalid lines are listed by index. The lines before and after them are stored."""
    lines = [json.dumps(span(name, 1)), "nope", '{"half":', json.dumps(span(name, 2))]
    response = wire.post("\r\n".join(lines).encode(), content_type=media_type)
    assert (response.status_code, response.json()["count"]) == (200, 2), response.text
    assert [bad["index"] for bad in response.json()["rejected"]] == [1, 2]


@pytest.mark.req("K-ING-1")
@pytest.mark.parametrize(("encoding", "compress"), COMPRESSORS, ids=[encoding for encoding, _ in COMPRESSORS])
def test_compressed_bodies_are_accepted(wire: Wire, name: str, encoding: str, compress: Any) -> None:
    """A body that does not match its Content-Encoding is rejected."""
    response = wire.post(compress(json.dumps(span(name, 1)).encode()), content_encoding=encoding)
    assert response.status_code == 200
    assert wire.post(b"not compressed", content_encoding=encoding).status_code == 400


@pytest.mark.parametrize(("encoding", "compress"), COMPRESSORS, ids=[encoding for encoding, _ in COMPRESSORS])
@pytest.mark.parametrize("is_truncated", [True, False], ids=["truncated", "with trailing bytes"])
def test_a_compressed_body_must_be_complete(
    wire: Wire, name: str, encoding: str, compress: Any, is_truncated: bool
) -> None:
    """Half a compressed body may contain complete lines of NDJSON. They are not stored."""
    body = b"".join(json.dumps(span(name, number)).encode() + b"\n" for number in range(3_000))
    compressed = compress(body)
    compressed = compressed[: len(compressed) // 2] if is_truncated else compressed + b"more"
    response = wire.post(compressed, content_encoding=encoding, content_type="application/x-ndjson")
    assert (response.status_code, response.json()["error"]) == (400, f"The body is not valid {encoding}.")
    assert wire.rows("SELECT 1 FROM ingest_session WHERE session_id = %s", name) == []


@pytest.mark.req("K-ING-1")
def test_flat_events_become_spans_of_their_session(wire: Wire, name: str) -> None:
    """An event in the form of document 000 has no ids and its fields are its properties. A replay adds no span."""
    event = {
        "ts": "2025-10-04T12:34:56Z",
        "session_id": name,
        "event": "compact.trigger_decision",
        "model": "gpt-5-reasoning",
        "t_est": 112345,
        "max": 128000,
        "policy": {"trigger_pct": 0.85, "buffer": 1500},
        "pruned_count": 47,
    }
    for _ in range(2):
        assert wire.post({"events": [event]}).json()["count"] == 1
    (row,) = wire.spans(name)
    assert row["kind"] == row["name"] == "compact.trigger_decision"
    assert row["data"]["policy"] == {"trigger_pct": 0.85, "buffer": 1500}
    assert row["started_at"] == row["ended_at"]
    assert (row["tokens"], wire.session(name)["window_tokens"]) == (112345, 128000)


def test_a_running_span_is_completed_by_its_end(wire: Wire, name: str) -> None:
    """The session's counts change from running to ended."""
    wire.send({"type": "span", "trace_id": name, "span_id": "a", "kind": "agent", "started_at": T0, "data": {"x": 1}})
    before = wire.spans(name)[0]
    assert wire.session(name)["running_count"] == 1
    wire.send({"type": "span", "trace_id": name, "span_id": "a", "ended_at": T1, "data": {"y": 2}, "status": "error"})
    (row,) = wire.spans(name)
    assert (row["kind"], row["data"], row["status"]) == ("agent", {"x": 1, "y": 2}, "error")
    assert row["seq"] > before["seq"]
    session = wire.session(name)
    assert (session["span_count"], session["running_count"], session["error_count"]) == (1, 0, 1)
    assert session["last_seq"] == row["seq"]


def test_replays_change_nothing(wire: Wire, name: str) -> None:
    """Sending the same events again, completely, partially or in another order, changes no row."""
    events: list[dict[str, Any]] = [{"type": "trace", "trace_id": name, "name": "run", "group_id": f"g-{name}"}]
    events += [{**span(name, number), "kind": "generation", "data": {"model": "gpt-5"}} for number in range(20)]
    events += [{"type": "span", "trace_id": name, "span_id": "open", "started_at": T0}]
    events += [{"type": "span", "trace_id": name, "span_id": "open", "started_at": T0, "ended_at": T1}]
    wire.send(*events)
    before = (wire.spans(f"g-{name}"), wire.session(f"g-{name}"))
    shuffled = random.Random(7).sample(events, len(events))
    for replay in (events, shuffled, shuffled[:5], [events[-2]]):
        wire.send(*replay)
    assert (wire.spans(f"g-{name}"), wire.session(f"g-{name}")) == before
    assert len(before[0]) == 21


@pytest.mark.parametrize("seed", range(6))
def test_events_can_arrive_in_any_order(wire: Wire, name: str, seed: int) -> None:
    """Spans before their trace, children before parents and ends before starts give the same session."""
    group = f"g-{name}"
    events: list[dict[str, Any]] = [
        {"type": "trace", "trace_id": name, "name": "run", "group_id": group, "started_at": T0},
        {"type": "trace", "trace_id": name, "ended_at": T1},
        {"type": "span", "trace_id": name, "span_id": "a", "kind": "agent", "started_at": T0},
        {"type": "span", "trace_id": name, "span_id": "a", "ended_at": T1, "status": "ok"},
        span(name, 1, parent_id="a", kind="turn"),
        span(name, 2, parent_id="s1", kind="generation", data={"model": "m", "usage": {"input_tokens": 90}}),
        {
            **span(name, 3, parent_id="s1", name="compact.token_estimate"),
            "properties": {"session_id": "named-by-span", "t_est": 100, "max_tokens": 200},
        },
    ]
    for event in random.Random(seed).sample(events, len(events)):
        wire.send(event)
    rows = {row["span_id"]: row for row in wire.spans(group)}
    assert {key: row["parent_id"] for key, row in rows.items()} == {"a": None, "s1": "a", "s2": "s1", "s3": "s1"}
    assert rows["a"]["kind"] == "agent"
    assert rows["a"]["ended_at"] is not None
    session = wire.session(group)
    assert (session["span_count"], session["running_count"], session["turn_count"]) == (4, 0, 1)
    assert (session["peak_tokens"], session["window_tokens"], session["model"]) == (100, 200, "m")
    (trace,) = wire.rows("SELECT * FROM ingest_trace WHERE trace_id = %s", name)
    assert (trace["name"], trace["source"], trace["ended_at"] is not None) == ("run", 2, True)
    assert wire.rows("SELECT 1 FROM ingest_session WHERE session_id = %s", name) == []


@pytest.mark.parametrize("seed", range(4))
def test_the_latest_values_win_in_any_order(wire: Wire, name: str, seed: int) -> None:
    """Window, trigger, model and tokens are the latest by the agent's clock. Equal times have a fixed winner."""
    events = [
        {"event": "compact.token_estimate", "ts": 5, "properties": {"t_est": 10, "max_tokens": 100, "model": "a"}},
        {"event": "compact.token_estimate", "ts": 6, "properties": {"t_est": 30, "max_tokens": 200, "model": "c"}},
        {"event": "compact.token_estimate", "ts": 6, "properties": {"t_est": 20, "max_tokens": 150, "model": "b"}},
        {"event": "compact.trigger_decision", "ts": 4, "properties": {"trigger_tokens": 85}},
        {"type": "span", "span_id": "g", "kind": "generation", "started_at": 3, "data": {"model": "z"}},
        {"type": "span", "span_id": "g", "ended_at": 7, "data": {"usage": {"input_tokens": 25}}},
    ]
    for event in random.Random(seed).sample(events, len(events)):
        wire.send({"trace_id": name, **event})
    session = wire.session(name)
    assert (session["window_tokens"], session["trigger_tokens"]) == (200, 85)
    assert (session["model"], session["last_tokens"], session["peak_tokens"]) == ("z", 25, 30)


def test_valid_events_of_a_mixed_batch_are_stored(wire: Wire, name: str) -> None:
    """Invalid events are listed with index and path."""
    response = wire.post([span(name, 1), {"type": "span", "trace_id": name}, span(name, 2), {"type": "nonsense"}, 7])
    assert response.status_code == 200
    body = response.json()
    assert body["count"] == 2
    assert [(bad["index"], bad["path"]) for bad in body["rejected"]] == [(1, "span_id"), (3, "type"), (4, "")]
    assert len(wire.spans(name)) == 2


@pytest.mark.parametrize("form", [{"type": "span", "span_id": "a"}, {"event": "compact.check", "ts": 1}])
@pytest.mark.parametrize("field", ["data", "properties"])
def test_the_path_is_the_field_that_was_sent(wire: Wire, name: str, form: dict[str, Any], field: str) -> None:
    """`data` and `properties` are synonyms, and the error names the one that the client used."""
    response = wire.post({**form, "trace_id": name, field: [1]})
    assert [bad["path"] for bad in response.json()["rejected"]] == [field]


def test_a_batch_without_a_valid_event_is_400(wire: Wire) -> None:
    """The response lists the reason for each event."""
    response = wire.post({"batch": [{"type": "span"}, {"type": "trace"}]})
    assert (response.status_code, response.json()["success"]) == (400, False)
    assert [bad["path"] for bad in response.json()["rejected"]] == ["trace_id", "trace_id"]


@pytest.mark.req("P-SEC-1")
def test_requests_need_a_valid_key(wire: Wire, name: str) -> None:
    """Without a key or with a wrong one, the response is 401. The key can be the password of HTTP Basic."""
    assert wire.post(span(name, 1), authorization="").status_code == 401
    assert wire.post(span(name, 1), key="ari_wrong").status_code == 401
    assert wire.post(span(name, 1), authorization="Basic !!!").status_code == 401
    assert wire.rows("SELECT 1 FROM ingest_session WHERE session_id = %s", name) == []
    host = wire.url.removeprefix("http://")
    response = wire.http.post(f"http://ariadne:{wire.key}@{host}/ingest", json=span(name, 1))
    assert response.status_code == 200


def test_all_errors_have_a_code(wire: Wire) -> None:
    """Unsupported types, methods and bodies are rejected with the same JSON shape."""
    assert wire.post(b"<x/>", content_type="application/xml").json()["code"] == "unsupported_type"
    assert wire.http.get(wire.url + "/ingest").status_code == 405
    assert wire.post(b"[]x").status_code == 400


def test_health_endpoints_respond(wire: Wire) -> None:
    """/healthz, /readyz and /metrics work without a key."""
    assert wire.http.get(wire.url + "/healthz").status_code == 200
    readiness = wire.http.get(wire.url + "/readyz").json()
    assert {name: readiness[name] for name in ("ready", "database", "channel_layer")} == {
        "ready": True,
        "database": "ok",
        "channel_layer": "ok",
    }
    assert set(readiness) == {"ready", "database", "channel_layer", "time", "version"}
    assert "ariadne_ingest_events_accepted_total" in wire.http.get(wire.url + "/metrics").text


@pytest.mark.req("S-RED-1")
def test_the_rules_of_a_project_apply_to_its_keys_only(wire: Wire, name: str) -> None:
    """Two projects send the same text. Each is redacted by its own rules, in small and in large bodies."""
    project_sql = "INSERT INTO ingest_project (slug, name, created_at, legal_hold) VALUES (%s, 'x', now(), false)"
    key_sql = (
        "INSERT INTO ingest_ingestkey (project_id, label, hint, created_at, digest) VALUES (%s, 't', 'h', now(), %s)"
    )
    rule_sql = (
        "INSERT INTO ingest_redactionrule (project_id, kind, name, value, created_at) VALUES (%s, %s, %s, %s, now())"
    )
    keys: dict[str, str] = {}
    for tenant, rule in (("a", ("pattern", "badge", r"BADGE-\d{4}")), ("b", ("allow", "", "ada@corp.org"))):
        keys[tenant] = f"ari_{name}-{tenant}-key"
        (project,) = wire.rows(project_sql + " RETURNING id", f"{name}-{tenant}")
        wire.database.execute(key_sql, (project["id"], credentials.digest(keys[tenant])))
        wire.database.execute(rule_sql, (project["id"], *rule))
    for padding in ("", "word " * 8_000):
        text = f"BADGE-4711 of ada@corp.org {padding}"
        for tenant, key in keys.items():
            trace = f"{name}-{tenant}-{len(padding)}"
            assert wire.post(span(trace, 1, payload={"text": text}), key=key).status_code == 200
        stored = {t: wire.spans(f"{name}-{t}-{len(padding)}")[0]["payload"]["text"][:26] for t in keys}
        assert stored["a"].startswith("<REDACTED> of <REDACTED>")
        assert stored["b"].startswith("BADGE-4711 of ada@corp.org")

"""POST /ingest: every form of body and event, once and only once, with its session's sums right."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from typing import Any

import pytest
import zstandard

from ..conftest import Wire

T0 = "2026-11-16T04:00:00Z"
T1 = "2026-11-16T04:00:01.5Z"
PACKERS = [("gzip", gzip.compress), ("zstd", zstandard.ZstdCompressor().compress), ("deflate", zlib.compress)]


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
def test_every_body_stores_its_events(wire: Wire, name: str, wrap: Any) -> None:
    """A body may be an envelope or a list; the answer counts what was stored."""
    answer = wire.post(wrap([span(name, 1), span(name, 2, parent_id="s1")]))
    assert answer.json() == {"success": True, "count": 2, "rejected": []}
    assert [(row["span_id"], row["parent_id"]) for row in wire.spans(name)] == [("s1", None), ("s2", "s1")]


@pytest.mark.req("K-ING-1")
def test_a_body_may_be_one_event(wire: Wire, name: str) -> None:
    """A single span stands for itself, with its data and payload."""
    wire.post(span(name, 1, kind="tool", name="search", data={"a": 1}, payload='{"text": "hello"}'))
    (row,) = wire.spans(name)
    assert (row["kind"], row["name"], row["data"], row["payload"]) == ("tool", "search", {"a": 1}, {"text": "hello"})


@pytest.mark.req("K-ING-1")
def test_data_and_properties_are_both_kept(wire: Wire, name: str) -> None:
    """Two names for one thing: an event that uses both loses nothing, and `data` wins where they disagree."""
    wire.post(span(name, 1, data={"a": 1, "both": "data"}, properties={"b": 2, "both": "properties"}))
    (row,) = wire.spans(name)
    assert row["data"] == {"a": 1, "b": 2, "both": "data"}


@pytest.mark.req("K-ING-1")
def test_document_000s_event_fills_its_session(wire: Wire, name: str) -> None:
    """Section 9's example: the model, the window and the peak are in the session's row."""
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
def test_only_json_is_taken(wire: Wire, media_type: str, body: bytes, status: int) -> None:
    """415 for every other type; JSON that curl calls a form is still JSON."""
    assert wire.post(body, content_type=media_type).status_code == status


@pytest.mark.req("K-ING-1")
@pytest.mark.parametrize("media_type", ["application/x-ndjson", "application/json"])
def test_lines_of_json_are_events(wire: Wire, name: str, media_type: str) -> None:
    """NDJSON is taken, also from those who call it JSON."""
    body = "\n".join(json.dumps(span(name, number)) for number in range(3)).encode()
    assert wire.post(body, content_type=media_type).json()["count"] == 3


@pytest.mark.parametrize("media_type", ["application/x-ndjson", "application/json"])
def test_a_broken_line_costs_its_neighbours_nothing(wire: Wire, name: str, media_type: str) -> None:
    """It is listed by its number; the lines before and after it are stored."""
    lines = [json.dumps(span(name, 1)), "nope", '{"half":', json.dumps(span(name, 2))]
    answer = wire.post("\r\n".join(lines).encode(), content_type=media_type)
    assert (answer.status_code, answer.json()["count"]) == (200, 2), answer.text
    assert [bad["index"] for bad in answer.json()["rejected"]] == [1, 2]


@pytest.mark.req("K-ING-1")
@pytest.mark.parametrize(("encoding", "pack"), PACKERS, ids=[encoding for encoding, _ in PACKERS])
def test_compressed_bodies_are_inflated(wire: Wire, name: str, encoding: str, pack: Any) -> None:
    """Content-Encoding is honoured; a body that is not what it says is refused."""
    answer = wire.post(pack(json.dumps(span(name, 1)).encode()), content_encoding=encoding)
    assert answer.status_code == 200
    assert wire.post(b"not packed", content_encoding=encoding).status_code == 400


@pytest.mark.parametrize(("encoding", "pack"), PACKERS, ids=[encoding for encoding, _ in PACKERS])
@pytest.mark.parametrize("is_cut", [True, False], ids=["cut", "with more behind it"])
def test_a_packed_body_must_be_whole(wire: Wire, name: str, encoding: str, pack: Any, is_cut: bool) -> None:
    """What arrives of half a body may well be lines of JSON; they are not taken for all of it."""
    body = b"".join(json.dumps(span(name, number)).encode() + b"\n" for number in range(3_000))
    packed = pack(body)
    packed = packed[: len(packed) // 2] if is_cut else packed + b"more"
    answer = wire.post(packed, content_encoding=encoding, content_type="application/x-ndjson")
    assert (answer.status_code, answer.json()["error"]) == (400, f"The body is not valid {encoding}.")
    assert wire.rows("SELECT 1 FROM ingest_session WHERE session_id = %s", name) == []


@pytest.mark.req("K-ING-1")
def test_flat_events_are_spans_of_their_session(wire: Wire, name: str) -> None:
    """Document 000's form: no ids, its fields are its properties, and sent twice it is still one."""
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


def test_an_open_span_is_completed_by_its_end(wire: Wire, name: str) -> None:
    """First it runs, then it has ended, and the session's sums follow."""
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
    """The same events again, whole, in part, or in another order, leave every row as it was."""
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
def test_order_does_not_matter(wire: Wire, name: str, seed: int) -> None:
    """Spans before their trace, children before parents, ends before starts: the same session comes out."""
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
def test_the_last_word_holds_in_whatever_order_it_comes(wire: Wire, name: str, seed: int) -> None:
    """Window, trigger, model and fill are those told last by the agent's clock; of one moment, always the same one."""
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


def test_good_events_of_a_mixed_batch_are_stored(wire: Wire, name: str) -> None:
    """Bad ones are listed with their place and the path of the fault."""
    answer = wire.post([span(name, 1), {"type": "span", "trace_id": name}, span(name, 2), {"type": "nonsense"}, 7])
    assert answer.status_code == 200
    body = answer.json()
    assert body["count"] == 2
    assert [(bad["index"], bad["path"]) for bad in body["rejected"]] == [(1, "span_id"), (3, "type"), (4, "")]
    assert len(wire.spans(name)) == 2


@pytest.mark.parametrize("form", [{"type": "span", "span_id": "a"}, {"event": "compact.check", "ts": 1}])
@pytest.mark.parametrize("field", ["data", "properties"])
def test_a_refusal_names_the_field_that_was_sent(wire: Wire, name: str, form: dict[str, Any], field: str) -> None:
    """`data` and `properties` are two names for one thing; the path has the one that the sender knows."""
    answer = wire.post({**form, "trace_id": name, field: [1]})
    assert [bad["path"] for bad in answer.json()["rejected"]] == [field]


def test_all_bad_is_a_400(wire: Wire) -> None:
    """When nothing could be stored the status says so, and each event says why."""
    answer = wire.post({"batch": [{"type": "span"}, {"type": "trace"}]})
    assert (answer.status_code, answer.json()["success"]) == (400, False)
    assert [bad["path"] for bad in answer.json()["rejected"]] == ["trace_id", "trace_id"]


@pytest.mark.req("P-SEC-1")
def test_a_key_is_needed(wire: Wire, name: str) -> None:
    """No key, a wrong key: 401 and nothing stored. HTTP Basic carries the key as its password."""
    assert wire.post(span(name, 1), authorization="").status_code == 401
    assert wire.post(span(name, 1), key="ari_wrong").status_code == 401
    assert wire.post(span(name, 1), authorization="Basic !!!").status_code == 401
    assert wire.rows("SELECT 1 FROM ingest_session WHERE session_id = %s", name) == []
    host = wire.url.removeprefix("http://")
    answer = wire.http.post(f"http://ariadne:{wire.key}@{host}/ingest", json=span(name, 1))
    assert answer.status_code == 200


def test_other_types_and_methods_are_refused(wire: Wire) -> None:
    """One shape for every refusal, with a code."""
    assert wire.post(b"<x/>", content_type="application/xml").json()["code"] == "unsupported_type"
    assert wire.http.get(wire.url + "/ingest").status_code == 405
    assert wire.post(b"[]x").status_code == 400


def test_health_is_told(wire: Wire) -> None:
    """The process answers, what it needs answers, and what it measured can be scraped."""
    assert wire.http.get(wire.url + "/healthz").status_code == 200
    assert wire.http.get(wire.url + "/readyz").json() == {"ready": True, "database": "ok", "channel_layer": "ok"}
    assert "ariadne_ingest_events_accepted_total" in wire.http.get(wire.url + "/metrics").text

"""Sequence numbers, moves of traces, and sessions of mixed traces."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import psycopg
import pytest
from wait import wait_until

from ingest.storage.payloads import decode

from ..conftest import Wire

T0 = "2026-11-16T04:00:00Z"


def test_sequence_numbers_are_unique_and_in_commit_order(wire: Wire, name: str) -> None:
    """With eight concurrent senders. A session's number is that of its last span."""

    def send(sender: int) -> None:
        for batch in range(5):
            events = [
                {"type": "span", "trace_id": f"{name}-{sender}", "span_id": f"{batch}-{n}", "started_at": T0}
                for n in range(10)
            ]
            wire.send(*events)

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = wire.rows("SELECT seq, session_key, span_id FROM ingest_span WHERE trace_id LIKE %s", f"{name}-%")
    assert len({row["seq"] for row in rows}) == len(rows) == 400
    sessions = wire.rows("SELECT session_key, last_seq FROM ingest_session WHERE session_id LIKE %s", f"{name}-%")
    assert len({row["last_seq"] for row in sessions}) == 8
    for session in sessions:
        mine = [row for row in rows if row["session_key"] == session["session_key"]]
        assert session["last_seq"] == max(row["seq"] for row in mine)
        order = [row["span_id"].split("-")[0] for row in sorted(mine, key=lambda row: row["seq"])]
        assert order == sorted(order)


def test_stored_spans_are_looked_up_by_primary_key(start_server: Any) -> None:
    """After thousands of small sessions, the planner must not scan a large session for each of its spans."""
    running = start_server("plans")
    with (
        httpx.Client(headers=running.headers, timeout=60) as http,
        psycopg.connect(running.database_url, autocommit=True) as database,
    ):

        def send(names: list[tuple[str, int]], **more: str) -> None:
            events = [
                {"type": "span", "trace_id": trace_id, "span_id": f"{number}", "started_at": T0, **more}
                for trace_id, number in names
            ]
            assert http.post(running.ingest_url, json=events).status_code == 200

        def read(index: str, column: str) -> int:
            database.execute("SELECT pg_stat_clear_snapshot()")
            rows = database.execute(f"SELECT sum({column}) FROM pg_stat_user_indexes WHERE indexrelname ~ '{index}$'")
            return int(rows.fetchone()[0])  # type: ignore[index]

        small, large = [(f"small-{n}", 0) for n in range(3_000)], [("large", n) for n in range(3_000)]
        for names in (small, large[:1]):
            send(names)
            send(names, ended_at=T0)
        database.execute("ANALYZE ingest_span")
        send(large)
        by_key, by_session = read("pkey", "idx_scan"), read("session_key_seq_idx", "idx_tup_read")
        send(large[1:1_001], ended_at=T0)
        assert wait_until(lambda: read("pkey", "idx_scan") >= by_key + 1_000), "spans were not looked up by their keys"
        assert read("session_key_seq_idx", "idx_tup_read") - by_session < len(large)


def test_a_trace_moves_when_its_session_becomes_known(wire: Wire, name: str) -> None:
    """From the trace's own id to the session a span names, then to its group. The old sessions are deleted."""
    span = {"type": "span", "trace_id": name, "started_at": T0, "ended_at": T0}
    wire.send({**span, "span_id": "child", "kind": "generation", "data": {"usage": {"input_tokens": 5}}})
    assert [row["span_id"] for row in wire.spans(name)] == ["child"]
    wire.send({**span, "span_id": "root", "data": {"session.id": f"named-{name}"}})
    assert {row["span_id"] for row in wire.spans(f"named-{name}")} == {"child", "root"}
    wire.send({"type": "trace", "trace_id": name, "group_id": f"group-{name}"})
    rows = wire.spans(f"group-{name}")
    assert {row["span_id"] for row in rows} == {"child", "root"}
    session = wire.session(f"group-{name}")
    assert (session["span_count"], session["peak_tokens"]) == (2, 5)
    assert session["last_seq"] >= max(row["seq"] for row in rows)
    old_sessions = wire.rows(
        "SELECT session_id FROM ingest_session WHERE session_id = ANY(%s)", [name, f"named-{name}"]
    )
    assert old_sessions == []


def test_one_trace_can_have_several_sessions(wire: Wire, name: str) -> None:
    """Some exporters use one trace for everything. Each event is stored in the session it names."""
    for number in range(4):
        session_id = f"{name}-{number % 2}"
        wire.post(
            {"event": "compact.check", "trace_id": name, "span_id": f"s{number}", "session_id": session_id, "ts": T0}
        )
    assert [row["span_id"] for row in wire.spans(f"{name}-0")] == ["s0", "s2"]
    assert [row["span_id"] for row in wire.spans(f"{name}-1")] == ["s1", "s3"]
    (trace,) = wire.rows("SELECT is_mixed FROM ingest_trace WHERE trace_id = %s", name)
    assert trace["is_mixed"] is True


def span_event(name: str, session: str | None, **more: Any) -> dict[str, Any]:
    """Return an event of span `a` that names a session or none."""
    data = {} if session is None else {"session.id": f"{name}-{session}"}
    return {"type": "span", "trace_id": name, "span_id": "a", "started_at": T0, "data": data, **more}


@pytest.mark.parametrize("first", ["trace", "other"])
@pytest.mark.parametrize("later", ["trace", "other", "third", None])
def test_a_span_stays_in_the_session_of_its_first_event(wire: Wire, name: str, first: str, later: str | None) -> None:
    """Later events that name another session, or none, complete the same span."""
    wire.send({**span_event(name, "trace"), "span_id": "root"}, {**span_event(name, "other"), "span_id": "apart"})
    wire.send(span_event(name, first))
    for _ in range(2):
        wire.send(span_event(name, later, ended_at=T0))
    rows = wire.rows("SELECT * FROM ingest_span WHERE trace_id = %s AND span_id = 'a'", name)
    assert [row["ended_at"] is not None for row in rows] == [True]
    assert rows[0]["session_key"] == wire.session(f"{name}-{first}")["session_key"]
    counts = {
        row["session_id"]: row["span_count"]
        for row in wire.rows(
            "SELECT session_id, span_count FROM ingest_session WHERE session_id LIKE %s AND span_count > 0", f"{name}-%"
        )
    }
    assert sum(counts.values()) == 3


def test_a_group_collects_the_strays_of_its_trace(wire: Wire, name: str) -> None:
    """Spans that named other sessions move to the group's session once the group is known."""
    wire.send(*({**span_event(name, session), "span_id": session} for session in ("trace", "other", "third")))
    wire.send({"type": "trace", "trace_id": name, "group_id": f"group-{name}"})
    wire.send({**span_event(name, "other", ended_at=T0), "span_id": "other"})
    assert {row["span_id"] for row in wire.spans(f"group-{name}")} == {"trace", "other", "third"}
    assert wire.session(f"group-{name}")["span_count"] == 3
    assert wire.rows("SELECT 1 FROM ingest_session WHERE session_id LIKE %s", f"{name}-%") == []
    assert len(wire.rows("SELECT 1 FROM ingest_span WHERE trace_id = %s", name)) == 3


def test_a_large_commit_is_copied_in_chunks(wire: Wire, name: str) -> None:
    """Hundreds of spans of several sessions, running or ended, with and without tokens, are stored unchanged."""
    wire.send(
        *(
            {
                "type": "span",
                "trace_id": f"{name}-{number % 3}",
                "span_id": f"{number}",
                "parent_id": None if number % 4 else f"{number - 1}",
                "kind": "generation" if number % 2 else "tool",
                "started_at": T0,
                "ended_at": T0 if number % 5 else None,
                "data": {"usage": {"input_tokens": number}},
                "payload": {"number": number} if number % 7 else None,
            }
            for number in range(600)
        )
    )
    stored = wire.rows("SELECT * FROM ingest_span WHERE trace_id LIKE %s", f"{name}-%")
    assert {row["span_id"] for row in stored} == {f"{number}" for number in range(600)}
    for row in stored:
        number = int(row["span_id"])
        assert row["trace_id"] == f"{name}-{number % 3}"
        assert row["parent_id"] == (None if number % 4 else f"{number - 1}")
        assert row["tokens"] == (number if number % 2 else None)
        assert (row["ended_at"] is None) == (number % 5 == 0)
        assert decode(row["payload"]) == ({"number": number} if number % 7 else None)
        assert row["data"] == {"usage": {"input_tokens": number}}


@pytest.mark.parametrize(
    "model", ['say "gpt-5"', "back\\slash", "{a,b}", "two\nlines", "ﬁve", "NULL", "org/gpt-5:free@v1"]
)
def test_a_model_that_does_not_look_like_a_name_is_hidden(wire: Wire, name: str, model: str) -> None:
    """Operators see the model of a session. Any other text in its place is content, and Postgres arrays escape it."""
    wire.send({"type": "span", "trace_id": name, "span_id": "1", "kind": "generation", "data": {"model": model}})
    is_name = model in ("NULL", "org/gpt-5:free@v1")
    assert wire.session(name)["model"] == (model if is_name else "[hidden]")
    (row,) = wire.rows("SELECT data FROM ingest_span WHERE trace_id = %s", name)
    assert row["data"]["model"] == model

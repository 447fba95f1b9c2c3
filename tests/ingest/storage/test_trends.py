"""Hourly figures equal a recount of the stored spans, whatever order, replay or move the events arrive in."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from live_server import Server, run_server
from people import create_project, create_session, data_bytes

from ingest.cells import project_of
from ingest.models import Activity, Span, Trend
from ingest.storage.figures.trends import COUNTS, share_kept

from ..conftest import Wire

Figures = dict[tuple[int, datetime, str], Counter[str]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, prepared_data: Path) -> Iterator[Server]:
    """A server of its own, because the recount reads all spans."""
    with run_server(tmp_path_factory.mktemp("trends"), prepared_data) as running:
        yield running


def at(hour: int, minute: int = 0) -> str:
    return f"2026-11-16T{hour:02}:{minute:02}:00Z"


def compaction(trace: str, number: int, hour: int, *, kept: int = 8, **more: Any) -> list[dict[str, Any]]:
    """The events of one compaction: a decision with its model, the result, the facts and an error with a fallback."""
    base = {"type": "span", "trace_id": trace, "started_at": at(hour), "ended_at": at(hour, 1), **more}
    cache = {"invalidated_tokens": 300}
    sizes = {"tokens_before": 1000, "tokens_after": 400, "cache": cache}
    return [
        {**base, "span_id": f"d{number}", "event": "compact.trigger_decision", "properties": {"model": "gpt-5"}},
        {**base, "span_id": f"p{number}", "event": "compact.pruned_messages", "properties": sizes},
        {
            **base,
            "span_id": f"r{number}",
            "parent_id": f"c{number}",
            "event": "compact.retention",
            "properties": {"facts_total": 10, "facts_kept": kept},
        },
        {
            **base,
            "span_id": f"e{number}",
            "event": "compact.error",
            "status": "error",
            "properties": {"fallback": "prune"},
        },
        {**base, "span_id": f"f{number}", "event": "compact.error", "status": "error", "properties": {}},
        {**base, "span_id": f"o{number}", "event": "compact.overflow_recovered", "properties": {}},
        {**base, "span_id": f"t{number}", "kind": "tool", "status": "error"},
    ]


def stored_figures(wire: Wire, table: str) -> Figures:
    columns = ", ".join(f"sum({name})::int AS {name}" for name in COUNTS)
    rows = wire.rows(f"SELECT cell, hour, model, {columns} FROM {table} GROUP BY 1, 2, 3")
    figures = {
        (project_of(row["cell"]), row["hour"], row["model"]): +Counter({n: row[n] for n in COUNTS}) for row in rows
    }
    return {key: counts for key, counts in figures.items() if counts}


def recounted_figures(wire: Wire) -> Figures:
    """Count the stored spans, independently of the code that keeps the figures."""
    figures: Figures = defaultdict(Counter)
    rows = wire.rows(
        "SELECT s.cell, n.trend_model, s.kind, s.status, s.data, date_trunc('hour', s.ended_at) AS hour"
        " FROM ingest_span s JOIN ingest_session n USING (session_key) WHERE n.trend_model IS NOT NULL"
    )
    for row in rows:
        data = row["data"]
        pruned = row["kind"] == "compact.pruned_messages"
        is_fact = row["kind"] == "compact.retention"
        is_fallback = row["kind"] == "compact.error" and "fallback" in data
        figures[project_of(row["cell"]), row["hour"], row["trend_model"]] += Counter(
            compactions=int(pruned),
            tokens_freed=data["tokens_before"] - data["tokens_after"] if pruned else 0,
            cache_lost_tokens=data["cache"]["invalidated_tokens"] if pruned else 0,
            facts_total=data["facts_total"] if is_fact else 0,
            facts_kept=data["facts_kept"] if is_fact else 0,
            fallbacks=int(is_fallback),
            overflows=int(row["kind"] == "compact.overflow_recovered"),
            errors=int(row["status"] == "error" and not is_fallback),
        )
    return {key: counts for key, counts in figures.items() if counts}


def test_figures_equal_a_recount(wire: Wire, name: str) -> None:
    """Replays, disorder, spans that open and close later, and a trace that moves to another session add nothing."""
    chance = random.Random(7)
    events = [
        event
        for trace in range(4)
        for number in range(3)
        for event in compaction(f"{name}-{trace}", number, 3 + number)
    ]
    opened = [{key: value for key, value in event.items() if key != "ended_at"} for event in events[::4]]
    moves = [{"type": "trace", "trace_id": f"{name}-{trace}", "group_id": f"{name}-group"} for trace in (1, 2)]
    queue = [*events, *opened, *moves, *chance.sample(events, 20)]
    chance.shuffle(queue)
    while queue:
        batch, queue = queue[:7], queue[7:]
        wire.send(*batch)
    wire.send(*chance.sample(events, 30))
    expected = recounted_figures(wire)
    assert expected
    assert stored_figures(wire, "ingest_trend") == expected
    assert stored_figures(wire, "ingest_activity") == expected
    # The session list counts errors in the same way as the trends.
    (errors,) = wire.rows(
        "SELECT sum(error_count)::int AS sessions, (SELECT sum(errors)::int FROM ingest_activity) AS hours"
        " FROM ingest_session"
    )
    assert errors["sessions"] == errors["hours"]
    (shares,) = wire.rows(
        "SELECT sum(c) AS count FROM ingest_activity a JOIN ingest_session s USING (session_key),"
        " unnest(kept_counts) c WHERE s.session_id LIKE %s",
        f"{name}%",
    )
    assert shares["count"] == 12


def test_figures_move_to_the_model_once_it_is_known(wire: Wire, name: str) -> None:
    """A compaction that arrives before any event with a model is counted without one until then."""
    decision, *others = compaction(name, 1, 9)
    wire.send(*others)
    key = wire.session(name)["session_key"]
    assert wire.rows("SELECT model, compactions FROM ingest_activity WHERE session_key = %s", key) == [
        {"model": "", "compactions": 1}
    ]
    wire.send(decision)
    wire.send(decision, *others)
    assert wire.rows("SELECT model, compactions FROM ingest_activity WHERE session_key = %s", key) == [
        {"model": "gpt-5", "compactions": 1}
    ]
    wire.send({**decision, "span_id": "later", "ended_at": at(10), "properties": {"model": "other"}})
    assert wire.session(name)["trend_model"] == "gpt-5"
    assert stored_figures(wire, "ingest_trend") == recounted_figures(wire)


def test_a_session_knows_the_compaction_that_lost_most_facts(wire: Wire, name: str) -> None:
    """In whatever order the compactions arrive. The check leads to the compaction's page."""
    for number, kept in ((1, 9), (3, 2), (2, 5)):
        wire.send(*compaction(name, number, 5, kept=kept))
    session = wire.session(name)
    assert (session["worst_lost"], session["worst_total"], session["worst_check"]) == (8, 10, f"{name}:c3")
    assert session["overflow_count"] == 3


@pytest.mark.django_db
def test_the_command_counts_older_sessions_again() -> None:
    """A second run changes nothing. Two projects stay apart."""
    for slug in ("ours", "theirs"):
        owner = create_project(slug)
        session = create_session(owner)
        Span.objects.create(
            session_key=session.session_key,
            session_day=session.day,
            trace_id="t",
            span_id="p",
            cell=session.cell,
            seq=2,
            kind="compact.retention",
            ended_at=session.created_at,
            data=data_bytes({"by_kind": {"path": {"found": 8, "lost": 2}, "id": {"found": 2, "lost": 0}}}),
        )
    for _ in range(2):
        call_command("recount", stdout=StringIO())
        assert sorted(Trend.objects.values_list("facts_total", "facts_kept")) == [(10, 8), (10, 8)]
        assert Activity.objects.count() == 2
    session.refresh_from_db()
    assert (session.worst_lost, session.worst_total) == (2, 10)


@pytest.mark.parametrize(
    ("total", "kept", "share"), [(265, 196, 74), (1000, 999, 99), (1000, 1, 1), (5, 5, 100), (5, 0, 0)]
)
def test_share_of_facts(total: int, kept: int, share: int) -> None:
    """0 and 100 % mean none and all."""
    assert share_kept(total, kept) == share

"""Every stored figure equals an independent count of the spans, and a recount repairs whatever is stale."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from compact.events import RAISED
from django.core.management import call_command
from django.db.models import BigIntegerField, F, Field
from people import create_project

from ingest.cells import cells_of
from ingest.http.decode_jobs import decode_events
from ingest.models import Activity, HourlyUsage, Project, Session, Trend, Usage
from ingest.storage.database.transactions import Transactions
from ingest.storage.figures.recount import recount
from ingest.storage.figures.span_counts import COLUMNS
from ingest.storage.figures.table import FIGURES, HOURLY, STORED, Merge
from ingest.storage.figures.trends import COUNTS

START = datetime(2026, 11, 16, 4, tzinfo=UTC)
MODELS = ("gpt-5", "claude-x", "")
Spans = list[dict[str, Any]]


def random_span(chance: random.Random, trace: str, number: int) -> dict[str, Any]:
    """One span as an event. One in ten has not ended."""
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("turn", {"turn": chance.randrange(9)}),
        ("tool", {}),
        (
            "generation",
            {
                "model": chance.choice(MODELS),
                "usage": {"input_tokens": chance.randrange(9_000), "output_tokens": chance.randrange(900)},
            },
        ),
        ("compact.token_estimate", {"model": "gpt-5", "t_est": chance.randrange(9_000), "max_tokens": 16_000}),
        (
            "compact.trigger_decision",
            {"triggered": True, "t_est": chance.randrange(9_000), "max": 8_000, "trigger_tokens": 7_000, "turn": 3},
        ),
        (
            "compact.pruned_messages",
            {"tokens_before": 900, "tokens_after": chance.randrange(900), "cache": {"invalidated_tokens": 7}},
        ),
        ("compact.retention", {"facts_total": chance.randrange(30), "facts_kept": chance.randrange(12)}),
        ("compact.error", {"fallback": "builtin"}),
        ("compact.error", {"fallback": RAISED}),
        ("compact.error", {}),
        ("compact.overflow_recovered", {"window_tokens": 8_000}),
    ]
    kind, data = chance.choice(kinds)
    started = START + timedelta(minutes=chance.randrange(300))
    ended = None if chance.random() < 0.1 else started + timedelta(seconds=chance.randrange(1, 90))
    return {
        "type": "span",
        "trace_id": trace,
        "span_id": f"s{number}",
        "parent_id": chance.choice([None, "turn-1"]),
        "kind": kind,
        "status": "error" if kind == "compact.error" or chance.random() < 0.1 else "ok",
        "started_at": started.isoformat(),
        "ended_at": ended and ended.isoformat(),
        "data": data,
    }


def write(project: Project, events: Spans, chance: random.Random) -> None:
    """Write events in random order and small commits. Some are replayed, and some spans open before they end."""
    opened = [
        {**event, "ended_at": None, "data": {}, "status": ""} for event in chance.sample(events, len(events) // 4)
    ]
    queue = [*events, *opened, *chance.sample(events, len(events) // 4)]
    chance.shuffle(queue)

    async def run() -> None:
        # Neither process knows which spans the other one stored.
        processes = (Transactions(), Transactions())
        while queue:
            batch = [queue.pop() for _ in range(min(len(queue), chance.randrange(1, 9)))]
            decoded = decode_events(json.dumps(batch).encode(), "json", 100)
            assert not decoded.rejections
            await chance.choice(processes).run([(project.pk, decoded.records)])
        for process in processes:
            await process.disconnect()

    asyncio.run(run())


def time_of(span: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(span["ended_at"] or span["started_at"])


def latest(spans: Spans, *names: str) -> Any:
    """Return the value with the latest time, and that time."""
    values = [(time_of(span), span["data"][name]) for span in spans for name in names if span["data"].get(name)]
    at, value = max(values, default=(None, None))
    return value, at


def count_session(spans: Spans) -> dict[str, Any]:
    """Count the columns of a session row in plain Python."""
    kinds = Counter(span["kind"] for span in spans)
    fallbacks = [span for span in spans if span["data"].get("fallback") == "builtin"]
    facts = [
        (total - kept, total, f"{span['trace_id']}:{span['parent_id'] or span['span_id']}")
        for span in spans
        if span["kind"] == "compact.retention" and (total := span["data"]["facts_total"])
        for kept in [min(total, span["data"]["facts_kept"])]
    ]
    prompts = [
        (time_of(span), span["data"]["usage"]["input_tokens"] if "usage" in span["data"] else span["data"]["t_est"])
        for span in spans
        if "usage" in span["data"] or "t_est" in span["data"]
    ]
    turns = [span["data"]["turn"] for span in spans if "turn" in span["data"]]
    model, model_at = latest(spans, "model")
    window, window_at = latest(
        [span for span in spans if span["kind"] != "compact.overflow_recovered"], "max_tokens", "max"
    )
    trigger, trigger_at = latest(spans, "trigger_tokens")
    last_at, last_tokens = max(prompts, default=(None, 0))
    worst: tuple[Any, ...] = max(facts, default=(None, None, None))
    return {
        "span_count": len(spans),
        "running_count": sum(span["ended_at"] is None for span in spans),
        "error_count": sum(span["status"] == "error" for span in spans) - len(fallbacks),
        "turn_span_count": kinds["turn"],
        "turn_count": max([kinds["turn"], *turns]),
        "check_count": kinds["compact.trigger_decision"],
        "compaction_count": kinds["compact.pruned_messages"],
        "fallback_count": len(fallbacks),
        "overflow_count": kinds["compact.overflow_recovered"],
        "facts_total": sum(total for _, total, _ in facts),
        "facts_kept": sum(total - lost for lost, total, _ in facts),
        "worst_retention": min(((total - lost) / total for lost, total, _ in facts), default=None),
        **dict(zip(("worst_lost", "worst_total", "worst_check"), worst, strict=True)),
        "model": model or "",
        "model_at": model_at,
        "window_tokens": window or 0,
        "window_at": window_at,
        "trigger_tokens": trigger or 0,
        "trigger_at": trigger_at,
        "peak_tokens": max([0, *(tokens for _, tokens in prompts)]),
        "last_tokens": last_tokens,
        "last_tokens_at": last_at,
        "first_at": min(datetime.fromisoformat(span["started_at"]) for span in spans),
        "last_at": max(map(time_of, spans)),
    }


def count_hours(spans: Spans) -> dict[datetime, Counter[Any]]:
    """Count the hourly figures of spans in plain Python. Compactions are counted by the percentage that they kept."""
    hours: dict[datetime, Counter[Any]] = defaultdict(Counter)
    for span in spans:
        kind, data = span["kind"], span["data"]
        counts = hours[time_of(span).replace(minute=0, second=0)]
        is_fallback = data.get("fallback") == "builtin"
        if kind == "compact.pruned_messages":
            counts += Counter(compactions=1, tokens_freed=900 - data["tokens_after"], cache_lost_tokens=7)
        if kind == "compact.retention" and (total := data["facts_total"]):
            kept = min(total, data["facts_kept"])
            counts += Counter({"facts_total": total, "facts_kept": kept, round(100 * kept / total): 1})
        counts += Counter(
            fallbacks=is_fallback,
            overflows=kind == "compact.overflow_recovered",
            errors=span["status"] == "error" and not is_fallback,
        )
        hours[time_of(span).replace(minute=0, second=0)] = counts
    return {hour: counts for hour, counts in hours.items() if counts}


def count_calls(spans: Spans) -> dict[tuple[datetime, str], tuple[int, int, int]]:
    """Count calls and their tokens by hour and model in plain Python."""
    calls: dict[tuple[datetime, str], tuple[int, int, int]] = {}
    for span in spans:
        if span["kind"] == "generation":
            key = (time_of(span).replace(minute=0, second=0), span["data"]["model"])
            count, sent, received = calls.get(key, (0, 0, 0))
            usage = span["data"]["usage"]
            calls[key] = (count + 1, sent + usage["input_tokens"], received + usage["output_tokens"])
    return calls


def add_hours(parts: list[tuple[Any, Counter[Any]]]) -> dict[Any, Counter[Any]]:
    sums: dict[Any, Counter[Any]] = defaultdict(Counter)
    for key, counts in parts:
        sums[key] += counts
    return dict(sums)


def stored_hours(rows: Any, *key: str) -> dict[Any, Counter[Any]]:
    """Return hourly rows by their key, as `count_hours` does. A row of zeros is left out."""
    hours = {}
    for row in rows:
        shares = {share: count for share, count in enumerate(row.kept_counts or []) if count}
        counts = +Counter({**{name: getattr(row, name) for name in COUNTS}, **shares})
        if counts:
            hours[tuple(getattr(row, name) for name in key)] = counts
    return hours


def stored_calls(rows: Any, *key: str) -> dict[Any, tuple[int, int, int]]:
    calls: dict[Any, tuple[int, int, int]] = {}
    for row in rows:
        name = tuple(getattr(row, part) for part in key)
        before = calls.get(name, (0, 0, 0))
        new = (row.call_count, row.input_tokens, row.output_tokens)
        calls[name] = (before[0] + new[0], before[1] + new[1], before[2] + new[2])
    return {name: counts for name, counts in calls.items() if any(counts)}


def check_everything(sessions: dict[tuple[int, str], Spans]) -> None:
    """Compare every stored figure of all projects with the count of these spans."""
    rows = {(row.project_id, row.session_id): row for row in Session.objects.all()}
    assert rows.keys() == sessions.keys()
    hours, trends, calls, billed = [], [], {}, Counter[Any]()
    for name, spans in sessions.items():
        row = rows[name]
        expected = count_session(spans)
        assert {column: getattr(row, column) for column in expected} == expected
        for hour, counts in count_hours(spans).items():
            hours.append(((row.session_key, hour), counts))
            trends.append(((row.project_id, hour, row.trend_model), counts))
        for (hour, model), counts in count_calls(spans).items():
            calls[row.session_key, hour, model] = counts
            billed[row.project_id, hour, model] += counts[1]
    assert stored_hours(Activity.objects.all(), "session_key", "hour") == dict(hours)
    assert stored_hours(Trend.objects.all(), "project_id", "hour", "model") == add_hours(trends)
    assert stored_calls(Usage.objects.all(), "session_key", "hour", "model") == calls
    by_project = stored_calls(HourlyUsage.objects.all(), "project_id", "hour", "model")
    assert {key: sent for key, (_, sent, _) in by_project.items()} == billed


@pytest.fixture
def sessions(request: pytest.FixtureRequest, transactional_db: None) -> dict[tuple[int, str], Spans]:
    """Random sessions of two projects, written in many commits. One trace of each project moves to another session."""
    chance = random.Random(getattr(request, "param", 0))
    result: dict[tuple[int, str], Spans] = {}
    for slug in ("ours", "theirs"):
        project = create_project(slug)
        spans = {f"{slug}-{n}": [random_span(chance, f"{slug}-{n}", k) for k in range(40)] for n in range(3)}
        write(project, [event for events in spans.values() for event in events], chance)
        move = {"type": "trace", "trace_id": f"{slug}-1", "group_id": f"{slug}-0"}
        write(project, [move], chance)
        result[project.pk, f"{slug}-0"] = [*spans[f"{slug}-0"], *spans[f"{slug}-1"]]
        result[project.pk, f"{slug}-2"] = spans[f"{slug}-2"]
    return result


@pytest.mark.parametrize("sessions", range(4), indirect=True)
def test_commits_and_a_recount_equal_a_plain_count(sessions: dict[tuple[int, str], Spans]) -> None:
    """Whatever the order of the events, the size of the commits, replays and moves."""
    check_everything(sessions)
    call_command("recount", stdout=StringIO())
    check_everything(sessions)


def test_a_recount_repairs_each_stale_figure_of_a_session(sessions: dict[tuple[int, str], Spans]) -> None:
    """Also the number of compactions, which an older version counted in another way."""
    stale = {"int": 987, "text": "zzz", "timestamptz": datetime(2031, 1, 1, tzinfo=UTC), "double precision": 0.001}
    for column, kind in COLUMNS.items():
        Session.objects.update(**{column: stale[kind]})
        with pytest.raises(AssertionError):
            check_everything(sessions)
        call_command("recount", stdout=StringIO())
        check_everything(sessions)


def test_a_recount_repairs_stale_hours(sessions: dict[tuple[int, str], Spans]) -> None:
    """Of activity, trends and usage, also if a sum differs from its parts. Only in the project that is counted."""
    ours, theirs = Project.objects.order_by("slug")
    for table in (Activity, Trend):
        table.objects.update(**{name: F(name) + 5 for name in COUNTS}, kept_counts=[3] * 101)
    for usage in (Usage, HourlyUsage):
        usage.objects.update(call_count=9, input_tokens=9)
    Trend.objects.filter(cell__in=cells_of(ours.pk)).last().delete()  # type: ignore[union-attr]
    call_command("recount", project="ours", stdout=StringIO())
    assert Usage.objects.filter(cell__in=cells_of(theirs.pk)).exclude(input_tokens=9).count() == 0
    call_command("recount", stdout=StringIO())
    check_everything(sessions)


def test_a_recount_continues_after_the_last_session(sessions: dict[tuple[int, str], Spans]) -> None:
    """It reports the sessions that are done, and counts each once."""
    first, *others = recount()
    assert [(progress.count, progress.total) for progress in (first, *others)] == [(n, 4) for n in range(1, 5)]
    assert list(recount(after=first.position)) == others
    assert list(recount(after=others[-1].position)) == []


def test_the_tables_have_a_column_for_each_figure() -> None:
    """With the type and the default that a new row gets."""
    kinds = {
        "int": "IntegerField",
        "double precision": "FloatField",
        "timestamptz": "DateTimeField",
        "text": "TextField",
    }
    for figure in STORED:
        column: Field[Any, Any] = Session._meta.get_field(figure.column)  # type: ignore[assignment]
        assert column.get_internal_type() == kinds[figure.sql_type], figure.name
        assert column.null == (figure.initial is None), figure.name
        if figure.time_column:
            assert Session._meta.get_field(figure.time_column).get_internal_type() == "DateTimeField"
    for table in (Activity, Trend):
        sums = {field.name for field in table._meta.fields if type(field) is BigIntegerField} - {"cell"}
        assert sums == {figure.hourly for figure in HOURLY}


def test_each_figure_is_complete() -> None:
    """Stored ones say what they count, and only sums can be added up by the hour."""
    assert len({figure.name for figure in FIGURES}) == len(FIGURES)
    for figure in FIGURES:
        assert figure.definition.endswith("."), figure.name
        assert bool(figure.of) == bool(figure.column or figure.hourly), figure.name
        assert bool(figure.time_column) == (figure.merge is Merge.LATEST), figure.name
        assert not figure.hourly or figure.merge is Merge.SUM, figure.name

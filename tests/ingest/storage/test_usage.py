"""Billed tokens are stored with the spans, by difference, and equal a recount."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from people import create_project, create_session, data_bytes

from ingest.cells import cells_of
from ingest.decoding.span_stats import stats_of
from ingest.decoding.token_usage import Usage
from ingest.models import HourlyUsage, Span
from ingest.models import Usage as StoredUsage

from ..conftest import Wire

T0, T1 = "2026-11-16T04:20:00Z", "2026-11-16T05:10:00Z"

ANTHROPIC = {"input_tokens": 100, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 50, "output_tokens": 7}
OPENAI = {
    "input_tokens": 1_000,
    "input_tokens_details": {"cached_tokens": 900},
    "output_tokens": 70,
    "output_tokens_details": {"reasoning_tokens": 60},
}
OPENTELEMETRY = {
    "gen_ai.provider.name": "anthropic",
    "gen_ai.request.model": "m",
    "gen_ai.usage.input_tokens": 1_050,
    "gen_ai.usage.cache_read.input_tokens": 900,
    "gen_ai.usage.cache_creation.input_tokens": 50,
    "gen_ai.usage.output_tokens": 7,
}
OPENINFERENCE = {
    "llm.model_name": "m",
    "llm.token_count.prompt": 1_000,
    "llm.token_count.prompt_details.cache_read": 900,
    "llm.token_count.completion": 70,
    "llm.token_count.completion_details.reasoning": 60,
}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"model": "m", "usage": ANTHROPIC}, Usage("m", input=1_050, cached=900, cache_write=50, output=7)),
        ({"model": "m", "usage": OPENAI}, Usage("m", input=1_000, cached=900, output=70, reasoning=60)),
        (OPENTELEMETRY, Usage("m", "anthropic", input=1_050, cached=900, cache_write=50, output=7)),
        (OPENINFERENCE, Usage("m", input=1_000, cached=900, output=70, reasoning=60)),
        ({"model": "m", "usage": {"prompt_tokens": 9, "cached_tokens": 4}}, Usage("m", input=9, cached=4)),
        # More cached than sent, negative and absurd numbers never lead to negative costs.
        ({"usage": {"input_tokens": 5, "cached_tokens": 9, "output_tokens": -1}}, Usage(input=5, cached=5)),
        ({"provider": "a text of the user\n", "usage": {"input_tokens": 5}}, Usage(input=5)),
        ({"model": "m"}, None),
    ],
)
def test_a_call_reports_its_usage(data: dict[str, Any], expected: Usage | None) -> None:
    """In the forms of OpenAI, Anthropic, OpenTelemetry and OpenInference. The input includes cached tokens."""
    assert stats_of("generation", data).usage == expected


def test_only_a_summary_of_a_model_has_usage() -> None:
    """It does not change the model of the session."""
    data = {"model": "small", "input_tokens": 500, "summary_tokens": 40}
    stats = stats_of("compact.summary_created", data)
    assert stats.usage == Usage("small", is_summary=True, input=500, output=40)
    assert stats.model == ""
    assert stats_of("compact.summary_created", data | {"model": None}).usage is None


def call(name: str, span_id: str, tokens: int | None, **more: Any) -> dict[str, Any]:
    usage = {} if tokens is None else {"usage": {"input_tokens": tokens, "cached_tokens": tokens // 2}}
    data = {"model": "gpt-5", **usage, **more.pop("data", {})}
    event = {"type": "span", "trace_id": name, "span_id": span_id, "kind": "generation", "started_at": T0, "data": data}
    return {**event, **more}


def usage(wire: Wire, session_id: str) -> list[tuple[Any, ...]]:
    rows = wire.rows(
        "SELECT u.* FROM ingest_usage u JOIN ingest_session USING (session_key) WHERE session_id = %s"
        " AND call_count > 0 ORDER BY hour, model, prompt_size",
        session_id,
    )
    names = ("model", "prompt_size", "call_count", "input_tokens", "cached_tokens", "output_tokens")
    return [(f"{row['hour']:%H}", *(row[name] for name in names)) for row in rows]


def test_usage_is_stored_once_and_corrected(wire: Wire, name: str) -> None:
    """Replays add nothing. A call that ends in the next hour moves there."""
    first, long = call(name, "a", 1_000, ended_at=T0), call(name, "b", 300_000, ended_at=T0)
    for _ in range(3):
        wire.send(first, long)
    assert usage(wire, name) == [
        ("04", "gpt-5", 0, 1, 1_000, 500, 0),
        ("04", "gpt-5", 272_000, 1, 300_000, 150_000, 0),
    ]
    wire.send(call(name, "c", 10))
    assert usage(wire, name)[0] == ("04", "gpt-5", 0, 2, 1_010, 505, 0)
    wire.send(call(name, "c", None, ended_at=T1))
    assert [row for row in usage(wire, name) if row[1] == 0 or row[2] == 0] == [
        ("04", "gpt-5", 0, 1, 1_000, 500, 0),
        ("05", "gpt-5", 0, 1, 10, 5, 0),
    ]


_SUMS = ", ".join(f"sum({n}) AS {n}" for n in ("call_count", "input_tokens", "cached_tokens", "output_tokens"))
_HOURS = f"""
SELECT cell, hour, model, {_SUMS} FROM {{table}} WHERE call_count > 0 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""


def test_hours_of_a_project_equal_the_sum_of_its_sessions(wire: Wire, name: str) -> None:
    """After replays, new data for a stored call, calls that another hour gets, and a trace that moves."""
    calls = [call(name, "a", 1_000, ended_at=T0), call(f"{name}-2", "a", 500, ended_at=T0)]
    for _ in range(2):
        wire.send(*calls)
    wire.send(call(name, "b", 10))
    wire.send(call(name, "b", None, ended_at=T1))
    wire.send({"type": "trace", "trace_id": name, "group_id": f"group-{name}"})
    hours = wire.rows(_HOURS.format(table="ingest_hourlyusage"))
    assert len(hours) >= 2
    assert hours == wire.rows(_HOURS.format(table="ingest_usage"))


def test_usage_moves_with_its_trace(wire: Wire, name: str) -> None:
    wire.send(call(name, "a", 1_000, ended_at=T0))
    wire.send({"type": "trace", "trace_id": name, "group_id": f"group-{name}"})
    assert usage(wire, f"group-{name}") == [("04", "gpt-5", 0, 1, 1_000, 500, 0)]
    assert (
        wire.rows("SELECT 1 FROM ingest_usage u LEFT JOIN ingest_session s USING (session_key) WHERE s IS NULL") == []
    )


@pytest.mark.django_db
def test_a_recount_restores_the_usage_of_one_project() -> None:
    """For sessions of an older version. The other project is not touched."""
    ours, theirs = create_project("ours"), create_project("theirs")
    for owner in (ours, theirs):
        session = create_session(owner, session_id="s")
        data = {"model": "gpt-5", "usage": {"input_tokens": owner.pk, "output_tokens": 3}}
        Span.objects.filter(session_key=session.session_key).update(data=data_bytes(data))
    for _ in range(2):
        call_command("recount", project="ours", stdout=StringIO())
    rows = StoredUsage.objects.values_list("cell", "model", "call_count", "input_tokens", "output_tokens")
    assert list(rows) == [(*cells_of(ours.pk), "gpt-5", 1, ours.pk, 3)]
    hours = HourlyUsage.objects.values_list("cell", "model", "call_count", "input_tokens", "output_tokens")
    assert list(hours) == list(rows)
    with pytest.raises(CommandError, match="no project"):
        call_command("recount", project="none")

"""Merging versions of a span does not depend on their order or on replays."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ingest.decoding.records import Span
from ingest.decoding.span_stats import stats_of
from ingest.storage.figures.aggregates import SessionDelta
from ingest.storage.figures.table import STORED, Merge
from ingest.storage.merge import merge
from ingest.storage.payloads import decode_data, pack_data


def version(**more: Any) -> Span:
    fields = more.pop("fields", {})
    kind = more.get("kind", "span")
    defaults = {"parent_id": None, "kind": kind, "name": kind, "status": "", "started_us": None, "ended_us": None}
    return Span(
        trace_id="t",
        span_id="s",
        session_id=None,
        payload=None,
        data=pack_data(json.dumps(fields).encode()),
        stats=stats_of(kind, fields),
        **{**defaults, **more},
    )


times = st.none() | st.integers(0, 5)
versions = st.builds(
    version,
    parent_id=st.sampled_from([None, "p"]),
    kind=st.sampled_from(["span", "generation"]),
    status=st.sampled_from(["", "ok", "error"]),
    started_us=times,
    ended_us=times,
    fields=st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), max_size=3),
)


def merged_fields(span: Span) -> tuple[Any, ...]:
    return (span.parent_id, span.kind, span.status, span.started_us, span.ended_us, decode_data(span.data))


@given(versions, versions)
def test_a_replay_changes_nothing(one: Span, other: Span) -> None:
    """Merging either version again returns the same object."""
    merged = merge(one, other)
    assert merge(merged, one) is merged
    assert merge(merged, other) is merged


@given(st.integers(0, 4), st.integers(5, 9), st.sampled_from(["ok", "error"]))
def test_start_progress_and_end_can_arrive_in_any_order(start: int, end: int, status: str) -> None:
    """All six orders give the same span."""
    parts = [
        version(kind="generation", name="gpt-5", started_us=start, fields={"model": "gpt-5"}),
        version(kind="span", name="span", started_us=start, fields={"turn": 3}),
        version(kind="span", name="span", ended_us=end, status=status, fields={"usage": {"input_tokens": 7}}),
    ]
    results = {json.dumps(merged_fields(merge(merge(a, b), c)), sort_keys=True) for a, b, c in permutations(parts)}
    assert len(results) == 1
    merged = merge(merge(parts[2], parts[1]), parts[0])
    assert (merged.name, merged.stats.context_tokens, merged.stats.model) == ("gpt-5", 7, "gpt-5")


@given(st.lists(versions, min_size=1, max_size=6))
def test_counts_follow_a_span_through_its_versions(parts: list[Span]) -> None:
    """Subtracting the old version and adding the new one gives the counts of the new one alone."""
    running = SessionDelta()
    current = parts[0]
    running.add([current])
    for part in parts[1:]:
        new = merge(current, part)
        if new is not current:
            running.subtract([current])
            running.add([new])
            current = new
    alone = SessionDelta()
    alone.add([current])
    for figure in STORED:
        if figure.merge is Merge.SUM:
            assert getattr(running, figure.column) == getattr(alone, figure.column)


@given(st.permutations(["possible", "inferred", "exact"]), st.integers(0, 5), st.integers(0, 5))
def test_better_evidence_replaces_worse_in_any_order(order: list[str], one_end: int, other_end: int) -> None:
    """Nothing that was inferred stays beside what was seen, whichever version ended later."""
    fields = {
        "possible": {"evidence": "possible", "tokens_after": 1},
        "inferred": {"evidence": "inferred", "tokens_after": 2, "inferred": True},
        "exact": {"evidence": "exact", "tokens_after": 3},
    }
    ends = {"possible": one_end, "inferred": one_end, "exact": other_end}
    merged: Span | None = None
    for name in (*order, *order):
        part = version(kind="compact.pruned_messages", ended_us=ends[name], fields=fields[name])
        merged = part if merged is None else merge(merged, part)
    assert merged is not None
    assert decode_data(merged.data) == fields["exact"]

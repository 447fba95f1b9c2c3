"""The figures and the list of sessions that need attention, above the session list.

Callers pass the projects that the reader has access to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import quote
from uuid import UUID

from django.db import connection

from ingest.decoding.facts import FactCount
from ingest.models import Session
from ingest.storage.payloads import DATA, decode_data
from viewer.numbers import format_count, format_share, to_count
from viewer.sessions import session_list
from viewer.sessions.queries import split_name
from viewer.trends import periods, queries
from viewer.trends.charts import spark_bars, sparkline
from viewer.trends.periods import Period
from viewer.trends.queries import SessionFigures

_MAX_ITEMS = 6
_PER_METRIC = 12
_HOURS = 24
# Ranges in which the hourly figures of all sessions are too many rows to add up.
_LONG_RANGES = {"7d", "30d"}


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure above the list, with its explanation, its last 24 hours and the filter that leads to its sessions."""

    name: str
    label: str
    value: str
    explanation: str
    query: str
    spark: list[tuple[float, float, float]]
    spark_label: str
    tone: str = ""
    note: str = ""


def period_name(range_name: str) -> str:
    """Return the range of the figures. They are counted per hour, so the shortest one is a day."""
    return "24h" if range_name in {"", "1h"} else range_name


def period_of(range_name: str, now: datetime) -> Period:
    return periods.last(period_name(range_name), now)


def figures(projects: Iterable[int], range_name: str, now: datetime) -> list[Figure]:
    """Return the figures of a range. Running sessions are those of now."""
    projects = list(projects)
    stats = session_list.session_stats(projects)
    period, day = period_of(range_name, now), periods.last("24h", now)
    whole = queries.whole(queries.series(projects, period), period)
    recent = whole if period == day else queries.whole(queries.series(projects, day), day)
    total = whole.total
    share = f" ({format_share(total['facts_kept'], total['facts_total'])})" if total["facts_total"] else ""
    suffix = f"&range={range_name}" if range_name else ""

    def figure(
        name: str, label: str, value: str, explanation: str, state: str, tone: str = "", note: str = ""
    ) -> Figure:
        return Figure(
            name=name,
            label=label,
            value=value,
            explanation=explanation,
            query=f"state={state}{'' if name == 'running' else suffix}",
            spark=_active(projects, day) if name == "running" else sparkline(recent.points, name),
            spark_label=_SPARK_LABELS[name],
            tone=tone,
            note=note,
        )

    near = format_count(stats.near, "session") + " near the limit" if stats.near else ""
    is_lossy = FactCount(total["facts_total"], total["facts_kept"]).is_lossy
    return [
        figure("running", "Running", f"{stats.running:,}", "Sessions with open spans now", "running"),
        figure(
            "compactions",
            "Compactions",
            f"{total['compactions']:,}",
            "Compactions that agents ran, not those of model providers",
            "compacted",
        ),
        figure(
            "facts",
            "Facts kept",
            f"{total['facts_kept']:,} of {total['facts_total']:,}{share}" if total["facts_total"] else "–",
            "Facts of removed messages still in the prompt",
            "lossy",
            "warn" if is_lossy else "",
        ),
        figure(
            "fallbacks",
            "Fallbacks",
            f"{total['fallbacks']:,}",
            "Summaries that failed and used a simpler method",
            "fallback",
            "warn" if total["fallbacks"] else "",
        ),
        figure(
            "overflows",
            "Overflows",
            f"{total['overflows']:,}",
            "Prompts that a provider rejected as too long",
            "overflow",
            "warn" if total["overflows"] else "",
            near,
        ),
        figure(
            "errors",
            "Errors",
            f"{total['errors']:,}",
            "Failed tool calls, model calls and other spans, without fallbacks",
            "errors",
            "bad" if total["errors"] else "",
        ),
    ]


_SPARK_LABELS = {
    "running": "Sessions active in each of the last 24 hours",
    "compactions": "Compactions in each of the last 24 hours",
    "facts": "Facts lost in each of the last 24 hours",
    "fallbacks": "Fallbacks in each of the last 24 hours",
    "overflows": "Overflows in each of the last 24 hours",
    "errors": "Errors in each of the last 24 hours",
}


def _active(projects: list[int], day: Period) -> list[tuple[float, float, float]]:
    """Return the number of newest sessions that were active in each hour, as bars."""
    counts = [0] * _HOURS
    for first, last, count in session_list.active_hours(projects, day.since):
        start, end = max(0, day.index(first)), min(_HOURS - 1, day.index(last))
        for hour in range(start, end + 1):
            counts[hour] += count
    return spark_bars(counts)


@dataclass(slots=True)
class AttentionItem:
    """A session that needs attention, with the reasons and the place to look at."""

    session: Session
    reasons: list[str] = field(default_factory=list)
    is_failure: bool = False
    span: str = ""
    weight: float = 0.0

    @property
    def anchor(self) -> str:
        return f"#span={quote(self.span, safe='')}" if self.span else ""


def attention(projects: Iterable[int], range_name: str, now: datetime) -> list[AttentionItem]:
    """Return the sessions that lost most facts, failed, overflowed or used fallbacks in a range, worst first."""
    projects = list(projects)
    period = period_of(range_name, now)
    since = max(period.since, now - timedelta(hours=1)) if range_name == "1h" else period.since
    since = since.replace(minute=0, second=0, microsecond=0)

    if range_name in _LONG_RANGES:
        worst = queries.worst_sessions_by_index(projects, since, limit=_PER_METRIC)
    else:
        worst = queries.worst_sessions(projects, since, period.until, limit=_PER_METRIC)
    items: dict[UUID, AttentionItem] = {}
    lossy = [row for row in worst["facts"] if FactCount(row.figures["facts_total"], row.figures["facts_kept"]).is_lossy]
    turns = _turns([row.session for row in lossy], since)
    for row in lossy:
        item = _item(items, row.session)
        item.reasons.append(_loss(row, turns.get(row.session.session_key)))
        item.span = row.session.worst_check or ""
        item.weight += 1_000 + row.figures.facts_lost
    for row in worst["errors"]:
        item = _item(items, row.session)
        item.reasons.append(f"had {format_count(row.figures['errors'], 'error')}")
        item.is_failure = True
        item.weight += 500 + row.figures["errors"]
    for metric, text in (("overflows", "overflowed its context"), ("fallbacks", "used a fallback")):
        for row in worst[metric]:
            count = row.figures[metric]
            item = _item(items, row.session)
            item.reasons.append(text if count == 1 else f"{text} {count:,} times")
            item.weight += 100 + count
    return sorted(items.values(), key=lambda item: (-item.weight, item.session.session_id))[:_MAX_ITEMS]


def _item(items: dict[UUID, AttentionItem], session: Session) -> AttentionItem:
    return items.setdefault(session.session_key, AttentionItem(session))


def _loss(row: SessionFigures, turn: int | None) -> str:
    """Name the loss of the worst compaction with its turn, or the loss in the range if that one was earlier."""
    lost, worst = row.figures.facts_lost, row.session.worst_lost
    if turn is None or worst is None:
        return f"lost {format_count(lost, 'fact')}"
    total = f" ({lost:,} in total)" if lost > worst else ""
    return f"lost {format_count(worst, 'fact')} at turn {turn}{total}"


def _turns(sessions: Sequence[Session], since: datetime) -> Mapping[UUID, int]:
    """Return the turn of each session's worst compaction, read from its check, unless it was before `since`."""
    keys = [
        (session.session_key, session.day, trace_id, span_id)
        for session in sessions
        for trace_id, span_id in split_name(session.worst_check or "")
    ]
    if not keys:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT s.session_key, {DATA} FROM unnest(%s::uuid[], %s::date[], %s::text[], %s::text[])"  # noqa: S608
            " k (a, b, c, d) JOIN ingest_span s"
            " ON (s.session_key, s.session_day, s.trace_id, s.span_id) = (k.a, k.b, k.c, k.d)"
            " WHERE coalesce(s.ended_at, s.started_at) >= %s",
            [*(list(column) for column in zip(*keys, strict=True)), since],
        )
        rows = [(key, decode_data(data).get("turn")) for key, data in cursor.fetchall()]
    return {key: to_count(turn) for key, turn in rows if isinstance(turn, int | float)}

"""The figures and the list of sessions that need attention, above the session list.

Callers pass the projects that the reader has access to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote
from uuid import UUID

from django.db import connection

from ingest.decoding.facts import FactCount
from ingest.models import Session
from ingest.storage.figures.table import TROUBLES, Figure, Page, figures_on
from ingest.storage.payloads import decode_data
from viewer.numbers import format_count, format_counts, to_count
from viewer.sessions import session_list
from viewer.sessions.queries import split_name
from viewer.trends import periods, queries
from viewer.trends.charts import spark_bars, sparkline
from viewer.trends.periods import Period
from viewer.trends.queries import Figures, SessionFigures

_MAX_ITEMS = 6
_PER_METRIC = 12
_HOURS = 24
# Ranges in which the hourly figures of all sessions are too many rows to add up.
_LONG_RANGES = {"7d", "30d"}
_WORST_CHECKS = """
SELECT s.session_key, data FROM unnest(%s::uuid[], %s::date[], %s::text[], %s::text[]) k (a, b, c, d)
JOIN ingest_span s ON (s.session_key, s.session_day, s.trace_id, s.span_id) = (k.a, k.b, k.c, k.d)
WHERE s.cell = %s AND coalesce(s.ended_at, s.started_at) >= %s
"""


@dataclass(frozen=True, slots=True)
class HomeFigure:
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


def figures(projects: Iterable[int], range_name: str, now: datetime) -> list[HomeFigure]:
    """Return the figures of a range. Running sessions are those of now."""
    projects = list(projects)
    stats = session_list.session_stats(projects)
    period, day = period_of(range_name, now), periods.last("24h", now)
    whole = queries.whole(queries.series(projects, period), period)
    recent = whole if period == day else queries.whole(queries.series(projects, day), day)
    total = whole.total
    suffix = f"&range={range_name}" if range_name else ""
    return [
        _running_figure(stats.running, _active(projects, day), figure)
        if figure.name == "running"
        else HomeFigure(
            name=figure.name,
            label=figure.label,
            value=_value(figure, total),
            explanation=figure.definition,
            query=f"state={figure.state}{suffix}",
            spark=sparkline(recent.points, figure),
            spark_label=f"{_SPARK_LABELS.get(figure.name, figure.label)} in each of the last {_HOURS} hours",
            tone=_tone(figure, total),
            note=_near_limit(stats.near) if figure.name == "overflows" else "",
        )
        for figure in figures_on(Page.HOME)
    ]


_SPARK_LABELS = {"facts": "Facts lost"}


def _running_figure(count: int, spark: list[tuple[float, float, float]], figure: Figure) -> HomeFigure:
    return HomeFigure(
        name=figure.name,
        label=figure.label,
        value=f"{count:,}",
        explanation=figure.definition,
        query=f"state={figure.state}",
        spark=spark,
        spark_label=f"Sessions active in each of the last {_HOURS} hours",
    )


def _value(figure: Figure, total: Figures) -> str:
    if figure.name != "facts":
        return f"{total[figure.hourly]:,}"
    return format_counts(total["facts_total"], total["facts_kept"]) if total["facts_total"] else "–"


def _tone(figure: Figure, total: Figures) -> str:
    if figure.name == "facts":
        return "warn" if FactCount(total["facts_total"], total["facts_kept"]).is_lossy else ""
    return figure.tone if total[figure.hourly] else ""


def _near_limit(count: int) -> str:
    return f"{format_count(count, 'session')} near the limit" if count else ""


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
    # The worst trouble is the last one of the table.
    for figure in reversed(TROUBLES):
        for row in worst[figure.name]:
            count = row.figures[figure.hourly]
            item = _item(items, row.session)
            item.reasons.append(_reason(figure, count))
            item.is_failure |= figure.tone == "bad"
            item.weight += (500 if figure.tone == "bad" else 100) + count
    return sorted(items.values(), key=lambda item: (-item.weight, item.session.session_id))[:_MAX_ITEMS]


def _item(items: dict[UUID, AttentionItem], session: Session) -> AttentionItem:
    return items.setdefault(session.session_key, AttentionItem(session))


def _reason(figure: Figure, count: int) -> str:
    once, often = figure.trouble or ("", "")
    return once if count == 1 else often.format(count=count)


def _loss(row: SessionFigures, turn: int | None) -> str:
    """Name the loss of the worst compaction with its turn, or the loss in the range if that one was earlier."""
    lost, worst = row.figures.facts_lost, row.session.worst_lost
    if turn is None or worst is None:
        return f"lost {format_count(lost, 'fact')}"
    total = f" ({lost:,} in total)" if lost > worst else ""
    return f"lost {format_count(worst, 'fact')} at turn {turn}{total}"


def _turns(sessions: Sequence[Session], since: datetime) -> Mapping[UUID, int]:
    """Return the turn of each session's worst compaction, read from its check, unless it was before `since`."""
    keys: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for session in sessions:
        for trace_id, span_id in split_name(session.worst_check or ""):
            keys[session.cell].append((session.session_key, session.day, trace_id, span_id))
    rows: list[tuple[UUID, Any]] = []
    with connection.cursor() as cursor:
        for cell, cell_keys in keys.items():
            cursor.execute(_WORST_CHECKS, [*map(list, zip(*cell_keys, strict=True)), cell, since])
            rows += [(key, decode_data(data).get("turn")) for key, data in cursor.fetchall()]
    return {key: to_count(turn) for key, turn in rows if isinstance(turn, int | float)}

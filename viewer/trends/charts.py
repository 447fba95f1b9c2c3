"""Charts of figures over time, as the templates draw them. Pure.

The bars are SVG in percent of the chart's area, so that they fit any width. Axis labels are text outside of the SVG.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TypedDict
from urllib.parse import urlencode

from ingest.storage.figures.table import Figure, Page, figures_on
from viewer.costs.amounts import format_usd
from viewer.numbers import format_counts, format_percent, format_short
from viewer.trends.periods import Period
from viewer.trends.queries import Figures, Series

_MAX_TICKS = 6


class Bar(TypedDict):
    """One bucket of a chart with its texts. Positions are in percent, from the top left.

    A dictionary, because a template looks for a key before it looks for an attribute, and there are hundreds of bars.
    """

    x: str
    width: str
    y: str
    height: str
    mark_y: str
    value: str
    label: str
    at: str
    until: str
    href: str
    is_selected: bool


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of one figure over time. Buckets without a value have no bar."""

    name: str
    title: str
    unit: str
    explanation: str
    total: str
    bars: list[Bar]
    max_label: str
    middle_label: str
    ticks: list[datetime] = field(default_factory=list)
    tone: str = ""
    note: str = ""


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _usd(value: float) -> str:
    return format_usd(Decimal(value).quantize(Decimal("0.000001")))


_FORMATS: dict[str, Callable[[float], str]] = {"count": _count, "tokens": format_short, "usd": _usd}
_UNITS = {"tokens": "tokens", "usd": "US dollars"}


def charts(series: Series, period: Period, query: dict[str, str], selected: datetime | None = None) -> list[Chart]:
    """Return all charts of a period. `query` is the query string of the page, to which bars add their time."""
    axis = _Axis(period, query, selected)
    return [
        _facts_chart(figure, series, axis) if figure.name == "facts" else _bar_chart(figure, series, period, axis)
        for figure in figures_on(Page.TRENDS)
    ]


def sparkline(points: Sequence[Figures], figure: Figure) -> list[tuple[float, float, float]]:
    """Return the bars of a small chart as x, y and height in percent. That of facts shows the lost ones."""
    return spark_bars([point.value(figure) for point in points])


def spark_bars(values: Sequence[float]) -> list[tuple[float, float, float]]:
    """Return the bars of values as x, y and height in percent. Zeros have none, and small values stay visible."""
    top, width = max(values, default=0) or 1, 100 / max(1, len(values))
    heights = [max(8.0, 100 * value / top) if value else 0.0 for value in values]
    bars = [(n * width, 100 - height, height) for n, height in enumerate(heights) if height]
    return [(round(x, 2), round(y, 2), round(height, 2)) for x, y, height in bars]


class _Axis:
    """The time axis of all charts."""

    def __init__(self, period: Period, query: dict[str, str], selected: datetime | None) -> None:
        starts = period.starts
        self.ticks = _ticks(starts)
        self._ends = [*starts[1:], period.until]
        self._starts = starts
        self._step = 100 / len(starts)
        self._query = query
        self._selected = selected

    def bar(
        self, number: int, metric: str, value: str, *, bottom: float = 0, top: float, mark: float | None = None
    ) -> Bar:
        at = self._starts[number]
        # A bar of one compaction among thousands is still visible.
        height = max(2.0, top - bottom)
        address = urlencode({**self._query, "at": _iso(at), "metric": metric})
        return Bar(
            x=f"{(number + 0.12) * self._step:.3f}",
            width=f"{self._step * 0.76:.3f}",
            y=f"{max(0.0, 100 - max(top, bottom + height)):.3f}",
            height=f"{height:.3f}",
            mark_y="" if mark is None else f"{min(98.0, 100 - mark):.3f}",
            value=value,
            label=f"{at.day} {at:%b %H:%M} UTC: {value}",
            at=at.isoformat(),
            until=self._ends[number].isoformat(),
            href=f"?{address}#sessions",
            is_selected=at == self._selected,
        )


def _bar_chart(figure: Figure, series: Series, period: Period, axis: _Axis) -> Chart:
    format_value = _FORMATS[figure.unit]
    values = [point.value(figure) for point in series.points]
    top = _round_up(max(values, default=0))
    middle = top / 2
    return Chart(
        name=figure.name,
        title=figure.label,
        unit=f"{_UNITS.get(figure.unit) or figure.label.lower()} per {period.bucket_label}",
        explanation=figure.definition,
        total=format_value(series.total.value(figure)),
        bars=[
            axis.bar(number, figure.name, format_value(value), top=value / top * 100)
            for number, value in enumerate(values)
            if value
        ],
        max_label=format_value(top),
        # Half a compaction has no label.
        middle_label=format_value(middle) if figure.unit == "usd" or middle.is_integer() else "",
        ticks=axis.ticks,
        tone=figure.tone if any(values) else "",
    )


def _facts_chart(figure: Figure, series: Series, axis: _Axis) -> Chart:
    """Draw a bar from the worst compaction to the median one, with a mark at the median."""
    bars = []
    for number, point in enumerate(series.points):
        worst, median = point.facts_kept_worst, point.facts_kept_p50
        if worst is None or median is None:
            continue
        counts = format_counts(point["facts_total"], point["facts_kept"])
        value = f"{counts}, median {format_percent(median)}, worst {format_percent(worst)}"
        bars.append(axis.bar(number, figure.name, value, bottom=worst * 100, top=median * 100, mark=median * 100))
    total = series.total
    return Chart(
        name=figure.name,
        title=figure.label,
        unit="share of facts",
        note="median and worst compaction",
        explanation=f"{figure.definition} The mark is the median compaction. The bar ends at the worst one.",
        total=format_counts(total["facts_total"], total["facts_kept"]) if total["facts_total"] else "–",
        bars=bars,
        max_label="100%",
        middle_label="50%",
        ticks=axis.ticks,
    )


def _ticks(starts: list[datetime]) -> list[datetime]:
    """Return the times of the labels of the time axis, which divide it into equal parts."""
    least = -(-len(starts) // _MAX_TICKS)
    step = next(step for step in range(least, len(starts) + 1) if len(starts) % step == 0)
    return starts[::step]


def _round_up(value: float) -> float:
    """Return the next number that is 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(value))
    return next((size * power for size in (1, 2, 5) if size * power >= value), 10 * power)


def _iso(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%MZ")

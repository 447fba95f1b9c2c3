"""The functions that count spans, written out from the table of figures when this module is imported.

They run for each span of each commit. A loop over the table with a call for each figure would take several times as
long. `SOURCE` is their text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from textwrap import indent
from typing import TYPE_CHECKING, Any

from ingest.decoding.records import Span
from ingest.decoding.span_stats import NO_EVENT, NO_STATS
from ingest.decoding.timestamps import to_datetime
from ingest.storage.figures.table import HOURLY, STORED, Figure, Merge, Part
from ingest.storage.figures.usage import UsageDelta

if TYPE_CHECKING:
    from ingest.storage.figures.aggregates import SessionDelta

_COUNT = """
def {name}(delta, spans):
    {load}
    for span in spans:
        stats = span.stats
        event = stats.event
        started, ended = span.started_us, span.ended_us
        begin = ended if started is None else started
        end = started if ended is None else ended
        if begin is not None and end is not None and begin > end:
            # The agent's clock was set back between start and end.
            begin, end = end, begin
        {of_spans}
        if stats is not NO_STATS:
            at = (started if ended is None else ended) or 0
            {of_stats}
            if (usage := stats.usage) is not None:
                if delta.usage is None:
                    delta.usage = UsageDelta()
                delta.usage.add(usage, span.at_us, {sign})
            if event is not NO_EVENT:
                {of_events}
        if {is_hourly}:
            delta.add_hour(span, {sign})
    {store}
"""
_INIT = """
def init(delta):
    {values}
"""
_ROW = """
def row(delta):
    return ({values})
"""
_HOUR = """
def add_hour(counts, span, sign):
    event = span.stats.event
    {sums}
"""


def _source() -> str:
    initial = {figure.column: figure.initial for figure in STORED} | dict.fromkeys(TIME_COLUMNS)
    hours = [f"counts[{position}] += sign * ({figure.of})" for position, figure in enumerate(HOURLY)]
    return "\n".join(
        (
            _count("add", STORED, 1),
            # Minima only fall and maxima only rise.
            _count("subtract", [figure for figure in STORED if figure.merge is Merge.SUM], -1),
            _fill(_INIT, values=[f"delta.{column} = {value!r}" for column, value in initial.items()]),
            _fill(_ROW, values=[f"{_stored_value(column, kind)}," for column, kind in COLUMNS.items()]),
            _fill(_HOUR, sums=hours),
        )
    )


def _count(name: str, figures: Iterable[Figure], sign: int) -> str:
    parts = {part: [figure for figure in figures if figure.part is part] for part in Part}
    columns = [figure.column for figure in parts[Part.SPAN]]

    def merge(part: Part, target: str = "delta.") -> list[str]:
        return [line for figure in parts[part] for line in _merge(figure, f"{target}{figure.column}", sign)]

    return _fill(
        _COUNT,
        name=name,
        sign=str(sign),
        load=[f"{column} = delta.{column}" for column in columns],
        of_spans=merge(Part.SPAN, target=""),
        of_stats=merge(Part.STATS),
        of_events=merge(Part.EVENT),
        is_hourly=_any_hourly(),
        store=[f"delta.{column} = {column}" for column in columns],
    )


def _merge(figure: Figure, target: str, sign: int) -> list[str]:
    """Return the lines that merge the value of a span into `target`."""
    value, at = f"(value := {figure.of})", f"delta.{figure.time_column}"
    match figure.merge:
        case Merge.SUM:
            return [f"if value := {figure.of}:", f"    {target} {'+=' if sign > 0 else '-='} value"]
        case Merge.MAX | Merge.MIN:
            is_better = f"value {'>' if figure.merge is Merge.MAX else '<'} {target}"
            is_first = "" if figure.initial is not None else f"{target} is None or "
            return [f"if {value} is not None and ({is_first}{is_better}):", f"    {target} = value"]
        case Merge.LATEST:
            is_newer = f"{at} is None or at > {at} or (at == {at} and value > {target})"
            return [f"if {value} is not None and ({is_newer}):", f"    {target}, {at} = value, at"]
        case Merge.WORST if figure is WORST[0]:
            row = ", ".join(["value", *(other.of for other in WORST[1:])])
            columns = ", ".join(f"delta.{other.column}" for other in WORST)
            return [
                f"if {value} is not None:",
                f"    row = ({row})",
                f"    if {target} is None or row > ({columns}):",
                f"        {columns} = row",
            ]
        case _:
            return []


def _any_hourly() -> str:
    """Return the condition that a span changes its hour. Most spans have no event."""
    of_spans = [f"({figure.of})" for figure in HOURLY if figure.part is Part.SPAN]
    of_events = " or ".join(f"({figure.of})" for figure in HOURLY if figure.part is Part.EVENT)
    return " or ".join([*of_spans, f"(event is not NO_EVENT and ({of_events}))"])


def _stored_value(column: str, kind: str) -> str:
    return f"to_datetime(delta.{column})" if kind == "timestamptz" else f"delta.{column}"


def _fill(template: str, **blocks: str | list[str]) -> str:
    """Replace the placeholders of a template. A list becomes lines with the indentation of its placeholder."""
    lines = []
    for line in template.splitlines():
        name = line.strip().removeprefix("{").removesuffix("}")
        block = blocks.get(name)
        if isinstance(block, list):
            spaces = line[: len(line) - len(line.lstrip())]
            lines.append(indent("\n".join(block or ["pass"]), spaces))
        else:
            lines.append(
                line.format_map(
                    {key: "\n".join(text) if isinstance(text, list) else text for key, text in blocks.items()}
                )
            )
    return "\n".join(lines)


WORST = tuple(figure for figure in STORED if figure.merge is Merge.WORST)
TIME_COLUMNS = tuple(figure.time_column for figure in STORED if figure.time_column)
COLUMNS = {figure.column: figure.sql_type for figure in STORED} | dict.fromkeys(TIME_COLUMNS, "timestamptz")
"""The columns of a session row that figures fill, with their types, in the order of `row`."""
SOURCE = _source()
_namespace: dict[str, Any] = {
    "NO_EVENT": NO_EVENT,
    "NO_STATS": NO_STATS,
    "UsageDelta": UsageDelta,
    "to_datetime": to_datetime,
}
exec(compile(SOURCE, "<figures>", "exec"), _namespace)  # noqa: S102 - a text of this module and of the table
add: Callable[[SessionDelta, Iterable[Span]], None] = _namespace["add"]
subtract: Callable[[SessionDelta, Iterable[Span]], None] = _namespace["subtract"]
init: Callable[[SessionDelta], None] = _namespace["init"]
row: Callable[[SessionDelta], tuple[object, ...]] = _namespace["row"]
add_hour: Callable[[list[int], Span, int], None] = _namespace["add_hour"]

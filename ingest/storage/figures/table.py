"""The table of figures: what each one counts, where it is stored, and how pages describe it.

Everything else is derived from it: the deltas of a commit, SQL, trends, the recount, REST, comparisons, columns, and
the definitions that people read. Adding a figure is adding its row, and a migration if it is stored in a new column.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import Literal

from ingest.decoding.facts import LOSSY_SHARE


class Merge(Enum):
    """The rule by which the values of spans become the value of a session."""

    SUM = auto()
    MAX = auto()
    MIN = auto()
    LATEST = auto()
    """The value with the latest time. Of two values with the same time, the greater one."""
    WORST = auto()
    """The row of all such figures that is greatest. They are compared in the order of the table."""
    READ = auto()
    """Not stored. Computed from other figures, checks or prices when it is read."""


class Part(Enum):
    """The part of a span that a figure reads. Most spans have only the first one."""

    SPAN = auto()
    STATS = auto()
    EVENT = auto()


class Page(Flag):
    """Pages that show a figure."""

    NONE = 0
    HOME = auto()
    LIST = auto()
    SESSION = auto()
    COMPARISON = auto()
    TRENDS = auto()
    """A chart, an order of the sessions behind it, and a column of both tables."""


Unit = Literal["count", "tokens", "percent", "ms", "usd", "time", "text"]
_SQL_TYPES: dict[Unit, str] = {
    "count": "int",
    "tokens": "int",
    "percent": "double precision",
    "time": "timestamptz",
    "text": "text",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure. `name` is its name in addresses, in REST and in code."""

    name: str
    label: str = ""
    """The heading on pages. Figures without one are for code only."""
    definition: str
    merge: Merge = Merge.SUM
    of: str = ""
    """A Python expression of `span`, `stats`, `event`, `begin` or `end` (see `Part`). None means no value."""
    part: Part = Part.EVENT
    unit: Unit = "count"
    better: Literal["", "less", "more"] = ""
    tone: Literal["", "warn", "bad"] = ""
    """The color of values above zero. Only failures of an agent are bad."""
    column: str = ""
    """Its column of `ingest_session`."""
    time_column: str = ""
    """The column with the time of the latest value."""
    at_least: str = ""
    """A column with a sum that the value is never less than."""
    hourly: str = ""
    """Its column of `ingest_activity` and `ingest_trend`, which is a sum."""
    state: str = ""
    """The filter of the session list that finds sessions with any."""
    state_label: str = ""
    """The name of this filter."""
    order: str = ""
    """The indexed column of `ingest_session` that the session list can be sorted by."""
    trouble: tuple[str, str] | None = None
    """The reason for which a session needs attention: with one, and with `{count}` of them."""
    pages: Page = Page.NONE

    @property
    def sql_type(self) -> str:
        return _SQL_TYPES[self.unit]

    @property
    def initial(self) -> int | str | None:
        """The value of a session without spans."""
        if self.unit == "text" and self.merge is Merge.LATEST:
            return ""
        return 0 if self.sql_type == "int" and self.merge in {Merge.SUM, Merge.MAX, Merge.LATEST} else None


FIGURES = (
    Figure(
        name="running",
        label="Running",
        definition="Sessions with open spans now.",
        merge=Merge.READ,
        state="running",
        state_label="Running",
        pages=Page.HOME,
    ),
    Figure(
        name="model",
        label="Model",
        definition="The model of the latest call or check.",
        merge=Merge.LATEST,
        of="stats.model or None",
        part=Part.STATS,
        unit="text",
        column="model",
        time_column="model_at",
        pages=Page.LIST | Page.SESSION,
    ),
    Figure(
        name="turn_spans",
        definition="Turn spans.",
        of="event.is_turn",
        column="turn_span_count",
    ),
    Figure(
        name="turns",
        label="Turns",
        definition="The highest turn number, or the number of turn spans if that is greater.",
        merge=Merge.MAX,
        of="event.turn",
        column="turn_count",
        at_least="turn_span_count",
        order="turn_count",
        pages=Page.LIST | Page.SESSION | Page.COMPARISON,
    ),
    Figure(
        name="checks",
        label="Checks",
        definition="Times that a client compared a prompt with its limits.",
        of="event.is_check",
        column="check_count",
    ),
    Figure(
        name="compactions",
        label="Compactions",
        definition="Times that messages left a prompt, without compactions that a provider makes on its own side.",
        of="event.is_compaction",
        better="less",
        column="compaction_count",
        hourly="compactions",
        state="compacted",
        state_label="Compacted",
        order="compaction_count",
        pages=Page.HOME | Page.LIST | Page.SESSION | Page.COMPARISON | Page.TRENDS,
    ),
    Figure(
        name="failed_compactions",
        label="Failed compactions",
        definition="Compactions that failed before a message left the prompt.",
        merge=Merge.READ,
        better="less",
        pages=Page.SESSION | Page.COMPARISON,
    ),
    Figure(
        name="tokens_freed",
        label="Tokens freed",
        definition="Tokens that compactions removed from prompts.",
        of="event.freed_tokens",
        unit="tokens",
        better="more",
        hourly="tokens_freed",
        pages=Page.COMPARISON | Page.TRENDS,
    ),
    Figure(
        name="messages_removed",
        label="Messages removed",
        definition="Messages that compactions removed from prompts.",
        merge=Merge.READ,
        pages=Page.COMPARISON,
    ),
    Figure(
        name="peak",
        label="Peak usage",
        definition="Tokens of the largest prompt.",
        merge=Merge.MAX,
        of="stats.context_tokens",
        part=Part.STATS,
        unit="tokens",
        better="less",
        column="peak_tokens",
        order="peak_tokens",
        pages=Page.LIST | Page.SESSION | Page.COMPARISON,
    ),
    Figure(
        name="now",
        label="Now",
        definition="Tokens of the latest prompt.",
        merge=Merge.LATEST,
        of="stats.context_tokens",
        part=Part.STATS,
        unit="tokens",
        column="last_tokens",
        time_column="last_tokens_at",
        pages=Page.SESSION | Page.COMPARISON,
    ),
    Figure(
        name="window",
        label="Context window",
        definition="Tokens that fit into the context window of the model.",
        merge=Merge.LATEST,
        of="event.window_tokens or None",
        unit="tokens",
        column="window_tokens",
        time_column="window_at",
    ),
    Figure(
        name="trigger",
        label="Trigger",
        definition="Tokens of a prompt at which a compaction starts.",
        merge=Merge.LATEST,
        of="event.trigger_tokens or None",
        unit="tokens",
        column="trigger_tokens",
        time_column="trigger_at",
    ),
    Figure(
        name="facts",
        label="Facts kept",
        definition="Facts of removed messages that are still in the prompt.",
        merge=Merge.READ,
        unit="percent",
        better="more",
        state="lossy",
        state_label=f"Facts kept below {LOSSY_SHARE:.0%}",
        order="worst_lost",
        pages=Page.HOME | Page.LIST | Page.SESSION | Page.COMPARISON | Page.TRENDS,
    ),
    Figure(
        name="facts_total",
        label="Number of facts",
        definition="Facts of the messages that each compaction removed.",
        of="event.facts_total",
        column="facts_total",
        hourly="facts_total",
    ),
    Figure(
        name="facts_kept",
        label="Number of facts kept",
        definition="Facts of the messages that each compaction removed that were still in the prompt after it.",
        of="event.facts_kept",
        column="facts_kept",
        hourly="facts_kept",
    ),
    Figure(
        name="facts_kept_p50",
        label="Median kept",
        definition="Share of its facts that the median compaction kept, exact to one percent.",
        merge=Merge.READ,
        unit="percent",
        better="more",
    ),
    Figure(
        name="facts_kept_worst",
        label="Worst kept",
        definition="Lowest share of its facts that a compaction kept.",
        merge=Merge.MIN,
        of="event.retention",
        unit="percent",
        better="more",
        column="worst_retention",
    ),
    Figure(
        name="worst_lost",
        definition="Facts that the compaction which lost most of them lost.",
        merge=Merge.WORST,
        of="event.facts_total - event.facts_kept if event.facts_total else None",
        column="worst_lost",
    ),
    Figure(
        name="worst_total",
        definition="Facts of the messages that this compaction removed.",
        merge=Merge.WORST,
        of="event.facts_total",
        column="worst_total",
    ),
    Figure(
        name="worst_check",
        definition="The check of this compaction, as `trace_id:span_id`.",
        merge=Merge.WORST,
        of='f"{span.trace_id}:{span.parent_id or span.span_id}"',
        unit="text",
        column="worst_check",
    ),
    Figure(
        name="fallbacks",
        label="Fallbacks",
        definition="Summaries that failed, so that a simpler method was used.",
        of="event.is_fallback",
        better="less",
        tone="warn",
        column="fallback_count",
        hourly="fallbacks",
        state="fallback",
        state_label="Used a fallback",
        trouble=("used a fallback", "used a fallback {count:,} times"),
        pages=Page.HOME | Page.COMPARISON | Page.TRENDS,
    ),
    Figure(
        name="overflows",
        label="Overflows",
        definition="Prompts that a provider rejected as too long.",
        of="event.is_overflow",
        better="less",
        tone="warn",
        column="overflow_count",
        hourly="overflows",
        state="overflow",
        state_label="Overflowed",
        trouble=("overflowed its context", "overflowed its context {count:,} times"),
        pages=Page.HOME | Page.COMPARISON | Page.TRENDS,
    ),
    Figure(
        name="errors",
        label="Errors",
        definition="Failed tool calls, model calls and other spans, without summaries that used a fallback.",
        of='span.status == "error" and not event.is_fallback',
        part=Part.SPAN,
        better="less",
        tone="bad",
        column="error_count",
        hourly="errors",
        state="errors",
        state_label="With errors",
        order="error_count",
        trouble=("had 1 error", "had {count:,} errors"),
        pages=Page.HOME | Page.LIST | Page.SESSION | Page.COMPARISON | Page.TRENDS,
    ),
    Figure(
        name="cache_lost",
        label="Cache lost",
        definition="Cached tokens of prompts that compactions invalidated.",
        of="event.cache_lost_tokens",
        unit="tokens",
        better="less",
        hourly="cache_lost_tokens",
        pages=Page.TRENDS,
    ),
    Figure(
        name="compaction_ms",
        label="Time spent compacting",
        definition="Time from the start to the end of each compaction, added up.",
        merge=Merge.READ,
        unit="ms",
        better="less",
        pages=Page.COMPARISON,
    ),
    Figure(
        name="cost",
        label="Cost",
        definition="Model calls at published prices or the project's own, without those of models that have no price.",
        merge=Merge.READ,
        unit="usd",
        better="less",
        pages=Page.LIST | Page.SESSION | Page.TRENDS,
    ),
    Figure(
        name="spans",
        label="Spans",
        definition="Spans of the session.",
        of="1",
        part=Part.SPAN,
        column="span_count",
        order="span_count",
        pages=Page.LIST | Page.SESSION,
    ),
    Figure(
        name="open_spans",
        label="Open spans",
        definition="Spans that have started and not ended.",
        of="span.ended_us is None and span.started_us is not None",
        part=Part.SPAN,
        column="running_count",
        state="running",
    ),
    Figure(
        name="first_at",
        label="First event",
        definition="Time of the first event by the agent's clock.",
        merge=Merge.MIN,
        of="begin",
        part=Part.SPAN,
        unit="time",
        column="first_at",
    ),
    Figure(
        name="last_at",
        label="Last event",
        definition="Time of the last event by the agent's clock.",
        merge=Merge.MAX,
        of="end",
        part=Part.SPAN,
        unit="time",
        column="last_at",
        pages=Page.LIST | Page.SESSION,
    ),
)
BY_NAME = {figure.name: figure for figure in FIGURES}
STORED = tuple(figure for figure in FIGURES if figure.column)
"""Figures with a column of `ingest_session`."""
TROUBLES = tuple(figure for figure in FIGURES if figure.trouble)
"""Figures because of which a session needs attention."""
HOURLY = tuple(figure for figure in FIGURES if figure.hourly)


def figures_on(page: Page) -> tuple[Figure, ...]:
    return tuple(figure for figure in FIGURES if page in figure.pages)

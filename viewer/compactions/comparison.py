"""Two sessions, or two compactions, figure by figure. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from ingest.models import Session
from viewer.compactions.ledger import Entry, Ledger, paired
from viewer.sessions.checks import Check

BAR_WIDTH, CHART_HEIGHT = 100.0, 120.0


@dataclass(frozen=True, slots=True)
class Side:
    session: Session
    checks: list[Check]
    number: int | None  # a compaction, or the whole session

    @property
    def compactions(self) -> list[Check]:
        return [check for check in self.checks if check.is_compaction]

    @property
    def chosen(self) -> Check | None:
        found = self.compactions
        return found[self.number - 1] if self.number is not None and 1 <= self.number <= len(found) else None

    @property
    def window(self) -> int:
        return max((check.window for check in self.checks), default=0)


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table; `better` says which side stands better, where one can say so."""

    label: str
    a: float | None
    b: float | None
    unit: str  # tokens, percent, ms, count
    better: str = ""

    @property
    def difference(self) -> float | None:
        return self.b - self.a if self.a is not None and self.b is not None else None


@dataclass(frozen=True, slots=True)
class Column:
    """One bar of a small timeline, in percent of the chart."""

    x: float
    width: float
    height: float
    after: float | None
    is_compaction: bool
    is_chosen: bool
    title: str


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of two compactions: those that only one of them saw, and those that fared otherwise."""

    only_a: list[Entry]
    only_b: list[Entry]
    otherwise: list[tuple[Entry, Entry]]
    alike: int


def compare_messages(a: Ledger, b: Ledger) -> Messages:
    both = paired(a, b)
    shared = [(one, other) for one, other in both if one and other]
    otherwise = [(one, other) for one, other in shared if one.fate != other.fate]
    return Messages(
        only_a=[one for one, other in both if one and not other],
        only_b=[other for one, other in both if other and not one],
        otherwise=otherwise,
        alike=len(shared) - len(otherwise),
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    a: Side
    b: Side
    figures: list[Figure]
    steps: list[tuple[Check | None, Check | None]]
    chart_a: list[Column]
    chart_b: list[Column]
    policy: list[tuple[str, object, object]]
    top: int  # the tokens at the upper edge of both charts


def compare_sides(a: Side, b: Side) -> Comparison:
    top = max(a.window, b.window, 1)
    one, other = a.chosen, b.chosen
    figures = compaction_figures(one, other) if one and other else session_figures(a, b)
    policies = [(one or _last(a)), (other or _last(b))]
    first, second = (dict(check.policy) if check else {} for check in policies)
    names = [name for name in {**first, **second} if first.get(name) != second.get(name)]
    return Comparison(
        a=a,
        b=b,
        figures=figures,
        steps=list(zip_longest(a.compactions, b.compactions)),
        chart_a=chart(a, top),
        chart_b=chart(b, top),
        top=top,
        policy=[(name, first.get(name), second.get(name)) for name in names],
    )


def session_figures(a: Side, b: Side) -> list[Figure]:
    one, other = a.session, b.session
    return [
        _figure("Turns", one.turn_count, other.turn_count, "count"),
        _figure("Compactions", one.compaction_count, other.compaction_count, "count", "less"),
        _figure("Needed a fallback", one.fallback_count, other.fallback_count, "count", "less"),
        _figure("Peak tokens", one.peak_tokens, other.peak_tokens, "tokens", "less"),
        _figure("Tokens now", one.last_tokens, other.last_tokens, "tokens"),
        _figure("Tokens freed", _freed(a), _freed(b), "tokens", "more"),
        _figure("Messages out of the prompt", _pruned(a), _pruned(b), "count"),
        _figure("Key facts kept at worst", one.worst_retention, other.worst_retention, "percent", "more"),
        _figure("Errors", one.error_count, other.error_count, "count", "less"),
        _figure("Time compacting", _spent(a), _spent(b), "ms", "less"),
    ]


def compaction_figures(one: Check, other: Check) -> list[Figure]:
    return [
        _figure("Before", one.before, other.before, "tokens"),
        _figure("After", one.after, other.after, "tokens", "less"),
        _figure("Messages out of the prompt", one.pruned_count, other.pruned_count, "count"),
        _figure("Key facts kept", one.retention, other.retention, "percent", "more"),
        _figure("Errors", len(one.errors), len(other.errors), "count", "less"),
        _figure("Took", _duration(one), _duration(other), "ms", "less"),
    ]


def chart(side: Side, top: int) -> list[Column]:
    """At most 200 bars: of more, the largest of each neighbourhood, and every compaction."""
    checks = side.checks
    every = max(1, -(-len(checks) // 200))
    groups = [checks[at : at + every] for at in range(0, len(checks), every)]
    width = 100 / max(1, len(groups))
    columns = []
    for place, group in enumerate(groups):
        fired = [one for one in group if one.is_compaction]
        check = side.chosen if side.chosen in fired else fired[0] if fired else max(group, key=lambda one: one.before)
        assert check is not None
        columns.append(
            Column(
                x=place * width,
                width=width * 0.8,
                height=min(100.0, check.before / top * 100),
                after=min(100.0, check.after / top * 100) if check.after is not None else None,
                is_compaction=check.is_compaction,
                is_chosen=check is side.chosen,
                title=f"turn {check.turn}: {check.before:,} tokens",
            )
        )
    return columns


def _figure(label: str, a: float | None, b: float | None, unit: str, wish: str = "") -> Figure:
    better = ""
    if wish and a is not None and b is not None and a != b:
        better = "a" if (a < b) == (wish == "less") else "b"
    return Figure(label, a, b, unit, better)


def _last(side: Side) -> Check | None:
    return side.checks[-1] if side.checks else None


def _freed(side: Side) -> int:
    return sum(check.before - check.after for check in side.compactions if check.after is not None)


def _pruned(side: Side) -> int:
    return sum(check.pruned_count for check in side.compactions)


def _spent(side: Side) -> float:
    return sum(_duration(check) or 0.0 for check in side.compactions)


def _duration(check: Check) -> float | None:
    return (check.ended_at - check.started_at).total_seconds() * 1000 if check.started_at and check.ended_at else None

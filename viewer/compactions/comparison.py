"""The comparison of two sessions or two compactions. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import zip_longest

from ingest.models import Session
from ingest.storage.figures.table import BY_NAME, Figure, Page, figures_on
from viewer.compactions.ledger import Entry, Ledger, match_entries
from viewer.numbers import format_counts
from viewer.sessions.checks import Check

MAX_LISTED = 200


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the comparison: a session, or one of its compactions."""

    session: Session
    checks: list[Check]
    number: int | None  # of the compaction

    @property
    def compactions(self) -> list[Check]:
        return [check for check in self.checks if check.is_compaction]

    @property
    def chosen(self) -> Check | None:
        if self.number is None or not 1 <= self.number <= len(self.compactions):
            return None
        return self.compactions[self.number - 1]

    @property
    def freed_tokens(self) -> int:
        return sum(check.freed_tokens for check in self.compactions)

    @property
    def pruned_count(self) -> int:
        return sum(check.pruned_count for check in self.compactions)

    @property
    def failed_count(self) -> int:
        return sum(check.has_failed for check in self.checks)

    @property
    def compaction_ms(self) -> float:
        return sum(check.duration_ms or 0.0 for check in self.compactions)


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """One row of the table. `better` is the better side, if that can be said."""

    label: str
    definition: str
    a: float | None
    b: float | None
    unit: str  # tokens, percent, ms, count
    better: str = ""
    text_a: str = ""  # shown in place of the value
    text_b: str = ""

    @property
    def difference(self) -> float | None:
        return self.b - self.a if self.a is not None and self.b is not None else None


@dataclass(frozen=True, slots=True)
class MessageComparison:
    """The messages of two compactions: those in only one of them, and those with different fates."""

    only_a: list[Entry]
    only_b: list[Entry]
    different: list[tuple[Entry, Entry]]
    same_count: int

    @property
    def hashes(self) -> set[str]:
        """The hashes of the messages that the page lists."""
        entries = [*self.only_a[:MAX_LISTED], *self.only_b[:MAX_LISTED], *(b for _, b in self.different[:MAX_LISTED])]
        return {entry.hash for entry in entries}


def compare_messages(a: Ledger, b: Ledger) -> MessageComparison:
    pairs = match_entries(a, b)
    shared = [(entry_a, entry_b) for entry_a, entry_b in pairs if entry_a and entry_b]
    different = [(entry_a, entry_b) for entry_a, entry_b in shared if entry_a.fate != entry_b.fate]
    return MessageComparison(
        only_a=[entry_a for entry_a, entry_b in pairs if entry_a and not entry_b],
        only_b=[entry_b for entry_a, entry_b in pairs if entry_b and not entry_a],
        different=different,
        same_count=len(shared) - len(different),
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    a: Side
    b: Side
    figures: list[ComparedFigure]
    steps: list[tuple[Check | None, Check | None]]
    policy: list[tuple[str, object, object]]


def compare_sides(a: Side, b: Side) -> Comparison:
    one, other = a.chosen, b.chosen
    return Comparison(
        a=a,
        b=b,
        figures=compaction_figures(one, other) if one and other else session_figures(a, b),
        steps=list(zip_longest(a.compactions, b.compactions)),
        policy=_policy_differences(a, b),
    )


def _policy_differences(a: Side, b: Side) -> list[tuple[str, object, object]]:
    policy_a, policy_b = _policy(a), _policy(b)
    return [
        (name, policy_a.get(name), policy_b.get(name))
        for name in {**policy_a, **policy_b}
        if policy_a.get(name) != policy_b.get(name)
    ]


def _policy(side: Side) -> dict[str, object]:
    check = side.chosen or (side.checks[-1] if side.checks else None)
    return dict(check.policy) if check else {}


def session_figures(a: Side, b: Side) -> list[ComparedFigure]:
    return [
        _facts_figure(a.session, b.session)
        if figure.name == "facts"
        else _compare(figure, _value(figure, a), _value(figure, b))
        for figure in figures_on(Page.COMPARISON)
    ]


# Figures that are not stored with a session.
_OF_CHECKS: dict[str, Callable[[Side], float]] = {
    "failed_compactions": lambda side: side.failed_count,
    "tokens_freed": lambda side: side.freed_tokens,
    "messages_removed": lambda side: side.pruned_count,
    "compaction_ms": lambda side: side.compaction_ms,
}


def _value(figure: Figure, side: Side) -> float:
    value: float = getattr(side.session, figure.column) if figure.column else _OF_CHECKS[figure.name](side)
    return value


def compaction_figures(one: Check, other: Check) -> list[ComparedFigure]:
    return [
        _figure("Tokens before", one.before, other.before, "tokens"),
        _figure("Tokens after", one.after, other.after, "tokens", "less"),
        _compare(BY_NAME["messages_removed"], one.pruned_count, other.pruned_count),
        _facts_figure(one, other),
        _figure("Failed attempts", len(one.errors), len(other.errors), "count", "less"),
        _figure("Duration", one.duration_ms, other.duration_ms, "ms", "less"),
    ]


def _facts_figure(one: Session | Check, other: Session | Check) -> ComparedFigure:
    """Compare the shares, and show the counts."""
    figure = _compare(BY_NAME["facts"], _share(one), _share(other))
    return replace(figure, text_a=_kept_of_total(one), text_b=_kept_of_total(other))


def _compare(figure: Figure, a: float | None, b: float | None) -> ComparedFigure:
    return replace(_figure(figure.label, a, b, figure.unit, figure.better), definition=figure.definition)


def _kept_of_total(counted: Session | Check) -> str:
    return format_counts(counted.facts_total, counted.facts_kept or 0) if counted.facts_total else ""


def _share(counted: Session | Check) -> float | None:
    return (counted.facts_kept or 0) / counted.facts_total if counted.facts_total else None


def _figure(label: str, a: float | None, b: float | None, unit: str, preference: str = "") -> ComparedFigure:
    better = ""
    if preference and a is not None and b is not None and a != b:
        better = "a" if (a < b) == (preference == "less") else "b"
    return ComparedFigure(label, "", a, b, unit, better)

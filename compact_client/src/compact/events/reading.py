"""Read events that any version of this library sent, or another client that uses the same names.

`upgrade` gives older properties today's names, `read` returns an event with typed fields, and
`CheckResult` says what became of a check. All code that shows or counts events uses these, so that an event means the
same in the console, in the list of sessions and on each page.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from compact.events.base import Event
from compact.events.catalog import event_named
from compact.events.check_events import QualityEvent, TokenEstimateEvent, TriggerDecisionEvent
from compact.events.check_result import (
    REPORTING_KINDS,
    CheckResult,
    Outcome,
    Report,
    deciding_kind,
    freed_tokens,
    report_of,
)
from compact.events.compaction_events import REMAINING_FATES, ArchivalEvent, PrunedMessagesEvent
from compact.events.problem_events import RAISED
from compact.events.summary_events import RetentionEvent

__all__ = [
    "OLDER_NUMBERS",
    "REMAINING_FATES",
    "REPORTING_KINDS",
    "CheckResult",
    "Outcome",
    "Report",
    "deciding_kind",
    "event_of",
    "fallback_of",
    "found_count",
    "freed_tokens",
    "kept_count",
    "read",
    "report_of",
    "upgrade",
]

Data = Mapping[str, Any]
E = TypeVar("E", bound=Event)

# Names in document 000 and in earlier versions of this library, with today's names.
_OLDER_COUNTS = {"tokens_estimated": "t_est", "max": "max_tokens"}
_OLDER_SHARES = {"retention_pct": "weighted_retention"}
OLDER_NUMBERS = frozenset({*_OLDER_COUNTS, *_OLDER_SHARES})
"""Older names of properties that are numbers."""
_OLDER_PARTS = {"messages": "history", "tools": "tools_schema"}  # of a breakdown, in document 002 and its exporters
_OLDER_POLICY = {"buffer": "hard_cap_buffer"}


def upgrade(kind: str, data: Data) -> Data:
    """Return the properties of an event under today's names. Those that have them already are returned as they are."""
    change = _UPGRADES.get(kind)
    return data if change is None else change(data)


def read(event_class: type[E], data: Data) -> E:
    """Return an event from today's properties.

    A property that is missing or has another type is None, whatever the class says about it. The same applies to the
    payload, which is not read.
    """
    return event_class(**{name: convert(data.get(name)) for name, convert in _converters(event_class)})  # type: ignore[arg-type]


def event_of(kind: str, data: Data) -> Event | None:
    """Return the event of a span or record, or None if the catalog has no such event."""
    event_class = event_named(kind)
    return None if event_class is None else read(event_class, upgrade(kind, data))


def _rename(data: Data, names: Mapping[str, str]) -> Data:
    # The server does this for each event that it stores, and nearly all of them have today's names.
    for name in names:
        if name in data:
            return {**data, **{new: data[old] for old, new in names.items() if old in data and data.get(new) is None}}
    return data


def _rename_within(data: Data, name: str, names: Mapping[str, str]) -> Data:
    value = data.get(name)
    if not isinstance(value, dict):
        return data
    renamed = _rename(value, names)
    return data if renamed is value else {**data, name: renamed}


def _upgrade_estimate(data: Data) -> Data:
    return _rename_within(_rename(data, _OLDER_COUNTS), "breakdown", _OLDER_PARTS)


def _upgrade_decision(data: Data) -> Data:
    data = _rename_within(_rename(data, _OLDER_COUNTS), "policy", _OLDER_POLICY)
    # The decision of document 000 does not say that it compacts. It says how many messages left the prompt.
    if data.get("triggered") is None and (count := _as_int(data.get("pruned_count"))) is not None:
        return {**data, "triggered": count > 0}
    return data


def _upgrade_result(data: Data) -> Data:
    return _rename_within(data, "breakdown_after", _OLDER_PARTS)


def _upgrade_archival(data: Data) -> Data:
    # Clients before the states sent the event only after the transcript was stored.
    return data if data.get("state") else {**data, "state": "stored"}


def _upgrade_facts(data: Data) -> Data:
    """Add up the counts by kind of clients that sent no totals."""
    data = _rename(data, _OLDER_SHARES)
    by_kind = data.get("by_kind")
    if (data.get("facts_total") is not None and data.get("facts_kept") is not None) or not isinstance(by_kind, Mapping):
        return data
    kinds = [counts for counts in by_kind.values() if isinstance(counts, Mapping)]
    if not kinds:
        return data
    total = sum(found_count(counts) for counts in kinds)
    return {**data, "facts_total": total, "facts_kept": min(total, sum(map(kept_count, kinds)))}


def fallback_of(data: Data) -> str:
    """Return what was done instead of an operation that failed, or an empty text if the error ended the call."""
    fallback = data.get("fallback")
    return str(fallback) if fallback and fallback != RAISED else ""


def found_count(counts: Data) -> int:
    """Return the facts of one kind that a retention event found."""
    return max(0, _as_int(counts.get("found")) or 0)


def kept_count(counts: Data) -> int:
    """Return the facts of one kind that were not lost. A restored fact is kept."""
    total, lost = found_count(counts), _as_int(counts.get("lost"))
    if lost is not None and lost >= 0:
        return max(0, total - lost)
    return min(total, max(0, _as_int(counts.get("kept")) or 0) + max(0, _as_int(counts.get("restored")) or 0))


_UPGRADES: Mapping[str, Callable[[Data], Data]] = {
    TokenEstimateEvent.name: _upgrade_estimate,
    TriggerDecisionEvent.name: _upgrade_decision,
    PrunedMessagesEvent.name: _upgrade_result,
    ArchivalEvent.name: _upgrade_archival,
    RetentionEvent.name: _upgrade_facts,
    QualityEvent.name: _upgrade_facts,
}


# Values of other types than the class declares become None.

Convert = Callable[[Any], Any]


@cache
def _converters(event_class: type[Event]) -> tuple[tuple[str, Convert], ...]:
    hints = get_type_hints(event_class, include_extras=True)
    return tuple(
        (field.name, _as_none if "is_private" in field.metadata else _converter(hints[field.name]))
        for field in dataclasses.fields(event_class)
    )


def _converter(hint: Any) -> Convert:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _converter(arguments[0])
    if origin in (Union, types.UnionType):
        choices = [_converter(part) for part in arguments if part is not type(None)]
        return choices[0] if len(set(choices)) == 1 else _first_of(choices)
    if is_typeddict(hint) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return _as_mapping
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return _as_list
    return _SCALARS.get(hint, _as_text)


def _first_of(choices: Sequence[Convert]) -> Convert:
    return lambda value: next((part for convert in choices if (part := convert(value)) is not None), None)


def _as_none(_: Any) -> None:
    return None


def _as_int(value: Any) -> int | None:
    if type(value) is int:
        return value
    number = _as_float(value)
    return None if number is None else int(number)


def _as_float(value: Any) -> float | None:
    if type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _as_bool(value: Any) -> bool | None:
    return bool(value) if isinstance(value, bool | int) else None


def _as_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _as_mapping(value: Any) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None


def _as_list(value: Any) -> Sequence[Any] | None:
    return value if isinstance(value, list | tuple) else None


_SCALARS: Mapping[Any, Convert] = {bool: _as_bool, int: _as_int, float: _as_float}

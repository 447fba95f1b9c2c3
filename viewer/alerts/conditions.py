"""Decide whether a rule fires. Pure: the same matches and time give the same decision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ingest.clock_tolerance import MAX_SKEW
from ingest.decoding.span_stats import stats_of
from viewer.models import AlertRule

Kind = AlertRule.Kind
# Kinds whose matches are counted over a window. Each match of the others is compared with the threshold.
COUNTED = frozenset({Kind.FALLBACK, Kind.OVERFLOW})
MAX_MATCHES = 1_000
# A span that arrives again, with more data or in another session, is not another match.
_MEMORY = timedelta(days=1)
_MAX_SESSIONS = 10


@dataclass(frozen=True, slots=True)
class Match:
    """Something that a rule is about: a compaction that lost facts, a fallback, an overflow, a long prompt."""

    key: str
    session_key: str
    session_id: str
    value: int
    span: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of an evaluation. `matches` is the state for the next one."""

    matches: list[dict[str, Any]]
    fires: bool = False
    suppressed: int = 0
    figures: dict[str, int] = field(default_factory=dict)
    sessions: list[dict[str, Any]] = field(default_factory=list)


def span_match(
    kind: str, data: Mapping[str, Any], trace_id: str, span_id: str
) -> tuple[AlertRule.Kind, str, int] | None:
    """Return the rule kind, the key and the value of a span, or None if no rule is about it."""
    event = stats_of(kind, dict(data)).event
    lost = event.facts_total - event.facts_kept
    if lost > 0:
        return Kind.FACTS_LOST, f"{trace_id}:{span_id}", lost
    if event.is_fallback:
        return Kind.FALLBACK, f"{trace_id}:{span_id}", 1
    if event.is_overflow:
        return Kind.OVERFLOW, f"{trace_id}:{span_id}", 1
    return None


def _new_entries(
    rule: AlertRule, known: Iterable[Mapping[str, Any]], matches: Iterable[Match], at: int
) -> list[dict[str, Any]]:
    """Return an entry for each match that reaches the threshold and is not known."""
    keys = {entry["key"] for entry in known}
    added = []
    for match in matches:
        is_enough = rule.kind in COUNTED or match.value >= rule.threshold
        if is_enough and match.key not in keys:
            keys.add(match.key)
            added.append(
                {"key": match.key, "at": at, "session": match.session_key, "id": match.session_id}
                | {"value": match.value, "span": match.span, "is_open": True}
            )
    return added


def decide(
    rule: AlertRule, known: Sequence[Mapping[str, Any]], new_matches: Iterable[Match], now: datetime
) -> Decision:
    """Return whether a rule fires after new matches, and its new state."""
    at = int(now.timestamp())
    memory = range(at - int(_MEMORY.total_seconds()) + 1, at + int(MAX_SKEW.total_seconds()) + 1)
    entries = [dict(entry) for entry in known if int(entry["at"]) in memory]
    added = _new_entries(rule, entries, new_matches, at)
    entries = (entries + added)[-MAX_MATCHES:]
    relevant = _relevant(rule, entries, added, at)
    if not added or not relevant:
        return Decision(entries)
    if rule.last_fired_at is not None and now < rule.last_fired_at + timedelta(minutes=rule.cooldown_minutes):
        return Decision(entries, suppressed=len(added))
    for entry in relevant:
        entry["is_open"] = False
    figures = {"count": len(relevant), "worst": max(entry["value"] for entry in relevant)}
    return Decision(entries, fires=True, figures=figures, sessions=_sessions(relevant))


def decide_silence(rule: AlertRule, last_received_at: datetime | None, now: datetime) -> Decision:
    """Return whether a project has been silent for too long. A rule fires once for each silence."""
    if last_received_at is None:
        return Decision([])
    minutes = int((now - last_received_at).total_seconds() // 60)
    has_fired = rule.last_fired_at is not None and rule.last_fired_at > last_received_at
    if minutes < rule.threshold or has_fired:
        return Decision([])
    return Decision([], fires=True, figures={"count": 1, "worst": minutes})


def _relevant(
    rule: AlertRule, entries: list[dict[str, Any]], added: list[dict[str, Any]], at: int
) -> list[dict[str, Any]]:
    if rule.kind in COUNTED:
        since = at - rule.window_minutes * 60
        counted = [entry for entry in entries if entry["is_open"] and entry["at"] > since]
        return counted if len(counted) >= rule.threshold else []
    return added


def _sessions(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the sessions of some matches, worst first, each once."""
    sessions: dict[str, dict[str, Any]] = {}
    for entry in sorted(entries, key=lambda entry: -entry["value"]):
        session = sessions.setdefault(
            entry["session"],
            {"key": entry["session"], "id": entry["id"], "value": entry["value"], "count": 0, "span": entry["span"]},
        )
        session["count"] += 1
    return list(sessions.values())[:_MAX_SESSIONS]

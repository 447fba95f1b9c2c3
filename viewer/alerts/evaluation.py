"""Evaluate the rules of projects on what changed since the last evaluation.

One process at a time evaluates a project: it locks the project's cursor and skips projects that others hold. The
cursor, the state of the rules, the alerts and their deliveries change in one transaction, so that a crash loses nothing
and nothing fires twice. Evaluation only reads what ingest has committed, and takes none of its locks.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import DatabaseError, connection, transaction
from django.db.models import Max
from django.utils import timezone

from ingest.cells import cells_of, learn
from ingest.clock_tolerance import MAX_SKEW
from ingest.models import IngestKey, Session
from ingest.storage.payloads import decode_data
from viewer.accounts.access import Right, user_grant
from viewer.alerts.conditions import Decision, Match, decide, decide_silence, span_match
from viewer.alerts.messages import alert_title
from viewer.kinds import ERROR, OVERFLOW, RETENTION
from viewer.models import Alert, AlertCursor, AlertDelivery, AlertRule
from viewer.sessions.queries import IN_SESSIONS, in_sessions, newest_seq

_MAX_SPANS = 5_000
_TIMEOUT_MS = 10_000
_log = logging.getLogger("ariadne.alerts")
_SPANS = f"""
SELECT session_key, trace_id, span_id, kind, data, seq FROM ingest_span
WHERE {IN_SESSIONS} AND seq > %s AND seq <= %s AND ended_at IS NOT NULL
  AND kind IN ('{RETENTION}', '{OVERFLOW}', '{ERROR}')
ORDER BY seq LIMIT %s
"""  # noqa: S608 - a constant
Matches = dict[str, list[tuple[Match, Session]]]


def evaluate_all(*, now: datetime | None = None, min_age: timedelta = timedelta(0)) -> int:
    """Evaluate all projects with enabled rules. Return the number of alerts.

    Projects that were evaluated less than `min_age` ago are skipped, so that more processes do not mean more work.
    """
    now = now or timezone.now()
    rules = AlertRule.objects.filter(is_enabled=True)
    cell_counts = dict(rules.values_list("project_id", "project__cell_count").distinct())
    learn(cell_counts.items())
    count = 0
    for project_id in cell_counts:
        try:
            count += evaluate_project(project_id, now=now, min_age=min_age)
        except DatabaseError as error:
            # The next run tries again from the same position.
            _log.warning("alert_evaluation_failed project=%d %s", project_id, type(error).__name__)
            AlertRule.objects.filter(project_id=project_id).update(problem="The last evaluation failed. Retrying.")
    return count


def evaluate_project(project_id: int, *, now: datetime, min_age: timedelta = timedelta(0)) -> int:
    """Evaluate the rules of one project, unless another process does. Return the number of alerts."""
    start_project(project_id)
    with transaction.atomic():
        # One by one, because a row lock cannot span the nodes of a cluster.
        cursors = [_try_lock(cell) for cell in cells_of(project_id)]
        if any(cursor is None or abs(now - cursor.evaluated_at) < min_age for cursor in cursors):
            return 0
        with connection.cursor() as database:
            database.execute("SELECT set_config('statement_timeout', %s, true)", [str(_TIMEOUT_MS)])
        rules = list(
            AlertRule.objects.filter(project_id=project_id, is_enabled=True).select_related("created_by", "project")
        )
        matches: Matches = defaultdict(list)
        for cursor in filter(None, cursors):
            cursor.seq = _find_matches(cursor.cell, cursor.seq, matches)
            cursor.evaluated_at = now
            cursor.save(update_fields=["seq", "evaluated_at"])
        last_received_at = _last_received_at(project_id, now)
        return sum(_evaluate_rule(rule, matches, last_received_at, now) for rule in rules)


def _try_lock(cell: int) -> AlertCursor | None:
    """Return the cursor of a cell and lock it, unless another process has locked it."""
    return AlertCursor.objects.select_for_update(skip_locked=True).filter(cell=cell).first()


def start_project(project_id: int, *, restart: bool = False) -> None:
    """Create the cursors of a project at its newest changes, so that rules do not fire for the past."""
    cells = cells_of(project_id)
    if restart:
        AlertCursor.objects.filter(cell__in=cells).delete()
    # In the past, so that the first evaluation does not wait.
    at = timezone.now() - timedelta(days=1)
    for cell in set(cells) - set(AlertCursor.objects.filter(cell__in=cells).values_list("cell", flat=True)):
        cursor = AlertCursor(cell=cell, seq=newest_seq(cell), evaluated_at=at)
        AlertCursor.objects.bulk_create([cursor], ignore_conflicts=True)


def fire(rule: AlertRule, decision: Decision, now: datetime, *, is_test: bool = False) -> Alert:
    """Store an alert and its deliveries. The caller opens the transaction."""
    figures = {
        **decision.figures,
        "threshold": rule.threshold,
        "window_minutes": rule.window_minutes,
        "suppressed": 0 if is_test else rule.suppressed_count,
    }
    alert = Alert.objects.create(
        cell=cells_of(rule.project_id)[0],
        rule=rule,
        fired_at=now,
        is_test=is_test,
        title=alert_title(rule, figures, is_test=is_test),
        figures=figures,
        sessions=decision.sessions,
    )
    recipients = [("email", email) for email in rule.emails]
    if rule.webhook_url:
        recipients.append(("webhook", rule.webhook_host))
    AlertDelivery.objects.bulk_create(
        AlertDelivery(cell=alert.cell, alert_id=alert.id, channel=channel, recipient=recipient, next_attempt_at=now)
        for channel, recipient in recipients
    )
    return alert


def _evaluate_rule(rule: AlertRule, matches: Matches, last_received_at: datetime | None, now: datetime) -> int:
    owner = rule.created_by
    if owner is None or not user_grant(owner).may(Right.SESSIONS, rule.project_id):
        rule.problem = "The owner no longer has access to the project. Save the rule to take it over."
        rule.save(update_fields=["problem"])
        return 0
    if rule.last_fired_at is not None and rule.last_fired_at > now + MAX_SKEW:
        # The clock was ahead. The cool-down would last until then.
        rule.last_fired_at = None
    if rule.kind == AlertRule.Kind.SILENCE:
        decision = decide_silence(rule, last_received_at, now)
    else:
        decision = decide(rule, rule.matches, _apply_filters(rule, matches[rule.kind]), now)
    rule.problem = ""
    rule.matches = decision.matches
    rule.suppressed_count += decision.suppressed
    if decision.fires:
        fire(rule, decision, now)
        rule.last_fired_at, rule.suppressed_count = now, 0
    rule.save(update_fields=["problem", "matches", "suppressed_count", "last_fired_at"])
    return int(decision.fires)


def _apply_filters(rule: AlertRule, matches: Iterable[tuple[Match, Session]]) -> list[Match]:
    name, model = rule.session_filter.lower(), rule.model_filter.lower()
    return [
        match for match, session in matches if name in session.session_id.lower() and model in session.model.lower()
    ]


def _find_matches(cell: int, after: int, matches: Matches) -> int:
    """Add the matches of all kinds after a position, and return the next position."""
    fields = ("session_id", "day", "model", "last_seq", "last_tokens", "window_tokens")
    changed = Session.objects.filter(cell=cell, last_seq__gt=after).order_by("last_seq")
    sessions = {session.session_key: session for session in changed.only(*fields, "compaction_count")}
    if not sessions:
        return after
    upto = max(session.last_seq for session in sessions.values())
    spans, upto = _read_spans(sessions, after, upto)
    for key, trace_id, span_id, kind, data in spans:
        subject = span_match(kind, data, trace_id, span_id)
        if subject is not None:
            rule_kind, match_key, value = subject
            session = sessions[key]
            match = Match(match_key, str(key), session.session_id, value, f"{trace_id}:{span_id}")
            matches[rule_kind].append((match, session))
    for session in sessions.values():
        if session.window_tokens and session.last_tokens:
            value = session.last_tokens * 100 // session.window_tokens
            # Once per session, and again after a compaction.
            key_of_prompt = f"{session.session_key}:{session.compaction_count}:{value >= 100}"
            match = Match(key_of_prompt, str(session.session_key), session.session_id, value)
            matches[AlertRule.Kind.NEAR_LIMIT].append((match, session))
    return upto


def _read_spans(sessions: dict[UUID, Session], after: int, upto: int) -> tuple[list[tuple[Any, ...]], int]:
    """Return the spans that rules are about in (after, upto]. If there are too many, stop earlier and say where."""
    with connection.cursor() as database:
        database.execute(_SPANS, [*in_sessions(sessions.values()), after, upto, _MAX_SPANS])
        rows = database.fetchall()
    if len(rows) == _MAX_SPANS:
        upto = rows[-1][-1]
    return [(*row[:4], decode_data(row[4])) for row in rows], upto


def _last_received_at(project_id: int, now: datetime) -> datetime | None:
    """Return when a project last sent anything, by the server's clock. A time of a clock that was ahead becomes now."""
    own_keys = IngestKey.objects.filter(project_id=project_id)
    own_keys.filter(last_used_at__gt=now + MAX_SKEW).update(last_used_at=now)
    newest = own_keys.aggregate(at=Max("last_used_at"))
    at: datetime | None = newest["at"]
    return at

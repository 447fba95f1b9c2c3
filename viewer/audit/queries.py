"""What the transcript and audit pages ask of the database, by project and in pages that never shift.

A page begins where the one before ended, not at a number of rows: what arrives meanwhile moves nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_date, parse_datetime

from ingest.archive.hash_chain import format_time
from ingest.models import Transcript
from viewer.accounts.access import Grant
from viewer.audit import log
from viewer.audit.log import Action
from viewer.models import AuditEntry

PAGE = 50
MAX_PAGE = 500
_MAX_DIGITS = 18  # of a number that Postgres still takes


class BadFilter(ValueError):
    """A filter that cannot be read; `name` says which."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name} {message}")
        self.name = name
        self.message = message


@dataclass(frozen=True, slots=True)
class Period:
    since: date | None = None
    until: date | None = None  # the last day, included

    @classmethod
    def from_query(cls, query: Mapping[str, Any]) -> Period:
        return cls(_day(query, "since"), _day(query, "until"))

    def limit(self, field: str) -> Q:
        found = Q()
        if self.since:
            found &= Q(**{f"{field}__gte": _midnight(self.since)})
        if self.until:
            found &= Q(**{f"{field}__lt": _midnight(self.until + timedelta(days=1))})
        return found


@dataclass(frozen=True, slots=True)
class TranscriptFilter:
    q: str = ""
    period: Period = Period()
    before: tuple[datetime, uuid.UUID, int] | None = None

    @classmethod
    def from_query(cls, query: Mapping[str, Any]) -> TranscriptFilter:
        return cls(str(query.get("q", "")).strip(), Period.from_query(query), _cursor(str(query.get("before", ""))))


def transcripts_page(
    projects: Iterable[int], wanted: TranscriptFilter, *, limit: int = PAGE
) -> tuple[list[Transcript], str | None]:
    """Newest first, and where the next page begins."""
    rows = Transcript.objects.filter(wanted.period.limit("received_at"), project_id__in=list(projects))
    if wanted.q:
        rows = rows.filter(Q(session_id__icontains=wanted.q) | Q(sha256__startswith=wanted.q.lower()))
    if wanted.before:
        at, key, step = wanted.before
        older = Q(received_at__lt=at)
        same = Q(received_at=at, session_key__lt=key) | Q(received_at=at, session_key=key, step__lt=step)
        rows = rows.filter(older | same)
    page = list(rows.defer("hashes", "ids").order_by("-received_at", "-session_key", "-step")[: limit + 1])
    if len(page) <= limit:
        return page, None
    last = page[limit - 1]
    return page[:limit], f"{format_time(last.received_at)}~{last.session_key}~{last.step}"


@dataclass(frozen=True, slots=True)
class AuditFilter:
    q: str = ""
    actor: str = ""
    action: str = ""
    outcome: str = ""
    period: Period = Period()
    before: int | None = None

    @classmethod
    def from_query(cls, query: Mapping[str, Any]) -> AuditFilter:
        texts = {name: str(query.get(name, "")).strip() for name in ("q", "actor", "action", "outcome")}
        if texts["action"] and texts["action"] not in set(Action):
            raise BadFilter("action", "is not one of " + ", ".join(Action))
        if texts["outcome"] and texts["outcome"] not in AuditEntry.Outcome.values:
            raise BadFilter("outcome", "is ok or denied")
        before = str(query.get("before", ""))
        if before and not (before.isascii() and before.isdigit() and len(before) <= _MAX_DIGITS):
            raise BadFilter("before", "is the `next` of the page before")
        return cls(**texts, period=Period.from_query(query), before=int(before) if before else None)

    def described(self) -> dict[str, str]:
        """What was asked for, as an export's audit line keeps it."""
        days = {"since": self.period.since, "until": self.period.until}
        texts = {"q": self.q, "actor": self.actor, "action": self.action, "outcome": self.outcome}
        return {name: str(value) for name, value in (texts | days).items() if value}


def audit_entries(held: Grant, wanted: AuditFilter) -> QuerySet[AuditEntry]:
    rows = log.visible_entries(held).filter(wanted.period.limit("at"))
    if wanted.q:
        words = Q(target__icontains=wanted.q) | Q(reason__icontains=wanted.q) | Q(address__startswith=wanted.q)
        rows = rows.filter(words | Q(actor__icontains=wanted.q))
    if wanted.actor:
        rows = rows.filter(actor__istartswith=wanted.actor)
    if wanted.action:
        rows = rows.filter(action=wanted.action)
    if wanted.outcome:
        rows = rows.filter(outcome=wanted.outcome)
    return rows


def audit_page(held: Grant, wanted: AuditFilter, *, limit: int = PAGE) -> tuple[list[AuditEntry], int | None]:
    rows = audit_entries(held, wanted)
    if wanted.before is not None:
        rows = rows.filter(position__lt=wanted.before)
    page = list(rows[: limit + 1])
    return page[:limit], page[limit - 1].position if len(page) > limit else None


def _day(query: Mapping[str, Any], name: str) -> date | None:
    text = str(query.get(name, "")).strip()
    if not text:
        return None
    try:
        day = parse_date(text)
    except ValueError:
        day = None
    # Postgres and Python disagree about the ends of time; nobody audits them.
    if day is None or not 1900 <= day.year < 9000:
        raise BadFilter(name, "is a day such as 2026-01-31")
    return day


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), tzinfo=UTC)


def _cursor(text: str) -> tuple[datetime, uuid.UUID, int] | None:
    if not text:
        return None
    at, _, rest = text.partition("~")
    key, _, step = rest.partition("~")
    try:
        moment = parse_datetime(at)
        if moment is None or moment.tzinfo is None or not step.isascii() or not step.isdigit() or len(step) > 10:
            raise ValueError
        return moment, uuid.UUID(key), min(int(step), 2**31 - 1)
    except ValueError:
        raise BadFilter("before", "is the `next` of the page before") from None

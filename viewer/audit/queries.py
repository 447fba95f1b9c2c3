"""Filters and keyset pages of transcripts and audit entries.

A page starts after the last row of the previous page, so that new rows do not shift the pages.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.fields.json import KT
from django.utils.dateparse import parse_date, parse_datetime

from ingest.archive.hash_chain import format_time
from ingest.cells import cells_of
from ingest.models import Transcript
from viewer.accounts.access import Grant
from viewer.audit import log
from viewer.audit.log import Action
from viewer.models import AuditEntry
from viewer.rest import BadFilter, is_number

PAGE_SIZE = 50
MAX_PAGE = 500
_INT_MAX = 2**31 - 1
_TEXT_FILTERS = ("q", "actor", "action", "outcome", "session")
_BAD_CURSOR = "Invalid cursor. Use the value from `next`."


@dataclass(frozen=True, slots=True)
class Period:
    """A period of days or of times. The last day or minute is included. Times without a zone are in UTC."""

    since: str = ""
    until: str = ""

    @classmethod
    def from_query(cls, query: Mapping[str, Any]) -> Period:
        period = cls(*(str(query.get(name, "")).strip() for name in ("since", "until")))
        period.condition("at")  # raises BadFilter
        return period

    def condition(self, field: str) -> Q:
        condition = Q()
        if self.since:
            condition &= Q(**{f"{field}__gte": _parse_time("since", self.since)[0]})
        if self.until:
            condition &= Q(**{f"{field}__lt": _parse_time("until", self.until)[1]})
        return condition


@dataclass(frozen=True, slots=True)
class TranscriptFilter:
    q: str = ""
    period: Period = Period()
    before: tuple[datetime, uuid.UUID, int] | None = None

    @classmethod
    def from_query(cls, query: Mapping[str, Any]) -> TranscriptFilter:
        before = _parse_cursor(str(query.get("before", "")))
        return cls(str(query.get("q", "")).strip(), Period.from_query(query), before)

    @property
    def is_active(self) -> bool:
        return bool(self.q or self.period.since or self.period.until)


def transcripts_page(
    projects: Iterable[int], filters: TranscriptFilter, *, limit: int = PAGE_SIZE
) -> tuple[list[Transcript], str | None]:
    """Return a page of transcripts, newest first, and the cursor of the next page."""
    rows = Transcript.objects.filter(filters.period.condition("received_at"), cell__in=cells_of(*projects))
    if filters.q:
        rows = rows.filter(Q(session_id__icontains=filters.q) | Q(sha256__startswith=filters.q.lower()))
    if filters.before:
        at, key, step = filters.before
        older = Q(received_at__lt=at)
        same_time = Q(received_at=at, session_key__lt=key) | Q(received_at=at, session_key=key, step__lt=step)
        rows = rows.filter(older | same_time)
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
    session: str = ""
    period: Period = Period()
    before: int | None = None

    @classmethod
    def from_query(cls, query: Mapping[str, Any]) -> AuditFilter:
        texts = {name: str(query.get(name, "")).strip() for name in _TEXT_FILTERS}
        if texts["action"] and texts["action"] not in set(Action):
            raise BadFilter("action", f"Unknown action. Use one of {', '.join(Action)}.")
        if texts["outcome"] and texts["outcome"] not in AuditEntry.Outcome.values:
            raise BadFilter("outcome", f"Unknown outcome. Use one of {', '.join(AuditEntry.Outcome.values)}.")
        before = str(query.get("before", ""))
        if before and not is_number(before):
            raise BadFilter("before", _BAD_CURSOR)
        return cls(**texts, period=Period.from_query(query), before=int(before) if before else None)

    def as_dict(self) -> dict[str, str]:
        """Return the active filters, as the audit entry of an export records them."""
        texts = {name: getattr(self, name) for name in _TEXT_FILTERS}
        period = {"since": self.period.since, "until": self.period.until}
        return {name: value for name, value in (texts | period).items() if value}


def audit_entries(grant: Grant, filters: AuditFilter) -> QuerySet[AuditEntry]:
    rows = log.visible_entries(grant).filter(filters.period.condition("at"))
    if filters.q:
        texts = Q(target__icontains=filters.q) | Q(reason__icontains=filters.q) | Q(actor__icontains=filters.q)
        rows = rows.filter(texts | Q(address__startswith=filters.q))
    if filters.actor:
        rows = rows.filter(actor__istartswith=filters.actor)
    if filters.action:
        rows = rows.filter(action=filters.action)
    if filters.outcome:
        rows = rows.filter(outcome=filters.outcome)
    if filters.session:
        rows = rows.annotate(session=KT("detail__session"), session_key=KT("detail__session_key"))
        rows = rows.filter(Q(session=filters.session) | Q(session_key=filters.session) | _named_before(filters.session))
    return rows


def _named_before(session: str) -> Q:
    """Match entries of older versions, which name the session only in their target."""
    starts = [f"{session}/", f"{session} step "]
    return Q(target=session) | Q(target__startswith=starts[0]) | Q(target__startswith=starts[1])


def audit_page(grant: Grant, filters: AuditFilter, *, limit: int = PAGE_SIZE) -> tuple[list[AuditEntry], int | None]:
    """Return a page of audit entries, newest first, and the cursor of the next page."""
    rows = audit_entries(grant, filters)
    if filters.before is not None:
        rows = rows.filter(position__lt=filters.before)
    page = list(rows[: limit + 1])
    return page[:limit], page[limit - 1].position if len(page) > limit else None


def _parse_time(name: str, text: str) -> tuple[datetime, datetime]:
    """Return the start and the end of a day, or of a minute."""
    try:
        day, moment = parse_date(text), parse_datetime(text)
    except ValueError:
        day = moment = None
    length = timedelta(minutes=1)
    if day is not None:
        moment, length = datetime.combine(day, time()), timedelta(days=1)
    # Stay within the range of years that both Python and Postgres support.
    if moment is None or not 1900 <= moment.year < 9000:
        raise BadFilter(name, "Enter a date or a time such as 2026-01-31 or 2026-01-31T14:05.")
    start = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return start, start + length


def _parse_cursor(text: str) -> tuple[datetime, uuid.UUID, int] | None:
    """Parse `time~session key~step` of the last row on the previous page."""
    if not text:
        return None
    at, _, rest = text.partition("~")
    key, _, step = rest.partition("~")
    try:
        received_at = parse_datetime(at)
        if received_at is None or received_at.tzinfo is None or not is_number(step):
            raise ValueError
        return received_at, uuid.UUID(key), min(int(step), _INT_MAX)
    except ValueError:
        raise BadFilter("before", _BAD_CURSOR) from None

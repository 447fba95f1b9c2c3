"""Queries of the session list: filters, pages and statistics.

Callers pass the projects that the reader has access to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, F, Min, Q, QuerySet, Sum

from ingest.decoding.facts import LOSSY_SHARE
from ingest.models import Session, Trace, trace_key
from viewer.visibility.public_parts import Visibility, public_name

PAGE_SIZE = 50
# Statistics cover the newest sessions, so that they cost the same in a small project and in a large one.
_STATS_SESSIONS = 1_000
# Sessions within a tenth of the trigger will compact within a turn or two.
_NEAR_FRACTION = 0.9
STATES: dict[str, Q] = {
    "near": Q(trigger_tokens__gt=0, last_tokens__gte=F("trigger_tokens") * _NEAR_FRACTION),
    "running": Q(running_count__gt=0),
    "compacted": Q(compaction_count__gt=0),
    "errors": Q(error_count__gt=0),
    "fallback": Q(fallback_count__gt=0),
    "lossy": Q(worst_retention__lt=LOSSY_SHARE),
}


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """The filters in the address of the session list."""

    q: str = ""
    model: str = ""
    state: str = ""
    before: tuple[int, UUID] | None = None

    @classmethod
    def from_query(cls, query: Mapping[str, Any]) -> SessionFilter:
        return cls(
            q=str(query.get("q", "")).strip()[:200],
            model=str(query.get("model", "")).strip()[:200],
            state=str(query.get("state", "")),
            before=_parse_cursor(str(query.get("before", ""))),
        )

    @property
    def is_active(self) -> bool:
        return bool(self.q or self.model or self.state)

    def apply(self, sessions: QuerySet[Session]) -> QuerySet[Session]:
        if self.q:
            sessions = sessions.filter(Q(session_id__icontains=self.q) | Q(model__icontains=self.q))
        if self.model:
            sessions = sessions.filter(model=self.model)
        if self.state in STATES:
            sessions = sessions.filter(STATES[self.state])
        if self.before is not None:
            seq, key = self.before
            # Sessions of one commit may share a seq.
            sessions = sessions.filter(Q(last_seq__lt=seq) | Q(last_seq=seq, session_key__gt=key), last_seq__lte=seq)
        return sessions


def _parse_cursor(text: str) -> tuple[int, UUID] | None:
    """Parse `seq.key` of the last row on the previous page."""
    seq, _, key = text.partition(".")
    if not (seq.isascii() and seq.isdigit() and len(seq) < 19):
        return None
    try:
        return int(seq), UUID(key) if key else UUID(int=0)
    except ValueError:
        return None


def sessions_page(
    projects: Iterable[int], filters: SessionFilter, *, limit: int = PAGE_SIZE
) -> tuple[list[Session], str | None]:
    """Return a page of sessions, newest first, and the cursor of the next page."""
    page = list(_newest(projects, filters, limit + 1))
    if len(page) <= limit:
        return page, None
    last = page[limit - 1]
    return page[:limit], f"{last.last_seq}.{last.session_key}"


def _newest(projects: Iterable[int], filters: SessionFilter, limit: int) -> Iterable[Session]:
    # One query per project uses the index of each. A single query over all projects would sort every session.
    per_project = [
        filters.apply(Session.objects.filter(project_id=project)).order_by("-last_seq", "session_key")[:limit]
        for project in projects
    ]
    if len(per_project) < 2:
        return per_project[0] if per_project else []
    return per_project[0].union(*per_project[1:], all=True).order_by("-last_seq", "session_key")[:limit]


@dataclass(frozen=True, slots=True)
class SessionStats:
    """Statistics of the newest sessions of a project."""

    sessions: int
    running: int
    near: int
    errors: int
    compactions: int
    fallbacks: int
    lossy: int
    worst_retention: float | None

    @property
    def fallback_pct(self) -> float:
        return self.fallbacks / self.compactions if self.compactions else 0.0


def session_stats(projects: Iterable[int]) -> SessionStats:
    row = (
        Session.objects.filter(project_id__in=list(projects))
        .order_by("-last_seq")[:_STATS_SESSIONS]
        .aggregate(
            sessions=Count("pk"),
            running=Count("pk", filter=STATES["running"]),
            near=Count("pk", filter=STATES["near"]),
            errors=Count("pk", filter=STATES["errors"]),
            compactions=Sum("compaction_count", default=0),
            fallbacks=Sum("fallback_count", default=0),
            lossy=Count("pk", filter=STATES["lossy"]),
            worst_retention=Min("worst_retention"),
        )
    )
    return SessionStats(**row)


def recent_models(projects: Iterable[int]) -> list[str]:
    """Return the models of recent sessions for the filter menu."""
    recent = Session.objects.filter(project_id__in=list(projects)).order_by("-last_seq").values_list("model", flat=True)
    return sorted({model for model in recent[:500] if model})


def titles(sessions: Sequence[Session], visibility: Visibility) -> dict[str, str]:
    """Return the trace names of sessions whose id is a trace id, by session id. Hidden names are left to the id."""
    keys = [trace_key(session.project_id, session.session_id) for session in sessions]
    names = dict(Trace.objects.filter(trace_key__in=keys).exclude(name="").values_list("trace_id", "name"))
    if visibility is Visibility.CONTENT:
        return names
    return {trace: name for trace, name in names.items() if public_name("trace", name) == name}

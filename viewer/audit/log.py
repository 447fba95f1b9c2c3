"""The audit log: who did what, when, from where and why.

Entries are only appended. A database trigger rejects changes, and each entry contains the hash of the previous one,
which reveals changes that bypass the database.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from compact.redaction import Redactor
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.request import Request

from ingest.archive.hash_chain import canonical, format_time
from viewer.accounts.access import Grant, Right
from viewer.models import AuditEntry, Membership

VERSION = "ariadne-audit/1"
_LOCK = 0x7E88
_MAX_TEXT_CHARS = 1000
_MAX_PEOPLE = 500
_HASHED_FIELDS = (
    *("position", "actor_id", "actor", "address", "agent", "action", "project_id", "target"),
    *("reason", "detail", "previous"),
)
# Line breaks forge log lines, other control characters affect terminals, and Postgres rejects NUL.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Action(StrEnum):
    LOGIN = "login"
    LOGIN_FAILED = "login.failed"
    LOCKED_OUT = "login.locked"
    LOGOUT = "logout"
    DENIED = "access.denied"
    NOT_FOUND = "address.not_found"
    PAYLOAD_VIEW = "payload.view"
    TAIL_VIEW = "tail.view"
    SEARCH_VIEW = "search.view"
    TRANSCRIPT_VIEW = "transcript.view"
    TRANSCRIPT_DOWNLOAD = "transcript.download"
    BUNDLE_DOWNLOAD = "bundle.download"
    TRANSCRIPT_DELETE = "transcript.delete"
    DATA_DELETE = "data.delete"
    CLOCK_ACCEPT = "clock.accept"
    ARCHIVE_VERIFY = "archive.verify"
    ANCHOR_RESTART = "anchor.restart"
    AUDIT_EXPORT = "audit.export"
    KEY_CREATE = "key.create"
    KEY_ROTATE = "key.rotate"
    KEY_REVOKE = "key.revoke"
    TOKEN_CREATE = "token.create"  # noqa: S105 - the name of an action
    TOKEN_REVOKE = "token.revoke"  # noqa: S105
    PROJECT_CHANGE = "project.change"
    REDACTION_CHANGE = "redaction.change"
    ALERT_CHANGE = "alert.change"
    ALERT_CONTENT = "alert.content"
    COMMENT_DELETE = "comment.delete"
    USER_CHANGE = "user.change"


@dataclass(frozen=True, slots=True)
class Origin:
    """The actor of an entry, with address and user agent."""

    actor_id: int | None
    actor: str
    address: str = ""
    agent: str = ""


def origin_of(request: HttpRequest | Request) -> Origin:
    user = request.user if hasattr(request, "user") else None
    token = getattr(request, "auth", None)
    name = user.get_username() if user is not None else ""
    return Origin(
        actor_id=user.pk if user is not None else None,
        actor=f"{name} (token {token.hint}…)" if token is not None else name,
        address=client_address(request.META),
        agent=request.META.get("HTTP_USER_AGENT", ""),
    )


def client_address(meta: Mapping[str, Any]) -> str:
    """Return the client's IP address.

    Clients can send `X-Forwarded-For` themselves, so only the part that trusted proxies added counts.
    """
    proxies: int = settings.TRUSTED_PROXIES
    hops = [part.strip() for part in str(meta.get("HTTP_X_FORWARDED_FOR", "")).split(",") if part.strip()]
    if proxies and len(hops) >= proxies:
        return hops[-proxies]
    return str(meta.get("REMOTE_ADDR") or "")


def record(
    origin: Origin | HttpRequest | Request,
    action: Action,
    *,
    project_id: int | None = None,
    target: str = "",
    reason: str = "",
    outcome: AuditEntry.Outcome = AuditEntry.Outcome.OK,
    **detail: Any,
) -> AuditEntry:
    """Append an entry. Values in `detail` must be JSON and contain no secrets."""
    if not isinstance(origin, Origin):
        origin = origin_of(origin)
    with transaction.atomic():
        lock()
        last = AuditEntry.objects.order_by("-position").values_list("position", "hash").first()
        entry = AuditEntry(
            position=last[0] + 1 if last else 0,
            at=timezone.now(),
            actor_id=origin.actor_id,
            actor=clean(origin.actor),
            address=clean(origin.address),
            agent=clean(origin.agent),
            action=action.value,
            outcome=outcome,
            project_id=project_id,
            target=clean(target),
            reason=clean(reason),
            detail=detail,
            previous=last[1] if last else "",
        )
        entry.hash = entry_hash(entry)
        entry.save(force_insert=True)
    return entry


def lock() -> None:
    """Wait for other writers of the log, until the transaction of the caller ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])


def entry_hash(entry: AuditEntry) -> str:
    fields = {name: getattr(entry, name) for name in _HASHED_FIELDS}
    content = {"version": VERSION, "at": format_time(entry.at), "outcome": str(entry.outcome), **fields}
    return hashlib.sha256(canonical(content)).hexdigest()


def find_problems(entries: Iterable[AuditEntry] | None = None) -> list[str]:
    """Recompute the hash chain and return what is wrong. The list is empty if the log is intact."""
    if entries is None:
        entries = AuditEntry.objects.order_by("position").iterator(chunk_size=2000)
    problems: list[str] = []
    previous, expected = "", 0
    for entry in entries:
        if entry.position != expected:
            problems.append(f"Audit entries {expected} to {entry.position - 1} are missing.")
        elif entry.previous != previous:
            problems.append(f"Audit entry {entry.position} does not link to the previous entry.")
        if entry_hash(entry) != entry.hash:
            problems.append(f"Audit entry {entry.position} was modified.")
        previous, expected = entry.hash, entry.position + 1
    return problems


def visible_entries(grant: Grant) -> QuerySet[AuditEntry]:
    """Return the entries of audited projects, and what their members did outside any project, such as logins."""
    if grant.is_superuser:
        return AuditEntry.objects.order_by("-position")
    projects = grant.projects(Right.AUDIT)
    members = Membership.objects.filter(project_id__in=projects).values("user_id")
    visible = Q(project_id__in=projects) | Q(project_id__isnull=True, actor_id__in=members)
    return AuditEntry.objects.filter(visible).order_by("-position")


def people(grant: Grant) -> list[str]:
    """Return the names of the members of audited projects, as suggestions for the filter."""
    members = Membership.objects.filter(project_id__in=grant.projects(Right.AUDIT))
    return list(members.order_by("user__username").values_list("user__username", flat=True).distinct()[:_MAX_PEOPLE])


def clean_input(text: str) -> str:
    """Return a name or a reason that a person has typed, without secrets. Names of people stay."""
    redacted, _ = _secrets().text(text.strip())
    return clean(redacted)


@cache
def _secrets() -> Redactor:
    return Redactor(pii=False)


def clean(text: str) -> str:
    """Replace control characters and truncate."""
    return _CONTROL.sub("\ufffd", text)[:_MAX_TEXT_CHARS]

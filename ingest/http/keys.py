"""Make ingest keys and check them.

A key is shown once, when it is made; afterwards only its digest is known. Checking one costs the database nothing for
as long as the last answer is fresh, and a revoked key is refused everywhere within `FRESH_S` seconds.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from ingest.http.errors import Unauthorized
from ingest.models import IngestKey, Project

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from django.contrib.auth.models import User
    from django.db.models import QuerySet

PREFIX = "ari_"
FRESH_S = 5.0
# Wrong keys are remembered too, so that guessing does not reach the database; the oldest answers go first.
_REMEMBERED = 10_000

LOOKUP = """
SELECT k.id, k.project_id FROM ingest_ingestkey k
WHERE k.digest = %s AND (k.revoked_at IS NULL OR k.revoked_at > now())
"""
NOTE_USED = "UPDATE ingest_ingestkey SET last_used_at = now() WHERE id = ANY(%s) RETURNING 1"


@dataclass(frozen=True, slots=True)
class Grant:
    """The right to write into one project."""

    key_id: int
    project_id: int


def make() -> tuple[str, str, str]:
    """A new key, its digest, and the beginning by which people tell keys apart."""
    key = PREFIX + secrets.token_urlsafe(32)
    return key, digest(key), key[: len(PREFIX) + 4]


def digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def create(project: Project, *, label: str, created_by: User | None = None) -> str:
    """Store a new key for `project` and return it, for the only time."""
    key, key_digest, hint = make()
    IngestKey.objects.create(project=project, label=label, digest=key_digest, hint=hint, created_by=created_by)
    return key


def is_valid(key: str, project: Project) -> bool:
    return bool(key) and live().filter(digest=digest(key), project=project).exists()


def live() -> QuerySet[IngestKey]:
    """Keys that still count: never revoked, or replaced so lately that their time is not over."""
    return IngestKey.objects.filter(Q(revoked_at=None) | Q(revoked_at__gt=timezone.now()))


def rotate(old: IngestKey, *, overlap: timedelta, created_by: User | None = None) -> str:
    """A new key in the place of `old`, which counts for `overlap` longer, so that agents can be told one by one."""
    with transaction.atomic():
        revoke(old, after=overlap)
        return create(old.project, label=old.label, created_by=created_by)


def revoke(key: IngestKey, *, after: timedelta = timedelta(0)) -> None:
    live().filter(pk=key.pk).update(revoked_at=timezone.now() + after)


def from_header(authorization: str) -> str:
    """The key in an `Authorization` header: a bearer token, or the password of HTTP Basic."""
    scheme, _, value = authorization.strip().partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer" and value:
        return value
    if scheme.lower() == "basic":
        try:
            user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            raise Unauthorized("the Authorization header is not valid HTTP Basic") from None
        if password or user:
            return password or user
    raise Unauthorized("an ingest key is needed: Authorization: Bearer <key>")


class KeyRing:
    """Answers from the database, kept for a few seconds."""

    def __init__(self, fetch: Callable[[str], Awaitable[tuple[Any, ...] | None]]) -> None:
        self._fetch = fetch
        self._known: OrderedDict[str, tuple[float, Grant | None]] = OrderedDict()
        self._used: set[int] = set()

    def used(self, grant: Grant) -> None:
        """Note that a key was used; written down now and then, never on the way of a request."""
        self._used.add(grant.key_id)

    def take_used(self) -> list[int]:
        used, self._used = list(self._used), set()
        return used

    async def check(self, authorization: str) -> Grant:
        """Whom the header lets write where; `Unauthorized` otherwise."""
        # Only digests are remembered: a memory dump gives no key away.
        key_digest = digest(from_header(authorization))
        known = self._known.get(key_digest)
        if known is None or known[0] < time.monotonic():
            row = await self._fetch(key_digest)
            known = (time.monotonic() + FRESH_S, Grant(*row) if row else None)
            self._known[key_digest] = known
            self._known.move_to_end(key_digest)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        if known[1] is None:
            raise Unauthorized("this ingest key is not known, or was revoked")
        return known[1]

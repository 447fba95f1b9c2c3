"""Create and check ingest keys.

An ingest key is shown once and stored as a digest. Each process caches lookups for `CACHE_TTL_S` seconds, so most
requests are authenticated without a query and a revoked key stops working everywhere within that time. The redaction
rules of the key's project are read together with it.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction

from ingest import credentials
from ingest.decoding.door.project_rules import NO_RULES, ProjectRules
from ingest.decoding.door.pseudonyms import project_key
from ingest.errors import Unauthorized
from ingest.models import IngestKey, Project

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from django.contrib.auth.models import User
    from django.db.models import QuerySet

PREFIX = "ari_"
CACHE_TTL_S = 5.0
# Wrong keys are cached too, so that guessing keys does not reach the database. The oldest entries are evicted first.
_CACHE_SIZE = 10_000

FIND_KEY = """
SELECT k.id, k.project_id, (
    SELECT jsonb_agg(jsonb_build_array(r.kind, r.name, r.value) ORDER BY r.id)
    FROM ingest_redactionrule r WHERE r.project_id = k.project_id
) FROM ingest_ingestkey k
WHERE k.digest = %s AND (k.revoked_at IS NULL OR k.revoked_at > now())
"""
UPDATE_LAST_USED = "UPDATE ingest_ingestkey SET last_used_at = now() WHERE id = ANY(%s) RETURNING 1"


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission to write into one project."""

    key_id: int
    project_id: int
    rules: ProjectRules = NO_RULES


def create(project: Project, *, label: str, created_by: User | None = None) -> str:
    """Store a new key for `project` and return its text, which cannot be read again later."""
    secret = credentials.generate(PREFIX)
    IngestKey.objects.create(
        project=project, label=label, digest=secret.digest, hint=secret.hint, created_by=created_by
    )
    return secret.text


def is_valid(key: str, project: Project) -> bool:
    """True if `key` can write into `project`."""
    return bool(key) and active().filter(digest=credentials.digest(key), project=project).exists()


def active() -> QuerySet[IngestKey]:
    """Return the keys that can still be used, including rotated keys within their overlap."""
    return IngestKey.objects.filter(credentials.not_revoked())


def rotate(old: IngestKey, *, overlap: timedelta, created_by: User | None = None) -> str:
    """Create a key that replaces `old`. Both work for `overlap`, so that agents can be updated one at a time."""
    with transaction.atomic():
        revoke(old, after=overlap)
        return create(old.project, label=old.label, created_by=created_by)


def revoke(key: IngestKey, *, after: timedelta = timedelta(0)) -> None:
    """Revoke a key now, or `after` some time."""
    credentials.revoke(key, after=after)


def from_header(authorization: str) -> str:
    """Return the key of an `Authorization` header: a bearer token, or the password of HTTP Basic."""
    if key := credentials.bearer_secret(authorization):
        return key
    scheme, _, value = authorization.strip().partition(" ")
    if scheme.lower() == "basic":
        try:
            user, _, password = base64.b64decode(value.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            raise Unauthorized("The Authorization header is not valid HTTP Basic.") from None
        if password or user:
            return password or user
    raise Unauthorized("An ingest key is required. Send it as: Authorization: Bearer <key>")


def _grant(key_id: int, project_id: int, rules: list[tuple[str, str, str]] | None) -> Grant:
    id_key = project_key(settings.SECRET_KEY, project_id)
    return Grant(key_id, project_id, ProjectRules.from_rows(rules or (), id_key))


class KeyCache:
    """Authenticate requests, caching the database's answer for a few seconds."""

    def __init__(self, fetch: Callable[[str], Awaitable[tuple[Any, ...] | None]]) -> None:
        self._fetch = fetch
        # Only digests are cached, so that a memory dump does not reveal a key.
        self._grants: OrderedDict[str, tuple[float, Grant | None]] = OrderedDict()
        self._used_ids: set[int] = set()

    def mark_used(self, grant: Grant) -> None:
        """Note that a key was used. The database is updated periodically, not during the request."""
        self._used_ids.add(grant.key_id)

    def take_used_ids(self) -> list[int]:
        """Return the ids of the keys used since the last call."""
        used_ids, self._used_ids = list(self._used_ids), set()
        return used_ids

    async def authenticate(self, authorization: str) -> Grant:
        """Return the grant of the key in an `Authorization` header, or raise `Unauthorized`."""
        digest = credentials.digest(from_header(authorization))
        entry = self._grants.get(digest)
        if entry is None or entry[0] < time.monotonic():
            row = await self._fetch(digest)
            entry = (time.monotonic() + CACHE_TTL_S, _grant(*row) if row else None)
            self._grants[digest] = entry
            self._grants.move_to_end(digest)
            if len(self._grants) > _CACHE_SIZE:
                self._grants.popitem(last=False)
        grant = entry[1]
        if grant is None:
            raise Unauthorized("This ingest key does not exist or was revoked.")
        return grant

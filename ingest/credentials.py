"""Bearer secrets, shared by ingest keys and API tokens.

A secret is a prefix followed by 256 random bits. It is shown once, when it is created. The database stores only its
SHA-256 digest, which is enough because a random secret cannot be guessed, and a short hint for people.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta

from django.db import models
from django.utils import timezone

_HINT_CHARS = 4


@dataclass(frozen=True, slots=True)
class Secret:
    """A new secret with the two values that are stored in its place."""

    text: str
    digest: str
    hint: str


def generate(prefix: str) -> Secret:
    """Return a new random secret that starts with `prefix`."""
    text = prefix + secrets.token_urlsafe(32)
    return Secret(text, digest(text), text[: len(prefix) + _HINT_CHARS])


def digest(text: str) -> str:
    """Return the SHA-256 of a secret in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def bearer_secret(authorization: str) -> str | None:
    """Return the secret of a `Bearer` authorization header, or None if the header uses another scheme."""
    scheme, _, text = authorization.strip().partition(" ")
    return text.strip() if scheme.lower() == "bearer" else None


def not_revoked() -> models.Q:
    """Return a filter for credentials that were not revoked, or that will be revoked later."""
    return models.Q(revoked_at=None) | models.Q(revoked_at__gt=timezone.now())


def revoke(credential: models.Model, *, after: timedelta = timedelta(0)) -> None:
    """Revoke a credential now, or `after` some time. A credential that is already revoked keeps its time.

    Without its digest, a credential stays revoked also if the clock was ahead and is set back.
    """
    rows = type(credential)._default_manager.filter(not_revoked(), pk=credential.pk)
    without_digest = {} if after else {"digest": f"revoked-{credential.pk}"}
    rows.update(revoked_at=timezone.now() + after, **without_digest)

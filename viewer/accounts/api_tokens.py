"""API tokens of users. A token is shown once and stored as a digest.

A token has at most its owner's rights, limited to its scopes and its project. It cannot log in to pages.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q
from django.utils import timezone

from ingest import credentials
from ingest.models import Project
from viewer.accounts.access import Right
from viewer.models import ApiToken

PREFIX = "arip_"
# Managing keys and users is not available to tokens.
SCOPES = (Right.SESSIONS, Right.PAYLOAD, Right.TAIL, Right.TRANSCRIPTS, Right.AUDIT)
_LAST_USED_INTERVAL = timedelta(minutes=1)


def create(
    user: User,
    *,
    label: str,
    scopes: Iterable[Right],
    project: Project | None = None,
    expires_at: datetime | None = None,
) -> tuple[ApiToken, str]:
    """Create a token and return it with its secret, which is not stored."""
    secret = credentials.generate(PREFIX)
    token = ApiToken.objects.create(
        user=user,
        project=project,
        label=label,
        scopes=sorted(right.value for right in scopes if right in SCOPES),
        digest=secret.digest,
        hint=secret.hint,
        expires_at=expires_at,
    )
    return token, secret.text


def check(secret: str) -> ApiToken | None:
    """Return the token with this secret if it is active."""
    if not secret.startswith(PREFIX):
        return None
    digest, now = credentials.digest(secret), timezone.now()
    token = find_active(digest=digest)
    if token is None or not hmac.compare_digest(token.digest, digest):
        return None
    if token.last_used_at is None or abs(now - token.last_used_at) > _LAST_USED_INTERVAL:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


def find_active(**fields: Any) -> ApiToken | None:
    """Return the token with these fields if it is neither revoked nor expired and its user is active."""
    not_expired = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    tokens = ApiToken.objects.select_related("user").filter(credentials.not_revoked(), not_expired, **fields)
    return tokens.filter(user__is_active=True).first()


def revoke(token: ApiToken) -> None:
    credentials.revoke(token)

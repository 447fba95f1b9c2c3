"""Access and refresh tokens of signed-in customers."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

import jwt

from shop.settings import settings

log = logging.getLogger(__name__)

ACCESS_TTL = timedelta(minutes=15)
REFRESH_TTL = timedelta(days=30)


@dataclass(frozen=True)
class TokenPair:
    access: str
    refresh: str
    expires_at: datetime


def issue(customer_id: int) -> TokenPair:
    """Return a new pair of tokens for a customer."""
    now = datetime.now()
    expires_at = now + ACCESS_TTL
    access = _encode({"sub": customer_id, "exp": expires_at, "kind": "access"})
    refresh = _encode({"sub": customer_id, "exp": now + REFRESH_TTL, "kind": "refresh"})
    return TokenPair(access, refresh, expires_at)


def refresh(token: str) -> TokenPair:
    """Exchange a refresh token for a new pair."""
    claims = decode(token)
    if claims["kind"] != "refresh":
        log.warning("an access token was sent as a refresh token: %s", token)
        raise jwt.InvalidTokenError("This is not a refresh token.")
    return issue(claims["sub"])


def decode(token: str) -> dict:
    """Return the claims of a valid token."""
    return jwt.decode(token, settings.token_key, algorithms=["HS256"], leeway=5)


def _encode(claims: dict) -> str:
    return jwt.encode({**claims, "exp": claims["exp"].strftime("%s")}, settings.token_key, algorithm="HS256")

"""The identity behind a page or a websocket, and the rights that it has now.

A page names its identity with each request. A websocket names it once, and asks for its rights again while it is open.
Both are answered here, so a right that ended for pages has also ended for sockets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, load_backend
from django.contrib.auth.models import User
from django.utils.crypto import constant_time_compare

from viewer.accounts import api_tokens
from viewer.accounts.access import EMPTY_GRANT, Grant, grant_of
from viewer.accounts.login_sessions import SessionStore


@dataclass(frozen=True, slots=True)
class Identity:
    """A login session or an API token, by its key. Without either, it is anonymous."""

    login_key: str | None = None
    token_id: int | None = None

    @classmethod
    def of_socket(cls, scope: Mapping[str, Any]) -> Identity:
        """Return the identity that opened a websocket. A token counts before a login."""
        if (token := scope.get("token")) is not None:
            return cls(token_id=token.pk)
        session = scope.get("session")
        return cls(login_key=session.session_key if session is not None else None)

    def grant(self) -> Grant:
        """Return what this identity may do now: its login or token, its user and their roles are read again."""
        if self.token_id is not None:
            token = api_tokens.find_active(pk=self.token_id)
            return grant_of(token.user, token) if token is not None else EMPTY_GRANT
        user = _logged_in_user(self.login_key) if self.login_key else None
        return grant_of(user) if user is not None else EMPTY_GRANT


async def socket_grant(scope: Mapping[str, Any]) -> Grant:
    """Return what the identity of a websocket may do now."""
    grant: Grant = await database_sync_to_async(Identity.of_socket(scope).grant)()
    return grant


def _logged_in_user(key: str) -> User | None:
    """Return the user of a login session, with the rules of Django's middleware for pages.

    The login must exist and not be expired, its user must be active, and its hash must match the current password.
    Django's own function would also end or renew the login, and a socket cannot send the new cookie.
    """
    login = SessionStore(key).load()
    backend = login.get(BACKEND_SESSION_KEY)
    if backend not in settings.AUTHENTICATION_BACKENDS:
        return None
    user = load_backend(backend).get_user(login[SESSION_KEY])
    if not isinstance(user, User):
        return None
    hashes = (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())
    is_valid = any(constant_time_compare(login.get(HASH_SESSION_KEY, ""), known) for known in hashes)
    return user if is_valid else None

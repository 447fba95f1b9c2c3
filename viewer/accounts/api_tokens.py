"""API tokens: made, shown once, kept as a digest, checked on REST and on websockets.

A token reads with at most its owner's rights, and only with the scopes it was given; it is never a login. Whoever has
no token yet may give name and password to REST instead, with each request.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from asgiref.sync import sync_to_async
from channels.auth import AuthMiddlewareStack
from django.conf import settings
from django.contrib.auth.models import User
from django.http.request import validate_host
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, BasicAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from ingest import credentials
from ingest.models import Project
from viewer.accounts.access import Right
from viewer.models import ApiToken

PREFIX = "arip_"
# What a reading program may be given. Managing keys and people is for people.
SCOPES = (Right.SESSIONS, Right.PAYLOAD, Right.TAIL, Right.TRANSCRIPTS, Right.AUDIT)
_LAST_USED_EVERY = timedelta(minutes=1)

App = Callable[[MutableMapping[str, Any], Callable[..., Awaitable[Any]], Callable[..., Awaitable[Any]]], Awaitable[Any]]


def create(
    user: User,
    *,
    label: str,
    scopes: Iterable[Right],
    project: Project | None = None,
    expires_at: datetime | None = None,
) -> tuple[ApiToken, str]:
    """A new token and its text, which exists nowhere afterwards."""
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


def check(text: str) -> ApiToken | None:
    """The token this is the text of, if it still counts."""
    if not text.startswith(PREFIX):
        return None
    digest, now = credentials.digest(text), timezone.now()
    token = ApiToken.objects.select_related("user").filter(credentials.not_revoked(), digest=digest).first()
    if token is None or not hmac.compare_digest(token.digest, digest):
        return None
    if not token.user.is_active or (token.expires_at is not None and token.expires_at <= now):
        return None
    if token.last_used_at is None or now - token.last_used_at > _LAST_USED_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


def revoke(token: ApiToken) -> None:
    credentials.revoke(token)


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer arip_…`."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        text = credentials.bearer_secret(get_authorization_header(request).decode("latin-1"))
        if text is None:
            return None
        token = check(text)
        if token is None:
            raise AuthenticationFailed("no such token, or it has expired or was revoked")
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class PasswordAuthentication(BasicAuthentication):
    """HTTP Basic with a login. Wrong ones are counted and locked like those of the login page."""

    def authenticate_credentials(self, userid: str, password: str, request: Any = None) -> tuple[User, None]:
        # The lock wants Django's own request, not DRF's cover of it.
        user, _ = super().authenticate_credentials(userid, password, getattr(request, "_request", request))
        return user, None


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = TokenAuthentication
    name = "apiToken"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}


class PasswordScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = PasswordAuthentication
    name = "password"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "basic"}


class SocketAuth:
    """Who is behind a websocket: the bearer of a token, or a logged-in person on a page of ours.

    A browser sends its cookies to a socket whoever asks it to, and always says which page asked: that must be one of
    ours. A program that sends a cookie says nothing of the kind, and has been given it. With a token the origin does
    not matter: no page can send another's token.
    """

    def __init__(self, app: App) -> None:
        self.with_token = app
        self.with_session: App = AuthMiddlewareStack(app)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> Any:
        headers = {name: value.decode("latin-1") for name, value in scope.get("headers", ())}
        text = credentials.bearer_secret(headers.get(b"authorization", ""))
        if text is not None:
            token = await sync_to_async(check)(text)
            if token is None:
                return await _refuse(receive, send)
            return await self.with_token({**scope, "user": token.user, "token": token}, receive, send)
        if b"origin" in headers and not is_own_origin(headers):
            return await _refuse(receive, send)
        return await self.with_session(scope, receive, send)


def is_own_origin(headers: Mapping[bytes, str]) -> bool:
    """The page that opened the socket is one of this server's, port included: cookies do not know ports."""
    origin, host = headers.get(b"origin", ""), headers.get(b"host", "")
    if origin and origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    try:
        parts = urlsplit(origin)
        known = validate_host(urlsplit(f"//{host}").hostname or "", [h.strip("[]") for h in settings.ALLOWED_HOSTS])
    except ValueError:
        return False
    return known and parts.scheme in {"http", "https"} and parts.netloc.lower() == host.lower()


async def _refuse(receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 4403})

"""Authentication of REST requests and websockets: API tokens, HTTP Basic with a login, or the login session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from asgiref.sync import sync_to_async
from channels.auth import AuthMiddlewareStack
from django.conf import settings
from django.contrib.auth.models import User
from django.http.request import validate_host
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, BasicAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from ingest import credentials
from viewer.accounts import api_tokens
from viewer.models import ApiToken

_FORBIDDEN = 4403
App = Callable[[MutableMapping[str, Any], Callable[..., Awaitable[Any]], Callable[..., Awaitable[Any]]], Awaitable[Any]]


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer arip_…`."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        secret = credentials.bearer_secret(get_authorization_header(request).decode("latin-1"))
        if secret is None:
            return None
        token = api_tokens.check(secret)
        if token is None:
            raise AuthenticationFailed("Invalid API token. It may have expired or been revoked.")
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class PasswordAuthentication(BasicAuthentication):
    """HTTP Basic with a username and password. Failures count toward the lockout of the login page."""

    def authenticate_credentials(self, userid: str, password: str, request: Any = None) -> tuple[User, None]:
        if "\x00" in userid:
            raise AuthenticationFailed("Invalid username/password.")  # Postgres does not accept NUL
        # The lockout needs Django's request, not DRF's wrapper.
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
    """ASGI middleware that authenticates websockets by API token or login session.

    A browser sends its cookies with a websocket that any site opens, together with the origin of that site, so a
    login session counts only for pages of this server. Clients other than browsers send no origin. With a token the
    origin does not matter, because a page cannot send another user's token.
    """

    def __init__(self, app: App) -> None:
        self.with_token = app
        self.with_session: App = AuthMiddlewareStack(app)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> Any:
        headers = {name: value.decode("latin-1") for name, value in scope.get("headers", ())}
        secret = credentials.bearer_secret(headers.get(b"authorization", ""))
        if secret is not None:
            token = await sync_to_async(api_tokens.check)(secret)
            if token is None:
                return await _reject(receive, send)
            return await self.with_token({**scope, "user": token.user, "token": token}, receive, send)
        if b"origin" in headers and not is_own_origin(headers):
            return await _reject(receive, send)
        return await self.with_session(scope, receive, send)


def is_own_origin(headers: Mapping[bytes, str]) -> bool:
    """Return True if the page that opened the socket is on this host and port. Cookies ignore ports."""
    origin, host = headers.get(b"origin", ""), headers.get(b"host", "")
    if origin and origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return is_own_host(host) and parts.scheme in {"http", "https"} and parts.netloc.lower() == host.lower()


def is_own_host(host: str) -> bool:
    """Return True if a Host header names this server."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return validate_host(name, [allowed.strip("[]") for allowed in settings.ALLOWED_HOSTS])


async def _reject(receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.close", "code": _FORBIDDEN})

"""Keep credentials out of the copy that the recorder gets.

The values of headers and query parameters are copied only if they are known to be harmless, because any gateway can
invent a header for its keys.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from urllib.parse import unquote_plus

from compact.gateway.http1.heads import Headers

REDACTED = "redacted"
TOKEN_HEADER = "x-ariadne-token"  # noqa: S105  (the name of a header)

_HARMLESS = {
    "accept", "accept-encoding", "accept-language", "anthropic-beta", "anthropic-version", "connection",
    "content-encoding", "content-length", "content-type", "conversation-id", "conversation_id", "date", "expect",
    "host", "openai-beta", "originator", "sec-websocket-extensions", "sec-websocket-version", "session-id",
    "session_id", "thread-id", "thread_id", "traceparent", "trailer", "transfer-encoding", "upgrade",
    "user-agent", "version", "x-app", "x-client-request-id", "x-goog-api-client", "x-request-id",
}  # fmt: skip
_HARMLESS_PREFIXES = ("x-claude-", "x-codex-", "x-openai-", "x-opencode-", "x-stainless-", "x-gemini-")
_SENSITIVE = re.compile(r"auth|cookie|credential|key|password|secret|signature|token")
_COOKIES = {"cookie", "set-cookie", "set-cookie2"}
_ACCOUNTS = {"chatgpt-account-id", "openai-organization", "openai-project", "x-goog-user-project"}
"""Not secret, but two accounts are two users."""
_HARMLESS_PARAMETERS = {
    "$alt", "after", "alt", "api-version", "before", "beta", "client_version", "limit", "model", "order", "stream",
}  # fmt: skip


def is_sensitive(name: str) -> bool:
    """Return True if the name of a header, in lower case, says that its value can be a credential."""
    return _SENSITIVE.search(name) is not None


def copied_request_headers(headers: Headers) -> Headers:
    """Return the headers without the values that could be credentials."""
    return [(name, value if _is_harmless(name) else REDACTED) for name, value in headers]


def copied_answer_headers(headers: Headers) -> Headers:
    """Return the headers of an answer without cookies and credentials."""
    return [
        (name, value if not is_sensitive(name) or "ratelimit" in name else REDACTED)
        for name, value in headers
        if name not in _COOKIES
    ]


def copied_target(target: str) -> str:
    """Return a path and query without the values of parameters that could be keys."""
    path, mark, query = target.partition("?")
    return path + mark + "&".join(_copied_parameter(item) for item in query.split("&"))


def credential_hash(key: bytes, headers: Headers, target: str) -> str:
    """Return a keyed hash of everything that tells two users apart, or the empty string if nothing does."""
    values = sorted({(name, value) for name, value in headers if _is_credential(name)})
    values += sorted({(name, value) for name, value in _parameters(target) if is_sensitive(name.lower())})
    if not values:
        # Cookies of a content delivery network change during a session, so they count only alone.
        values = [(name, value) for name, value in headers if name in _COOKIES]
    if not values:
        return ""
    return hmac.new(key, repr(values).encode(), hashlib.sha256).hexdigest()[:32]


def _is_harmless(name: str) -> bool:
    if name in _HARMLESS:
        return True
    return name.startswith(_HARMLESS_PREFIXES) and not is_sensitive(name)


def _is_credential(name: str) -> bool:
    if name in _ACCOUNTS:
        return True
    return is_sensitive(name) and name not in _COOKIES and name not in _HARMLESS and not name.startswith("sec-")


def _copied_parameter(item: str) -> str:
    name, equals, _ = item.partition("=")
    return item if unquote_plus(name) in _HARMLESS_PARAMETERS or not equals else f"{name}={REDACTED}"


def _parameters(target: str) -> list[tuple[str, str]]:
    items = target.partition("?")[2].split("&")
    return [(name, value) for name, _, value in (item.partition("=") for item in items) if value]

"""The providers that the gateway forwards to, and the way from a path to one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

PROVIDERS: Mapping[str, str] = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com",
    "gemini": "https://generativelanguage.googleapis.com",
    # Codex with a ChatGPT account, and Gemini CLI with a Google account.
    "chatgpt": "https://chatgpt.com/backend-api/codex",
    "code-assist": "https://cloudcode-pa.googleapis.com",
}
"""The upstreams that exist without a setting, each below a path of its name. `--upstream` replaces their addresses."""

ProtocolName = Literal["anthropic", "responses", "chat", "gemini", "unknown"]

_PROTOCOLS: tuple[tuple[re.Pattern[str], ProtocolName], ...] = (
    (re.compile(r"/messages(/count_tokens|/batches)?$"), "anthropic"),
    (re.compile(r"/responses(/compact|/input_tokens)?$"), "responses"),
    (re.compile(r"/chat/completions$"), "chat"),
    (re.compile(r":(stream)?[gG]enerateContent$|:countTokens$"), "gemini"),
)

_MODEL_CALL = re.compile(r"/messages$|/responses$|/chat/completions$|:(stream)?[gG]enerateContent$")


class UpstreamError(ValueError):
    """The setting of an upstream is invalid."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """One provider."""

    name: str
    url: str
    host: str
    port: int
    is_tls: bool
    path: str
    """The path of the address, without a slash at the end."""

    @property
    def authority(self) -> str:
        """Return the Host of a direct request."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_tls else 80) else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Route:
    """The meaning of a path."""

    name: str
    """The name of the upstream, or of an address of the gateway itself, such as `healthz`."""
    rest: str
    """Path and query below that name."""
    client: str
    """The label of an agent that `compactctl run` started."""
    token: str


def parse_upstream(name: str, url: str) -> Upstream:
    """Return the upstream with this address."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UpstreamError(f"{name!r} cannot be the name of an upstream. Use letters, digits, dots and dashes.")
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UpstreamError(f"The address of the upstream {name} must start with http:// or https:// and name a host.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UpstreamError(f"The address of the upstream {name} must not contain credentials, a query or a fragment.")
    is_tls = parts.scheme == "https"
    path = parts.path.rstrip("/")
    if name == "openai":
        # The gateway's address is /openai/v1, and addresses of OpenAI-compatible servers often end the same way.
        path = path.removesuffix("/v1")
    return Upstream(name, url, parts.hostname, parts.port or (443 if is_tls else 80), is_tls, path)


def parse_upstreams(addresses: Mapping[str, str]) -> dict[str, Upstream]:
    """Return the providers, with replaced and additional addresses."""
    return {name: parse_upstream(name, url) for name, url in {**PROVIDERS, **addresses}.items()}


def parse_route(target: str) -> Route:
    """Split a target: `[/token/T][/run/LABEL]/NAME/…`, or `/custom/NAME/…`."""
    values = {"token": "", "run": ""}
    name, rest = _first(target)
    while name in values:
        values[name], rest = _first(rest)
        name, rest = _first(rest)
    if name == "custom":
        name, rest = _first(rest)
    return Route(name, rest, client=values["run"], token=values["token"])


def upstream_target(upstream: Upstream, rest: str) -> str:
    """Return the target of a direct request."""
    target = upstream.path + rest
    return target if target.startswith("/") else f"/{target}"


def guess_protocol(target: str) -> ProtocolName:
    """Return the protocol of a path."""
    path = target.partition("?")[0]
    return next((name for pattern, name in _PROTOCOLS if pattern.search(path)), "unknown")


def is_model_call(target: str) -> bool:
    """Return True for the path of a request to a model, whose messages can be compacted."""
    return _MODEL_CALL.search(target.partition("?")[0]) is not None


def _first(path: str) -> tuple[str, str]:
    """Split the first segment from a path. What follows starts with a slash or a question mark, or is empty."""
    match = re.match(r"/([^/?]*)(.*)", path, re.DOTALL)
    return (match[1], match[2]) if match else ("", "")

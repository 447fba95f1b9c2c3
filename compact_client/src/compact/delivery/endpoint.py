"""The address, key and spool directory of one endpoint of an Ariadne server."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from compact.exceptions import ConfigError

LOCAL_URL = "http://127.0.0.1:8000"
"""The address that `make up` starts. Only commands that a person runs fall back to it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A URL and the ingest key to send with it."""

    url: str
    api_key: str | None

    @classmethod
    def resolve(cls, url: str | None, api_key: str | None, path: str) -> Endpoint:
        """Return the endpoint at `path`, with defaults from ARIADNE_URL and ARIADNE_API_KEY."""
        return cls(server_url(url, path), api_key or os.environ.get("ARIADNE_API_KEY"))

    @property
    def display_url(self) -> str:
        """The URL without credentials, for log lines."""
        return without_credentials(self.url)


def configured_url() -> str:
    """Return ARIADNE_URL, or an empty string if it is not set."""
    return os.environ.get("ARIADNE_URL", "")


def server_url(url: str | None, path: str) -> str:
    """Return the URL of a server path. The given URL may end in /ingest and defaults to ARIADNE_URL."""
    url = url or configured_url()
    if not url:
        raise ConfigError("ariadne.url", "is not set. Pass url=… or set ARIADNE_URL, for example to " + LOCAL_URL)
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("ariadne.url", f"must be an http or https URL, not {without_credentials(url)!r}")
    base = parts.path.rstrip("/").removesuffix("/ingest")
    return urlunsplit(parts._replace(path=f"{base}{path}", query="", fragment=""))


def without_credentials(url: str) -> str:
    """Return the URL without its user name and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def spool_directory(root: str | os.PathLike[str] | None, url: str) -> Path | None:
    """Return the spool directory of a URL. "" is the default root, and None disables the spool."""
    if root is None:
        return None
    base = Path(root or os.environ.get("COMPACT_SPOOL_DIR") or state_directory() / "spool")
    # One directory per URL, not per ingest key: after a key is rotated, spooled records can still be sent.
    return base / hashlib.sha256(without_credentials(url).encode()).hexdigest()[:16]


def state_directory() -> Path:
    """Return the directory for files that survive the process."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path("~/.local/state").expanduser()) / "compact"

"""A gateway in compact mode before a strict provider, with a small window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from compact.gateway.settings import COMPACTOR
from gateways import Gateway, running_gateway
from providers.server import StrictProvider
from receiver import Receiver
from wait import wait_until

Start = Callable[..., Gateway]
WINDOW = 6_000


@pytest.fixture
def provider() -> Iterator[StrictProvider]:
    with StrictProvider() as running:
        yield running


@pytest.fixture
def start(provider: StrictProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Return a function that starts a gateway whose compactor believes in a window."""
    monkeypatch.setenv("COMPACT_HARD_CAP_BUFFER", "200")
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:

        def start_gateway(*, window: int = WINDOW, **settings: Any) -> Gateway:
            monkeypatch.setenv("COMPACT_MAX_CONTEXT_TOKENS", str(window))
            settings.setdefault(
                "addresses", {"anthropic": provider.url, "openai": provider.openai_url, "gemini": provider.url}
            )
            settings.setdefault("compactor", COMPACTOR)
            settings.setdefault("compact_scope", "all")
            settings.setdefault("deadline_s", 60.0)
            return stack.enter_context(running_gateway(tmp_path, **settings))

        yield start_gateway


@pytest.fixture
def ariadne(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """The server that events are sent to."""
    with Receiver() as receiver:
        monkeypatch.setenv("ARIADNE_URL", receiver.url)
        monkeypatch.setenv("ARIADNE_API_KEY", "k")
        yield receiver


def events_of(receiver: Receiver) -> list[dict[str, Any]]:
    """Return the events that have arrived."""
    return [event for request in receiver.requests if request.path == "/ingest" for event in request.events]


def wait_for_event(receiver: Receiver, name: str) -> list[dict[str, Any]]:
    """Return the events of a kind, once there is one."""
    assert wait_until(lambda: any(kind_of(event) == name for event in events_of(receiver)), timeout_s=30)
    return [event for event in events_of(receiver) if kind_of(event) == name]


def kind_of(event: dict[str, Any]) -> str:
    return str(event.get("event") or event.get("kind"))

"""Assertions that every driven session ends with."""

from __future__ import annotations

import base64
from typing import Any

from providers.server import StrictProvider

LONG = "lorem ipsum dolor " * 120
IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
PDF = base64.b64encode(b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n").decode()


def result(step: int, total: int) -> str:
    """Return the result of the tool that the scripted model calls."""
    return f"step {step}/{total} {LONG}"


def assert_valid(provider: StrictProvider, *, min_requests: int = 1) -> None:
    """Every request was valid, and none contained two users' secrets."""
    assert provider.rejections == []
    assert provider.mixed == []
    assert len(provider.requests) >= min_requests


def compaction_count(events: list[Any]) -> int:
    return sum(event["event"] == "compact.pruned_messages" for event in events)


def overflow_count(events: list[Any]) -> int:
    return sum(event["event"] == "compact.overflow_recovered" for event in events)

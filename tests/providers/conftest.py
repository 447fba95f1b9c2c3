"""A strict provider for each test, and a manager whose window is small enough for several compactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from compact import CallbackExporter, CompactConfig, CompactManager
from providers.server import StrictProvider


@pytest.fixture
def provider() -> Iterator[StrictProvider]:
    with StrictProvider() as running:
        yield running


@pytest.fixture
def events() -> list[Any]:
    return []


@pytest.fixture
def manager(events: list[Any]) -> CompactManager:
    return CompactManager(CompactConfig("gpt-5", 5_000, exporter=CallbackExporter(events.append)))


@pytest.fixture
def roomy_manager(events: list[Any]) -> CompactManager:
    """A manager that believes in a larger window than the provider has, so that requests overflow."""
    return CompactManager(CompactConfig("gpt-5", 100_000, exporter=CallbackExporter(events.append)))

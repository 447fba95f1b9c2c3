"""A manager with a small window, and the events it emits."""

from __future__ import annotations

from typing import Any

import pytest
from compact import CallbackExporter, CompactConfig, CompactManager, CompactPolicy, NoopEstimator


@pytest.fixture
def events() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def manager(events: list[dict[str, Any]]) -> CompactManager:
    policy = CompactPolicy(keep_recent_turns=1, keep_tool_io_pairs=1, hard_cap_buffer=50, min_gain_pct=0.0)
    exporter = CallbackExporter(events.append)
    return CompactManager(
        CompactConfig("gpt-5", 2_000, policy=policy, token_estimator=NoopEstimator(), exporter=exporter)
    )

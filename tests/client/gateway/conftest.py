"""A gateway in front of an upstream that the test plays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gateways import Gateway, ScriptedUpstream, running_gateway


@pytest.fixture
def upstream() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream() as running:
        running.start()
        yield running


@pytest.fixture
def gateway(upstream: ScriptedUpstream, tmp_path: Path) -> Iterator[Gateway]:
    with running_gateway(tmp_path, addresses={"local": upstream.url}) as running:
        yield running

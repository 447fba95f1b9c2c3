"""`/healthz`: the process answers. `/readyz`: the database and the channel layer do. `/metrics`: what it measured."""

from __future__ import annotations

import asyncio
from typing import Any

from channels.layers import get_channel_layer
from django.db import connections
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from ingest.http import metrics
from ingest.http.errors import Refusal
from ingest.service import Service
from ingest.storage.connections import presence

_CHECK_TIMEOUT_S = 3.0


async def ready(service: Service) -> tuple[int, dict[str, Any]]:
    """503 as long as something that is needed does not answer, and which."""
    database, layer = await asyncio.gather(_database(service), _channel_layer())
    checks = {"database": database, "channel_layer": layer}
    is_ready = all(state == "ok" for state in checks.values())
    return (200 if is_ready else 503), {"ready": is_ready, **checks}


async def _database(service: Service) -> str:
    try:
        await service.questions.ask("SELECT 1 FROM ingest_project LIMIT 1")
    except Refusal:
        return "away"
    except Exception as error:
        return type(error).__name__
    return "ok"


async def _channel_layer() -> str:
    layer = get_channel_layer()
    if layer is None:
        return "missing"
    try:
        async with asyncio.timeout(_CHECK_TIMEOUT_S):
            channel = await layer.new_channel()
            await layer.send(channel, {"type": "ready.check"})
            await layer.receive(channel)
    except Exception as error:
        return type(error).__name__
    return "ok"


def metrics_page(service: Service) -> tuple[bytes, str]:
    records, size = service.writer.waiting
    metrics.queue_records.set(records)
    metrics.queue_bytes.set(size)
    metrics.lag_seconds.set(service.writer.lag_s)
    metrics.database_connected.set(not presence.is_away)
    # Only a web process has a pool; commands and tests have a connection each.
    if pool := connections["default"].pool:  # type: ignore[attr-defined]
        found = pool.get_stats()
        size, idle = found.get("pool_size", 0), found.get("pool_available", 0)
        metrics.database_connections.labels("idle").set(idle)
        metrics.database_connections.labels("used").set(size - idle)
    return generate_latest(), CONTENT_TYPE_LATEST

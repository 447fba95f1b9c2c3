"""Content of `/readyz` and `/metrics`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from channels.layers import get_channel_layer
from django.db import connections
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from ingest import metrics
from ingest.errors import RequestError
from ingest.http.service import Service
from ingest.storage import notifications
from ingest.storage.database.connections import database_status

_CHECK_TIMEOUT_S = 3.0


def _installed_version() -> str:
    try:
        return version("ariadne-server")
    except PackageNotFoundError:
        return "unknown"


_VERSION = _installed_version()


async def check_readiness(service: Service) -> tuple[int, dict[str, Any]]:
    """Return status and body of `/readyz`: 503 unless a write and the channel layer work, with the reason.

    While a node of a cluster is down, the cells of the others work, so the process is ready and names those of the
    node.
    """
    database, channel_layer = await asyncio.gather(_check_database(service), check_channel_layer())
    cells = await service.nodes.check_cells() if database == "ok" else None
    if cells and cells.unavailable and not cells.available:
        database = "unavailable"
    checks = {"database": database, "channel_layer": channel_layer}
    is_ready = all(state == "ok" for state in checks.values())
    # `compactctl doctor` compares the time with its own and prints the version.
    about = {"time": datetime.now(UTC).isoformat(), "version": _VERSION}
    cluster = {"unavailable_cells": cells.unavailable} if cells else {}
    return (200 if is_ready else 503), {"ready": is_ready, **checks, **cluster, **about}


async def _check_database(service: Service) -> str:
    try:
        # Notices at once that the server is gone. The last write may be a second old.
        await service.probe.fetch_row("SELECT 1")
    except RequestError:
        return "unavailable"
    return (await service.write_check.result()).reason or "ok"


async def check_channel_layer() -> str:
    """Send a message through the channel layer. Return the reason why it did not arrive, or ok."""
    layer = get_channel_layer()
    if layer is None:
        return "missing"
    try:
        async with asyncio.timeout(_CHECK_TIMEOUT_S):
            channel = await layer.new_channel()
            await layer.send(channel, {"type": "ready.check"})
            await layer.receive(channel)
    except Exception as error:
        notifications.channel_layer.fail("check", error)
        return type(error).__name__
    notifications.channel_layer.succeed("check")
    return "ok"


def render_metrics(service: Service) -> tuple[bytes, str]:
    """Update the gauges and return the Prometheus page with its content type."""
    records, size = service.writer.pending
    metrics.queue_records.set(records)
    metrics.queue_bytes.set(size)
    metrics.decode_waiting.set(service.decode_pool.waiting_count)
    metrics.lag_seconds.set(service.writer.lag_s)
    metrics.database_connected.set(database_status.is_available)
    # Only a web process has a pool. Commands and tests use single connections.
    if pool := connections["default"].pool:  # type: ignore[attr-defined]
        stats = pool.get_stats()
        size, idle = stats.get("pool_size", 0), stats.get("pool_available", 0)
        metrics.database_connections.labels("idle").set(idle)
        metrics.database_connections.labels("used").set(size - idle)
    return generate_latest(), CONTENT_TYPE_LATEST

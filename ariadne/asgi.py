"""The ASGI application: HTTP, with the ingest endpoints in front of Django, and websockets."""

from __future__ import annotations

import gc
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ariadne.settings")

from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.db import connections

from ariadne.runtime.page_handler import create_application

django_application = create_application()

from ariadne.runtime import request_guard  # noqa: E402 - Django must be set up first
from ariadne.runtime.db_middleware import connection_options  # noqa: E402
from ariadne.runtime.jobs import Jobs, every  # noqa: E402
from ariadne.runtime.request_deadline import with_deadline  # noqa: E402
from ariadne.runtime.static_files import StaticFiles  # noqa: E402
from ingest.http import endpoints  # noqa: E402
from ingest.http.service import run_service  # noqa: E402
from ingest.storage import retention  # noqa: E402
from viewer.accounts.authentication import SocketAuth  # noqa: E402
from viewer.alerts.cycle import evaluate_and_deliver  # noqa: E402
from viewer.audit.anchors import anchor_series  # noqa: E402
from viewer.live.routing import websocket_urlpatterns  # noqa: E402
from viewer.mcp import endpoint as mcp_endpoint  # noqa: E402
from viewer.search.index_supervisor import IndexSupervisor  # noqa: E402

database = connections.settings["default"]
database["OPTIONS"] = {
    **connection_options(settings.DATABASE_CONNECTIONS, timeout_s=settings.REQUEST_TIMEOUT_S),
    **database["OPTIONS"],
}
pages = StaticFiles(with_deadline(django_application, settings.REQUEST_TIMEOUT_S))
mcp_requests = with_deadline(mcp_endpoint.application, settings.REQUEST_TIMEOUT_S)
request_guard.install(endpoints.PATHS)
# Events contain no reference cycles, but the default garbage collector settings spent a third of the write path's time
# looking for them.
gc.collect()
gc.freeze()
gc.set_threshold(50_000, 20, 50)


@asynccontextmanager
async def lifespan() -> AsyncIterator[None]:
    """Run the service and the jobs of this process, from before its first request until after its last."""
    anchor_s, alert_s, index = settings.ANCHOR_INTERVAL_S, settings.ALERT_INTERVAL_S, IndexSupervisor()
    write_anchor = partial(anchor_series.write_if_due, timedelta(seconds=anchor_s))
    async with (
        run_service() as service,
        Jobs(
            every(3600, "retention", retention.run),
            every(30, "key-use", service.record_key_use, at_stop=service.record_key_use),
            # More often than anchors are due, because another process may have written the last one.
            every(min(60, anchor_s), "anchors", write_anchor, at_stop=anchor_series.write_if_changed),
            # Agents that could not reach the server until now are not silent.
            every(alert_s, "alerts", partial(evaluate_and_deliver, alert_s), first_after_s=alert_s),
            every(5 if settings.SEARCH_INDEX else 0, "search-index", index.ensure_running, at_stop=index.stop),
        ),
    ):
        yield


async def http(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Route ingest requests past Django, whose handler alone costs more than an ingest request."""
    path = scope["path"].rstrip("/")
    if path in endpoints.PATHS:
        await endpoints.application(scope, receive, send)
    elif path == mcp_endpoint.PATH:
        await mcp_requests(scope, receive, send)
    else:
        await pages(scope, receive, send)


websocket = SocketAuth(URLRouter(websocket_urlpatterns))
application = ProtocolTypeRouter({"http": http, "websocket": websocket})

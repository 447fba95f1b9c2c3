"""The ASGI application: HTTP, with the ingest endpoints in front of Django, and websockets."""

from __future__ import annotations

import gc
import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ariadne.settings")

from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.db import connections

from ariadne.runtime.page_handler import create_application

django_application = create_application()

from ariadne.runtime import request_guard  # noqa: E402 - Django must be set up first
from ariadne.runtime.db_middleware import connection_options  # noqa: E402
from ariadne.runtime.request_deadline import with_deadline  # noqa: E402
from ariadne.runtime.static_files import StaticFiles  # noqa: E402
from ingest.http import endpoints  # noqa: E402
from ingest.http.service import get_service  # noqa: E402
from viewer.accounts.authentication import SocketAuth  # noqa: E402
from viewer.alerts import schedule as alert_schedule  # noqa: E402
from viewer.audit.anchors import anchor_schedule  # noqa: E402
from viewer.live.routing import websocket_urlpatterns  # noqa: E402
from viewer.mcp import endpoint as mcp_endpoint  # noqa: E402
from viewer.search import index_schedule  # noqa: E402

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


async def http(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Route ingest requests past Django, whose handler alone costs more than an ingest request."""
    anchor_schedule.ensure_running()
    alert_schedule.ensure_running()
    index_schedule.ensure_running()
    if scope["path"].rstrip("/") in endpoints.PATHS:
        await endpoints.application(scope, receive, send)
    elif scope["path"].rstrip("/") == mcp_endpoint.PATH:
        get_service()
        await mcp_requests(scope, receive, send)
    else:
        # The first request of any kind creates the service, which monitors the database for all requests.
        get_service()
        await pages(scope, receive, send)


async def shutdown() -> None:
    """Finish the work of this process. Requests have ended."""
    await index_schedule.stop()
    await alert_schedule.stop()
    await anchor_schedule.stop()


websocket = SocketAuth(URLRouter(websocket_urlpatterns))
application = ProtocolTypeRouter({"http": http, "websocket": websocket})

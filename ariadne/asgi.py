"""The two protocols: HTTP with ingest in front of Django, and websockets."""

from __future__ import annotations

import gc
import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ariadne.settings")

from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.db import connections

django_application = get_asgi_application()

from ariadne.runtime import request_guard  # noqa: E402
from ariadne.runtime.db_middleware import connection_options  # noqa: E402 - models are there only once Django is set up
from ingest.http import endpoints  # noqa: E402
from ingest.service import service  # noqa: E402
from viewer.accounts.api_tokens import SocketAuth  # noqa: E402
from viewer.live.routing import websocket_urlpatterns  # noqa: E402

database = connections.settings["default"]
database["OPTIONS"] = {**connection_options(settings.DATABASE_CONNECTIONS), **database["OPTIONS"]}
request_guard.install(endpoints.PATHS)
# Events are trees that end with their last reference; looking for cycles among them every few hundred objects, and
# among all of Django now and then, took a third of the write path's time.
gc.collect()
gc.freeze()
gc.set_threshold(50_000, 20, 50)


async def http(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Ingest before Django: a request there costs less than Django's handler alone."""
    if scope["path"].rstrip("/") in endpoints.PATHS:
        await endpoints.application(scope, receive, send)
    else:
        # Made by the first request of any kind, it watches the database for all of them.
        service()
        await django_application(scope, receive, send)


websocket = SocketAuth(URLRouter(websocket_urlpatterns))
application = ProtocolTypeRouter({"http": http, "websocket": websocket})

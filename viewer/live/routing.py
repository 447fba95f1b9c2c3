"""Every websocket address."""

from __future__ import annotations

from django.urls import path

from viewer.live.consumers import NoConsumer, SessionConsumer, SessionListConsumer, TailConsumer

websocket_urlpatterns = [
    path("ws/sessions/", SessionListConsumer.as_asgi()),
    path("ws/sessions/<path:session>/", SessionConsumer.as_asgi()),
    path("ws/tail/", TailConsumer.as_asgi()),
    path("<path:unknown>", NoConsumer.as_asgi()),
]

"""Addresses of websockets."""

from __future__ import annotations

from django.urls import path

from viewer.live.consumers import SessionConsumer, SessionListConsumer, TailConsumer, UnknownAddressConsumer

websocket_urlpatterns = [
    path("ws/sessions/", SessionListConsumer.as_asgi()),
    path("ws/sessions/<path:session>/", SessionConsumer.as_asgi()),
    path("ws/tail/", TailConsumer.as_asgi()),
    path("<path:unknown>", UnknownAddressConsumer.as_asgi()),
]

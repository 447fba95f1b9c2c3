"""The reading half of the server."""

from __future__ import annotations

from django.apps import AppConfig


class ViewerConfig(AppConfig):
    name = "viewer"

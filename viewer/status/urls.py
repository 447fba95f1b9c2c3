"""The address of the status page."""

from __future__ import annotations

from django.urls import path

from viewer.status import pages

urlpatterns = [
    path("status/", pages.server_status, name="server-status"),
]

"""Every HTTP address but ingest's, which `asgi` answers before Django's middleware."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

urlpatterns = [
    path("admin/", admin.site.urls),
]

"""Every HTTP address except ingest's, which `asgi` serves before Django's middleware."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView

handler404 = "viewer.middleware.not_found"
handler500 = "viewer.middleware.server_error"

urlpatterns = [
    # Before the sessions: an id in `sessions/<path:name>/` may contain slashes.
    path("", include("viewer.costs.urls")),
    path("", include("viewer.comments.urls")),
    path("", include("viewer.compactions.urls")),
    path("", include("viewer.sessions.urls")),
    path("", include("viewer.search.urls")),
    path("", include("viewer.trends.urls")),
    path("", include("viewer.alerts.urls")),
    path("", include("viewer.live.urls")),
    path("", include("viewer.audit.urls")),
    path("", include("viewer.accounts.urls")),
    path("", include("viewer.status.urls")),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("admin/", admin.site.urls),
]

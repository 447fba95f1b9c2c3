"""Addresses of the trends page and its API."""

from __future__ import annotations

from django.urls import path

from viewer.trends import api, pages

urlpatterns = [
    path("trends/", pages.trends, name="trends"),
    path("api/trends/", api.Trends.as_view(), name="api-trends"),
    path("api/trends/sessions/", api.TrendSessions.as_view(), name="api-trend-sessions"),
]

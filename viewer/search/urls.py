"""Address of the search."""

from __future__ import annotations

from django.urls import path

from viewer.search import api

urlpatterns = [path("api/search/", api.Search.as_view(), name="api-search")]

"""Addresses of the session list, the session page and their API."""

from __future__ import annotations

from django.urls import include, path

from viewer.sessions import api, pages

api_patterns = [
    path("sessions/", api.SessionList.as_view(), name="api-sessions"),
    path("sessions/<path:session>/spans/", api.SpanList.as_view(), name="api-spans"),
    path("sessions/<path:session>/tree/", api.SpanTree.as_view(), name="api-tree"),
    path("sessions/<path:session>/tokens/", api.TokenList.as_view(), name="api-tokens"),
    path("sessions/<path:session>/", api.SessionDetail.as_view(), name="api-session"),
    path("spans/<path:span>/", api.SpanDetail.as_view(), name="api-span"),
]

urlpatterns = [
    path("", pages.sessions, name="session-list"),
    path("sessions/<path:name>/inspector/", pages.inspector, name="inspector"),
    path("sessions/<path:name>/lines/", pages.lines, name="lines"),
    path("sessions/<path:name>/payload/", pages.payload, name="payload"),
    path("sessions/<path:name>/payload/access/", pages.payload_access, name="payload-access"),
    path("sessions/<path:name>/", pages.session_detail, name="session-detail"),
    path("api/", include(api_patterns)),
]

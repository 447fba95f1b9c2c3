"""Every HTTP address but ingest's, which `asgi` answers before Django's middleware."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth import views as auth
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView

from viewer import api, pages

api_patterns = [
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
    path("sessions/", api.SessionList.as_view(), name="api-sessions"),
    path("sessions/<path:session>/spans/", api.SpanList.as_view(), name="api-spans"),
    path("sessions/<path:session>/tree/", api.SpanTree.as_view(), name="api-tree"),
    path("sessions/<path:session>/tokens/", api.TokenList.as_view(), name="api-tokens"),
    path("sessions/<path:session>/compactions/", api.CompactionList.as_view(), name="api-compactions"),
    path("sessions/<path:session>/", api.SessionDetail.as_view(), name="api-session"),
    path("spans/<path:span>/", api.SpanDetail.as_view(), name="api-span"),
]

urlpatterns = [
    path("", pages.session_list, name="session-list"),
    path("sessions/<path:session>/compactions/<int:number>/", pages.compaction_detail, name="compaction-detail"),
    path("sessions/<path:session>/inspector/", pages.inspector, name="inspector"),
    path("sessions/<path:session>/payload/", pages.payload, name="payload"),
    path("sessions/<path:session>/", pages.session_detail, name="session-detail"),
    path("tail/", pages.tail, name="tail"),
    path("compare/", pages.compare, name="compare"),
    path("login/", auth.LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path("api/", include(api_patterns)),
    path("admin/", admin.site.urls),
]

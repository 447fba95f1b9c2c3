"""Every HTTP address but ingest's, which `asgi` answers before Django's middleware."""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.contrib.auth import views as auth
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView

from viewer.accounts import key_pages, project_pages
from viewer.audit import api as audit_api
from viewer.audit import pages as audit_pages
from viewer.audit import signing, transcript_pages
from viewer.compactions import pages as compaction_pages
from viewer.sessions import api, pages

handler500 = "viewer.middleware.server_error"

api_patterns = [
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
    path("sessions/", api.SessionList.as_view(), name="api-sessions"),
    path("sessions/<path:session>/spans/", api.SpanList.as_view(), name="api-spans"),
    path("sessions/<path:session>/tree/", api.SpanTree.as_view(), name="api-tree"),
    path("sessions/<path:session>/tokens/", api.TokenList.as_view(), name="api-tokens"),
    path("sessions/<path:session>/compactions/", api.CompactionList.as_view(), name="api-compactions"),
    path("sessions/<path:session>/", api.SessionDetail.as_view(), name="api-session"),
    path("spans/<path:span>/", api.SpanDetail.as_view(), name="api-span"),
    path("transcripts/", audit_api.TranscriptList.as_view(), name="api-transcripts"),
    path("transcripts/<str:name>/", audit_api.TranscriptDetail.as_view(), name="api-transcript"),
    path("transcripts/<str:name>/download/", audit_api.TranscriptDownload.as_view(), name="api-transcript-download"),
    path("transcripts/<str:name>/bundle/", audit_api.TranscriptBundle.as_view(), name="api-transcript-bundle"),
    path("transcripts/<str:name>/verify/", audit_api.TranscriptVerify.as_view(), name="api-transcript-verify"),
    path("audit/", audit_api.AuditList.as_view(), name="api-audit"),
]

urlpatterns = [
    path("", pages.session_list, name="session-list"),
    path(
        "sessions/<path:session>/compactions/<int:number>/",
        compaction_pages.compaction_detail,
        name="compaction-detail",
    ),
    path("sessions/<path:session>/compactions/<int:number>/what-if/", compaction_pages.what_if, name="what-if"),
    path("sessions/<path:session>/compactions/<int:number>/regrets/", compaction_pages.regrets, name="regrets"),
    path(
        "sessions/<path:session>/compactions/<int:number>/ledger.<str:extension>",
        compaction_pages.ledger_file,
        name="ledger-file",
    ),
    path("sessions/<path:session>/messages/<str:digest>/", compaction_pages.message, name="message"),
    path("sessions/<path:session>/inspector/", pages.inspector, name="inspector"),
    path("sessions/<path:session>/payload/", pages.payload, name="payload"),
    path("sessions/<path:session>/", pages.session_detail, name="session-detail"),
    path("tail/", pages.tail, name="tail"),
    path("compare/", pages.compare, name="compare"),
    path("transcripts/", transcript_pages.transcript_list, name="transcript-list"),
    path("transcripts/<uuid:key>/<int:step>/", transcript_pages.transcript_detail, name="transcript-detail"),
    path(
        "transcripts/<uuid:key>/<int:step>/download/", transcript_pages.transcript_download, name="transcript-download"
    ),
    path("transcripts/<uuid:key>/<int:step>/verify/", transcript_pages.transcript_verify, name="transcript-verify"),
    path("transcripts/<uuid:key>/<int:step>/delete/", transcript_pages.transcript_delete, name="transcript-delete"),
    path("audit/", audit_pages.audit_log, name="audit-log"),
    path("audit/csv/", audit_pages.audit_csv, name="audit-csv"),
    path("audit/verify/", audit_pages.audit_verify, name="audit-verify"),
    path("keys/", key_pages.key_list, name="key-list"),
    path("keys/<int:pk>/rotate/", key_pages.key_rotate, name="key-rotate"),
    path("keys/<int:pk>/revoke/", key_pages.key_revoke, name="key-revoke"),
    path("projects/", project_pages.project_list, name="project-list"),
    path("projects/<slug:slug>/", project_pages.project_detail, name="project-detail"),
    path("projects/<slug:slug>/keep/", project_pages.project_keep, name="project-keep"),
    path("projects/<slug:slug>/members/", project_pages.member_add, name="member-add"),
    path("projects/<slug:slug>/members/<int:pk>/remove/", project_pages.member_remove, name="member-remove"),
    path("tokens/", key_pages.token_list, name="token-list"),
    path("tokens/<int:pk>/revoke/", key_pages.token_revoke, name="token-revoke"),
    path(".well-known/ariadne-signing-key", signing.published, name="signing-key"),
    path(
        "login/",
        auth.LoginView.as_view(redirect_authenticated_user=True, extra_context={"sso": settings.SSO}),
        name="login",
    ),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path("api/", include(api_patterns)),
    path("admin/", admin.site.urls),
]

if settings.SSO:
    urlpatterns.append(path("oidc/", include("mozilla_django_oidc.urls")))

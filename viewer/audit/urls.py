"""Addresses of transcripts, the audit log and their API."""

from __future__ import annotations

from django.urls import include, path

from viewer.audit import api, pages
from viewer.audit.transcripts import pages as transcript_pages

transcript_patterns = [
    path("", transcript_pages.transcript_detail, name="transcript-detail"),
    path("download/", transcript_pages.transcript_download, name="transcript-download"),
    path("verify/", transcript_pages.transcript_verify, name="transcript-verify"),
    path("delete/", transcript_pages.transcript_delete, name="transcript-delete"),
]

api_patterns = [
    path("transcripts/", api.TranscriptList.as_view(), name="api-transcripts"),
    path("transcripts/<str:name>/", api.TranscriptDetail.as_view(), name="api-transcript"),
    path("transcripts/<str:name>/download/", api.TranscriptDownload.as_view(), name="api-transcript-download"),
    path("transcripts/<str:name>/bundle/", api.TranscriptBundle.as_view(), name="api-transcript-bundle"),
    path("transcripts/<str:name>/verify/", api.TranscriptVerify.as_view(), name="api-transcript-verify"),
    path("audit/", api.AuditList.as_view(), name="api-audit"),
]

urlpatterns = [
    path("transcripts/", transcript_pages.transcript_list, name="transcript-list"),
    path("transcripts/<uuid:key>/<int:step>/", include(transcript_patterns)),
    path("audit/", pages.audit_log, name="audit-log"),
    path("audit/csv/", pages.audit_csv, name="audit-csv"),
    path("audit/json/", pages.audit_json, name="audit-json"),
    path("audit/verify/", pages.audit_verify, name="audit-verify"),
    path(".well-known/ariadne-signing-key", pages.signing_key, name="signing-key"),
    path("api/", include(api_patterns)),
]

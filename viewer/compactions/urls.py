"""Addresses of the compaction page, the comparison page and the compaction API."""

from __future__ import annotations

from django.urls import include, path

from viewer.compactions import api, comparison_pages, pages

compaction_patterns = [
    path("", pages.compaction_detail, name="compaction-detail"),
    path("what-if/", pages.what_if, name="what-if"),
    path("messages/", pages.previews, name="ledger-previews"),
    path("regrets/", pages.rework_fragment, name="rework"),
    path("ledger.<str:extension>", pages.ledger_file, name="ledger-file"),
]

urlpatterns = [
    path("sessions/<path:name>/compactions/<int:number>/", include(compaction_patterns)),
    path("sessions/<path:name>/messages/<str:digest>/", pages.message, name="message"),
    path("compare/", comparison_pages.compare, name="compare"),
    path("api/sessions/<path:session>/compactions/", api.CompactionList.as_view(), name="api-compactions"),
]

"""Addresses of the compaction page, the comparison page and the compaction API."""

from __future__ import annotations

from django.urls import include, path, register_converter
from django.urls.converters import StringConverter

from viewer.compactions import api, comparison_pages, pages


class LedgerFormat(StringConverter):
    """The formats of a downloaded ledger. Anything else would become part of the name of a file."""

    regex = "csv|json"


register_converter(LedgerFormat, "ledger_format")

compaction_patterns = [
    path("", pages.compaction_detail, name="compaction-detail"),
    path("what-if/", pages.what_if, name="what-if"),
    path("messages/", pages.previews, name="ledger-previews"),
    path("regrets/", pages.rework_fragment, name="rework"),
    path("ledger.<ledger_format:extension>", pages.ledger_file, name="ledger-file"),
]

urlpatterns = [
    path("sessions/<path:name>/compactions/of/<str:span>/", pages.compaction_of_span, name="compaction-of-span"),
    path("sessions/<path:name>/compactions/<int:number>/", include(compaction_patterns)),
    path("sessions/<path:name>/messages/<str:digest>/", pages.message, name="message"),
    path("compare/", comparison_pages.compare, name="compare"),
    path("api/sessions/<path:session>/compactions/", api.CompactionList.as_view(), name="api-compactions"),
]

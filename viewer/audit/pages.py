"""The audit log as a page, as CSV and as JSON, and the public signing key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from ingest.models import Project
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.audit import downloads, log, queries, signing
from viewer.audit.anchors import anchor_series
from viewer.audit.log import Action
from viewer.audit.queries import AuditFilter
from viewer.page_response import send_page
from viewer.rest import BadFilter

# Many problems would make a cookie that is too large.
_MAX_MESSAGE_CHARS = 1_500


@access.requires(Right.AUDIT)
def audit_log(request: HttpRequest) -> HttpResponseBase:
    error = None
    try:
        filters = AuditFilter.from_query(request.GET)
    except BadFilter as bad:
        filters, error = AuditFilter(), str(bad)
    known = {"filters": filters, "error": error, "actions": list(Action), "is_filtered": bool(filters.as_dict())}
    return send_page(
        request,
        "audit/audit_log.html",
        known,
        lambda: _log_context(request, filters),
        status=400 if error else 200,
    )


def _log_context(request: HttpRequest, filters: AuditFilter) -> dict[str, Any]:
    grant = access.request_grant(request)
    page, cursor = queries.audit_page(grant, filters)
    projects = dict(Project.objects.filter(pk__in=list(grant.rights)).values_list("pk", "name"))
    query = request.GET.copy()
    query.pop("before", None)
    return {
        "entries": [(entry, projects.get(entry.project_id or 0, "")) for entry in page],
        "query": query.urlencode(),
        "next": cursor,
        "anchors": anchor_series.read_state(),
        "people": log.people(grant),
    }


@access.requires(Right.AUDIT)
def audit_csv(request: HttpRequest) -> HttpResponseBase:
    return _export(request, downloads.send_audit_csv)


@access.requires(Right.AUDIT)
def audit_json(request: HttpRequest) -> HttpResponseBase:
    return _export(request, downloads.send_audit_json)


def _export(request: HttpRequest, send: Callable[[HttpRequest], HttpResponseBase]) -> HttpResponseBase:
    try:
        return send(request)
    except BadFilter as error:
        messages.error(request, str(error))
        return redirect("audit-log")


@access.requires(Right.AUDIT, "POST")
def audit_verify(request: HttpRequest) -> HttpResponse:
    """Recompute the whole log and compare it with the anchors."""
    report = anchor_series.verify()
    log.record(request, Action.ARCHIVE_VERIFY, target="audit log", faults=len(report.problems), result=report.status)
    tones = {"failed": messages.error, "not_anchored": messages.warning, "anchored": messages.success}
    tones[report.status](request, report.sentence[:_MAX_MESSAGE_CHARS])
    return redirect("audit-log")


@require_safe
def signing_key(request: HttpRequest) -> JsonResponse:
    """The public signing keys. No login is needed: external auditors verify bundles with them."""
    return JsonResponse(signing.describe_keys())

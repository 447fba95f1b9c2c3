"""The audit log as a page and as CSV."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render

from ingest.models import Project
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.audit import anchors, downloads, log, queries
from viewer.audit.log import Action
from viewer.audit.queries import AuditFilter, BadFilter


@access.needs(Right.AUDIT)
def audit_log(request: HttpRequest) -> HttpResponse:
    held = access.grant(request)
    fault = None
    try:
        wanted = AuditFilter.from_query(request.GET)
    except BadFilter as bad:
        wanted, fault = AuditFilter(), str(bad)
    page, more = queries.audit_page(held, wanted)
    projects = dict(Project.objects.filter(pk__in=list(held.rights)).values_list("pk", "name"))
    query = request.GET.copy()
    query.pop("before", None)
    context = {
        "entries": [(entry, projects.get(entry.project_id or 0, "")) for entry in page],
        "wanted": wanted,
        "fault": fault,
        "actions": list(Action),
        "is_filtered": bool(wanted.described()),
        "query": query.urlencode(),
        "next": more,
    }
    return render(request, "audit/audit_log.html", context, status=400 if fault else 200)


@access.needs(Right.AUDIT)
def audit_csv(request: HttpRequest) -> HttpResponseBase:
    try:
        return downloads.send_audit_csv(request)
    except BadFilter as bad:
        messages.error(request, str(bad))
        return redirect("audit-log")


@access.needs(Right.AUDIT, "POST")
def audit_verify(request: HttpRequest) -> HttpResponse:
    """Recompute the whole log and compare it with the anchors."""
    faults = [*log.faults(), *anchors.faults()]
    log.record(request, Action.ARCHIVE_VERIFY, target="audit log", faults=len(faults))
    if faults:
        messages.error(request, "Not whole: " + "; ".join(faults[:5]))
    else:
        messages.success(request, "Whole: every line recomputed, each follows the one before it.")
    return redirect("audit-log")

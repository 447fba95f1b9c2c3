"""Downloads: check the right, log the access with its reason, then send. The page and the API come through here."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.utils.timezone import now
from rest_framework.request import Request

from ingest.models import Transcript
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.audit import bundles, csv_file, exports, log, queries
from viewer.audit.log import Action
from viewer.audit.queries import AuditFilter, BadFilter
from viewer.models import AuditEntry

REASONS = ("Routine audit", "Incident investigation", "Legal request", "Data subject request", "Debugging", "Other")
AUDIT_COLUMNS = (
    *("position", "at", "actor", "address", "action", "outcome", "project_id", "target", "reason", "detail"),
    *("agent", "previous", "hash"),
)


def reason_of(request: HttpRequest | Request) -> str:
    """Why, in the reader's words; a server may insist on it."""
    given = [request.GET.get(name, "").strip() for name in ("reason", "note")]
    reason = log.clean(": ".join(part for part in given if part))
    if not reason and settings.REQUIRE_REASON:
        raise BadFilter("reason", "is needed to download: say why")
    return reason


def send_transcript(request: HttpRequest | Request, transcript: Transcript) -> HttpResponseBase:
    # Knowing of a transcript is one right, its text another: texts never leave without the second.
    access.grant(request).require(Right.PAYLOAD, transcript.project_id)
    reason = reason_of(request)
    exported = exports.export(transcript)
    _log(request, Action.TRANSCRIPT_DOWNLOAD, transcript, reason, exported)
    name = exports.file_name(transcript, ".jsonl")
    return exports.respond(_bare(request), exported, name=name, content_type="application/x-ndjson")


def send_bundle(request: HttpRequest | Request, transcript: Transcript) -> HttpResponseBase:
    access.grant(request).require(Right.PAYLOAD, transcript.project_id)
    reason = reason_of(request)
    data, exported = bundles.build(transcript, by=request.user.get_username(), reason=reason)
    _log(request, Action.BUNDLE_DOWNLOAD, transcript, reason, exported)
    name = exports.file_name(transcript, ".zip")
    return exports.respond(_bare(request), exports.spool([data]), name=name, content_type="application/zip")


def send_audit_csv(request: HttpRequest) -> HttpResponseBase:
    held = access.grant(request)
    wanted = AuditFilter.from_query(request.GET)
    rows = queries.audit_entries(held, wanted).iterator(chunk_size=2000)
    cells = ([_cell(row, name) for name in AUDIT_COLUMNS] for row in rows)
    exported = exports.spool(csv_file.encode(AUDIT_COLUMNS, cells))
    for project_id in sorted(held.projects(Right.AUDIT)):
        filters = wanted.described()
        log.record(request, Action.AUDIT_EXPORT, project_id=project_id, sha256=exported.sha256, filters=filters)
    name = f"audit-{now():%Y%m%dT%H%M%SZ}.csv"
    return exports.respond(request, exported, name=name, content_type="text/csv; charset=utf-8")


def _cell(entry: AuditEntry, name: str) -> object:
    value = getattr(entry, name)
    return value.isoformat() if name == "at" else value


def _log(
    request: HttpRequest | Request, action: Action, transcript: Transcript, reason: str, exported: exports.Export
) -> None:
    log.record(
        request,
        action,
        project_id=transcript.project_id,
        target=f"{transcript.session_id} step {transcript.step}",
        reason=reason,
        sha256=exported.sha256,
        bytes=exported.size,
        redactions=exported.redactions,
        range=log.clean(request.headers.get("Range", "")),
    )


def _bare(request: HttpRequest | Request) -> HttpRequest:
    return request._request if isinstance(request, Request) else request

"""Downloads of transcripts, bundles and the audit log, for pages and the API.

Each download checks the permission and is recorded in the audit log with its reason before anything is sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.utils.timezone import now
from rest_framework.request import Request

from ingest.archive.hash_chain import canonical, format_time
from ingest.models import Transcript
from viewer import csv_file
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.audit import log, queries
from viewer.audit.log import Action
from viewer.audit.queries import AuditFilter
from viewer.audit.transcripts import bundles, exports
from viewer.models import AuditEntry
from viewer.rest import BadFilter

REASONS = ("Routine audit", "Incident investigation", "Legal request", "Data subject request", "Debugging", "Other")
AUDIT_COLUMNS = (
    *("position", "at", "actor", "address", "action", "outcome", "project_id", "target", "reason", "detail"),
    *("agent", "previous", "hash"),
)


def reason_of(request: HttpRequest | Request) -> str:
    """Return the reason of a download, or raise BadFilter if the server requires one."""
    parts = [request.GET.get(name, "").strip() for name in ("reason", "note")]
    reason = log.clean(": ".join(part for part in parts if part))
    if not reason and settings.REQUIRE_REASON:
        raise BadFilter("reason", "Enter a reason for this download.")
    return reason


def send_transcript(request: HttpRequest | Request, transcript: Transcript) -> HttpResponseBase:
    # Viewing transcripts does not include their text.
    access.request_grant(request).require(Right.PAYLOAD, transcript.project_id)
    reason = reason_of(request)
    export = exports.export(transcript)
    _record(request, Action.TRANSCRIPT_DOWNLOAD, transcript, reason, export)
    name = exports.file_name(transcript, ".jsonl")
    return exports.respond(_django_request(request), export, name=name, content_type="application/x-ndjson")


def send_bundle(request: HttpRequest | Request, transcript: Transcript) -> HttpResponseBase:
    access.request_grant(request).require(Right.PAYLOAD, transcript.project_id)
    reason = reason_of(request)
    data, export = bundles.build(transcript, by=request.user.get_username(), reason=reason)
    _record(request, Action.BUNDLE_DOWNLOAD, transcript, reason, export)
    name = exports.file_name(transcript, ".zip")
    bundle = exports.spool([data])
    return exports.respond(_django_request(request), bundle, name=name, content_type="application/zip")


def send_audit_csv(request: HttpRequest) -> HttpResponseBase:
    cells = ([_cell(row, name) for name in AUDIT_COLUMNS] for row in _audit_rows(request))
    content = csv_file.encode(AUDIT_COLUMNS, cells)
    return _send_audit(request, content, extension="csv", content_type="text/csv; charset=utf-8")


def send_audit_json(request: HttpRequest) -> HttpResponseBase:
    """Send an array with one object per entry, which streams and parses in pieces."""

    def chunks() -> Iterator[bytes]:
        start = b"[\n"
        for row in _audit_rows(request):
            yield start + canonical({name: _cell(row, name) for name in AUDIT_COLUMNS})
            start = b",\n"
        yield b"[]\n" if start == b"[\n" else b"\n]\n"

    return _send_audit(request, chunks(), extension="json", content_type="application/json")


def _audit_rows(request: HttpRequest) -> Iterator[AuditEntry]:
    filters = AuditFilter.from_query(request.GET)
    return queries.audit_entries(access.request_grant(request), filters).iterator(chunk_size=2000)


def _send_audit(
    request: HttpRequest, content: Iterable[bytes], *, extension: str, content_type: str
) -> HttpResponseBase:
    filters = AuditFilter.from_query(request.GET)
    export = exports.spool(content)
    for project_id in sorted(access.request_grant(request).projects(Right.AUDIT)):
        log.record(
            request,
            Action.AUDIT_EXPORT,
            project_id=project_id,
            format=extension,
            sha256=export.sha256,
            filters=filters.as_dict(),
        )
    name = f"audit-{now():%Y%m%dT%H%M%SZ}.{extension}"
    return exports.respond(request, export, name=name, content_type=content_type)


def _cell(entry: AuditEntry, name: str) -> object:
    value = getattr(entry, name)
    if name == "detail":
        return json.dumps(value, ensure_ascii=False)
    return format_time(value) if name == "at" else value


def _record(
    request: HttpRequest | Request, action: Action, transcript: Transcript, reason: str, export: exports.Export
) -> None:
    log.record(
        request,
        action,
        project_id=transcript.project_id,
        target=f"{transcript.session_id} step {transcript.step}",
        reason=reason,
        sha256=export.sha256,
        bytes=export.size,
        redactions=export.redactions,
        range=log.clean(request.headers.get("Range", "")),
        session=transcript.session_id,
        session_key=str(transcript.session_key),
    )


def _django_request(request: HttpRequest | Request) -> HttpRequest:
    return request._request if isinstance(request, Request) else request

"""The pages of archived transcripts: list, detail, verification, download and deletion."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from compact.redaction import default_redactor
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render

from ingest.archive import transcripts, verification
from ingest.models import ChainLink, Project, Session, Transcript
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.audit import downloads, log, payload_views, queries
from viewer.audit.archival_states import Archival, unstored_transcripts
from viewer.audit.log import Action
from viewer.audit.queries import TranscriptFilter
from viewer.audit.verification import verify_archive
from viewer.rest import BadFilter

MESSAGES_PER_PAGE = 50
# Many problems would make a cookie that is too large.
_MAX_MESSAGE_CHARS = 1_500
# A tool output of several megabytes belongs in the download.
_MAX_SHOWN_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Line:
    """A message as the page shows it."""

    number: int
    id: str
    role: str
    text: str
    hash: str
    is_truncated: bool


@access.requires(Right.TRANSCRIPTS)
def transcript_list(request: HttpRequest) -> HttpResponse:
    grant = access.request_grant(request)
    allowed = grant.projects(Right.TRANSCRIPTS)
    projects = {project.pk: project for project in Project.objects.filter(pk__in=allowed).order_by("name")}
    error = None
    try:
        filters = TranscriptFilter.from_query(request.GET)
    except BadFilter as bad:
        filters, error = TranscriptFilter(), str(bad)
    page, cursor = queries.transcripts_page(projects, filters)
    context = {
        "transcripts": [(transcript, projects[transcript.project_id]) for transcript in page],
        "projects": list(projects.values()),
        "filters": filters,
        "error": error,
        "reasons": downloads.REASONS,
        "is_filtered": filters.is_active,
        "unstored": [] if filters.is_active or filters.before else _unstored_rows(grant, projects),
        "next": cursor,
        "server": request.build_absolute_uri("/").rstrip("/"),
    }
    return render(request, "audit/transcript_list.html", context, status=400 if error else 200)


def _unstored_rows(grant: access.Grant, projects: Iterable[int]) -> list[tuple[Archival, bool]]:
    """Return the transcripts that are not stored, and whether the reason may be shown. It may quote a text."""
    return [(archival, grant.may(Right.PAYLOAD, archival.project_id)) for archival in unstored_transcripts(projects)]


@access.requires(Right.TRANSCRIPTS)
def transcript_detail(request: HttpRequest, key: uuid.UUID, step: int) -> HttpResponse:
    grant = access.request_grant(request)
    transcript = access.get_transcript(grant, key, step)
    links = verification.chain_rows(key)
    stored_steps = set(Transcript.objects.filter(session_key=key).values_list("step", flat=True))
    start = _first_message(request, transcript)
    end = start + MESSAGES_PER_PAGE
    may_read = grant.may(Right.PAYLOAD, transcript.project_id)
    wants_text = may_read and request.GET.get("show") == "text"
    if wants_text:
        target = f"{transcript.session_id} step {step} messages from {start + 1}"
        log.record(
            request,
            Action.TRANSCRIPT_VIEW,
            project_id=transcript.project_id,
            target=target,
            reason=payload_views.reason_of(request),
            **_session_of(transcript),
        )
    context = {
        "transcript": transcript,
        "project": Project.objects.get(pk=transcript.project_id),
        "session": Session.objects.filter(session_key=key).first(),
        "links": [(link, link.kind == ChainLink.Kind.STORED and link.step in stored_steps) for link in links],
        "link": next((link for link in links if link.chain == transcript.chain), None),
        "reasons": downloads.REASONS,
        "may_read": may_read,
        "may_delete": grant.may(Right.MANAGE, transcript.project_id),
        "wants_text": wants_text,
        "lines": _read_lines(transcript, start, end) if wants_text else [],
        "later": end if end < transcript.message_count else None,
        "earlier": max(0, start - MESSAGES_PER_PAGE) if start else None,
    }
    return render(request, "audit/transcript_detail.html", context)


@access.requires(Right.TRANSCRIPTS)
def transcript_download(request: HttpRequest, key: uuid.UUID, step: int) -> HttpResponseBase:
    transcript = access.get_transcript(access.request_grant(request), key, step)
    send = downloads.send_bundle if request.GET.get("as") == "bundle" else downloads.send_transcript
    try:
        return send(request, transcript)
    except BadFilter as error:
        messages.error(request, str(error))
        return redirect("transcript-detail", key, step)


@access.requires(Right.TRANSCRIPTS, "POST")
def transcript_verify(request: HttpRequest, key: uuid.UUID, step: int) -> HttpResponse:
    """Recompute the hash chain and all texts of the session."""
    transcript = access.get_transcript(access.request_grant(request), key, step)
    result = verify_archive(request, transcript)
    (messages.error if result.problems else messages.success)(request, result.sentence[:_MAX_MESSAGE_CHARS])
    return redirect("transcript-detail", key, step)


@access.requires(Right.MANAGE, "POST")
def transcript_delete(request: HttpRequest, key: uuid.UUID, step: int) -> HttpResponse:
    transcript = access.get_transcript(access.request_grant(request), key, step, Right.MANAGE)
    reason = log.clean(request.POST.get("reason", "").strip())
    if not reason:
        messages.error(request, "Enter a reason. The tombstone keeps it.")
        return redirect("transcript-detail", key, step)
    try:
        transcripts.delete([transcript], reason=reason, by=request.user.get_username())
    except transcripts.LegalHold as error:
        messages.error(request, str(error))
        return redirect("transcript-detail", key, step)
    target = f"{transcript.session_id} step {step}"
    log.record(
        request,
        Action.TRANSCRIPT_DELETE,
        project_id=transcript.project_id,
        target=target,
        reason=reason,
        **_session_of(transcript),
    )
    messages.success(
        request, f"Deleted step {step} of {transcript.session_id}. Its tombstone remains in the hash chain."
    )
    return redirect("transcript-list")


def _session_of(transcript: Transcript) -> dict[str, Any]:
    return {"session": transcript.session_id, "session_key": str(transcript.session_key)}


def _first_message(request: HttpRequest, transcript: Transcript) -> int:
    text = request.GET.get("from", "")
    start = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    return start if start < transcript.message_count else 0


def _read_lines(transcript: Transcript, start: int, end: int) -> list[Line]:
    hashes = transcripts.message_hashes(transcript)
    archived = transcripts.lines(transcript, start, end)
    return [_parse_line(number, hashes[number], raw) for number, raw in enumerate(archived, start)]


def _parse_line(number: int, digest: bytes, raw: bytes) -> Line:
    message, _ = default_redactor().tree(json.loads(raw))
    content = message.get("content")
    text = content if isinstance(content, str) else _indent(content)
    rest = {name: value for name, value in message.items() if name not in ("id", "role", "content") and value}
    if rest:
        text = f"{text}\n{_indent(rest)}".strip()
    return Line(
        number=number + 1,
        id=str(message.get("id") or ""),
        role=str(message.get("role") or ""),
        text=text[:_MAX_SHOWN_CHARS],
        hash=digest.hex(),
        is_truncated=len(text) > _MAX_SHOWN_CHARS,
    )


def _indent(value: Any) -> str:
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)

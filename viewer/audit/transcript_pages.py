"""The auditor's pages: transcripts, one transcript, its proof and its download."""

from __future__ import annotations

import json
import uuid
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
from viewer.audit import downloads, log, queries
from viewer.audit.log import Action
from viewer.audit.queries import BadFilter, TranscriptFilter
from viewer.page_frame import first_event

MESSAGES_A_PAGE = 50
# A tool output of megabytes is for the download, not for a page.
_SHOWN_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Line:
    """A message as the page shows it: who, and the text."""

    number: int
    id: str
    role: str
    text: str
    hash: str
    is_cut: bool


@access.needs(Right.TRANSCRIPTS)
def transcript_list(request: HttpRequest) -> HttpResponse:
    held = access.grant(request)
    projects = {p.pk: p for p in Project.objects.filter(pk__in=held.projects(Right.TRANSCRIPTS)).order_by("name")}
    fault = None
    try:
        wanted = TranscriptFilter.from_query(request.GET)
    except BadFilter as bad:
        wanted, fault = TranscriptFilter(), str(bad)
    page, more = queries.transcripts_page(projects, wanted)
    context = {
        "transcripts": [(row, projects[row.project_id]) for row in page],
        "projects": list(projects.values()),
        "wanted": wanted,
        "fault": fault,
        "reasons": downloads.REASONS,
        "is_filtered": bool(wanted.q or wanted.period.since or wanted.period.until),
        "next": more,
        "first": first_event(request, next(iter(projects), 0)),
    }
    return render(request, "audit/transcript_list.html", context, status=400 if fault else 200)


@access.needs(Right.TRANSCRIPTS)
def transcript_detail(request: HttpRequest, key: uuid.UUID, step: int) -> HttpResponse:
    held = access.grant(request)
    transcript = access.transcript(held, key, step)
    links = verification.chain_rows(key)
    kept = set(Transcript.objects.filter(session_key=key).values_list("step", flat=True))
    start = _start(request, transcript)
    may_read = held.may(Right.PAYLOAD, transcript.project_id)
    wants_text = may_read and request.GET.get("show") == "text"
    if wants_text:
        target = f"{transcript.session_id} step {step} messages from {start + 1}"
        log.record(request, Action.TRANSCRIPT_VIEW, project_id=transcript.project_id, target=target)
    context = {
        "transcript": transcript,
        "project": Project.objects.get(pk=transcript.project_id),
        "session": Session.objects.filter(session_key=key).first(),
        "links": [(link, link.kind == ChainLink.Kind.STORED and link.step in kept) for link in links],
        "link": next((link for link in links if link.chain == transcript.chain), None),
        "reasons": downloads.REASONS,
        "may_read": may_read,
        "may_delete": held.may(Right.MANAGE, transcript.project_id),
        "wants_text": wants_text,
        "lines": _lines(transcript, start) if wants_text else [],
        "later": start + MESSAGES_A_PAGE if start + MESSAGES_A_PAGE < transcript.message_count else None,
        "earlier": max(0, start - MESSAGES_A_PAGE) if start else None,
    }
    return render(request, "audit/transcript_detail.html", context)


@access.needs(Right.TRANSCRIPTS)
def transcript_download(request: HttpRequest, key: uuid.UUID, step: int) -> HttpResponseBase:
    transcript = access.transcript(access.grant(request), key, step)
    send = downloads.send_bundle if request.GET.get("as") == "bundle" else downloads.send_transcript
    try:
        return send(request, transcript)
    except BadFilter as bad:
        messages.error(request, str(bad))
        return redirect("transcript-detail", key, step)


@access.needs(Right.TRANSCRIPTS, "POST")
def transcript_verify(request: HttpRequest, key: uuid.UUID, step: int) -> HttpResponse:
    """Check the whole chain of the session, texts included, and come back with the answer."""
    transcript = access.transcript(access.grant(request), key, step)
    finding = verification.verify_session(key)
    log.record(
        request,
        Action.ARCHIVE_VERIFY,
        project_id=transcript.project_id,
        target=transcript.session_id,
        faults=len(finding.faults),
    )
    if finding.faults:
        messages.error(request, "Not whole: " + "; ".join(finding.faults[:5]))
    else:
        whole = f"Whole: {finding.stored} transcripts and {finding.deleted} tombstones, every text and link recomputed."
        messages.success(request, whole)
    return redirect("transcript-detail", key, step)


@access.needs(Right.MANAGE, "POST")
def transcript_delete(request: HttpRequest, key: uuid.UUID, step: int) -> HttpResponse:
    transcript = access.transcript(access.grant(request), key, step, Right.MANAGE)
    reason = log.clean(request.POST.get("reason", "").strip())
    if not reason:
        messages.error(request, "Say why it is deleted: the tombstone keeps the reason.")
        return redirect("transcript-detail", key, step)
    try:
        transcripts.delete([transcript], reason=reason, by=request.user.get_username())
    except transcripts.LegalHold as held:
        messages.error(request, str(held))
        return redirect("transcript-detail", key, step)
    target = f"{transcript.session_id} step {step}"
    log.record(request, Action.TRANSCRIPT_DELETE, project_id=transcript.project_id, target=target, reason=reason)
    messages.success(request, f"Deleted step {step} of {transcript.session_id}; its tombstone stays in the chain.")
    return redirect("transcript-list")


def _start(request: HttpRequest, transcript: Transcript) -> int:
    text = request.GET.get("from", "")
    start = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    return start if start < transcript.message_count else 0


def _lines(transcript: Transcript, start: int) -> list[Line]:
    hashes = transcripts.message_hashes(transcript)
    archived = transcripts.lines(transcript, start, start + MESSAGES_A_PAGE)
    return [_line(number, hashes[number], raw) for number, raw in enumerate(archived, start)]


def _line(number: int, digest: bytes, raw: bytes) -> Line:
    message, _ = default_redactor().tree(json.loads(raw))
    content = message.get("content")
    text = content if isinstance(content, str) else _pretty(content)
    rest = {name: value for name, value in message.items() if name not in ("id", "role", "content") and value}
    if rest:
        text = f"{text}\n{_pretty(rest)}".strip()
    return Line(
        number=number + 1,
        id=str(message.get("id") or ""),
        role=str(message.get("role") or ""),
        text=text[:_SHOWN_CHARS],
        hash=digest.hex(),
        is_cut=len(text) > _SHOWN_CHARS,
    )


def _pretty(value: Any) -> str:
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)

"""The pages of archived transcripts: list, detail, verification, download and deletion."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect

from ingest.archive import transcripts, verification
from ingest.models import ChainLink, Project, Session, Transcript
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.audit import downloads, log, payload_views, queries
from viewer.audit.log import Action
from viewer.audit.queries import TranscriptFilter
from viewer.audit.transcripts.archival_states import Archival, unstored_transcripts
from viewer.audit.verification import verify_archive
from viewer.chat import ChatMessage, parse_message
from viewer.compactions.ledger import Entry
from viewer.compactions.queries import fate_ledger
from viewer.page_response import send_page
from viewer.project_redactor import project_redactor
from viewer.rest import BadFilter
from viewer.sessions.queries import checks as session_checks

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
    message: ChatMessage
    hash: str
    is_truncated: bool
    entry: Entry | None  # its fate, if the compaction has a ledger


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages on a page of a transcript. With a search term, those that contain it."""

    lines: list[Line]
    match_count: int | None = None


@access.requires(Right.TRANSCRIPTS)
def transcript_list(request: HttpRequest) -> HttpResponseBase:
    error = None
    try:
        filters = TranscriptFilter.from_query(request.GET)
    except BadFilter as bad:
        filters, error = TranscriptFilter(), str(bad)
    known = {
        "filters": filters,
        "error": error,
        "reasons": downloads.REASONS,
        "is_filtered": filters.is_active,
        "server": request.build_absolute_uri("/").rstrip("/"),
    }
    return send_page(
        request,
        "audit/transcript_list.html",
        known,
        lambda: _list_context(request, filters),
        status=400 if error else 200,
    )


def _list_context(request: HttpRequest, filters: TranscriptFilter) -> dict[str, Any]:
    grant = access.request_grant(request)
    allowed = grant.projects(Right.TRANSCRIPTS)
    projects = {project.pk: project for project in Project.objects.filter(pk__in=allowed).order_by("name")}
    page, cursor = queries.transcripts_page(projects, filters)
    return {
        "transcripts": [(transcript, projects[transcript.project_id]) for transcript in page],
        "projects": list(projects.values()),
        "unstored": [] if filters.is_active or filters.before else _unstored_rows(grant, projects),
        "next": cursor,
    }


def _unstored_rows(grant: access.Grant, projects: Iterable[int]) -> list[tuple[Archival, bool]]:
    """Return the transcripts that are not stored, and whether the reason may be shown. It may quote a text."""
    return [(archival, grant.may(Right.PAYLOAD, archival.project_id)) for archival in unstored_transcripts(projects)]


@access.requires(Right.TRANSCRIPTS)
def transcript_detail(request: HttpRequest, key: uuid.UUID, step: int) -> HttpResponseBase:
    transcript = access.get_transcript(access.request_grant(request), key, step)
    return send_page(
        request,
        "audit/transcript_detail.html",
        {"transcript": transcript},
        lambda: _detail_context(request, transcript),
    )


def _has_text(link: ChainLink, stored_steps: Collection[int]) -> bool:
    return link.kind == ChainLink.Kind.STORED and link.step in stored_steps


def _messages_page(transcript: Transcript, start: int, term: str, compaction: ArchivedCompaction | None) -> Messages:
    return read_messages(transcript, start, term.lower(), compaction.entries if compaction else {})


def _record_view(request: HttpRequest, transcript: Transcript, part: str) -> None:
    log.record(
        request,
        Action.TRANSCRIPT_VIEW,
        project_id=transcript.project_id,
        target=f"{transcript.session_id} step {transcript.step} {part}",
        reason=payload_views.reason_of(request),
        **_session_of(transcript),
    )


def _detail_context(request: HttpRequest, transcript: Transcript) -> dict[str, Any]:
    grant, key = access.request_grant(request), transcript.session_key
    links = verification.chain_rows(transcript.cell, key)
    stored_steps = set(Transcript.objects.filter(cell=transcript.cell, session_key=key).values_list("step", flat=True))
    start = _first_message(request, transcript)
    end = start + MESSAGES_PER_PAGE
    term = request.GET.get("q", "").strip()[:200]
    session = Session.objects.filter(pk=(transcript.cell, key)).first()
    compaction = _compaction_of(transcript, session)
    may_read = grant.may(Right.PAYLOAD, transcript.project_id)
    wants_text = may_read and request.GET.get("show") == "text"
    if wants_text:
        _record_view(request, transcript, "search" if term else f"messages from {start + 1}")
    return {
        "project": Project.objects.get(pk=transcript.project_id),
        "session": session,
        "compaction": compaction,
        "term": term,
        "links": [(link, _has_text(link, stored_steps)) for link in links],
        "link": next((link for link in links if link.chain == transcript.chain), None),
        "reasons": downloads.REASONS,
        "may_read": may_read,
        "may_delete": grant.may(Right.MANAGE, transcript.project_id),
        "wants_text": wants_text,
        "messages_page": _messages_page(transcript, start, term, compaction) if wants_text else None,
        "later": end if end < transcript.message_count and not term else None,
        "earlier": max(0, start - MESSAGES_PER_PAGE) if start and not term else None,
        "per_page": MESSAGES_PER_PAGE,
    }


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


def read_messages(transcript: Transcript, start: int, term: str, entries: Mapping[str, Entry]) -> Messages:
    """Return a page of the transcript, or the first messages that contain the term."""
    hashes = transcripts.message_hashes(transcript)
    redact = project_redactor(transcript.project_id).tree
    if not term:
        archived = transcripts.lines(transcript, start, start + MESSAGES_PER_PAGE)
        return Messages(
            [_parse_line(n, hashes[n], redact(json.loads(raw))[0], entries) for n, raw in enumerate(archived, start)]
        )
    lines: list[Line] = []
    count = 0
    for number, raw in enumerate(transcripts.lines(transcript)):
        # A search must not find what the page hides.
        body, _ = redact(json.loads(raw))
        if term not in parse_message(body).text.lower():
            continue
        count += 1
        if len(lines) < MESSAGES_PER_PAGE:
            lines.append(_parse_line(number, hashes[number], body, entries))
    return Messages(lines, count)


def _parse_line(number: int, digest: bytes, body: dict[str, Any], entries: Mapping[str, Entry]) -> Line:
    message, is_truncated = parse_message(body).truncate(_MAX_SHOWN_CHARS)
    return Line(
        number=number + 1,
        id=str(body.get("id") or ""),
        message=message,
        hash=digest.hex(),
        is_truncated=is_truncated,
        entry=entries.get(digest.hex()),
    )


@dataclass(frozen=True, slots=True)
class ArchivedCompaction:
    """The compaction that archived a transcript, and the fates of its messages by hash."""

    number: int
    entries: Mapping[str, Entry]


def _compaction_of(transcript: Transcript, session: Session | None) -> ArchivedCompaction | None:
    """Find the compaction of a transcript. Its session may have been deleted."""
    if session is None:
        return None
    compactions = session_checks(session).compactions()
    for number, check in enumerate(compactions, 1):
        if check.step == transcript.step:
            entries = fate_ledger(session, check).entries
            return ArchivedCompaction(number, {entry.hash: entry for entry in entries if entry.hash})
    return None

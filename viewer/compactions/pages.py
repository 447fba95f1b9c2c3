"""The page of one compaction and its fragments: rework, what-if, message texts and the ledger file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from html import escape
from typing import Any, Literal

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify

from ingest.archive.transcripts import message_hashes
from ingest.models import Session, Transcript
from viewer import csv_file
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.audit import payload_views
from viewer.audit.payload_views import Sight
from viewer.audit.transcripts.archival_states import Archival, compaction_archival
from viewer.chat import ChatMessage, parse_message
from viewer.compactions import queries, rework
from viewer.compactions.ledger import Entry
from viewer.compactions.lineage import previous_summary, summary_text, version_links
from viewer.compactions.lost_facts import LostFact, in_sentences, lost_facts, source_ids
from viewer.compactions.page_parts import FIRST_LINES, ContentParts, LedgerPart, SummaryPart
from viewer.compactions.parts_cache import read_all_lines, read_parts
from viewer.compactions.restore_commands import restore_commands
from viewer.compactions.session_replay import CannotPlan, Step
from viewer.compactions.what_if import STRATEGIES, Choice, Source, plan_again, replay
from viewer.costs.session_report import compaction_effect
from viewer.kinds import ARCHIVAL, RETENTION, SUMMARY
from viewer.page_response import send_page
from viewer.sessions.checks import Check
from viewer.sessions.descriptions import describe_losses
from viewer.sessions.inspection import retention_rows
from viewer.sessions.queries import checks as session_checks
from viewer.templatetags.ariadne import session_name

_MAX_FACT_CHARS = 300


@dataclass(frozen=True, slots=True)
class Compaction:
    """One compaction among the checks of its session."""

    session: Session
    sight: Sight
    number: int
    check: Check
    checks: list[Check]

    @property
    def all(self) -> list[Check]:
        return [check for check in self.checks if check.is_compaction]

    @property
    def later_checks(self) -> list[Check]:
        return self.checks[self.checks.index(self.check) + 1 :]

    @property
    def next(self) -> Check | None:
        return next((check for check in self.later_checks if check.is_compaction), None)

    @property
    def calls_until_next(self) -> int:
        later = self.later_checks
        return next((count for count, check in enumerate(later) if check.is_compaction), len(later))


@access.requires(Right.SESSIONS)
def compaction_detail(request: HttpRequest, name: str, number: int) -> HttpResponseBase:
    compaction = _get_compaction(request, name, number)
    known = {"session": compaction.session, "number": number}
    return send_page(
        request, "compactions/compaction_detail.html", known, lambda: _compaction_context(request, compaction)
    )


@access.requires(Right.SESSIONS)
def compaction_of_span(request: HttpRequest, name: str, span: str) -> HttpResponse:
    """Redirect to the page of the compaction with a span. A program knows its spans, but not their numbers here."""
    session = access.get_session(access.request_grant(request), name, Right.SESSIONS)
    compactions = session_checks(session, payload_views.sight(request, session).visibility).compactions()
    for number, check in enumerate(compactions, start=1):
        if any(row.span_id == span for row in check.spans.values()):
            return redirect("compaction-detail", session_name(session), number)
    raise Http404("No such compaction.")


def _compaction_context(request: HttpRequest, compaction: Compaction) -> dict[str, Any]:
    session, check, compactions, number = compaction.session, compaction.check, compaction.all, compaction.number
    public, content = read_parts(session, compactions, number, has_content=compaction.sight.has_content)
    archival, transcript = _archival(session, check)
    ledger = public.ledger
    bodies: dict[str, ChatMessage] = {}
    texts: dict[str, Any] = {"lines": "", "lost": None, "listed_count": 0, "earlier": {}}
    if content:
        bodies, texts = _content_context(session, ledger, content, transcript)
        if public.summary and public.summary.line_count > FIRST_LINES:
            texts |= _long_summary(request, compaction, public.summary)
        if bodies or public.summary or content.lost:
            payload_views.record_view(request, session, part=f"compaction {number}")
    return {
        **texts,
        "check": check,
        "losses": describe_losses(check),
        "restore_commands": restore_commands(session.session_id),
        "count": len(compactions),
        "previous": number - 1 if number > 1 else None,
        "next": number + 1 if number < len(compactions) else None,
        "ledger": ledger,
        "unreadable": public.unreadable,
        "left_count": check.pruned_count,
        # The summaries and pointers of earlier compactions are no messages of the conversation.
        "replaced_count": max(0, ledger.removed_count - check.pruned_count),
        "first_rows": _first_rows(ledger, bodies, has_content=content is not None),
        "previews": {digest: body.preview for digest, body in bodies.items()},
        "flow": mark_safe(public.flow),  # noqa: S308 - rendered by `page_parts`
        "rows": mark_safe(ledger.rows),  # noqa: S308
        "versions": version_links(compactions, number),
        "version": public.summary,
        "by_kind": retention_rows(retention.data) if (retention := check.span(RETENTION)) else [],
        "sight": compaction.sight,
        "cache": compaction_effect(session, check, compaction.calls_until_next),
        "archival": archival,
        "transcript": transcript,
    }


def _content_context(
    session: Session, ledger: LedgerPart, content: ContentParts, transcript: Transcript | None
) -> tuple[dict[str, ChatMessage], dict[str, Any]]:
    """Return the messages that the page shows, by hash, and the part of its context that has texts."""
    hashes = _source_hashes(content, transcript)
    sources = {name: hashes[name] for name in _fact_sources(content) if name in hashes}
    bodies = _read_messages(session, ledger, sources)
    return bodies, {
        "lines": mark_safe(content.lines),  # noqa: S308 - rendered by `page_parts`
        "lost": _render_lost(content, sources, bodies),
        "listed_count": len(content.lost),
        "earlier": _message_urls(session, content, hashes),
    }


def _long_summary(request: HttpRequest, compaction: Compaction, summary: SummaryPart) -> dict[str, Any]:
    """Return all lines of a long summary with `?lines=all`, or else the number of those that are not shown."""
    if request.GET.get("lines") != "all":
        return {"hidden_line_count": summary.line_count - FIRST_LINES}
    lines = read_all_lines(compaction.session, compaction.all, compaction.number)
    return {"lines": mark_safe(lines)}  # noqa: S308 - rendered by `page_parts`


@access.requires(Right.PAYLOAD)
def previews(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """The first words of each message in the ledger, by hash, as JSON."""
    compaction = _get_compaction(request, name, number, Right.PAYLOAD)
    if compaction.sight.needs_reason:
        return render(request, "sessions/_reason_required.html", {"session": compaction.session}, status=400)
    entries = queries.fate_ledger(compaction.session, compaction.check).entries
    payload_views.record_view(request, compaction.session, part=f"compaction {number}")
    bodies = queries.message_bodies(compaction.session, {entry.hash for entry in entries})
    return JsonResponse({digest: parse_message(body).preview for digest, body in bodies.items()})


@access.requires(Right.SESSIONS)
def rework_fragment(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Content that was needed again before the next compaction. The page loads it late: it reads the whole session."""
    compaction = _get_compaction(request, name, number)
    session, check, following = compaction.session, compaction.check, compaction.next
    start, end = check.ended_at, following.started_at if following else None
    visibility = compaction.sight.visibility
    repeats = queries.repeated_calls(session, visibility, start, end) if start else []
    questions = _find_questions(session, check, queries.conversation(session, start, end)) if start else []
    if compaction.sight.has_content and (repeats or questions):
        payload_views.record_view(request, session, part=f"compaction {number}")
    context = {
        "session": session,
        "number": number,
        "sight": compaction.sight,
        "repeats": repeats,
        "questions": questions,
        "rehydrations": rework.rehydrations(session_checks(session, visibility).spans(), check, following),
    }
    return render(request, "compactions/_rework.html", context)


@access.requires(Right.SESSIONS)
def ledger_file(request: HttpRequest, name: str, number: int, extension: Literal["csv", "json"]) -> HttpResponse:
    """The fate ledger as CSV or JSON: ids, hashes and rules, no text."""
    compaction = _get_compaction(request, name, number)
    # The longest file name of most systems is 255 bytes.
    file_stem = slugify(compaction.session.session_id)[:80] or "session"
    rows = [_file_row(entry) for entry in queries.fate_ledger(compaction.session, compaction.check).entries]
    if extension == "json":
        response = HttpResponse(json.dumps(rows, indent=1), "application/json")
    else:
        columns = ["number", *(field.name for field in fields(Entry) if field.name != "position")]
        content = csv_file.encode(columns, [list(row.values()) for row in rows])
        response = HttpResponse(b"".join(content), "text/csv; charset=utf-8")
    file_name = f"{file_stem}-compaction-{number}-ledger.{extension}"
    response["Content-Disposition"] = f'attachment; filename="{file_name}"'
    return response


def _file_row(entry: Entry) -> dict[str, Any]:
    """Return a row of a downloaded ledger, with the number that the page shows."""
    row = asdict(entry)
    return {"number": row.pop("position") + 1, **row}


@access.requires(Right.PAYLOAD)
def message(request: HttpRequest, name: str, digest: str) -> HttpResponse:
    """The text of one message. The view is recorded in the audit log first."""
    session = access.get_session(access.request_grant(request), name, Right.PAYLOAD)
    if payload_views.sight(request, session).needs_reason:
        return render(request, "sessions/_reason_required.html", {"session": session}, status=400)
    payload_views.record_view(request, session, part=f"message {digest}")
    body = queries.message_bodies(session, [digest]).get(digest)
    context = {
        "message": None if body is None else parse_message(body),
        "raw": json.dumps(body, indent=2, ensure_ascii=False),
        "digest": digest,
    }
    return render(request, "compactions/_message_text.html", context)


@access.requires(Right.SESSIONS)
def what_if(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """The fates of the stored prompt under another policy. `?replay=1` plans it as it was."""
    compaction = _get_compaction(request, name, number)
    check, source = compaction.check, _what_if_source(compaction)
    context: dict[str, Any] = {"check": check}
    try:
        context["replay"] = replay(source)
        if "replay" in request.GET:
            context["strategies"] = STRATEGIES
            context["action"] = request.path
            return render(request, "compactions/_replay.html", context)
        context["outcome"] = plan_again(source, Choice.from_query(request.GET, check))
    except CannotPlan as error:
        context["problem"] = str(error)
    return render(request, "compactions/_what_if_result.html", context)


def _source_hashes(content: ContentParts, transcript: Transcript | None) -> dict[str, str]:
    """Return the hashes of the messages that lost facts and lines of the summary came from, by id.

    A message that an earlier compaction removed is not in the ledger, but in the transcript.
    """
    wanted = _fact_sources(content) | set(content.earlier)
    hashes: dict[str, str] = {}
    if transcript is not None and transcript.ids:
        archived = zip(transcript.ids, message_hashes(transcript), strict=False)
        hashes = {name: digest.hex() for name, digest in archived if name in wanted}
    return hashes | {name: entry.hash for name, entry in content.sources.items()}


def _fact_sources(content: ContentParts) -> set[str]:
    """Return the ids of the messages that contained the lost facts."""
    return {source for fact in content.lost for source in source_ids(fact)}


def _message_urls(session: Session, content: ContentParts, hashes: Mapping[str, str]) -> dict[str, str]:
    """Return the addresses of source messages that are not in the ledger, by id."""
    earlier = {name: digest for name, digest in hashes.items() if name not in content.sources}
    return {name: reverse("message", args=[session_name(session), digest]) for name, digest in earlier.items()}


def _read_messages(session: Session, ledger: LedgerPart, sources: Mapping[str, str]) -> dict[str, ChatMessage]:
    """Return the messages of the first rows and of the lost facts, by hash. A script loads the others."""
    hashes = {entry.hash for entry in ledger.first_entries} | set(sources.values())
    return {digest: parse_message(body) for digest, body in queries.message_bodies(session, hashes).items()}


def _first_rows(
    ledger: LedgerPart, bodies: Mapping[str, ChatMessage], *, has_content: bool
) -> list[tuple[Entry, ChatMessage | None, str]]:
    """Return the rows that the page contains before a script draws the ledger, with the first words of each message."""
    missing = "Text not stored" if has_content else "hidden"
    rows = [(entry, bodies.get(entry.hash)) for entry in ledger.first_entries]
    return [
        (entry, body, (body.preview or "Empty message") if body else entry.stand_in or missing) for entry, body in rows
    ]


def _render_lost(
    content: ContentParts, sources: Mapping[str, str], bodies: Mapping[str, ChatMessage]
) -> list[tuple[str, int, SafeString]]:
    """Return the kinds of lost facts, each with the number of facts and their sentences as HTML."""
    texts = {name: bodies[digest].text for name, digest in sources.items() if digest in bodies}
    kinds = in_sentences(content.lost, content.sources.values(), texts)
    return [
        (kind, len(facts), mark_safe("".join(map(_render_fact, facts))))  # noqa: S308 - escaped by `_render_fact`
        for kind, facts in kinds.items()
    ]


def _render_fact(fact: LostFact) -> str:
    """Return a lost fact in its sentence as HTML. A template takes ten times as long, and a page has up to 500."""
    is_long = len(fact.value) > _MAX_FACT_CHARS
    value = f"{fact.value[: _MAX_FACT_CHARS - 1]}…" if is_long else fact.value
    sentence = f"{escape(fact.before)}<mark>{escape(value)}</mark>{escape(fact.after)}"
    link = ""
    if entry := fact.entry:
        words = f"{entry.role} message {entry.position + 1}"
        link = f' <a class="small" href="#m-{escape(entry.id)}">{escape(words)}</a>'
    elif fact.source:
        # The message left the prompt in an earlier compaction, and the previous summary had the fact.
        link = (
            f' <button class="link small" type="button" data-message="{escape(fact.source)}">earlier message</button>'
        )
    return f'<li data-testid="lost-fact"><q dir="auto">{sentence}</q>{link}</li>\n'


def _get_compaction(request: HttpRequest, name: str, number: int, right: Right = Right.SESSIONS) -> Compaction:
    session = access.get_session(access.request_grant(request), name, right)
    sight = payload_views.sight(request, session)
    checks = session_checks(session, sight.visibility).timeline()
    compactions = [check for check in checks if check.is_compaction]
    if not 1 <= number <= len(compactions):
        raise Http404("No such compaction.")
    return Compaction(session, sight, number, compactions[number - 1], checks)


def _what_if_source(compaction: Compaction) -> Source:
    """Return a compaction and those before it, or raise Http404 if its transcript is not stored."""
    session, completed = compaction.session, compaction.all[: compaction.number]
    archived = {check.key: _archival(session, check)[1] for check in completed}
    if archived.get(compaction.check.key) is None:
        raise Http404("No transcript is stored for this compaction.")
    steps = [
        Step(transcript, check, queries.fate_ledger(session, check))
        for check in completed
        if (transcript := archived[check.key]) is not None
    ]
    if len(steps) == len(completed):
        return Source.of(steps)
    previous = previous_summary(compaction.all, compaction.number)
    text = summary_text(queries.payload(session, previous.span(SUMMARY))) if previous else ""
    return Source.of(steps[-1:], text)


def _find_questions(session: Session, check: Check, utterances: list[rework.Utterance]) -> list[rework.Question]:
    # Reading the archive is slow, so look for questions first.
    if not any(rework.requests(utterance.text) for utterance in utterances):
        return []
    entries = queries.fate_ledger(session, check).entries
    texts = queries.archived_texts(session, (entry.hash for entry in entries))
    remaining = [texts.get(entry.hash, "") for entry in entries if entry.stays]
    remaining.append(rework.message_text(queries.payload(session, check.span(SUMMARY))))
    removed = rework.removed_texts(entries, texts, lost_facts(queries.payload(session, check.span(RETENTION))))
    return rework.find_questions(utterances, removed, remaining)


def _archival(session: Session, check: Check) -> tuple[Archival | None, Transcript | None]:
    """Return the state of the compaction's transcript, and the transcript if this server has it."""
    archival, transcript = compaction_archival(session, [span.data for span in check.spans_of(ARCHIVAL)])
    # Without an event, the step is all that is known. With one, only the content that it names is this compaction's.
    return archival, transcript if archival else queries.transcript(session, check.step)

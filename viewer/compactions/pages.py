"""The page of one compaction and its fragments: rework, what-if, message texts and the ledger file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.text import slugify

from ingest.models import Session, Transcript
from viewer import csv_file
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.audit import payload_views
from viewer.audit.archival_states import Archival, compaction_archival
from viewer.audit.payload_views import Sight
from viewer.compactions import queries, rework
from viewer.compactions.flow import build_flow
from viewer.compactions.ledger import Entry
from viewer.compactions.lineage import Version, hide_text, neighbors, summary_versions
from viewer.compactions.what_if import STRATEGIES, CannotPlan, Choice, Prompt, plan_again
from viewer.costs.session_report import compaction_effect
from viewer.kinds import ARCHIVAL, RETENTION, SUMMARY
from viewer.sessions.checks import Check
from viewer.sessions.descriptions import describe_losses
from viewer.sessions.inspection import retention_rows
from viewer.sessions.queries import checks as session_checks


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
def compaction_detail(request: HttpRequest, name: str, number: int) -> HttpResponse:
    compaction = _get_compaction(request, name, number)
    session, check, compactions = compaction.session, compaction.check, compaction.all
    has_content = compaction.sight.has_content
    ledger = queries.fate_ledger(session, check)
    versions = _summary_versions(session, compactions, number)
    lost = _group_by_kind(queries.lost_facts(session, [check])[0])
    if has_content and (versions or lost):
        payload_views.record_view(request, session, part=f"compaction {number}")
    if not has_content:
        versions = [hide_text(version) for version in versions]
    retention = check.span(RETENTION)
    by_kind = retention_rows(retention.data) if retention else []
    has_losses = any(row["lost"] for row in by_kind)
    archival, transcript = _archival(session, check)
    context = {
        "session": session,
        "check": check,
        "losses": describe_losses(check),
        "number": number,
        "count": len(compactions),
        "previous": number - 1 if number > 1 else None,
        "next": number + 1 if number < len(compactions) else None,
        "ledger": ledger,
        "flow": build_flow(ledger, check.before, check.after) if ledger.entries else None,
        "lineage": versions,
        "version": next((version for version in versions if version.number == number), None),
        "by_kind": by_kind,
        "lost": lost if has_content or not has_losses else None,
        "sight": compaction.sight,
        "cache": compaction_effect(session, check, compaction.calls_until_next),
        "archival": archival,
        "transcript": transcript,
        "strategies": STRATEGIES,
    }
    return render(request, "compactions/compaction_detail.html", context)


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
def ledger_file(request: HttpRequest, name: str, number: int, extension: str) -> HttpResponse:
    """The fate ledger as CSV or JSON: ids, hashes and rules, no text."""
    compaction = _get_compaction(request, name, number)
    session_name = slugify(compaction.session.session_id) or "session"
    rows = [asdict(entry) for entry in queries.fate_ledger(compaction.session, compaction.check).entries]
    if extension == "json":
        response = HttpResponse(json.dumps(rows, indent=1), "application/json")
    else:
        columns = [field.name for field in fields(Entry)]
        content = csv_file.encode(columns, [list(row.values()) for row in rows])
        response = HttpResponse(b"".join(content), "text/csv; charset=utf-8")
    file_name = f"{session_name}-compaction-{number}-ledger.{extension}"
    response["Content-Disposition"] = f'attachment; filename="{file_name}"'
    return response


@access.requires(Right.PAYLOAD)
def message(request: HttpRequest, name: str, digest: str) -> HttpResponse:
    """The archived text of one message. The view is recorded in the audit log first."""
    session = access.get_session(access.request_grant(request), name, Right.PAYLOAD)
    if payload_views.sight(request, session).needs_reason:
        return render(request, "sessions/_reason_required.html", {"session": session}, status=400)
    payload_views.record_view(request, session, part=f"message {digest}")
    text = queries.archived_message(session, digest)
    return render(request, "compactions/_message_text.html", {"text": text, "digest": digest})


@access.requires(Right.SESSIONS)
def what_if(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """The fates of the stored prompt under another policy."""
    compaction = _get_compaction(request, name, number)
    session, check = compaction.session, compaction.check
    _, transcript = _archival(session, check)
    if transcript is None:
        raise Http404("No transcript is stored for this compaction.")
    previous = _summary_versions(session, compaction.all[: number - 1], number)
    prompt = Prompt(queries.fate_ledger(session, check), previous[-1].text if previous else "")
    try:
        answer = plan_again(transcript, check, prompt, Choice.from_query(request.GET, check))
    except CannotPlan as error:
        return render(request, "compactions/_what_if_result.html", {"problem": str(error)})
    return render(request, "compactions/_what_if_result.html", {"answer": answer, "check": check})


def _get_compaction(request: HttpRequest, name: str, number: int) -> Compaction:
    session = access.get_session(access.request_grant(request), name)
    sight = payload_views.sight(request, session)
    checks = session_checks(session, sight.visibility).timeline()
    compactions = [check for check in checks if check.is_compaction]
    if not 1 <= number <= len(compactions):
        raise Http404("No such compaction.")
    return Compaction(session, sight, number, compactions[number - 1], checks)


def _find_questions(session: Session, check: Check, utterances: list[rework.Utterance]) -> list[rework.Question]:
    # Reading the archive is slow, so look for questions first.
    if not any(rework.requests(utterance.text) for utterance in utterances):
        return []
    entries = queries.fate_ledger(session, check).entries
    texts = queries.archived_texts(session, (entry.hash for entry in entries))
    remaining = [texts.get(entry.hash, "") for entry in entries if entry.stays]
    remaining.append(rework.message_text(queries.payload(session, check.span(SUMMARY))))
    removed = rework.removed_texts(entries, texts, queries.lost_facts(session, [check])[0])
    return rework.find_questions(utterances, removed, remaining)


def _summary_versions(session: Session, compactions: list[Check], number: int) -> list[Version]:
    summarized = neighbors(compactions, number)
    spans = [span for _, check in summarized if (span := check.span(SUMMARY))]
    return summary_versions(summarized, queries.payloads(session, spans))


def _archival(session: Session, check: Check) -> tuple[Archival | None, Transcript | None]:
    """Return the state of the compaction's transcript, and the transcript if this server has it."""
    archival, transcript = compaction_archival(session, [span.data for span in check.spans_of(ARCHIVAL)])
    # Without an event, the step is all that is known. With one, only the content that it names is this compaction's.
    return archival, transcript if archival else queries.transcript(session, check.step)


def _group_by_kind(facts: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for fact in facts:
        kinds.setdefault(str(fact.get("kind", "")), []).append(fact)
    return kinds

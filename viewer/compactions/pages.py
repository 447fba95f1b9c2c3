"""The page of one compaction and the pieces it asks for: fates, summary, regret, what-if, files."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.text import slugify

from ingest.models import Session
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.audit import csv_file, log
from viewer.audit.log import Action
from viewer.compactions import rework, rework_queries
from viewer.compactions.cost import cache_effect
from viewer.compactions.flow import flow
from viewer.compactions.ledger import Entry, Ledger
from viewer.compactions.lineage import Version, near, versions
from viewer.compactions.what_if import STRATEGIES, CannotPlan, Choice, Prompt, plan_again
from viewer.kinds import RETENTION, SUMMARY
from viewer.sessions import queries
from viewer.sessions.checks import Check
from viewer.sessions.descriptions import describe_losses, describe_overhead
from viewer.sessions.inspection import retention_rows

_LOST_ITEMS = 500


@access.needs(Right.SESSIONS)
def compaction_detail(request: HttpRequest, session: str, number: int) -> HttpResponse:
    grant = access.grant(request)
    found, checks, check = _compaction(request, session, number)
    compactions = [other for other in checks if other.is_compaction]
    may_payload = grant.may(Right.PAYLOAD, found.project_id)
    messages = queries.fate_ledger(found, check)
    lineage = _lineage(found, compactions, number)
    retained = check.span(RETENTION)
    by_kind = retention_rows(retained.data) if retained else []
    following = checks[checks.index(check) + 1 :]
    calls = next((i for i, other in enumerate(following) if other.is_compaction), len(following))
    context = {
        "session": found,
        "check": check,
        "aftermath": describe_losses(check),
        "number": number,
        "count": len(compactions),
        "previous": number - 1 if number > 1 else None,
        "next": number + 1 if number < len(compactions) else None,
        "ledger": messages,
        "flow": flow(messages) if messages.entries else None,
        "beside": "" if messages.is_cut else describe_overhead(check, messages.tokens_before, messages.tokens_after),
        "lineage": lineage,
        "version": next((version for version in lineage if version.number == number), None),
        "by_kind": by_kind,
        "lost": _by_kind(_lost(found, check)) if may_payload or not any(row["lost"] for row in by_kind) else None,
        "may_payload": may_payload,
        "cache": cache_effect(check, calls),
        "transcript": queries.transcript(found, check.step),
        "strategies": STRATEGIES,
    }
    return render(request, "compactions/compaction_detail.html", context)


@access.needs(Right.SESSIONS)
def regrets(request: HttpRequest, session: str, number: int) -> HttpResponse:
    """What was needed again before the next compaction, as a piece of a page: it looks through the whole session."""
    found, checks, check = _compaction(request, session, number)
    later = next((other for other in checks[checks.index(check) + 1 :] if other.is_compaction), None)
    at, until = check.ended_at, later.started_at if later else None
    messages = queries.fate_ledger(found, check)
    context = {
        "session": found,
        "number": number,
        "may_payload": access.grant(request).may(Right.PAYLOAD, found.project_id),
        "repeats": rework_queries.repeated_tools(found, at, until) if at else [],
        "questions": _questions(found, check, messages, rework_queries.spoken(found, at, until)) if at else [],
        "brought_back": rework.brought_back(queries.checks(found).spans(), check, later),
    }
    return render(request, "compactions/_rework.html", context)


def _questions(session: Session, check: Check, messages: Ledger, later: list[rework.Said]) -> list[rework.Question]:
    if not any(rework.asking(said.text) for said in later):
        return []
    texts = rework_queries.texts(session, (entry.hash for entry in messages.entries))
    still = [texts.get(entry.hash, "") for entry in messages.entries if entry.stays]
    still.append(rework.words_of(_payload_of(session, check, SUMMARY)))
    return rework.questions(later, rework.gone_texts(messages.entries, texts, _lost(session, check)), still)


@access.needs(Right.SESSIONS)
def ledger_file(request: HttpRequest, session: str, number: int, extension: str) -> HttpResponse:
    """The fate ledger as a file: ids, hashes and rules, no text."""
    found, _, check = _compaction(request, session, number)
    entries = queries.fate_ledger(found, check).entries
    name = f"{slugify(found.session_id) or 'session'}-compaction-{number}-ledger.{extension}"
    rows = [asdict(entry) for entry in entries]
    if extension == "json":
        response = HttpResponse(json.dumps(rows, indent=1), "application/json")
    else:
        columns = [field.name for field in fields(Entry)]
        content = csv_file.encode(columns, [list(row.values()) for row in rows])
        response = HttpResponse(b"".join(content), "text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@access.needs(Right.PAYLOAD)
def message(request: HttpRequest, session: str, digest: str) -> HttpResponse:
    """The stored text of one message, as a piece of a page; written down like every look at a payload."""
    found = access.session(access.grant(request), session, Right.PAYLOAD)
    text = queries.message_text(found, digest)
    log.record(request, Action.PAYLOAD_VIEW, project_id=found.project_id, target=f"{found.session_id}/message {digest}")
    return render(request, "compactions/_message_text.html", {"text": text, "digest": digest})


@access.needs(Right.SESSIONS)
def what_if(request: HttpRequest, session: str, number: int) -> HttpResponse:
    """The stored prompt planned again under another policy: how the fates would differ."""
    found, checks, check = _compaction(request, session, number)
    stored = queries.transcript(found, check.step)
    if stored is None:
        raise Http404("no transcript is stored for this compaction")
    earlier = _lineage(found, [other for other in checks if other.is_compaction][: number - 1], number)
    prompt = Prompt(queries.fate_ledger(found, check), earlier[-1].text if earlier else "")
    try:
        answer = plan_again(stored, check, prompt, Choice.from_query(request.GET, check))
    except CannotPlan as refusal:
        return render(request, "compactions/_what_if_result.html", {"problem": str(refusal)})
    return render(request, "compactions/_what_if_result.html", {"answer": answer, "check": check})


def _compaction(request: HttpRequest, session: str, number: int) -> tuple[Session, list[Check], Check]:
    found = access.session(access.grant(request), session)
    checks = queries.checks(found).timeline()
    compactions = [check for check in checks if check.is_compaction]
    if not 1 <= number <= len(compactions):
        raise Http404("no such compaction")
    return found, checks, compactions[number - 1]


def _lineage(session: Session, compactions: list[Check], number: int) -> list[Version]:
    summarized = near(compactions, number)
    spans = [span for _, check in summarized if (span := check.span(SUMMARY))]
    return versions(summarized, queries.payloads(session, spans))


def _payload_of(session: Session, check: Check, kind: str) -> Any:
    span = check.span(kind)
    return queries.payload(session, span) if span else None


def _lost(session: Session, check: Check) -> list[dict[str, Any]]:
    payload = _payload_of(session, check, RETENTION)
    lost = payload.get("lost") if isinstance(payload, dict) else None
    return [item for item in lost if isinstance(item, dict)][:_LOST_ITEMS] if isinstance(lost, list) else []


def _by_kind(items: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for item in items:
        kinds.setdefault(str(item.get("kind", "")), []).append(item)
    return kinds

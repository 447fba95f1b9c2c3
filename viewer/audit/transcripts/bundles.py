"""Signed bundles of one archived step: transcript, summary, plan, ledger and hash chain. See `compact.bundle`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from compact import bundle
from django.utils import timezone

from ingest.archive import verification
from ingest.archive.hash_chain import canonical, format_time
from ingest.models import ChainLink, Session, Span, Transcript
from ingest.storage import messages, payloads
from viewer.audit import signing
from viewer.audit.transcripts.exports import Export, export
from viewer.kinds import PRUNED, SUMMARY
from viewer.project_redactor import project_redactor

_PLAN_FIELDS = ("layers", "pruned_count", "tokens_before", "tokens_after", "plan_version", "cache", "fates")


@dataclass(frozen=True, slots=True)
class _Event:
    data: dict[str, Any]
    payload: dict[str, Any]


_NO_EVENT = _Event({}, {})


def build(transcript: Transcript, *, by: str, reason: str) -> tuple[bytes, Export]:
    """Return the bundle as a zip file, and the export of the transcript in it."""
    exported = export(transcript)
    with exported.file as file:
        file.seek(0)
        text = file.read()
    summary, plan, ledger, redactions = _read_compaction(transcript)
    links = [
        {**_link_fields(row), "chain": row.chain}
        for row in verification.chain_rows(transcript.cell, transcript.session_key)
    ]
    parts = {
        "transcript.jsonl": text,
        "summary.json": canonical(summary),
        "plan.json": canonical(plan),
        "ledger.json": canonical(ledger),
        "chain.json": canonical({"links": links}),
    }
    redactions_on_export = Counter(exported.redactions) + redactions
    manifest = {
        "project": transcript.project_id,
        "session": transcript.session_id,
        "step": transcript.step,
        "created_at": format_time(transcript.created_at),
        "archived_sha256": transcript.sha256,
        "redacted_on_arrival": transcript.redactions,
        "redacted_on_export": dict(sorted(redactions_on_export.items())),
        "exported_at": format_time(timezone.now()),
        "exported_by": by,
        "reason": reason,
        "public_key": signing.public_key(),
    }
    return bundle.pack(parts, manifest, signing.sign), exported


def _link_fields(row: ChainLink) -> dict[str, Any]:
    link = verification.to_link(row)
    return {name: getattr(link, name) for name in link.__slots__}


def _read_compaction(transcript: Transcript) -> tuple[Any, Any, Any, Counter[str]]:
    """Return the redacted summary, plan and ledger of this step, empty if the agent sent none, with redactions."""
    events = _read_events(transcript)
    created, pruned = events.get(SUMMARY, _NO_EVENT), events.get(PRUNED, _NO_EVENT)
    summary = {**created.data, **created.payload}
    plan = {name: pruned.data[name] for name in _PLAN_FIELDS if name in pruned.data}
    plan["after"] = pruned.payload.get("after", [])
    if payloads.UNREADABLE in pruned.payload:
        plan[payloads.UNREADABLE] = pruned.payload[payloads.UNREADABLE]
    redactor = project_redactor(transcript.project_id)
    (summary, plan, ledger), counts = redactor.tree([summary, plan, pruned.payload.get("ledger", [])])
    return summary, plan, ledger, counts


def _read_events(transcript: Transcript) -> dict[str, _Event]:
    session = Session.objects.filter(pk=(transcript.cell, transcript.session_key)).first()
    if session is None:
        return {}
    rows = Span.objects.filter(
        cell=session.cell, session_key=session.session_key, session_day=session.day, kind__in=[SUMMARY, PRUNED]
    )
    events = {}
    for kind, stored_data, stored_payload in rows.order_by("seq").values_list("kind", "data", "payload"):
        data = payloads.decode_data(bytes(stored_data or b""))
        if data.get("step") == transcript.step:
            events[kind] = _Event(data, _read_payload(session, stored_payload))
    return events


def _read_payload(session: Session, stored: bytes | memoryview | None) -> dict[str, Any]:
    payload = messages.restore(session.cell, payloads.decode(None if stored is None else bytes(stored)))
    return payload if isinstance(payload, dict) else {}

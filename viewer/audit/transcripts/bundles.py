"""Signed bundles of one archived step: transcript, summary, plan, ledger and hash chain. See `compact.bundle`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from compact import bundle
from django.utils import timezone

from ingest.archive import verification
from ingest.archive.hash_chain import canonical, format_time
from ingest.models import ChainLink, Session, Span, Transcript
from ingest.storage import messages
from viewer.audit import signing
from viewer.audit.transcripts.exports import Export, export
from viewer.kinds import PRUNED, SUMMARY
from viewer.project_redactor import project_redactor

_PLAN_FIELDS = ("layers", "pruned_count", "tokens_before", "tokens_after", "plan_version", "cache", "fates")


def build(transcript: Transcript, *, by: str, reason: str) -> tuple[bytes, Export]:
    """Return the bundle as a zip file, and the export of the transcript in it."""
    exported = export(transcript)
    with exported.file as file:
        file.seek(0)
        text = file.read()
    summary, plan, ledger, redactions = _read_compaction(transcript)
    links = [{**_link_fields(row), "chain": row.chain} for row in verification.chain_rows(transcript.session_key)]
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
    spans = _read_spans(transcript)
    created, pruned = spans.get(SUMMARY), spans.get(PRUNED)
    summary = {**(created.data if created else {}), **_payload(created)}
    properties = pruned.data if pruned else {}
    plan = {name: properties[name] for name in _PLAN_FIELDS if name in properties}
    plan["after"] = _payload(pruned).get("after", [])
    redactor = project_redactor(transcript.project_id)
    (summary, plan, ledger), counts = redactor.tree([summary, plan, _payload(pruned).get("ledger", [])])
    return summary, plan, ledger, counts


def _read_spans(transcript: Transcript) -> dict[str, Span]:
    session = Session.objects.filter(session_key=transcript.session_key).first()
    if session is None:
        return {}
    rows = Span.objects.filter(
        session_key=session.session_key, session_day=session.day, kind__in=[SUMMARY, PRUNED], data__step=transcript.step
    )
    return {row.kind: row for row in rows.order_by("seq")}


def _payload(span: Span | None) -> dict[str, Any]:
    payload = messages.restore(span.project_id, span.payload) if span else None
    return payload if isinstance(payload, dict) else {}

"""A signed bundle of one archived step: what was said, what was made of it, and the proof. See `compact.bundle`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from compact import bundle
from compact.redaction import default_redactor
from django.utils import timezone

from ingest.archive import verification
from ingest.archive.hash_chain import canonical, format_time
from ingest.models import Session, Span, Transcript
from ingest.storage import messages
from viewer.audit import signing
from viewer.audit.exports import Export, export

_PLAN = ("layers", "pruned_count", "tokens_before", "tokens_after", "plan_version", "cache", "fates")


def build(transcript: Transcript, *, by: str, reason: str) -> tuple[bytes, Export]:
    """The bundle, and the export inside it."""
    exported = export(transcript)
    with exported.file as file:
        file.seek(0)
        text = file.read()
    summary, plan, ledger, found = _compaction(transcript)
    rows = verification.chain_rows(transcript.session_key)
    links = [{**_link(row), "chain": row.chain} for row in rows]
    parts = {
        "transcript.jsonl": text,
        "summary.json": canonical(summary),
        "plan.json": canonical(plan),
        "ledger.json": canonical(ledger),
        "chain.json": canonical({"links": links}),
    }
    again = Counter(exported.redactions) + found
    manifest = {
        "project": transcript.project_id,
        "session": transcript.session_id,
        "step": transcript.step,
        "created_at": format_time(transcript.created_at),
        "archived_sha256": transcript.sha256,
        "redacted_on_arrival": transcript.redactions,
        "redacted_on_export": dict(sorted(again.items())),
        "exported_at": format_time(timezone.now()),
        "exported_by": by,
        "reason": reason,
        "public_key": signing.public_key(),
    }
    return bundle.pack(parts, manifest, signing.sign), exported


def _link(row: Any) -> dict[str, Any]:
    link = verification.to_link(row)
    return {name: getattr(link, name) for name in link.__slots__}


def _compaction(transcript: Transcript) -> tuple[Any, Any, Any, Counter[str]]:
    """The summary, plan and ledger that the agent sent for this step; empty where it sent none."""
    session = Session.objects.filter(session_key=transcript.session_key).first()
    spans: dict[str, Span] = {}
    if session is not None:
        kinds = ["compact.summary_created", "compact.pruned_messages"]
        rows = Span.objects.filter(session_key=session.session_key, session_day=session.day, kind__in=kinds)
        spans = {row.kind: row for row in rows.filter(data__step=transcript.step).order_by("seq")}
    made, pruned = spans.get("compact.summary_created"), spans.get("compact.pruned_messages")
    summary = {**(made.data if made else {}), **_payload(made)}
    facts = pruned.data if pruned else {}
    plan = {name: facts[name] for name in _PLAN if name in facts} | {"after": _payload(pruned).get("after", [])}
    (summary, plan, ledger), counts = default_redactor().tree([summary, plan, _payload(pruned).get("ledger", [])])
    return summary, plan, ledger, counts


def _payload(span: Span | None) -> dict[str, Any]:
    payload = messages.restore(span.project_id, span.payload) if span else None
    return payload if isinstance(payload, dict) else {}

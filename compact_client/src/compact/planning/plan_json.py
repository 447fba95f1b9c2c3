"""Convert plans to JSON and back.

The round trip gives an equal plan. A plan in a newer format is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compact.messages.span import SpanReference
from compact.planning.plan import (
    PLAN_FORMAT_VERSION,
    CacheEffect,
    ClearRecord,
    CompactionPlan,
    DroppedSpanIndex,
    DropRecord,
    ExternalizationRecord,
    LedgerEntry,
    SummarizationRecord,
)
from compact.summary.structured_summary import StructuredSummary


def plan_to_dict(plan: CompactionPlan) -> dict[str, Any]:
    return {
        "format": PLAN_FORMAT_VERSION,
        "thread_id": plan.thread_id,
        "thread_version": plan.thread_version,
        "created_at": plan.created_at,
        "version": plan.version,
        "step": plan.step,
        "renderer": plan.renderer,
        "trigger": plan.trigger,
        "externalizations": [
            {
                "span": record.span.to_dict(),
                "artifact_id": record.artifact_id,
                "summary": record.summary.to_dict(),
                "rehydrate_hint": record.rehydrate_hint,
                "is_folded": record.is_folded,
            }
            for record in plan.externalizations
        ],
        "summarizations": [
            {
                "span": record.span.to_dict(),
                "summary": record.summary.to_dict(),
                "summary_token_count": record.summary_token_count,
            }
            for record in plan.summarizations
        ],
        "clearings": [
            {
                "span": record.span.to_dict(),
                "preserved_fields": dict(record.preserved_fields),
                "reason": record.reason,
            }
            for record in plan.clearings
        ],
        "drops": [
            {
                "span": record.span.to_dict(),
                "reason": record.reason,
                "index": record.index.to_dict() if record.index else None,
            }
            for record in plan.drops
        ],
        "session_summary": plan.session_summary.to_dict() if plan.session_summary else None,
        "summary_text": plan.summary_text,
        "lead_ids": list(plan.lead_ids),
        "user_limits": dict(plan.user_limits),
        "output_limits": dict(plan.output_limits),
        "original_token_count": plan.original_token_count,
        "compacted_token_count": plan.compacted_token_count,
        "learned_window": plan.learned_window,
        "growth_tokens": list(plan.growth_tokens),
        "cache": plan.cache.to_dict() if plan.cache else None,
        "ledger": [entry.to_dict() for entry in plan.ledger],
        "absorbed": [entry.to_dict() for entry in plan.absorbed],
        "full_hashes": dict(plan.full_hashes),
    }


def plan_from_dict(data: Mapping[str, Any]) -> CompactionPlan:
    if data.get("format", PLAN_FORMAT_VERSION) > PLAN_FORMAT_VERSION:
        raise ValueError(
            f"Plan format {data['format']} is newer than the supported format {PLAN_FORMAT_VERSION}. "
            "Upgrade compact-client."
        )
    return CompactionPlan(
        thread_id=data["thread_id"],
        thread_version=data["thread_version"],
        created_at=data["created_at"],
        version=data["version"],
        step=data["step"],
        renderer=data["renderer"],
        trigger=data.get("trigger", "preflight"),
        externalizations=tuple(
            ExternalizationRecord(
                span=SpanReference.from_dict(item["span"]),
                artifact_id=item["artifact_id"],
                summary=StructuredSummary.from_dict(item["summary"]),
                rehydrate_hint=item["rehydrate_hint"],
                is_folded=item["is_folded"],
            )
            for item in data["externalizations"]
        ),
        summarizations=tuple(
            SummarizationRecord(
                span=SpanReference.from_dict(item["span"]),
                summary=StructuredSummary.from_dict(item["summary"]),
                summary_token_count=item["summary_token_count"],
            )
            for item in data["summarizations"]
        ),
        clearings=tuple(
            ClearRecord(
                span=SpanReference.from_dict(item["span"]),
                preserved_fields=item["preserved_fields"],
                **({"reason": item["reason"]} if "reason" in item else {}),
            )
            for item in data["clearings"]
        ),
        drops=tuple(
            DropRecord(
                span=SpanReference.from_dict(item["span"]),
                reason=item["reason"],
                index=_index_from_dict(item.get("index")),
            )
            for item in data["drops"]
        ),
        session_summary=StructuredSummary.from_dict(data["session_summary"]) if data["session_summary"] else None,
        summary_text=data["summary_text"],
        lead_ids=tuple(data["lead_ids"]),
        user_limits=data.get("user_limits", {}),
        output_limits=data.get("output_limits", {}),
        original_token_count=data["original_token_count"],
        compacted_token_count=data["compacted_token_count"],
        learned_window=data.get("learned_window"),
        growth_tokens=tuple(data.get("growth_tokens", ())),
        cache=CacheEffect(**data["cache"]) if data["cache"] else None,
        ledger=tuple(LedgerEntry(**entry) for entry in data["ledger"]),
        absorbed=tuple(LedgerEntry(**entry) for entry in data["absorbed"]),
        full_hashes=data.get("full_hashes", {}),
    )


def _index_from_dict(data: Mapping[str, Any] | None) -> DroppedSpanIndex | None:
    if data is None:
        return None
    return DroppedSpanIndex(tuple(data["keywords"]), data["summary"], data["timestamp"])

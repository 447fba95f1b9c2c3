"""The events of a compaction that another program made, from its ledger. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from compact import events
from compact.ledgers.inferred_ledger import InferredLedger
from compact.reading.facts import MAX_LOST_LISTED
from compact.reading.tokens import estimate_tokens
from compact.redaction.log_content import seal_text, seal_tree


def check_event(ledger: InferredLedger, *, model: str | None, window_tokens: int) -> events.CheckEvent:
    """Return the event of the whole compaction."""
    compaction = ledger.compaction
    return events.CheckEvent(
        turn=compaction.turn,
        model=model,
        trigger=cast(events.CheckTrigger, compaction.trigger),
        max_tokens=window_tokens,
        triggered=True,
        tokens_before=ledger.tokens_before,
        tokens_after=ledger.tokens_after,
        step=compaction.number,
        evidence=compaction.evidence,
    )


def child_events(
    ledger: InferredLedger, *, reason: str, window_tokens: int, archival: events.ArchivalEvent | None
) -> Iterator[events.Event]:
    """Yield the events below it: the decision, the archived prompt, the summary, its facts and the result."""
    yield _decision(ledger, reason, window_tokens)
    if archival is not None:
        yield archival
    if ledger.summary is not None:
        yield _summary(ledger, ledger.summary)
    if ledger.is_disclosed and (ledger.facts or not ledger.compaction.is_inferred):
        # It is unknown what an encrypted summary has kept. Seen facts replace inferred ones, even if none.
        yield _retention(ledger)
    yield _result(ledger)


def _decision(ledger: InferredLedger, reason: str, window_tokens: int) -> events.TriggerDecisionEvent:
    """Return the decision, without the limits and the policy of the other program, which are not known."""
    return events.TriggerDecisionEvent(
        triggered=True,
        reason=reason,
        rule=ledger.compaction.trigger,
        margin_tokens=None,
        t_est=ledger.tokens_before,
        max_tokens=window_tokens,
        trigger_tokens=None,
        budget_tokens=None,
        turn=ledger.compaction.turn,
        policy=None,
        evidence=ledger.compaction.evidence,
    )


def _summary(ledger: InferredLedger, summary: str) -> events.SummaryCreatedEvent:
    compaction = ledger.compaction
    removed = [entry for entry in ledger.entries if entry["fate"] not in events.REMAINING_FATES]
    input_tokens = sum(entry["tokens"] for entry in removed)
    own = [entry["tokens"] for entry in ledger.after_entries if entry["id"] == compaction.summary_id]
    tokens = sum(own) or (estimate_tokens(summary) if ledger.is_disclosed else 0)
    return events.SummaryCreatedEvent(
        strategy="agent",
        version=compaction.number,
        step=compaction.number,
        input_messages=len(removed),
        input_tokens=input_tokens,
        summary_tokens=tokens,
        compression_ratio=round(tokens / input_tokens, 4) if input_tokens else 0.0,
        latency_ms=compaction.duration_ms or 0.0,
        summarizer=compaction.agent,
        model=None,
        evidence=compaction.evidence,
        summary=seal_text(summary),
        structured=None,
    )


def _retention(ledger: InferredLedger) -> events.RetentionEvent:
    by_kind = ledger.by_kind

    def count(kind: str, column: str) -> int:
        return by_kind.get(kind, {}).get(column, 0)

    return events.RetentionEvent(
        step=ledger.compaction.number,
        facts_total=ledger.facts_total,
        facts_kept=ledger.facts_kept or 0,
        goals_total=count("goal", "found"),
        goals_kept=count("goal", "kept"),
        decisions_total=count("decision", "found"),
        decisions_kept=count("decision", "kept"),
        open_items_total=count("open_item", "found"),
        open_items_kept=count("open_item", "kept"),
        files_total=count("file", "found"),
        files_kept=count("file", "kept"),
        weighted_retention=ledger.weighted_retention,
        by_kind=by_kind,
        evidence=ledger.compaction.evidence,
        lost=[seal_tree(fact.to_dict()) for fact in ledger.lost[:MAX_LOST_LISTED]],
        restored=[],
    )


def _result(ledger: InferredLedger) -> events.PrunedMessagesEvent:
    compaction, fates = ledger.compaction, ledger.fates
    summaries = sum(entry["id"] == compaction.summary_id for entry in ledger.after_entries)
    removed = [
        entry
        for entry in ledger.entries
        if entry["fate"] in ("summarized", "dropped") and entry["id"] not in compaction.earlier_summaries
    ]
    return events.PrunedMessagesEvent(
        step=compaction.number,
        layers=events.LayerCounts(pinned=0, summary=summaries, recent=len(ledger.after) - summaries),
        pruned_count=len(removed),
        tokens_before=ledger.tokens_before,
        tokens_after=ledger.tokens_after,
        breakdown_after=None,
        plan_version=compaction.number,
        cache=None,
        fates=fates,
        inferred=compaction.is_inferred or None,
        evidence=compaction.evidence,
        ledger=ledger.entries,
        after=cast(list[events.PromptEntry], ledger.after_entries),
    )

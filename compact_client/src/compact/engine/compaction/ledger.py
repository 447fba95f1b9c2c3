"""The fate of every message in a compaction, and its effect on the prompt cache.

Users read the ledger to learn why a message is gone, so every entry names the rule that decided its fate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from compact import events
from compact.engine.compaction.prompt import is_host_message
from compact.engine.session import Request, Session
from compact.messages import Message
from compact.planning.draft import Draft
from compact.planning.plan import (
    CacheEffect,
    ClearRecord,
    CompactionAction,
    CompactionPlan,
    DropRecord,
    ExternalizationRecord,
    Fate,
    LedgerEntry,
    SummarizationRecord,
)
from compact.redaction.view import RedactionView
from compact.rendering import Renderer
from compact.rendering.base import span_text

# A cached input token costs about a tenth of a fresh one with OpenAI and Anthropic.
_CACHED_PRICE = 0.1
_ABSORBING_ACTIONS = (CompactionAction.SUMMARIZE, CompactionAction.EXTERNALIZE, CompactionAction.DROP)

FOLDED_SPANS = "over budget: summaries of earlier spans merged into one"
"""The rule for spans of the in-place renderer that lose their own summary."""

_MERGED = "merged into the next summary"

Verdict = tuple[Fate, str, str | None]
"""The fate of a message, the rule that decided it, and the message or artifact that contains it now."""


def build_ledger(
    redaction: RedactionView,
    renderer: Renderer,
    draft: Draft,
    plan: CompactionPlan,
    before: Request,
    *,
    truncated_ids: Collection[str],
    ephemeral: Mapping[str, ClearRecord],
) -> tuple[LedgerEntry, ...]:
    """Return one entry per message of the prompt before the compaction.

    An ephemeral result is cleared, also if the rest of its unit is summarized.
    """
    rules, pinned = _draft_rules(draft, before)
    entries = []
    for message, tokens in zip(before.messages, before.counts, strict=True):
        message_id = message.id or ""
        rule = rules.get(message_id, "")
        fate, rule, into = (
            _fate_by_plan(message_id, plan, renderer, ephemeral.get(message_id))
            or pinned.get(message_id)
            or _fate_of_replacement(message, plan, draft, renderer, redaction)
            or _fate_of_kept(rule, is_truncated=message_id in truncated_ids)
        )
        digest = redaction.hash(message)
        entries.append(LedgerEntry(message_id, digest, message.role, tokens, fate, rule, into))
    return tuple(entries)


def _draft_rules(draft: Draft, before: Request) -> tuple[dict[str, str], dict[str, Verdict]]:
    """Return the rule of the draft for each host message, and the verdicts of the pinned ones."""
    host_ids = [message.id or "" for message in before.messages if is_host_message(message)]
    rules = {
        host_ids[index]: draft.partition.rules.get(unit.first, "") for unit in draft.units for index in unit.indices
    }
    pinned_ids = [host_ids[index] for unit in draft.partition.pinned for index in unit.indices]
    return rules, {message_id: ("pinned", rules.get(message_id, ""), None) for message_id in pinned_ids}


def _fate_by_plan(
    message_id: str, plan: CompactionPlan, renderer: Renderer, ephemeral: ClearRecord | None
) -> Verdict | None:
    """Return the fate of a message that the plan has a record for."""
    _, record = plan.get_action(message_id)
    if isinstance(record, SummarizationRecord):
        if ephemeral is not None:
            return "cleared", ephemeral.reason, None
        return "summarized", "older than the recent window", renderer.summary_home(plan, record)
    if isinstance(record, ExternalizationRecord):
        return "externalized", "large tool result", record.artifact_id
    if isinstance(record, DropRecord):
        return "dropped", record.reason, None
    if isinstance(record, ClearRecord):
        return "cleared", record.reason, None
    return None


def _fate_of_replacement(
    message: Message, plan: CompactionPlan, draft: Draft, renderer: Renderer, redaction: RedactionView
) -> Verdict | None:
    """Return the fate of a summary or pointer that an earlier compaction wrote."""
    message_id = message.id or ""
    if message_id.startswith("summary-v") and message_id != plan.summary_id:
        return "summarized", _MERGED, renderer.summary_home(plan, _newest_span(plan))
    if message_id.startswith("span-"):
        rule = FOLDED_SPANS if draft.folds_replacements else _MERGED
        return _fate_of_span_summary(message, plan, renderer, rule, redaction)
    if message_id.startswith("artifact-"):
        return _fate_of_pointer(message_id.removeprefix("artifact-"), plan, renderer)
    return None


def _fate_of_span_summary(
    message: Message, plan: CompactionPlan, renderer: Renderer, rule: str, redaction: RedactionView
) -> Verdict:
    """Return the fate of an earlier span's summary. It stays in place, or it is part of a longer one by some rule."""
    _, record = plan.get_action((message.id or "").removeprefix("span-"))
    if isinstance(record, SummarizationRecord):
        # The newest span ended with a line about recall.
        if message.text.startswith(redaction.restore(span_text(record))):
            return _fate_of_kept("summary of an earlier span")
        return "summarized", rule, renderer.summary_home(plan, record)
    return "dropped", record.reason if isinstance(record, DropRecord) else "its span is gone", None


def _fate_of_pointer(artifact_id: str, plan: CompactionPlan, renderer: Renderer) -> Verdict:
    if any(record.artifact_id == artifact_id and not record.is_folded for record in plan.externalizations):
        return _fate_of_kept("pointer to externalized content")
    if not plan.summary_text:
        return "dropped", "no room for a summary", None
    return "summarized", "pointer moved into the summary", renderer.summary_home(plan, _newest_span(plan))


def _newest_span(plan: CompactionPlan) -> SummarizationRecord | None:
    return plan.summarizations[-1] if plan.summarizations else None


def _fate_of_kept(rule: str, *, is_truncated: bool = False) -> Verdict:
    if is_truncated:
        return "truncated", f"{rule}, middle truncated" if rule else "middle truncated", None
    return "kept", rule or "within the budget", None


def absorbed_entries(ledger: Sequence[LedgerEntry], plan: CompactionPlan) -> tuple[LedgerEntry, ...]:
    """Return the entries of logged messages that left the prompt."""
    return tuple(
        entry for entry in ledger if entry.id.startswith("m") and plan.get_action(entry.id)[0] in _ABSORBING_ACTIONS
    )


def full_hashes(session: Session, *requests: Request) -> dict[str, str]:
    """Return the hash of each logged message that a request shows in another form, by the hash of that form."""
    hashes = {}
    for message in (message for request in requests for message in request.messages):
        logged = session.thread.get(message.id or "")
        if logged is not None and message is not logged and message != logged:
            (digest,) = session.redaction.hashes([message])
            hashes[digest] = session.redaction.hash(logged)
    return hashes


def prompt_entries(redaction: RedactionView, request: Request) -> list[events.PromptEntry]:
    """Return the id, hash, role and tokens of each message of a request."""
    return [
        events.PromptEntry(id=message.id, hash=redaction.hash(message), role=message.role, tokens=tokens)
        for message, tokens in zip(request.messages, request.counts, strict=True)
    ]


def fate_counts(ledger: Sequence[LedgerEntry]) -> Mapping[str, int]:
    """Return the number of messages per fate."""
    return dict(Counter(entry.fate for entry in ledger))


def cache_effect(before: Request, after: Request, *, tokens_before: int, tokens_after: int) -> CacheEffect:
    """Return how much of the cached prefix is lost, and after how many calls the smaller prompt has paid for it."""
    shared_tokens = 0
    for old, new, tokens in zip(before.messages, after.messages, before.counts, strict=False):
        if old is not new and old != new:
            break
        shared_tokens += tokens
    overhead = tokens_before - sum(before.counts)
    prefix = min(tokens_before, max(0, overhead) + shared_tokens)
    saved = tokens_before - tokens_after
    extra = (1 - _CACHED_PRICE) * max(0, tokens_after - prefix)
    calls = None if saved <= 0 else float(math.ceil(extra / (_CACHED_PRICE * saved)))
    return CacheEffect(tokens_before - prefix, saved, calls)

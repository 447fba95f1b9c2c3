"""The fate of every message, and what a plan costs the prompt cache.

The ledger is what a person reads to learn why something is gone; every line names the rule that decided it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from compact import events
from compact.engine.request import Request
from compact.engine.session import Session
from compact.messages import Message, content_hash
from compact.planning.draft import Draft
from compact.planning.plan import (
    CacheEffect,
    ClearRecord,
    CompactionPlan,
    DropRecord,
    ExternalizationRecord,
    Fate,
    LedgerEntry,
    SummarizationRecord,
)
from compact.redaction.outbound import OutboundRedactor
from compact.rendering.inplace import span_text

if TYPE_CHECKING:
    from compact.engine.job import Job

# A cached input token costs about a tenth of a fresh one (OpenAI and Anthropic alike, within a factor of two).
_CACHED_PRICE = 0.1
_NOTHING_HIDDEN: Counter[str] = Counter()
_ABSORBED = ("summarized", "externalized", "dropped")


def redacted(session: Session, outbound: OutboundRedactor, message: Message) -> tuple[Message, Counter[str]]:
    """A message as it may leave the process, made once per logged message."""
    message_id = message.id or ""
    logged = session.thread.get(message_id)
    if logged is not None and message_id in session.clean:
        return session.clean[message_id]
    counts: Counter[str] = Counter()
    made = (outbound.redact_message(logged or message, counts), counts)
    if logged is not None:
        session.clean[message_id] = made
    return made


def redact_ahead(session: Session, outbound: OutboundRedactor, messages: Sequence[Message]) -> None:
    """Redact and hash many logged messages in one pass; one by one, each pays the rules' start-up anew."""
    if outbound.has_hook:
        return
    pending = [
        logged
        for message in messages
        if message.id not in session.clean and (logged := session.thread.get(message.id or "")) is not None
    ]
    items = [message.source if message.source is not None else message.to_dict() for message in pending]
    for message, item, clean in zip(pending, items, outbound.redact_value(items), strict=True):
        assert message.id is not None
        session.hashes[message.id] = content_hash(clean)
        if clean is item:
            session.clean[message.id] = (message, _NOTHING_HIDDEN)


def hash_of(session: Session, outbound: OutboundRedactor, message: Message) -> str:
    """The name of a message: the hash of its redacted form, as it was before any cut."""
    message_id = message.id or ""
    known = session.hashes.get(message_id)
    if known is None:
        known = content_hash(redacted(session, outbound, message)[0].to_dict())
        if session.thread.get(message_id) is not None:
            session.hashes[message_id] = known
    return known


def build_ledger(job: Job, current: Draft, plan: CompactionPlan, before: Request) -> tuple[LedgerEntry, ...]:
    """One line per message of the prompt as it was."""
    session = job.session
    rules = _rules(current, [message for message in before.messages if _is_own(message)])
    pinned = {index for unit in current.partition.pinned for index in unit.indices}
    own = [message.id for message in before.messages if _is_own(message)]
    pinned_ids = {own[index] for index in pinned}
    truncated_ids = session.truncated_ids
    entries = []
    redact_ahead(session, job.outbound, before.messages)
    for message, tokens in zip(before.messages, before.counts, strict=True):
        fate, rule, into = _fate(message, plan, rules, pinned_ids, truncated_ids)
        message_hash = hash_of(session, job.outbound, message)
        entries.append(LedgerEntry(message.id or "", message_hash, message.role, tokens, fate, rule, into))
    return tuple(entries)


def _is_own(message: Message) -> bool:
    return (message.id or "").startswith(("m", "aborted-"))


def _rules(current: Draft, own: Sequence[Message]) -> dict[str, str]:
    rules: dict[str, str] = {}
    for unit in current.units:
        rule = current.partition.rules.get(unit.first, "")
        for index in unit.indices:
            rules[own[index].id or ""] = rule
    return rules


def _fate(
    message: Message,
    plan: CompactionPlan,
    rules: dict[str, str],
    pinned_ids: set[str | None],
    truncated_ids: frozenset[str],
) -> tuple[Fate, str, str | None]:
    message_id = message.id or ""
    _, record = plan.get_action(message_id)
    if isinstance(record, SummarizationRecord):
        into = plan.summary_id if plan.renderer != "inplace" else f"span-{record.span.start_message_id}"
        return "summarized", "older than the recent window", into
    if isinstance(record, ExternalizationRecord):
        return "externalized", "large tool result", record.artifact_id
    if isinstance(record, DropRecord):
        return "dropped", record.reason, None
    if isinstance(record, ClearRecord):
        return "cleared", "tool result that can be had again or is noise", None
    if message_id in pinned_ids:
        return "pinned", rules.get(message_id, ""), None
    if message_id.startswith("summary-v") and message_id != plan.summary_id:
        return "summarized", "merged into the next summary", plan.summary_id
    if message_id.startswith("span-"):
        return _fate_of_span(message, plan)
    if message_id.startswith("artifact-"):
        return _fate_of_pointer(message_id.removeprefix("artifact-"), plan)
    if message_id in truncated_ids:
        return "truncated", f"{rules.get(message_id, '')}; middle cut out", None
    return _kept(rules.get(message_id, ""))


def _fate_of_span(message: Message, plan: CompactionPlan) -> tuple[Fate, str, str | None]:
    """What becomes of an earlier span's summary: it stays in its place, or its span is now part of a larger one."""
    _, record = plan.get_action((message.id or "").removeprefix("span-"))
    if isinstance(record, SummarizationRecord):
        if message.text == span_text(record):
            return _kept("summary of an earlier span")
        return "summarized", "merged into the next summary", f"span-{record.span.start_message_id}"
    return "dropped", record.reason if isinstance(record, DropRecord) else "its span is gone", None


def _fate_of_pointer(artifact_id: str, plan: CompactionPlan) -> tuple[Fate, str, str | None]:
    if any(record.artifact_id == artifact_id and not record.is_folded for record in plan.externalizations):
        return _kept("pointer to externalised content")
    if not plan.summary_text:
        return "dropped", "no room for a summary", None
    spans = plan.summarizations if plan.renderer == "inplace" else ()
    into = f"span-{spans[-1].span.start_message_id}" if spans else plan.summary_id
    return "summarized", "pointer moved into the summary", into


def _kept(rule: str) -> tuple[Fate, str, str | None]:
    return "kept", rule or "the budget held without it", None


def absorbed_by(ledger: Sequence[LedgerEntry]) -> tuple[LedgerEntry, ...]:
    """The logged messages that left the prompt."""
    return tuple(entry for entry in ledger if entry.fate in _ABSORBED and entry.id.startswith("m"))


def after_ledger(job: Job) -> list[events.PromptEntry]:
    """Return the id, hash, role and tokens of each message of the new prompt, in order."""
    session = job.session
    request = session.request
    return [
        events.PromptEntry(
            id=message.id,
            hash=hash_of(session, job.outbound, message),
            role=message.role,
            tokens=tokens,
        )
        for message, tokens in zip(request.messages, request.counts, strict=True)
    ]


def fate_counts(plan: CompactionPlan) -> dict[str, int]:
    return dict(Counter(entry.fate for entry in plan.ledger))


def cache_effect(
    before: Sequence[Message], before_counts: Sequence[int], after: Request, tokens_before: int, tokens_after: int
) -> CacheEffect:
    """What of the cached prefix is lost, and after how many calls the smaller prompt has paid for it."""
    shared = 0
    for old, new, tokens in zip(before, after.messages, before_counts, strict=False):
        if old is not new and old != new:
            break
        shared += tokens
    overhead = tokens_before - sum(before_counts)
    prefix = min(tokens_before, max(0, overhead) + shared)
    saved = tokens_before - tokens_after
    extra = (1 - _CACHED_PRICE) * max(0, tokens_after - prefix)
    calls = None if saved <= 0 else float(math.ceil(extra / (_CACHED_PRICE * saved)))
    return CacheEffect(tokens_before - prefix, saved, calls)

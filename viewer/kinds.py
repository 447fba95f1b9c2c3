"""The table of span kinds.

One row per kind says what it is called, how it looks, which payload fields anyone with access to the session may
read, what the inspector shows, and how to describe one span in a line. Templates read the table through template
filters. Browser code gets it as JSON (`browser_table`). To add a kind, add its row here. The tests in
`tests/viewer/test_kinds.py` fail until its icon and its color exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ingest.decoding.facts import count_facts, weighted_share
from ingest.decoding.span_stats import stats_of
from viewer.numbers import format_count, format_facts, format_percent, format_usage, to_count
from viewer.visibility.shapes import HIDDEN, Shape, fields, identifier, list_of, number, sentence, word

PREFIX = "compact."
CHECK = "compact.check"
CHECK_STARTED = "compact.check_started"
ESTIMATE = "compact.token_estimate"
DECISION = "compact.trigger_decision"
POLICY = "compact.policy_applied"
ARCHIVAL = "compact.archival"
SUMMARY = "compact.summary_created"
DISCARDED_SUMMARY = "compact.summary_discarded"
PRUNED = "compact.pruned_messages"
PROVIDER_COMPACTION = "compact.provider_compaction"
RETENTION = "compact.retention"
QUALITY = "compact.quality"
OVERFLOW = "compact.overflow_recovered"
COMPLETED = "compact.completed"
BREAKER = "compact.breaker_open"
REHYDRATED = "compact.rehydrated"
REHYDRATION_BLOCKED = "compact.rehydration_blocked"
RECALL = "compact.recall"
ERROR = "compact.error"
WARNING = "compact.warning"
GENERATION = "generation"
TURN = "turn"

# The other fates of a message are summarized, cleared, externalized and dropped.
REMAINING_FATES = frozenset({"pinned", "kept", "truncated"})

Data = Mapping[str, Any]


class Family(StrEnum):
    """The color of a row. `static/css/sessions/tree.css` has a rule for each family except `NEUTRAL`, the default."""

    NEUTRAL = "neutral"
    GENERATION = "generation"
    TOOL = "tool"
    COMPACTION = "compaction"
    SUMMARY = "summary"
    TROUBLE = "trouble"


class Panel(StrEnum):
    """A section of the inspector that only some kinds have."""

    PROMPT = "prompt"  # the check's sentence and the parts of its prompt
    POLICY = "policy"
    SUMMARY = "summary"
    ERRORS = "errors"
    RETENTION = "retention"


def describe_any(data: Data) -> str:
    value = data.get("message") or data.get("error") or data.get("model") or ""
    if isinstance(value, Mapping):
        value = ": ".join(str(value[name]) for name in ("type", "message") if value.get(name))
    return str(value)[:300]


def describe_tokens(data: Data) -> str:
    """Return input and output tokens of a model call as the provider counted them."""
    facts = stats_of(GENERATION, dict(data))
    sent, total = facts.context_tokens or 0, facts.tokens or 0
    return f"{sent:,} tokens in, {total - sent:,} out"


def describe_removal(messages: int) -> str:
    """The 4 oldest messages were removed."""
    if messages == 1:
        return "the oldest message was removed"
    return f"the {messages:,} oldest messages were removed" if messages else "the oldest messages were removed"


def count_removed(data: Data) -> int:
    """Return the messages that left the prompt, by the fates of the ledger. Older clients sent only a count."""
    fates = data.get("fates")
    if isinstance(fates, Mapping) and fates:
        return sum(to_count(count) for fate, count in fates.items() if fate not in REMAINING_FATES)
    return to_count(data.get("pruned_count"))


def _describe_estimate(data: Data) -> str:
    return format_usage(to_count(data.get("t_est")), to_count(data.get("max_tokens")))


def _describe_decision(data: Data) -> str:
    is_triggered, used = bool(data.get("triggered")), _describe_estimate(data)
    margin = to_count(data.get("trigger_tokens")) - to_count(data.get("t_est"))
    verdict = "Compact" if is_triggered else "No compaction"
    # Other rules than the trigger decide against the margin. Their reason says why.
    if not data.get("trigger_tokens") or is_triggered != (margin <= 0):
        return f"{verdict}: {data.get('reason') or used}"
    side = "above" if is_triggered else "below"
    return f"{verdict}: {used}, {abs(margin):,} {side} the trigger of {to_count(data['trigger_tokens']):,}"


def _describe_check(data: Data) -> str:
    if data.get("tokens_before") is None:
        return describe_any(data)
    if data.get("triggered") and data.get("tokens_after") is not None:
        return _describe_reduction(data)
    return format_usage(to_count(data["tokens_before"]), to_count(data.get("max_tokens")))


def _describe_archival(data: Data) -> str:
    # Clients before the states were introduced sent the event only after the transcript was stored.
    state = str(data.get("state") or "stored")
    preposition = "in" if state == "stored" else "for"
    adapter = f" {preposition} {data['storage_adapter']}" if data.get("storage_adapter") else ""
    return f"Transcript {state}{adapter}"


def _describe_summary(data: Data) -> str:
    messages = format_count(to_count(data.get("input_messages")), "message")
    # The ledger counts the previous summary as one more message.
    previous = " and the previous summary" if to_count(data.get("version")) > 1 else ""
    return f"{messages}{previous} summarized in {to_count(data.get('summary_tokens')):,} tokens"


def _describe_discarded_summary(data: Data) -> str:
    text = f"A summary of {format_count(to_count(data.get('summary_tokens')), 'token')} was not used"
    return f"{text}: {data['reason']}" if data.get("reason") else text


def _describe_pruned(data: Data) -> str:
    return f"{format_count(count_removed(data), 'message')} removed, {_describe_reduction(data)}"


def _describe_overflow(data: Data) -> str:
    removal = describe_removal(to_count(data.get("removed_count")))
    return f"{removal[0].upper()}{removal[1:]}, {_describe_reduction(data)}"


def _describe_retention(data: Data) -> str:
    facts = count_facts(data)
    if facts is not None:
        return format_facts(facts.total, facts.kept)
    share = weighted_share(data)
    return "" if share is None else f"Weighted retention {format_percent(share)}"


def _describe_recall(data: Data) -> str:
    passages, outside = to_count(data.get("passage_count")), to_count(data.get("outside_prompt_count"))
    return f"{format_count(passages, 'passage')} found, {outside:,} outside the prompt" if passages else "Nothing found"


def _describe_generation(data: Data) -> str:
    facts = stats_of(GENERATION, dict(data))
    if not facts.tokens:
        return describe_any(data)
    return ": ".join(filter(None, (facts.model, describe_tokens(data))))


def _describe_error(data: Data) -> str:
    parts = [data.get(name) for name in ("message", "error_type", "code")]
    message = next((part for part in parts if part and part != HIDDEN), HIDDEN if any(parts) else "")
    return f"{message} (fallback: {data['fallback']})" if data.get("fallback") else str(message)


def _describe_reduction(data: Data) -> str:
    return f"{to_count(data.get('tokens_before')):,} → {to_count(data.get('tokens_after')):,} tokens"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of span or event.

    `public_payload` names the payload fields that need no `view_payload` permission, each with the shape that its value
    must have.
    """

    name: str
    label: str
    icon: str
    family: Family
    description: str
    describe: Callable[[Data], str] = describe_any
    panels: frozenset[Panel] = frozenset()
    public_payload: Mapping[str, Shape] = field(default_factory=dict)

    @property
    def is_compaction(self) -> bool:
        return self.name.startswith(PREFIX)


def _event(
    name: str,
    label: str,
    icon: str,
    description: str,
    *panels: Panel,
    family: Family = Family.COMPACTION,
    describe: Callable[[Data], str] = describe_any,
    public_payload: Mapping[str, Shape] | None = None,
) -> Kind:
    return Kind(name, label, icon, family, description, describe, frozenset(panels), public_payload or {})


def _span(name: str, description: str, family: Family = Family.NEUTRAL) -> Kind:
    return Kind(name, name, name, family, description)


# Operators see what happened to each message, but never the text of a message or of a summary.
_PROMPT_ENTRY = {"id": identifier, "hash": identifier, "role": word, "tokens": number}
_LEDGER_ENTRY = {**_PROMPT_ENTRY, "fate": word, "rule": sentence, "into": list_of(identifier), "inferred": number}

_COMPACTION_EVENTS = (
    _event(
        CHECK,
        "check",
        "check",
        "One check of the prompt before a model call.",
        Panel.PROMPT,
        Panel.POLICY,
        Panel.ERRORS,
        describe=_describe_check,
    ),
    _event(
        ESTIMATE,
        "token estimate",
        "estimate",
        "The estimated size of the prompt, by part.",
        Panel.PROMPT,
        describe=_describe_estimate,
    ),
    _event(
        DECISION,
        "trigger decision",
        "decision",
        "The decision to compact or not, with its reason and margin.",
        Panel.PROMPT,
        Panel.POLICY,
        describe=_describe_decision,
    ),
    _event(CHECK_STARTED, "check started", "compaction", "A compaction started."),
    _event(POLICY, "policy applied", "compaction", "The policy and the target size of a compaction.", Panel.POLICY),
    _event(
        ARCHIVAL,
        "archival",
        "archival",
        "The transcript from before the compaction: queued, stored or failed.",
        describe=_describe_archival,
    ),
    _event("compact.proposal_generated", "proposal generated", "compaction", "A way to free tokens was considered."),
    _event(
        SUMMARY,
        "summary created",
        "summary",
        "A summary replaced older messages.",
        Panel.SUMMARY,
        Panel.ERRORS,
        family=Family.SUMMARY,
        describe=_describe_summary,
    ),
    _event(
        DISCARDED_SUMMARY,
        "summary discarded",
        "summary",
        "A summary was written but not used. No message left the prompt because of it.",
        describe=_describe_discarded_summary,
    ),
    _event(
        RETENTION,
        "retention",
        "retention",
        "The facts of the removed messages that are still in the prompt.",
        Panel.RETENTION,
        describe=_describe_retention,
    ),
    _event("compact.externalized", "externalized", "compaction", "Content was stored outside the prompt."),
    _event("compact.summarized", "summarized", "compaction", "Messages were merged into the summary."),
    _event("compact.cleared", "cleared", "compaction", "A tool output was cleared. Its call was kept."),
    _event("compact.dropped", "dropped", "compaction", "Messages were dropped from the prompt."),
    _event("compact.truncated", "truncated", "compaction", "The middle of a long tool output was removed."),
    _event(
        PRUNED,
        "pruned messages",
        "pruned",
        "The result of a compaction: what happened to each message.",
        Panel.PROMPT,
        describe=_describe_pruned,
        public_payload={"ledger": list_of(fields(_LEDGER_ENTRY)), "after": list_of(fields(_PROMPT_ENTRY))},
    ),
    _event(
        PROVIDER_COMPACTION,
        "provider compaction",
        "compaction",
        "The provider compacted or cleared the conversation.",
        Panel.SUMMARY,
        Panel.RETENTION,
        public_payload={"ledger": list_of(fields(_LEDGER_ENTRY)), "after": list_of(fields(_PROMPT_ENTRY))},
    ),
    _event(COMPLETED, "completed", "compaction", "The compaction finished."),
    _event(QUALITY, "quality", "compaction", "Signals that a compaction may have lost something."),
    _event(REHYDRATED, "rehydrated", "compaction", "Stored content was put back into the prompt for one call."),
    _event(REHYDRATION_BLOCKED, "rehydration blocked", "compaction", "Stored content could not be put back."),
    _event(
        RECALL,
        "recall",
        "retrieval",
        "The agent searched in everything that its session has contained.",
        describe=_describe_recall,
    ),
    _event(
        OVERFLOW,
        "overflow recovered",
        "compaction",
        "The provider rejected the prompt, and a compaction made it smaller.",
        describe=_describe_overflow,
    ),
    _event(BREAKER, "breaker open", "compaction", "Compactions are paused: they would free too little."),
    _event(
        ERROR,
        "error",
        "error",
        "Part of a compaction failed.",
        Panel.ERRORS,
        family=Family.TROUBLE,
        describe=_describe_error,
    ),
    _event(
        "compact.over_budget",
        "over budget",
        "error",
        "The request is larger than the budget, and nothing more could be removed from it.",
        family=Family.TROUBLE,
    ),
    _event(
        WARNING,
        "warning",
        "error",
        "Something needs attention.",
        family=Family.TROUBLE,
        describe=_describe_error,
    ),
)

_SPANS = (
    _span("trace", "One run of an agent."),
    _span("agent", "An agent at work."),
    _span(TURN, "One turn of a conversation."),
    Kind(GENERATION, GENERATION, GENERATION, Family.GENERATION, "A model call.", describe=_describe_generation),
    _span("tool", "A tool call.", Family.TOOL),
    _span("handoff", "A handoff from one agent to another."),
    _span("guardrail", "A guardrail check."),
    _span("task", "A task of a workflow."),
    _span("retrieval", "A search for documents."),
    _span("embedding", "An embedding request."),
    _span("span", "Any other span."),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (*_COMPACTION_EVENTS, *_SPANS)}


def kind_of(name: str) -> Kind:
    """Return the row of a kind. An unknown kind gets a row with a label made from its name."""
    kind = KINDS.get(name)
    if kind is not None:
        return kind
    label = name.removeprefix(PREFIX).replace("_", " ")
    if name.startswith(PREFIX):
        return Kind(name, label, "compaction", Family.COMPACTION, "A compaction event.")
    return Kind(name, label, "span", Family.NEUTRAL, KINDS["span"].description)


def browser_table() -> dict[str, dict[str, str]]:
    """Return the part of the table that browser code needs. `static/js/kinds.js` reads it."""
    return {kind.name: {"label": kind.label, "icon": kind.icon, "family": kind.family.value} for kind in KINDS.values()}

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
from functools import partial
from typing import Any

from compact import events
from compact.events import Event
from compact.events.reading import event_of

from ingest.decoding.span_stats import stats_of
from viewer.visibility.shapes import Shape, fields, identifier, list_of, number, sentence, word

PREFIX = events.EVENT_PREFIX
REQUEST = events.RequestEvent.name
GAP = events.GapEvent.name
CHECK = events.CheckEvent.name
CHECK_STARTED = events.CheckStartedEvent.name
ESTIMATE = events.TokenEstimateEvent.name
DECISION = events.TriggerDecisionEvent.name
POLICY = events.PolicyAppliedEvent.name
ARCHIVAL = events.ArchivalEvent.name
SUMMARY = events.SummaryCreatedEvent.name
DISCARDED_SUMMARY = events.SummaryDiscardedEvent.name
PRUNED = events.PrunedMessagesEvent.name
PROVIDER_COMPACTION = events.ProviderCompactionEvent.name
RETENTION = events.RetentionEvent.name
QUALITY = events.QualityEvent.name
OVERFLOW = events.OverflowRecoveredEvent.name
COMPLETED = events.CompletedEvent.name
BREAKER = events.BreakerOpenEvent.name
REHYDRATED = events.RehydratedEvent.name
REHYDRATION_BLOCKED = events.RehydrationBlockedEvent.name
RECALL = events.RecallEvent.name
ERROR = events.ErrorEvent.name
WARNING = events.WarningEvent.name
GENERATION = "generation"
TURN = "turn"

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


class Lane(StrEnum):
    """The mark of an event in the lane below the timeline, most severe first."""

    ERROR = "error"
    OVERFLOW = "overflow"
    WARNING = "warning"
    RECALL = "recall"


class Trait(StrEnum):
    """Something that browser code needs to know about a kind."""

    EVERY_CHECK = "every-check"  # part of every check, so it belongs to a compaction only if its check compacted
    STARTS_CHECK = "starts-check"  # the first event of a check of a client that sends no check span
    SHRINKS_PROMPT = "shrinks-prompt"  # after it, the prompt is smaller
    HAS_LINE = "has-line"  # its row has its sentence after the title


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


def _describe_generation(data: Data) -> str:
    facts = stats_of(GENERATION, dict(data))
    if not facts.tokens:
        return describe_any(data)
    return ": ".join(filter(None, (facts.model, describe_tokens(data))))


def _describe_event(name: str, data: Data) -> str:
    """Return the sentence of a compaction event, which the library defines."""
    event = event_of(name, data)
    return describe_any(data) if event is None else event.line()


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
    lane: Lane | None = None
    traits: frozenset[Trait] = frozenset()

    @property
    def is_compaction(self) -> bool:
        return self.name.startswith(PREFIX)


def _event(
    event: type[Event],
    icon: str,
    description: str,
    *marks: Panel | Trait | Lane,
    family: Family = Family.COMPACTION,
    public_payload: Mapping[str, Shape] | None = None,
) -> Kind:
    return Kind(
        name=event.name,
        label=_label(event.name),
        icon=icon,
        family=family,
        description=description,
        describe=partial(_describe_event, event.name),
        panels=frozenset(mark for mark in marks if isinstance(mark, Panel)),
        public_payload=public_payload or {},
        lane=next((mark for mark in marks if isinstance(mark, Lane)), None),
        traits=frozenset(mark for mark in marks if isinstance(mark, Trait)),
    )


def _label(name: str) -> str:
    return name.removeprefix(PREFIX).replace("_", " ")


def _span(name: str, description: str, *traits: Trait, family: Family = Family.NEUTRAL) -> Kind:
    return Kind(name, name, name, family, description, traits=frozenset(traits))


# Operators see what happened to each message, but never the text of a message or of a summary.
_PROMPT_ENTRY = {"id": identifier, "hash": identifier, "role": word, "tokens": number}
_LEDGER_ENTRY = {**_PROMPT_ENTRY, "fate": word, "rule": sentence, "into": list_of(identifier), "inferred": number}

_PUBLIC_LEDGER = {"ledger": list_of(fields(_LEDGER_ENTRY)), "after": list_of(fields(_PROMPT_ENTRY))}

_COMPACTION_EVENTS = (
    _event(
        events.RequestEvent,
        "estimate",
        "A prompt as it was sent, by part.",
        Trait.HAS_LINE,
        family=Family.NEUTRAL,
        public_payload={"kept": number, "prompt": list_of(identifier)},
    ),
    _event(
        events.GapEvent,
        "error",
        "Requests that were forwarded but not recorded.",
        Lane.WARNING,
        Trait.HAS_LINE,
        family=Family.TROUBLE,
    ),
    _event(
        events.CheckEvent,
        "check",
        "One check of the prompt before a model call.",
        Panel.PROMPT,
        Panel.POLICY,
        Panel.ERRORS,
        Trait.EVERY_CHECK,
    ),
    _event(
        events.TokenEstimateEvent,
        "estimate",
        "The estimated size of the prompt, by part.",
        Panel.PROMPT,
        Trait.EVERY_CHECK,
        Trait.STARTS_CHECK,
    ),
    _event(
        events.TriggerDecisionEvent,
        "decision",
        "The decision to compact or not, with its reason and margin.",
        Panel.PROMPT,
        Panel.POLICY,
        Trait.EVERY_CHECK,
        Trait.STARTS_CHECK,
    ),
    _event(events.CheckStartedEvent, "compaction", "A compaction started.", Trait.STARTS_CHECK),
    _event(
        events.PolicyAppliedEvent,
        "compaction",
        "The policy and the target size of a compaction.",
        Panel.POLICY,
        Trait.EVERY_CHECK,
    ),
    _event(events.ArchivalEvent, "archival", "The transcript from before the compaction: queued, stored or failed."),
    _event(events.ProposalGeneratedEvent, "compaction", "A way to free tokens was considered."),
    _event(
        events.SummaryCreatedEvent,
        "summary",
        "A summary replaced older messages.",
        Panel.SUMMARY,
        Panel.ERRORS,
        family=Family.SUMMARY,
    ),
    _event(
        events.SummaryDiscardedEvent,
        "summary",
        "A summary was written but not used. No message left the prompt because of it.",
    ),
    _event(
        events.RetentionEvent,
        "retention",
        "The facts of the removed messages that are still in the prompt.",
        Panel.RETENTION,
    ),
    _event(events.ExternalizedEvent, "compaction", "Content was stored outside the prompt."),
    _event(events.SummarizedEvent, "compaction", "Messages were merged into the summary."),
    _event(events.ClearedEvent, "compaction", "A tool output was cleared. Its call was kept."),
    _event(events.DroppedEvent, "compaction", "Messages were dropped from the prompt."),
    _event(events.TruncatedEvent, "compaction", "The middle of a long tool output or user message was removed."),
    _event(
        events.PrunedMessagesEvent,
        "pruned",
        "The result of a compaction: what happened to each message.",
        Panel.PROMPT,
        Trait.SHRINKS_PROMPT,
        public_payload=_PUBLIC_LEDGER,
    ),
    _event(
        events.ProviderCompactionEvent,
        "compaction",
        "The provider compacted or cleared the conversation.",
        Panel.SUMMARY,
        Panel.RETENTION,
        Trait.SHRINKS_PROMPT,
        public_payload=_PUBLIC_LEDGER,
    ),
    _event(events.CompletedEvent, "compaction", "The compaction finished."),
    _event(events.QualityEvent, "compaction", "Signals that a compaction may have lost something."),
    _event(
        events.RehydratedEvent, "compaction", "Stored content was put back into the prompt for one call.", Lane.RECALL
    ),
    _event(events.RehydrationBlockedEvent, "compaction", "Stored content could not be put back."),
    _event(
        events.RecallEvent,
        "retrieval",
        "The agent searched in everything that its session has contained.",
        Lane.RECALL,
    ),
    _event(
        events.OverflowRecoveredEvent,
        "compaction",
        "The provider rejected the prompt, and a compaction made it smaller.",
        Lane.OVERFLOW,
        Trait.SHRINKS_PROMPT,
    ),
    _event(
        events.BreakerOpenEvent,
        "compaction",
        "Compactions are paused: they would free too little.",
        Lane.WARNING,
        Trait.HAS_LINE,
    ),
    _event(
        events.ErrorEvent,
        "error",
        "Part of a compaction failed.",
        Panel.ERRORS,
        Lane.ERROR,
        Trait.HAS_LINE,
        family=Family.TROUBLE,
    ),
    _event(
        events.OverBudgetEvent,
        "error",
        "The request is larger than the budget, and nothing more could be removed from it.",
        Lane.WARNING,
        Trait.HAS_LINE,
        family=Family.TROUBLE,
    ),
    _event(
        events.WarningEvent,
        "error",
        "Something needs attention.",
        Lane.WARNING,
        Trait.HAS_LINE,
        family=Family.TROUBLE,
    ),
)

_SPANS = (
    _span("trace", "One run of an agent."),
    _span("agent", "An agent at work."),
    _span(TURN, "One turn of a conversation."),
    Kind(GENERATION, GENERATION, GENERATION, Family.GENERATION, "A model call.", describe=_describe_generation),
    _span("tool", "A tool call.", Trait.HAS_LINE, family=Family.TOOL),
    _span("handoff", "A handoff from one agent to another.", Trait.HAS_LINE),
    _span("guardrail", "A guardrail check.", Trait.HAS_LINE),
    _span("task", "A task of a workflow."),
    _span("retrieval", "A search for documents.", Trait.HAS_LINE),
    _span("embedding", "An embedding request."),
    _span("span", "Any other span."),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (*_COMPACTION_EVENTS, *_SPANS)}


def kind_of(name: str) -> Kind:
    """Return the row of a kind. An unknown kind gets a row with a label made from its name."""
    kind = KINDS.get(name)
    if kind is not None:
        return kind
    if name.startswith(PREFIX):
        return Kind(name, _label(name), "compaction", Family.COMPACTION, "A compaction event.")
    return Kind(name, _label(name), "span", Family.NEUTRAL, KINDS["span"].description)


def browser_table() -> dict[str, dict[str, Any]]:
    """Return the part of the table that browser code needs. `static/js/kinds.js` reads it."""
    return {
        kind.name: {
            "label": kind.label,
            "icon": kind.icon,
            "family": kind.family.value,
            "lane": kind.lane.value if kind.lane else "",
            "traits": sorted(kind.traits),
        }
        for kind in KINDS.values()
    }

"""The event catalog: the only place where event names and fields are defined.

One class per event. To add one, write its class, export it here, and emit it. The parity tests then name the
documentation, the console line and the server's row that are missing.
"""

from __future__ import annotations

from compact.events.base import (
    Clock,
    Event,
    flat_record,
    iso,
    utc_now,
)
from compact.events.catalog import (
    CATALOG,
    event_named,
)
from compact.events.check_events import (
    CheckEvent,
    CheckTrigger,
    KeptCounts,
    PolicyExcerpt,
    QualityEvent,
    TokenEstimateEvent,
    TriggerDecisionEvent,
)
from compact.events.check_span import (
    CheckSpan,
    Sink,
    new_span_id,
    new_trace_id,
    parent_span,
)
from compact.events.compaction_events import (
    ArchivalEvent,
    ArchivalState,
    ArtifactDetails,
    BreakerOpenEvent,
    CheckStartedEvent,
    ClearedEvent,
    CompletedDetails,
    CompletedEvent,
    DroppedEvent,
    Evidence,
    ExternalizedEvent,
    LayerCounts,
    OverflowRecoveredEvent,
    PolicyAppliedEvent,
    PromptEntry,
    ProposalGeneratedEvent,
    ProviderCompactionEvent,
    PrunedMessagesEvent,
    ReasonDetails,
    RecordEvent,
    SpanProperties,
    SummarizedEvent,
    TruncatedEvent,
    span_properties,
)
from compact.events.problem_events import (
    ErrorEvent,
    MessageDetails,
    NormalizationDetails,
    OverBudgetEvent,
    Severity,
    WarningCode,
    WarningEvent,
)
from compact.events.recall_events import (
    RecallEvent,
)
from compact.events.rehydration_events import (
    BlockedDetails,
    RehydratedDetails,
    RehydratedEvent,
    RehydrationBlockedEvent,
)
from compact.events.summary_events import (
    RetentionEvent,
    SummaryCreatedEvent,
    SummaryDiscardedEvent,
)

__all__ = [
    "CATALOG",
    "ArchivalEvent",
    "ArchivalState",
    "ArtifactDetails",
    "BlockedDetails",
    "BreakerOpenEvent",
    "CheckEvent",
    "CheckSpan",
    "CheckStartedEvent",
    "CheckTrigger",
    "ClearedEvent",
    "Clock",
    "CompletedDetails",
    "CompletedEvent",
    "DroppedEvent",
    "ErrorEvent",
    "Event",
    "Evidence",
    "ExternalizedEvent",
    "KeptCounts",
    "LayerCounts",
    "MessageDetails",
    "NormalizationDetails",
    "OverBudgetEvent",
    "OverflowRecoveredEvent",
    "PolicyAppliedEvent",
    "PolicyExcerpt",
    "PromptEntry",
    "ProposalGeneratedEvent",
    "ProviderCompactionEvent",
    "PrunedMessagesEvent",
    "QualityEvent",
    "ReasonDetails",
    "RecallEvent",
    "RecordEvent",
    "RehydratedDetails",
    "RehydratedEvent",
    "RehydrationBlockedEvent",
    "RetentionEvent",
    "Severity",
    "Sink",
    "SpanProperties",
    "SummarizedEvent",
    "SummaryCreatedEvent",
    "SummaryDiscardedEvent",
    "TokenEstimateEvent",
    "TriggerDecisionEvent",
    "TruncatedEvent",
    "WarningCode",
    "WarningEvent",
    "event_named",
    "flat_record",
    "iso",
    "new_span_id",
    "new_trace_id",
    "parent_span",
    "span_properties",
    "utc_now",
]

"""The parts that all sessions of a manager share, and the operations on a session that need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from compact import events
from compact.config import CompactConfig
from compact.delivery.stderr import log_problem
from compact.engine.archival_results import ArchivalResults
from compact.engine.call import Call, FixedTokens
from compact.engine.effects import Steps
from compact.engine.event_delivery import EventDelivery
from compact.engine.recall_indexes import RecallIndexes
from compact.engine.session import Observation, RenderOptions, Request, Session
from compact.engine.session.stored_plan import load_plan
from compact.engine.token_counter import TokenCounter
from compact.engine.truncation import truncate_arrivals
from compact.exceptions import CompactError
from compact.exporters.multi import MultiExporter
from compact.exporters.redaction import RedactingExporter
from compact.messages import Message
from compact.messages.codecs.quarantine import PROBLEM_KEY
from compact.planning.draft import Draft
from compact.planning.rehydration import RehydrationConfig
from compact.planning.tool_results.artifacts import ArtifactMetadata, Sensitivity
from compact.planning.tool_results.durability import ToolDurabilityPolicy, declared_policy
from compact.planning.trigger import Decision, decide
from compact.protocols import Exporter
from compact.redaction.outbound import OutboundRedactor
from compact.rendering import get_renderer

R = TypeVar("R")
_MAX_LISTED = 5
# Largest share of a learned window that `hard_cap_buffer` may take.
_MAX_LEARNED_BUFFER_PCT = 0.1


class Engine:
    """Everything that one configuration provides to its sessions. Holds no state of a session."""

    def __init__(self, cfg: CompactConfig, clock: events.Clock) -> None:
        self.cfg = cfg
        self.policy = cfg.policy
        self.clock = clock
        self.counter = TokenCounter(cfg.token_estimator, cfg.model)
        self.redactor = OutboundRedactor(cfg.redaction, hook=cfg.redact)
        self.summarizer = cfg.summarizer if cfg.summarizer is not None else _built_in_summarizer()
        has_fallback = cfg.summarizer_fallback == "builtin" and cfg.summarizer is not None
        self.fallback_summarizer = _built_in_summarizer() if has_fallback else None
        if hasattr(self.summarizer, "assume_window"):
            self.summarizer.assume_window(cfg.model, cfg.max_context_tokens)
        self.rehydration: RehydrationConfig = cfg.rehydration or RehydrationConfig()
        self.render_options = RenderOptions(self.counter.count_message, self.policy.protected_flag)
        self.renderer = get_renderer(self.policy.renderer)
        self.recall_tool_name = cfg.recall.tool_name if cfg.recall.enabled else None
        """The tool with which the agent can recall, None if it has none. Summaries mention it."""
        self.recall_indexes = RecallIndexes()
        self._delivery = EventDelivery(cfg.exporter, cfg.storage)
        # The only way out for events. Nothing else may call the delivery's `emit`.
        self._exporter = RedactingExporter(self._delivery, self.redactor)
        self.storage_name = str(getattr(cfg.storage, "name", None) or type(cfg.storage).__name__)
        self.archival_results = ArchivalResults(self.emit_event, self.storage_name)
        if hasattr(cfg.storage, "listen"):
            cfg.storage.listen(self.archival_results.accept)

    # Events.

    def add_exporter(self, exporter: Exporter) -> None:
        """Send events to one more exporter, starting with the next check."""
        current = self.cfg.exporter
        combined = exporter if current is None else MultiExporter(current, exporter)
        self.cfg = replace(self.cfg, exporter=combined)
        self._delivery.exporter = combined

    @property
    def has_listeners(self) -> bool:
        """True if the events go anywhere. Costly payloads are built only then."""
        return self._delivery.has_targets

    def emit_event(self, session_id: str, event: events.Event, status: str = "ok") -> None:
        """Send an event that belongs to no check."""
        if self.has_listeners:
            self._exporter.emit(events.flat_record(session_id, event, ts=events.iso(self.clock()), status=status))

    def open_check(self, session: Session, trigger: events.CheckTrigger) -> events.CheckSpan:
        """Return the span for the events of one check."""
        event = events.CheckEvent(
            turn=session.turn, model=self.cfg.model, trigger=trigger, max_tokens=self.window_tokens(session)
        )
        sink = self._exporter.emit if self._delivery.has_targets else None
        check = events.CheckSpan(session.session_id, session.trace_id, event, sink=sink, clock=self.clock)
        if not self.redactor.enabled and not session.shared.is_warned_of_redaction:
            session.shared.is_warned_of_redaction = True
            text = "Redaction is disabled. Messages are exported and archived unredacted."
            check.emit(events.WarningEvent(severity="high", code="redaction_disabled", message=text))
        return check

    def open_span(self, session: Session, event: events.Event) -> events.CheckSpan:
        """Return the span of an operation that is not a check."""
        sink = self._exporter.emit if self._delivery.has_targets else None
        return events.CheckSpan(session.session_id, session.trace_id, event, sink=sink, clock=self.clock)

    def with_delivery(self, steps: Steps[R]) -> Steps[R]:
        """Run the steps, then wait for async exporters and storages that received events during them."""
        try:
            result = yield from steps
        except CompactError:
            yield from self._delivery.wait_for_targets()
            raise
        yield from self._delivery.wait_for_targets()
        return result

    # The session's history.

    def observe(self, session: Session, call: Call, check: events.CheckSpan) -> Steps[Observation]:
        """Read the host's list into the session, and bring the request up to date."""
        codec = session.select_codec(call.items, call.format)
        store, plan_before = self.cfg.plan_store, session.plan
        if store is not None and not session.is_plan_loaded:
            session.is_plan_loaded = True
            session.codec = codec
            yield from self._load_plan(session, call.items, check)
        observation = session.observe(call.items, codec)
        now = events.iso(self.clock())
        session.recall.times.update((message.id or "", now) for message in observation.new)
        if store is not None and any(message.is_replacement for message in observation.new):
            # The host shows a summary or pointer that another process wrote since.
            plan = session.plan
            yield from self._load_plan(session, call.items, check)
            if session.plan is not plan:
                observation = replace(observation, change="edited")
        session.protected_ids.update(session.host_list.ids[index] for index in call.protected)
        # A stored plan comes with messages that this process has not seen before.
        arrivals = observation.new if session.plan is plan_before else session.view
        self._report_malformed(observation.new, check)
        yield from truncate_arrivals(self, session, arrivals, check)
        self._update_request(session, observation, check)
        return observation

    def _report_malformed(self, messages: Sequence[Message], check: events.CheckSpan) -> None:
        """Warn of new messages that no provider would accept. They are sent unchanged, and all others are compacted."""
        malformed = [message for message in messages if message.kind == "malformed"]
        if not malformed:
            return
        problems = "; ".join(str(message.meta.get(PROBLEM_KEY)) for message in malformed[:_MAX_LISTED])
        text = f"Malformed messages: {len(malformed)}. {problems}."
        details = events.MessageDetails(message_ids=[message.id or "" for message in malformed])
        check.emit(events.WarningEvent(severity="medium", code="malformed_message", message=text, details=details))
        if not check.has_listeners:
            log_problem("compact", text)

    def adopt_stored_plan(self, session: Session, items: Sequence[Any], check: events.CheckSpan) -> Steps[None]:
        """Replace the session's plan with the one that another process committed, and render under it."""
        yield from self._load_plan(session, items, check)
        session.render(self.render_options)

    def _load_plan(self, session: Session, items: Sequence[Any], check: events.CheckSpan) -> Steps[None]:
        yield from load_plan(session, self.cfg.plan_store, items, check)

    def _update_request(self, session: Session, observation: Observation, check: events.CheckSpan) -> None:
        only_appended = observation.change in ("new", "extended", "adopted") and session.is_request_current
        if only_appended and session.extend_request(observation.new, self.render_options):
            return
        normal = session.render(self.render_options)
        if observation.change == "reset":
            text = (
                "The history does not continue this session. It starts a branch without the earlier plan and summary."
            )
            check.emit(events.WarningEvent(severity="low", code="session_reset", message=text))
        if normal.is_changed:
            text = (
                f"Tool calls without an output: {len(normal.added)}. "
                f"Tool outputs without a call: {len(normal.removed)}. "
                f"Tool outputs moved to their call: {len(normal.moved)}."
            )
            details = events.NormalizationDetails(
                added=list(normal.added), removed=list(normal.removed), moved=list(normal.moved)
            )
            check.emit(events.WarningEvent(severity="low", code="normalized", message=text, details=details))

    # Tokens and the decision.

    def window_tokens(self, session: Session) -> int | None:
        """Return the context window, None if it is unknown. A provider's error wins over the configuration."""
        return session.shared.learned_window or self.cfg.max_context_tokens

    def budget_tokens(self, session: Session) -> int | None:
        """Return the tokens a request may have, None if the window is unknown."""
        window = self.window_tokens(session)
        if window is None:
            return None
        if session.shared.learned_window:
            # The buffer was chosen for the configured window. It must not use up a smaller one.
            return window - min(self.policy.hard_cap_buffer, int(window * _MAX_LEARNED_BUFFER_PCT))
        return window - self.policy.hard_cap_buffer

    def fixed_tokens(self, call: Call) -> FixedTokens:
        """Count what is sent beside the messages."""
        schema_tokens = self.counter.count_tools([call.output_schema]) if call.output_schema is not None else 0
        tools = self.counter.count_tools(call.tools) + schema_tokens
        return FixedTokens(tools, self.counter.count_text(call.instructions) if call.instructions else 0)

    def estimate(self, session: Session, fixed: FixedTokens) -> int:
        """Return the tokens of the request, as estimated by the caller and corrected by the provider's usage."""
        return self.estimate_request(session, session.request, fixed)

    def estimate_request(self, session: Session, request: Request, fixed: FixedTokens) -> int:
        """Return the tokens of a request of the session that may be sent, as `estimate` does."""
        own = request.message_tokens + self.counter.reply_overhead(request.messages)
        total = self.counter.count_conversation(request.messages, own) + fixed.total
        return session.usage.apply(total)

    def breakdown(self, session: Session, fixed: FixedTokens, total: int) -> dict[str, int]:
        """Return the parts of the prompt, scaled to a total."""
        breakdown = session.request.breakdown(
            tools=fixed.tools,
            instructions=fixed.instructions,
            overhead=self.counter.reply_overhead(session.request.messages),
            protected_flag=self.policy.protected_flag,
        )
        parts = breakdown.scale_to(total)
        # Document 002 has one part for all messages, beside the instructions and the tools.
        return {**parts.to_dict(), "messages": parts.memory + parts.history + parts.user_input}

    def report_estimate(self, session: Session, check: events.CheckSpan, fixed: FixedTokens, tokens: int) -> None:
        """Emit the size of the request and its parts."""
        if not check.has_listeners:
            return
        window = self.window_tokens(session)
        check.emit(
            events.TokenEstimateEvent(
                model=self.cfg.model,
                t_est=tokens,
                max_tokens=window,
                usage_pct=round(tokens / window, 6) if window else None,
                turn=session.turn,
                estimator=self.counter.name,
                source="provider" if session.usage.has_samples else "estimate",
                breakdown=self.breakdown(session, fixed, tokens),
            )
        )

    def decide(self, session: Session, used_tokens: int, *, is_manual: bool) -> Decision:
        """Decide whether to compact the session's request."""
        messages = session.request.messages
        return decide(
            used_tokens,
            window_tokens=self.window_tokens(session),
            policy=self.policy,
            at_turn_start=bool(messages) and messages[-1].role == "user",
            is_manual=is_manual,
        )

    def report_decision(
        self,
        session: Session,
        check: events.CheckSpan,
        decision: Decision,
        *,
        draft: Draft | None = None,
        kept: events.KeptCounts | None = None,
        note: str | None = None,
    ) -> None:
        """Emit the decision, with the draft of the compaction or what it would have kept."""
        if not check.has_listeners:
            return
        policy = self.policy
        pruned_count = None
        if draft is not None:
            kept, pruned_count = _draft_counts(draft)
        elif decision.triggered:
            kept, pruned_count = kept or events.KeptCounts(pinned=0, recent_turns=0, tool_pairs=0), 0
        check.emit(
            events.TriggerDecisionEvent(
                triggered=decision.triggered,
                reason=decision.reason if note is None else f"{decision.reason}: {note}",
                rule=decision.rule,
                margin_tokens=decision.margin_tokens,
                t_est=decision.used_tokens,
                max_tokens=self.window_tokens(session),
                trigger_tokens=decision.trigger_tokens,
                budget_tokens=self.budget_tokens(session),
                turn=session.turn,
                policy=events.PolicyExcerpt(
                    trigger_pct=policy.trigger_pct,
                    hard_cap_buffer=policy.hard_cap_buffer,
                    strategy=policy.strategy,
                    keep_recent_turns=policy.keep_recent_turns,
                    keep_tool_io_pairs=policy.keep_tool_io_pairs,
                    renderer=policy.renderer,
                    pruning=policy.pruning,
                ),
                note=note,
                kept=kept,
                pruned_count=pruned_count,
            )
        )

    def artifact_metadata(self, session_id: str, sensitivity: Sensitivity) -> ArtifactMetadata:
        """Return the owner, lifetime and key of a new artifact."""
        cfg = self.cfg
        return ArtifactMetadata(
            thread_id=session_id,
            tenant_id=getattr(cfg.security_context, "tenant_id", None),
            created_at=events.iso(self.clock()),
            ttl_seconds=cfg.artifact_ttl_seconds,
            encryption_key_id=cfg.artifact_key_id,
            sensitivity=sensitivity,
        )

    def tool_durability(self, tools: Sequence[Any] | None) -> dict[str, ToolDurabilityPolicy]:
        """Return the durability that the tools declare and the configuration sets, which wins."""
        declared = {
            str(getattr(tool, "__name__", "") or getattr(tool, "name", "")): policy
            for tool in tools or ()
            if (policy := declared_policy(tool)) is not None
        }
        return {**declared, **self.cfg.tool_durability}


def _draft_counts(draft: Draft) -> tuple[events.KeptCounts, int]:
    """Return what a draft keeps, and the number of messages that may leave the prompt."""
    partition = draft.partition
    kept = events.KeptCounts(
        pinned=sum(len(unit.indices) for unit in partition.pinned),
        recent_turns=partition.recent_turns,
        tool_pairs=partition.tool_pairs,
    )
    return kept, sum(len(unit.indices) for unit in partition.remainder)


def _built_in_summarizer() -> Any:
    from compact.summarizers import ExtractiveSummarizer

    return ExtractiveSummarizer()

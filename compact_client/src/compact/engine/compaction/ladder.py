"""Apply the strategies of the policy in order until the request is small enough.

This module performs the side effects that strategies propose: storing artifacts and calling the summarizer. If every
strategy together leaves the request over budget, the oldest units are dropped.

Ephemeral results are cleared before the first step. They say nothing that a summary should repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from compact import events
from compact.engine.compaction.drafts import DraftTerms
from compact.engine.compaction.prompt import Prompt
from compact.engine.compaction.summary_update import SummaryUpdate
from compact.engine.effects import Steps, call_store
from compact.engine.session import Session
from compact.messages import Message, RedactedMessage
from compact.messages.span import SpanReference
from compact.messages.units import Unit
from compact.planning.draft import Draft
from compact.planning.log import AgentThread
from compact.planning.plan import ClearRecord, CompactionRecord, ExternalizationRecord, SummarizationRecord
from compact.planning.strategies import (
    ClearStrategy,
    CompactionProposal,
    CompactionStrategy,
    ExternalizeStrategy,
    SpanSummary,
    StrategyContext,
    SummarizeStrategy,
    get_strategy,
    propose_drop,
)
from compact.planning.tool_results.artifacts import ArtifactMetadata, Sensitivity
from compact.policy import CompactPolicy
from compact.rendering.base import clear_output, pointer_text

_DROP = "drop"


@dataclass(frozen=True, slots=True)
class ArtifactWriter:
    """Writes content to the artifact store."""

    artifact_store: Any
    new_metadata: Callable[[Sensitivity], ArtifactMetadata]

    def store(self, content: str, sensitivity: Sensitivity) -> Steps[str]:
        """Write content, and return its id. Raise `StoreFailed` if the store fails."""
        metadata = self.new_metadata(sensitivity)
        artifact_id = yield from call_store("artifact", lambda: self.artifact_store.store(content, metadata))
        return cast(str, artifact_id)


class Ladder:
    """The strategies applied to one draft, and what they have done so far."""

    def __init__(
        self,
        prompt: Prompt,
        draft: Draft,
        *,
        context: StrategyContext,
        summary_update: SummaryUpdate,
        artifacts: ArtifactWriter,
        terms: DraftTerms,
        session: Session,
        check: events.CheckSpan,
    ) -> None:
        self.draft = draft
        self.prompt = prompt
        self._context = context
        self._summary_update = summary_update
        self._artifacts = artifacts
        self._terms = terms
        self._session = session
        self._check = check
        self.summary = summary_update.carry_over()
        self.records: list[CompactionRecord] = [sibling.record(context) for sibling in prompt.siblings]
        self.ephemeral: dict[str, ClearRecord] = {}
        """The ephemeral results by message id. The summarizer gets only their placeholders."""
        self.extended_span: SummarizationRecord | None = None
        """The newest span of earlier compactions, if its summary also has what was truncated now."""
        self._removed_units: set[int] = set()
        self._cleared_tokens = 0
        self._pointer_tokens = 0

    def apply(self) -> Steps[None]:
        """Apply one strategy after the other until the target is met, then enforce the budget."""
        siblings = len(self.records)
        target_tokens = 0 if self._terms.is_manual else self.draft.limits.target_tokens
        yield from self._clear_ephemeral(target_tokens)
        for name in self._terms.policy.ladder:
            candidates = self._remaining_units()
            used_tokens = self._used_tokens(candidates)
            if not candidates or (len(self.records) > siblings and used_tokens <= target_tokens):
                break
            strategy = get_strategy(name)
            tokens_to_free = max(1, used_tokens - target_tokens)
            proposals = strategy.analyze(self._context, candidates, tokens_to_free=tokens_to_free)
            yield from self._execute_all(strategy, proposals)
        if not self.summary.is_new:
            yield from self._summarize_truncated()
        yield from self._enforce_budget()
        if not self.summary.is_new and self._terms.has_oversized_summary(self.draft):
            self.summary = self._summary_update.shorten(self.summary)

    def _clear_ephemeral(self, target_tokens: int) -> Steps[None]:
        strategy = ClearStrategy()
        if strategy.name not in self._terms.policy.ladder:
            return
        candidates = self._remaining_units()
        proposals = strategy.propose_ephemeral(self._context, candidates)
        for proposal in proposals:
            self.ephemeral[proposal.span.start_message_id] = strategy.execute(proposal, self._context)
        tokens_to_free = self._used_tokens(candidates) - target_tokens
        if sum(proposal.estimated_tokens_freed for proposal in proposals) >= tokens_to_free > 0:
            # Enough to meet the target. Otherwise, their units are summarized with all others.
            yield from self._execute_all(strategy, proposals)

    def _enforce_budget(self) -> Steps[None]:
        """Drop the oldest units if the strategies left too much, even right after a rehydration."""
        candidates = self._remaining_units()
        tokens_to_free = self._used_tokens(candidates) - self.draft.limits.budget_tokens
        if candidates and tokens_to_free > 0:
            proposals = propose_drop(self._context, candidates, tokens_to_free=tokens_to_free)
            yield from self._execute_all(get_strategy(_DROP), proposals)

    def _remaining_units(self) -> list[Unit]:
        return [unit for unit in self.draft.partition.remainder if unit.first not in self._removed_units]

    def _used_tokens(self, remaining: Sequence[Unit]) -> int:
        """Return the tokens of the request as it is now."""
        kept = self.draft.pinned_tokens + self.draft.recent_tokens + self.summary.tokens + self._pointer_tokens
        return kept + self._context.tokens_of(remaining) - self._cleared_tokens

    def _execute_all(self, strategy: CompactionStrategy, proposals: Sequence[CompactionProposal]) -> Steps[None]:
        for proposal in proposals:
            self._check.emit(
                events.ProposalGeneratedEvent(
                    strategy=strategy.name,
                    span=events.span_properties(proposal.span),
                    tokens_freed=proposal.estimated_tokens_freed,
                    details=events.ReasonDetails(reason=proposal.reason),
                )
            )
            result: str | SpanSummary | None = None
            if isinstance(strategy, ExternalizeStrategy):
                result = yield from self._artifacts.store(
                    _artifact_text(self._session.thread, self.prompt, proposal),
                    strategy.sensitivity(proposal, self._context),
                )
            elif isinstance(strategy, SummarizeStrategy):
                result = yield from self._summarize(strategy, proposal)
                if result is None:
                    self._drop_unsummarized(proposal)
                    return
            self._add_record(proposal, strategy.execute(proposal, self._context, result))

    def _add_record(self, proposal: CompactionProposal, record: CompactionRecord) -> None:
        self.records.append(record)
        if isinstance(record, ClearRecord):
            self._cleared_tokens += proposal.estimated_tokens_freed
            return
        self._removed_units.update(unit.first for unit in proposal.units)
        if isinstance(record, ExternalizationRecord):
            self._pointer_tokens += self._terms.counter.message(pointer_text(record))

    def _summarize(self, strategy: SummarizeStrategy, proposal: CompactionProposal) -> Steps[SpanSummary | None]:
        siblings = [self._context.messages[sibling.index] for sibling in self.prompt.siblings]
        messages = [*map(self._summarizer_form, strategy.messages(proposal, self._context)), *siblings]
        messages += [self._context.messages[index] for index in self._truncated_indices()]
        return (yield from self._write_summary(messages, proposal.span))

    def _summarize_truncated(self) -> Steps[None]:
        """Summarize what was truncated, if no message leaves the prompt with a summary."""
        context, indices = self._context, self._truncated_indices()
        if not indices or not context.can_summarize or SummarizeStrategy.name not in context.policy.ladder:
            return
        ids = tuple(context.messages[index].id or "" for index in indices)
        span = SpanReference(ids, context.turns[indices[0]], context.turns[indices[-1]])
        summary = yield from self._write_summary([context.messages[index] for index in indices], span)
        if summary is not None and self._terms.keeps_spans(self.draft):
            # No message leaves the prompt, so there is no place for a span of its own.
            self.extended_span = self._extend_newest_span(summary)

    def _extend_newest_span(self, summary: SpanSummary) -> SummarizationRecord:
        plan = self._terms.plan
        assert plan is not None
        newest = plan.summarizations[-1]
        tokens = newest.summary_token_count + summary.tokens
        return replace(newest, summary=newest.summary.merge(summary.content), summary_token_count=tokens)

    def _truncated_indices(self) -> list[int]:
        """Return the messages that stay truncated and are in no summary yet, and their calls unless they are pinned."""
        truncated, messages = self.prompt.newly_truncated_ids(self._terms.plan), self.prompt.messages
        partition, indices = self.draft.partition, []
        for unit in (*partition.pinned, *partition.recent):
            outputs = [index for index in unit.indices if messages[index].id in truncated]
            if outputs and unit in partition.recent:
                indices += [index for index in unit.indices if messages[index].tool_calls]
            indices += outputs
        return sorted(indices)

    def _write_summary(self, messages: Sequence[RedactedMessage], span: SpanReference) -> Steps[SpanSummary | None]:
        kept = (*self.draft.partition.pinned, *self.draft.partition.recent)
        kept_indices = {index for unit in kept for index in unit.indices}
        visible = [self._prompt_form(index) for index in sorted(kept_indices)]
        summaries = yield from self._summary_update.write(messages, span, visible)
        if summaries is None:
            return None
        self.summary, span_summary = summaries
        return span_summary

    def _summarizer_form(self, message: RedactedMessage) -> RedactedMessage:
        """Return a message of the span as the summarizer reads it: ephemeral results have only their placeholder."""
        session, message_id = self._session, message.id or ""
        record, logged = self.ephemeral.get(message_id), session.thread.get(message_id)
        if record is None or logged is None or session.codec is None:
            return message
        return session.redaction.reversible_excerpt(clear_output(logged, record, session.codec))

    def _prompt_form(self, index: int) -> RedactedMessage:
        """Return a message that stays in the prompt, with placeholders and truncated as the prompt shows it."""
        message = self.prompt.messages[index]
        if message.id in self.prompt.forms:
            return self._session.redaction.reversible_excerpt(message)
        return self._context.messages[index]

    def _drop_unsummarized(self, proposal: CompactionProposal) -> None:
        """Drop a span that no summarizer could summarize."""
        reason = "summarizer failed"
        for drop in propose_drop(self._context, proposal.units, tokens_to_free=None, reason=reason):
            self._add_record(drop, get_strategy(_DROP).execute(drop, self._context, None))


def _artifact_text(log: AgentThread, prompt: Prompt, proposal: CompactionProposal) -> str:
    """Return the content to externalize. It is part of the agent's memory, so it keeps its secrets."""
    messages = [prompt.messages[index] for index in proposal.units[0].indices]
    return "\n\n".join(_full_text(log.get(message.id or "") or message) for message in messages)


def _full_text(message: Message) -> str:
    calls = "\n".join(f"{call.name}({call.arguments})" for call in message.tool_calls)
    return "\n".join(part for part in (calls, message.text) if part)


def strategy_context(
    session: Session,
    prompt: Prompt,
    draft: Draft,
    policy: CompactPolicy,
    count_text: Callable[[str], int],
    *,
    now: str,
    has_artifact_store: bool,
    is_after_rehydration: bool,
    warn: Callable[[str], None],
) -> StrategyContext:
    """Return what the strategies may look at."""
    assert session.codec is not None
    messages, codec = prompt.messages, session.codec
    session.redaction.update(session.history)

    def count_outputs(index: int, call_ids: Collection[str]) -> int:
        outputs = codec.outputs(messages[index])
        return sum(count_text(text) for call_id, text in outputs if call_id in call_ids)

    return StrategyContext(
        messages=[session.redaction.reversible(message) for message in messages],
        counts=prompt.counts,
        sizes=draft.sizes,
        outputs=codec.outputs,
        policy=policy,
        turns=session.turn_numbers(messages),
        count_outputs=count_outputs,
        restore=session.redaction.restore,
        now=now,
        durability=session.durability,
        determinism=session.determinism,
        can_externalize=has_artifact_store,
        can_summarize=bool(draft.summary_tokens),
        is_after_rehydration=is_after_rehydration,
        warn=warn,
    )

"""Draft a compaction of a prompt: measure what earlier ones removed, and what the results that must stay need."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from compact import events
from compact.engine.compaction.prompt import Prompt
from compact.engine.token_counter import PlanTextCounter
from compact.messages.units import Unit
from compact.planning.draft import Draft, EarlierTokens, draft_compaction
from compact.planning.limits import TokenLimits
from compact.planning.partition_search import Conversation, SearchStart
from compact.planning.plan import CompactionPlan
from compact.planning.strategies.externalize import POINTER_TOKENS
from compact.planning.tool_results.durability import ToolDurabilityPolicy
from compact.planning.tool_results.non_replayable import non_replayable_ids
from compact.policy import CompactPolicy, Floor
from compact.rendering import Renderer
from compact.rendering.base import pointer_text, span_text

# Document 000: a manual compaction frees at least 40 % where it can.
MANUAL_GOAL_PCT = 0.57


@dataclass(frozen=True, slots=True)
class DraftTerms:
    """The terms of all drafts of one compaction."""

    policy: CompactPolicy
    renderer: Renderer
    plan: CompactionPlan | None
    """The plan before the compaction."""
    durability: Mapping[str, ToolDurabilityPolicy]
    counter: PlanTextCounter
    fixed_tokens: int
    floor: Floor
    start: SearchStart
    is_manual: bool
    can_externalize: bool

    def keeps_spans(self, draft: Draft) -> bool:
        """True if earlier spans keep their own summaries beside the new one."""
        has_spans = self.plan is not None and bool(self.plan.summarizations)
        return has_spans and self.renderer.keeps_spans and not draft.folds_replacements

    def folded_spans(self, draft: Draft) -> int:
        """Return the number of earlier spans that lose their own summary."""
        spans = len(self.plan.summarizations) if self.plan else 0
        return spans if self.renderer.keeps_spans and draft.folds_replacements else 0

    def has_oversized_summary(self, draft: Draft) -> bool:
        """True if the summary of earlier compactions does not fit into the room that the draft leaves for it."""
        if draft.folds_replacements:
            return True
        if self.plan is None or not self.plan.summary_text or self.keeps_spans(draft):
            return False
        # Count it as a message, because its framing matters when the budget is met exactly.
        return self.counter.message(self.plan.summary_text) > max(draft.summary_tokens, 1)


def make_draft(
    prompt: Prompt, terms: DraftTerms, limits: TokenLimits, *, keep_least: bool = False, story: Collection[int] = ()
) -> Draft:
    """Draft a compaction within some limits. Raise `InsufficientBudget` if even the minimum does not fit."""
    return draft_compaction(
        Conversation.measure(prompt.units, prompt.messages, prompt.pins, prompt.counts),
        partitions=terms.renderer.partitions,
        policy=terms.policy,
        limits=limits,
        fixed_tokens=terms.fixed_tokens,
        earlier=_earlier_tokens(prompt, terms),
        non_replayable_ids=results_to_keep(prompt, terms),
        floor=terms.floor,
        start=terms.start,
        keep_least=keep_least,
        goal_tokens=goal_tokens_of(prompt, terms),
        story=story,
    )


def goal_tokens_of(prompt: Prompt, terms: DraftTerms) -> int | None:
    """Return the request size that a manual compaction tries to reach."""
    return int(MANUAL_GOAL_PCT * (sum(prompt.counts) + terms.fixed_tokens)) if terms.is_manual else None


def floor_units(prompt: Prompt, terms: DraftTerms) -> Sequence[Unit]:
    """Return the units that the smallest draft keeps, without the pinned ones."""
    turns, pairs = (1, 1) if terms.floor == "turn" else (-1, 0)
    return recent_units(prompt, terms, turns, pairs)


def recent_units(prompt: Prompt, terms: DraftTerms, turns: int, pairs: int) -> Sequence[Unit]:
    """Return the units of the recent turns and tool pairs, without the pinned ones."""
    partition = terms.renderer.partition(prompt.units, prompt.messages, prompt.pins, keep_turns=turns, keep_pairs=pairs)
    return partition.recent


def kept_at_floor(prompt: Prompt, terms: DraftTerms) -> events.KeptCounts:
    """Return what the smallest draft would have kept."""
    kept = floor_units(prompt, terms)
    return events.KeptCounts(
        pinned=sum(len(unit.indices) for unit in prompt.units if unit.first in prompt.pins),
        recent_turns=sum(unit.kind == "user" for unit in kept),
        tool_pairs=sum(unit.pairs for unit in kept),
    )


def results_to_keep(prompt: Prompt, terms: DraftTerms) -> set[str]:
    """Return the ids of non-replayable results, except for those that will be moved to the artifact store."""
    messages, counts = prompt.messages, prompt.counts
    ids = non_replayable_ids(messages, terms.durability)
    if not ids or not terms.can_externalize:
        return ids
    large = (unit for unit in prompt.units if sum(counts[index] for index in unit.indices) > POINTER_TOKENS)
    return ids.difference(messages[index].id or "" for unit in large for index in unit.indices)


def _earlier_tokens(prompt: Prompt, terms: DraftTerms) -> EarlierTokens:
    """Measure what earlier compactions removed, and what this one cut from outputs."""
    plan = terms.plan
    pairs = zip(prompt.messages, prompt.counts, strict=True)
    # Summaries that an earlier process left in the history.
    inherited_tokens = sum(tokens for message, tokens in pairs if message.is_summary)
    has_summary = plan is not None and plan.summary_text
    summary_tokens = terms.counter.message(plan.summary_text or "") if plan and has_summary else inherited_tokens
    removed_tokens = sum(entry.tokens for entry in plan.absorbed) if plan else 0
    if ratio := terms.policy.summary_ratio:
        # It is not known what an earlier process removed, but its summary has at most this share of that.
        removed_tokens = max(removed_tokens, int(summary_tokens / ratio) - inherited_tokens)
    return EarlierTokens(
        removed=removed_tokens + sum(item.tokens_before - item.tokens_after for item in prompt.truncations.values()),
        replacements=_replacement_tokens(terms),
        summary=0 if terms.is_manual else summary_tokens,
    )


def _replacement_tokens(terms: DraftTerms) -> int:
    """Return the tokens of pointers, and of the summaries that spans keep."""
    if terms.plan is None:
        return 0
    texts = [pointer_text(record) for record in terms.plan.externalizations if not record.is_folded]
    if terms.renderer.keeps_spans:
        texts += [span_text(record) for record in terms.plan.summarizations]
    return sum(terms.counter.message(text) for text in texts)

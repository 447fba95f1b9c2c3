"""Draft a compaction from the state of a session.

If the recent window does not fit, long outputs in it are truncated. The newest unit is truncated last, if nothing else
would meet the budget.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from compact import events
from compact.engine.compaction.ledger import is_host_message
from compact.engine.effects import Steps
from compact.engine.session import Session
from compact.engine.truncation import is_truncatable, policy_limit, truncate_message
from compact.messages import Message
from compact.messages.codecs.base import ChangeOutput
from compact.messages.units import Unit
from compact.planning.draft import Draft, EarlierTokens, draft_compaction
from compact.planning.limits import TokenLimits
from compact.planning.partition import PROTECTED_TOOL, Partition, newest_unit, partition_for_bridge, partition_units
from compact.planning.strategies.externalize import POINTER_TOKENS
from compact.planning.tool_results.non_replayable import non_replayable_ids
from compact.planning.tool_results.truncation import truncate_with_split
from compact.rendering.base import pointer_text
from compact.rendering.inplace import span_text

if TYPE_CHECKING:
    from compact.engine.compaction.compaction import Compaction

# Document 000: a manual compaction frees at least 40 % where it can.
MANUAL_GOAL_PCT = 0.57
_OUTPUT_SHARE = 0.8  # of the free budget, for the outputs of the newest unit
_ANSWERED_SHARE = 0.3  # of the free budget, for the outputs before it
_MIN_OUTPUT_TOKENS = 64
_MARKER_TOKENS = 16  # the line that says how much was cut


def make_draft(compaction: Compaction, limits: TokenLimits, *, keep_least: bool = False) -> Draft:
    """Draft a compaction within some limits. Raise `InsufficientBudget` if even the minimum does not fit."""
    counts = compaction.counts
    goal_tokens = None
    if compaction.is_manual:
        goal_tokens = int(MANUAL_GOAL_PCT * (sum(counts) + compaction.fixed_tokens))
    return draft_compaction(
        compaction.messages,
        counts,
        compaction.units,
        compaction.pins,
        policy=compaction.engine.policy,
        limits=limits,
        fixed_tokens=compaction.fixed_tokens,
        earlier=EarlierTokens(
            removed=_removed_tokens(compaction),
            replacements=_replacement_tokens(compaction),
            summary=0 if compaction.is_manual else _summary_tokens(compaction),
        ),
        non_replayable_ids=_results_to_keep(compaction),
        floor=compaction.floor,
        keep_least=keep_least,
        goal_tokens=goal_tokens,
    )


def host_messages(session: Session) -> tuple[list[Message], list[int]]:
    """Return the request's messages and token counts, without the replacements that a renderer wrote."""
    messages, counts = [], []
    for message, tokens in zip(session.request.messages, session.request.counts, strict=True):
        if is_host_message(message):
            messages.append(message)
            counts.append(tokens)
    return messages, counts


def truncate_recent(compaction: Compaction) -> Steps[bool]:
    """Truncate long outputs that the policy wants to keep, except for the newest unit. Return True if any was long."""
    newest = newest_unit(compaction.units) if compaction.units else None
    partition = _policy_partition(compaction)
    units = [*partition.recent, *_recent_protected(compaction, partition)]
    older = [unit for unit in units if unit is not newest]
    # Without the buffer, so that outputs which were truncated on arrival become shorter, too.
    policy = replace(compaction.engine.policy, tool_output_serialization_buffer=1.0)
    shorten = policy_limit(policy, compaction.engine.counter.count_text)
    return (yield from _truncate(compaction, older, shorten, "the recent window does not fit"))


def truncate_answered(compaction: Compaction, draft: Draft | None) -> Steps[bool]:
    """Truncate the outputs before the newest unit, so that the summary gets its share of the budget.

    The agent has answered them, and the summary keeps the rest of them by value. Without a draft, they are the outputs
    that the smallest one keeps.
    """
    kept = _kept_units(compaction, draft)
    newest = newest_unit(compaction.units)
    answered = [unit for unit in kept if unit is not newest]
    max_tokens = max(_MIN_OUTPUT_TOKENS, _largest_output(compaction, kept, answered, _ANSWERED_SHARE))
    return (yield from _truncate_to(compaction, answered, max_tokens, "the summary needs its share of the budget"))


def truncate_to_fit(compaction: Compaction) -> Steps[bool]:
    """Truncate the outputs that must stay to the rest of the budget. Return False if that is not possible."""
    kept = _kept_units(compaction)
    max_tokens = _largest_output(compaction, kept, kept, _OUTPUT_SHARE)
    if max_tokens < _MIN_OUTPUT_TOKENS:
        return False
    return (yield from _truncate_to(compaction, kept, max_tokens, "the output does not fit the budget"))


def kept_at_floor(compaction: Compaction) -> events.KeptCounts:
    """Return what the smallest draft would have kept."""
    kept = _floor_units(compaction)
    return events.KeptCounts(
        pinned=sum(len(unit.indices) for unit in compaction.units if unit.first in compaction.pins),
        recent_turns=sum(unit.kind == "user" for unit in kept),
        tool_pairs=sum(unit.pairs for unit in kept),
    )


def _floor_units(compaction: Compaction) -> Sequence[Unit]:
    """Return the units that the smallest draft keeps, without the pinned ones."""
    turns, pairs = (1, 1) if compaction.floor == "turn" else (-1, 0)
    return _recent_units(compaction, turns, pairs)


def _recent_units(compaction: Compaction, turns: int, pairs: int) -> Sequence[Unit]:
    """Return the units of the recent turns and tool pairs, without the pinned ones."""
    units, pins = compaction.units, compaction.pins
    if compaction.engine.policy.renderer == "bridge":
        sizes = dict.fromkeys((unit.first for unit in units), 0)
        return partition_for_bridge(units, compaction.messages, pins, sizes=sizes, user_tokens=-1).recent
    return partition_units(units, compaction.messages, pins, keep_turns=turns, keep_pairs=pairs).recent


def _kept_units(compaction: Compaction, draft: Draft | None = None) -> list[Unit]:
    """Return the units of a draft's recent window, or of the smallest one, and those of protected tools in it."""
    recent = _floor_units(compaction)
    if draft is not None:
        recent = _recent_units(compaction, draft.partition.keep_turns, draft.partition.keep_pairs)
    return [*recent, *_recent_protected(compaction, _policy_partition(compaction))]


def _largest_output(compaction: Compaction, kept: Sequence[Unit], units: Sequence[Unit], share: float) -> int:
    """Return the most tokens of an output, if those of some of the kept units may take a share of the free budget."""
    counts, count_text = compaction.counts, compaction.engine.counter.count_text
    outputs = [text for unit in units for texts in _outputs_of(compaction, unit).values() for text in texts.values()]
    output_tokens = [count_text(text) for text in outputs]
    firsts = {*compaction.pins, *(unit.first for unit in kept)}
    kept_tokens = sum(counts[index] for unit in compaction.units if unit.first in firsts for index in unit.indices)
    needed_tokens = compaction.fixed_tokens + kept_tokens - sum(output_tokens)
    free_tokens = int((compaction.limits.budget_tokens - needed_tokens) * share)
    return _largest_share(output_tokens, free_tokens) - _MARKER_TOKENS


def _policy_partition(compaction: Compaction) -> Partition:
    """Return the partition that the policy asks for."""
    policy = compaction.engine.policy
    return partition_units(
        compaction.units,
        compaction.messages,
        compaction.pins,
        keep_turns=policy.keep_recent_turns,
        keep_pairs=policy.keep_tool_io_pairs,
    )


def _recent_protected(compaction: Compaction, partition: Partition) -> list[Unit]:
    """Return the units of protected tools in the recent window. In older ones, other outputs are cleared."""
    rules = compaction.pins
    return [
        unit
        for unit in partition.pinned
        if unit.last >= partition.window_start and rules[unit.first].startswith(PROTECTED_TOOL)
    ]


def _outputs_of(compaction: Compaction, unit: Unit) -> dict[int, dict[str, str]]:
    """Return the outputs that may be truncated, by message index and call id. A pinned unit keeps the protected one."""
    engine, session, messages = compaction.engine, compaction.session, compaction.messages
    assert session.codec is not None
    protected_tools = engine.policy.protected_tools if unit.first in compaction.pins else ()
    calls = (call for index in unit.indices for call in messages[index].tool_calls)
    protected = {call.id for call in calls if call.name in protected_tools}
    return {
        index: {call_id: text for call_id, text in session.codec.outputs(messages[index]) if call_id not in protected}
        for index in unit.indices
        if is_truncatable(engine, session, messages[index])
    }


def _largest_share(sizes: Sequence[int], free_tokens: int) -> int:
    """Return the most that one of several outputs may take. Small ones leave their share to the others."""
    for number, size in enumerate(sorted(sizes)):
        share = free_tokens // (len(sizes) - number)
        if size > share:
            return share
        free_tokens -= size
    return max(sizes, default=0)


def _truncate_to(compaction: Compaction, units: Sequence[Unit], max_tokens: int, reason: str) -> Steps[bool]:
    """Truncate the outputs of some units that are longer than a limit and its marker."""
    count_text = compaction.engine.counter.count_text
    if compaction.engine.policy.tool_output_truncation == "none":
        return False

    def shorten(_: str, text: str) -> str:
        is_long = count_text(text) > max_tokens + _MARKER_TOKENS
        return truncate_with_split(text, max_tokens, count_text) if is_long else text

    return (yield from _truncate(compaction, units, shorten, reason))


def _truncate(compaction: Compaction, units: Sequence[Unit], shorten: ChangeOutput, reason: str) -> Steps[bool]:
    """Truncate the outputs of some units. Return True if any of them changed."""
    engine, session, check = compaction.engine, compaction.session, compaction.check
    is_changed = False
    for index, outputs in (item for unit in units for item in _outputs_of(compaction, unit).items()):
        message, change = compaction.messages[index], _limit_to(outputs, shorten)
        truncation = yield from truncate_message(engine, session, message, change, reason, check)
        if truncation is not None:
            compaction.add_truncation(truncation)
            is_changed = True
    if is_changed:
        compaction.render()
    return is_changed


def _limit_to(call_ids: Container[str], change: ChangeOutput) -> ChangeOutput:
    """Return a function that changes only the outputs of these calls."""
    return lambda call_id, text: change(call_id, text) if call_id in call_ids else text


def _results_to_keep(compaction: Compaction) -> set[str]:
    """Return the ids of non-replayable results, except for those that will be moved to the artifact store."""
    messages, counts = compaction.messages, compaction.counts
    ids = non_replayable_ids(messages, compaction.session.durability)
    can_externalize = compaction.artifact_store is not None and "externalize" in compaction.engine.policy.ladder
    if not ids or not can_externalize or compaction.is_after_rehydration:
        return ids
    large = (unit for unit in compaction.units if sum(counts[index] for index in unit.indices) > POINTER_TOKENS)
    return ids.difference(messages[index].id or "" for unit in large for index in unit.indices)


def _summary_tokens(compaction: Compaction) -> int:
    """Return the tokens of the session's summary, or of the one that an earlier process left in the history."""
    plan = compaction.session.plan
    if plan is None or not plan.summary_text:
        return _inherited_tokens(compaction)
    return compaction.engine.counter.count_assistant_text(compaction.session.redaction.restore(plan.summary_text))


def _inherited_tokens(compaction: Compaction) -> int:
    """Return the tokens of summaries that an earlier process left in the history."""
    pairs = zip(compaction.messages, compaction.counts, strict=True)
    return sum(tokens for message, tokens in pairs if message.is_summary)


def _removed_tokens(compaction: Compaction) -> int:
    """Return the tokens that earlier compactions removed, and those that this one cut from outputs."""
    plan = compaction.session.plan
    removed_tokens = sum(entry.tokens for entry in plan.absorbed) if plan else 0
    if ratio := compaction.engine.policy.summary_ratio:
        # It is not known what an earlier process removed, but its summary has at most this share of that.
        summarized_tokens = int(_summary_tokens(compaction) / ratio)
        removed_tokens = max(removed_tokens, summarized_tokens - _inherited_tokens(compaction))
    return removed_tokens + sum(item.tokens_before - item.tokens_after for item in compaction.truncations.values())


def _replacement_tokens(compaction: Compaction) -> int:
    """Return the tokens of pointers, and of span summaries for the in-place renderer."""
    plan = compaction.session.plan
    if plan is None:
        return 0
    texts = [pointer_text(record) for record in plan.externalizations if not record.is_folded]
    if compaction.engine.policy.renderer == "inplace":
        texts += [span_text(record) for record in plan.summarizations]
    restore = compaction.session.redaction.restore
    return sum(compaction.engine.counter.count_assistant_text(restore(text)) for text in texts)

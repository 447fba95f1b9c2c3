"""Draft a compaction from the state of a session.

The newest tool outputs are shown in full if the compaction makes room for them, and truncated if nothing else would
meet the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from compact.engine.compaction.ledger import is_host_message
from compact.engine.session import Session
from compact.messages import Message
from compact.messages.units import Unit, group_units
from compact.planning.draft import SMALL_SUMMARY_TOKENS, Draft, draft_compaction
from compact.planning.limits import TokenLimits
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
_MIN_OUTPUT_TOKENS = 64
_MARKER_TOKENS = 16  # the line that says how much was cut


def make_draft(compaction: Compaction, limits: TokenLimits, *, keep_least: bool = False) -> Draft:
    """Draft a compaction within some limits. Raise `InsufficientBudget` if even the minimum does not fit."""
    session, messages, counts = compaction.session, compaction.messages, compaction.counts
    goal_tokens = None
    if compaction.is_manual:
        goal_tokens = int(MANUAL_GOAL_PCT * (sum(counts) + compaction.fixed_tokens))
    return draft_compaction(
        messages,
        counts,
        policy=compaction.engine.policy,
        limits=limits,
        fixed_tokens=compaction.fixed_tokens,
        removed_tokens=sum(entry.tokens for entry in session.plan.absorbed) if session.plan else 0,
        replacement_tokens=_replacement_tokens(compaction),
        protected_ids=session.protected_ids,
        non_replayable_ids=_results_to_keep(compaction, messages, counts),
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


def show_newest_in_full(compaction: Compaction) -> None:
    """Show the truncated outputs of the newest unit in full, if the budget allows it."""
    session, counter = compaction.session, compaction.engine.counter
    truncated_ids = session.truncated_ids
    if not truncated_ids:
        return
    messages, counts = host_messages(session)
    newest = _newest_unit(messages)
    if newest is None:
        return
    cut_ids = [messages[index].id or "" for index in newest.indices if messages[index].id in truncated_ids]
    if not cut_ids:
        return
    full = [session.thread.get(messages[index].id or "") or messages[index] for index in newest.indices]
    needed_tokens = (
        compaction.fixed_tokens
        + _pinned_tokens(compaction, messages, counts)
        + sum(counter.count_message(message) for message in full)
    )
    if needed_tokens + SMALL_SUMMARY_TOKENS > compaction.limits.budget_tokens:
        return
    for message_id in cut_ids:
        session.show_in_full(message_id)
    compaction.render()


def truncate_newest(compaction: Compaction) -> bool:
    """Truncate the outputs of the newest unit to the rest of the budget. Return False if that is not possible."""
    session, codec = compaction.session, compaction.session.codec
    messages, counts = compaction.messages, compaction.counts
    newest = _newest_unit(messages)
    if newest is None or codec is None or compaction.engine.policy.tool_output_truncation == "none":
        return False
    outputs = _truncatable_outputs(compaction, newest)
    others = sum(counts[index] for index in newest.indices if index not in outputs)
    needed_tokens = compaction.fixed_tokens + _pinned_tokens(compaction, messages, counts) + others
    free_tokens = int((compaction.limits.budget_tokens - needed_tokens) * _OUTPUT_SHARE)
    max_tokens = free_tokens // max(1, len(outputs))
    if not outputs or max_tokens < _MIN_OUTPUT_TOKENS:
        return False
    count_text = compaction.engine.counter.count_text
    for index in outputs:
        message = messages[index]
        short = codec.map_outputs(
            message, lambda _, text: truncate_with_split(text, max_tokens - _MARKER_TOKENS, count_text)
        )
        if short is not message and message.id is not None:
            session.truncate_message(message.id, short)
    compaction.render()
    return True


def _newest_unit(messages: Sequence[Message]) -> Unit | None:
    return max(group_units(messages), key=lambda unit: unit.last, default=None)


def _truncatable_outputs(compaction: Compaction, unit: Unit) -> list[int]:
    """Return the indices of the unit's tool outputs that are not protected."""
    messages, flag = compaction.messages, compaction.engine.policy.protected_flag
    return [index for index in unit.indices if messages[index].answers and not messages[index].meta.get(flag)]


def _pinned_tokens(compaction: Compaction, messages: Sequence[Message], counts: Sequence[int]) -> int:
    policy, protected_ids = compaction.engine.policy, compaction.session.protected_ids
    return sum(
        tokens
        for message, tokens in zip(messages, counts, strict=True)
        if message.role in policy.roles_never_prune
        or message.meta.get(policy.protected_flag)
        or message.id in protected_ids
    )


def _results_to_keep(compaction: Compaction, messages: Sequence[Message], counts: Sequence[int]) -> set[str]:
    """Return the ids of non-replayable results, except for those that will be moved to the artifact store."""
    ids = non_replayable_ids(messages, compaction.session.durability)
    can_externalize = compaction.artifact_store is not None and "externalize" in compaction.engine.policy.ladder
    if not ids or not can_externalize or compaction.is_after_rehydration:
        return ids
    large = (unit for unit in group_units(messages) if sum(counts[index] for index in unit.indices) > POINTER_TOKENS)
    return ids.difference(messages[index].id or "" for unit in large for index in unit.indices)


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

"""Draft a compaction of a session: from its request and its plan to what the planner needs to know.

What the model is about to answer is shown whole where there is room for it, and cut before the budget is given up.
"""

from __future__ import annotations

from collections.abc import Sequence

from compact.engine.job import Job, render
from compact.engine.session import Session
from compact.messages import Message
from compact.messages.units import group_units
from compact.planning.draft import SMALL_SUMMARY_TOKENS, Draft, draft_compaction
from compact.planning.limits import TokenLimits
from compact.planning.non_replayable import non_replayable_ids
from compact.planning.strategies.externalize import POINTER_TOKENS
from compact.planning.truncation import truncate_with_split
from compact.rendering.base import pointer_text
from compact.rendering.inplace import span_text

AIM_PCT = 0.57  # document 000: by hand a compaction frees at least 40 % where it can


def draft_again(
    job: Job, messages: Sequence[Message], counts: Sequence[int], room: TokenLimits, *, keep_only_newest: bool = False
) -> Draft:
    return draft_compaction(
        messages,
        counts,
        policy=job.policy,
        limits=room,
        fixed_tokens=job.fixed_tokens,
        removed_tokens=removed_tokens(job.session),
        replacement_tokens=replacement_tokens(job),
        protected_ids=job.session.protected_ids,
        non_replayable_ids=_irreplaceable(job, messages, counts),
        keep_only_newest=keep_only_newest,
        goal_tokens=int(AIM_PCT * (sum(counts) + job.fixed_tokens)) if job.is_manual else None,
    )


def _irreplaceable(job: Job, messages: Sequence[Message], counts: Sequence[int]) -> set[str]:
    """The results to hold: all that cannot be had again, but for those that the first rung will write to the store."""
    found = non_replayable_ids(messages, job.durability)
    is_stored = job.artifact_store is not None and "externalize" in job.policy.ladder
    if not found or not is_stored or job.is_after_rehydration:
        return found
    large = (unit for unit in group_units(messages) if sum(counts[index] for index in unit.indices) > POINTER_TOKENS)
    return found.difference(messages[index].id or "" for unit in large for index in unit.indices)


def plannable(session: Session) -> tuple[list[Message], list[int]]:
    """The request's own messages: without the summaries, pointers and openings a renderer puts in."""
    messages, counts = [], []
    for message, tokens in zip(session.request.messages, session.request.counts, strict=True):
        if (message.id or "").startswith(("m", "aborted-")):
            messages.append(message)
            counts.append(tokens)
    return messages, counts


def removed_tokens(session: Session) -> int:
    """Tokens that earlier compactions of this session took out of the prompt."""
    if session.plan is None:
        return 0
    return sum(entry.tokens for entry in session.plan.absorbed)


def replacement_tokens(job: Job) -> int:
    """Tokens of what stands for earlier compactions beside the summary: pointers, and in place the spans' summaries."""
    plan = job.session.plan
    if plan is None:
        return 0
    texts = [pointer_text(record) for record in plan.externalizations if not record.is_folded]
    if job.policy.renderer == "inplace":
        texts += [span_text(record) for record in plan.summarizations]
    return sum(job.counting.message(Message("assistant", text)) for text in texts)


def show_newest_whole(job: Job) -> None:
    """What the model is about to answer is shown whole if the compaction makes room for it."""
    session = job.session
    if not session.truncated_ids:
        return
    messages, counts = plannable(session)
    units = group_units(messages)
    if not units:
        return
    newest = max(units, key=lambda unit: unit.last)
    cut = [messages[index].id or "" for index in newest.indices if messages[index].id in session.truncated_ids]
    if not cut:
        return
    whole = [session.thread.get(messages[index].id or "") or messages[index] for index in newest.indices]
    pinned = sum(counts[index] for index, message in enumerate(messages) if _is_pinned(job, message))
    needed = job.fixed_tokens + pinned + sum(job.counting.message(message) for message in whole)
    if needed + SMALL_SUMMARY_TOKENS > job.room.budget_tokens:
        return
    for message_id in cut:
        session.show_whole(message_id)
    render(job)


def cut_newest(job: Job, messages: Sequence[Message], counts: Sequence[int]) -> bool:
    """Cut the outputs of the newest unit to what the budget leaves for them."""
    session, codec = job.session, job.session.codec
    units = group_units(messages)
    if not units or codec is None or job.policy.tool_output_truncation == "none":
        return False
    newest = max(units, key=lambda unit: unit.last)
    outputs = [
        index
        for index in newest.indices
        if messages[index].answers and not messages[index].meta.get(job.policy.protected_flag)
    ]
    pinned = sum(counts[index] for index, message in enumerate(messages) if _is_pinned(job, message))
    others = job.fixed_tokens + pinned + sum(counts[index] for index in newest.indices if index not in outputs)
    share = int((job.room.budget_tokens - others) * 0.8) // max(1, len(outputs))
    if not outputs or share < 64:
        return False
    for index in outputs:
        message = messages[index]
        short = codec.map_outputs(message, lambda _, text: truncate_with_split(text, share - 16, job.counting.text))
        if short is not message and message.id is not None:
            session.shorten_to(message.id, short)
    render(job)
    return True


def _is_pinned(job: Job, message: Message) -> bool:
    policy = job.policy
    return (
        message.role in policy.roles_never_prune
        or bool(message.meta.get(policy.protected_flag))
        or message.id in job.session.protected_ids
    )

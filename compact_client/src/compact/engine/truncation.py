"""Truncate long tool outputs and user messages, keep the full text in the artifact store, and report it.

An output is truncated only under pressure: when it arrives and takes more than a share of the window, or when a
compaction cannot keep what the policy asks for. A user message is truncated where a layout
limits the tokens of all of them. The log always has the full text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from compact import events
from compact.engine.effects import Steps, call_store
from compact.engine.session import Session
from compact.exceptions import StoreFailed
from compact.messages import Message
from compact.messages.codecs.base import ChangeOutput, Codec
from compact.planning.tool_results.artifacts import highest_sensitivity
from compact.planning.tool_results.excerpt import excerpt
from compact.planning.tool_results.truncation import (
    MARKER_TOKENS,
    fits_without_counting,
    is_truncated_output,
    truncate_output,
    truncate_with_split,
)
from compact.policy import CompactPolicy

if TYPE_CHECKING:
    from compact.engine.engine import Engine


_POINTER_TOKENS = 48  # the line with the id of the full text


@dataclass(frozen=True, slots=True)
class Truncation:
    """One message that was truncated."""

    message_id: str
    tokens_before: int
    tokens_after: int
    reason: str
    artifact_id: str | None
    form: Message
    """The message with the shorter text."""
    excerpt_tokens: int = 0
    """The limit of each output, if the form has excerpts of them. 0 for other forms."""

    def to_event(self) -> events.TruncatedEvent:
        """Return the event that reports it."""
        return events.TruncatedEvent(
            message_id=self.message_id,
            tokens_before=self.tokens_before,
            tokens_after=self.tokens_after,
            tokens_freed=self.tokens_before - self.tokens_after,
            reason=self.reason,
            artifact_id=self.artifact_id,
        )


def truncate_arrivals(
    engine: Engine, session: Session, messages: Iterable[Message], check: events.CheckSpan
) -> Steps[None]:
    """Truncate new outputs that take more than their share of the window, and what a stored plan truncated."""
    policy = engine.policy
    messages = list(messages)
    yield from _truncate_as_planned(engine, session, messages, check)
    window = engine.window_tokens(session)
    if policy.tool_output_truncation == "none" or (window is None and policy.tool_output_share):
        return
    limit = max(policy.tool_output_max_tokens, int(policy.tool_output_share * (window or 0)))
    for message in messages:
        is_short = fits_without_counting(message.text, policy.tool_output_max_tokens)
        if is_short or not is_truncatable(policy, session.protected_ids, message):
            continue
        reason = _reason_to_truncate(engine, session, message, limit)
        if reason is None or is_truncated_output(message.text, policy, engine.counter.count_text):
            continue
        shorten = policy_limit(policy, engine.counter.count_text)
        forms = session.forms.truncated
        truncation = yield from truncate_message(engine, session, forms, message, shorten, reason, check)
        if truncation is not None:
            session.truncate_message(truncation.message_id, truncation.form)
            check.emit(truncation.to_event())


def _truncate_as_planned(
    engine: Engine, session: Session, messages: Iterable[Message], check: events.CheckSpan
) -> Steps[None]:
    """Truncate the messages that an earlier process truncated, to the same limits."""
    plan = session.plan
    if plan is None or not (plan.user_limits or plan.output_limits):
        return
    forms = session.forms.truncated
    for message in messages:
        message_id = message.id or ""
        # The host may pass the truncated form back.
        if message_id in forms:
            continue
        if message_id in plan.output_limits:
            shorten = output_excerpt(plan.output_limits[message_id], engine.counter.count_text)
        elif engine.counter.count_message(message) > plan.user_limits.get(message_id, sys.maxsize):
            shorten = user_limit(engine, message, plan.user_limits[message_id])
        else:
            continue
        reason = "truncated by an earlier process"
        truncation = yield from truncate_message(engine, session, forms, message, shorten, reason, check)
        if truncation is not None:
            session.truncate_message(truncation.message_id, truncation.form)
            check.emit(truncation.to_event())


def _reason_to_truncate(engine: Engine, session: Session, message: Message, limit: int) -> str | None:
    """Return why an output is too long, or None if it is not."""
    tokens = engine.counter.count_text(message.text)
    if _is_truncated_by_plan(session, message):
        too_long = tokens > engine.policy.tool_output_max_tokens
        return "truncated by an earlier process" if too_long else None
    return f"the output has {tokens:,} tokens, more than {limit:,}, when it arrives" if tokens > limit else None


def is_truncatable(policy: CompactPolicy, protected_ids: Collection[str], message: Message) -> bool:
    """True for a tool output that is not protected."""
    if not (message.answers or message.role == "tool") or message.id in protected_ids:
        return False
    return not message.meta.get(policy.protected_flag)


def policy_limit(policy: CompactPolicy, count_tokens: Callable[[str], int]) -> ChangeOutput:
    """Return the function that truncates an output to the limit of a policy."""
    return lambda _, text: truncate_output(text, policy, count_tokens)


def output_excerpt(max_tokens: int, count_tokens: Callable[[str], int]) -> ChangeOutput:
    """Return the function that shortens an output to an excerpt. Its excerpt is shorter already."""

    def shorten(_: str, text: str) -> str:
        is_long = count_tokens(text) > max_tokens + MARKER_TOKENS
        return excerpt(text, max_tokens, count_tokens) if is_long else text

    return shorten


def user_limit(engine: Engine, message: Message, max_tokens: int) -> ChangeOutput:
    """Return the function that truncates the longest text of a user message, so that the message fits a limit."""
    counter = engine.counter
    note_tokens = MARKER_TOKENS + (_POINTER_TOKENS if engine.cfg.artifact_store is not None else 0)

    def shorten(_: str, text: str) -> str:
        other_tokens = counter.count_message(message) - counter.count_text(text)
        left = max_tokens - other_tokens - note_tokens
        return truncate_with_split(text, left, counter.count_text) if left > 0 else text

    return shorten


def truncate_message(
    engine: Engine,
    session: Session,
    forms: Mapping[str, Message],
    message: Message,
    shorten: ChangeOutput,
    reason: str,
    check: events.CheckSpan,
) -> Steps[Truncation | None]:
    """Return a shorter form of a message, or None if `shorten` changes nothing.

    `forms` are the truncated messages by id. Neither they nor the session are changed.
    """
    codec, logged = session.codec, session.thread.get(message.id or "") or message
    assert codec is not None
    assert message.id is not None
    shorten = cache(shorten)
    is_output = bool(message.answers) or message.role == "tool"
    change_text = codec.map_outputs if is_output else partial(_map_text, codec)
    if change_text(message, shorten) is message:
        return None
    artifact_id = yield from _store_full_text(engine, session, logged, check)
    name = "output" if is_output else "message"
    pointer = f'\n[Full {name}: read_artifact("{artifact_id}")]' if artifact_id else ""

    def shorten_with_pointer(call_id: str, text: str) -> str:
        short = shorten(call_id, text)
        return text if short == text else short + pointer

    # A message that is truncated again is cut from its full text, so that its marker has all the missing tokens.
    source = logged if forms.get(message.id, logged) is message else message
    short = change_text(source, shorten_with_pointer)
    before, after = engine.counter.count_message(message), engine.counter.count_message(short)
    if after >= before:
        return None
    return Truncation(message.id, before, after, reason, artifact_id, replace(short, id=message.id))


def _map_text(codec: Codec, message: Message, change: ChangeOutput) -> Message:
    return codec.map_text(message, partial(change, ""))


def _store_full_text(engine: Engine, session: Session, message: Message, check: events.CheckSpan) -> Steps[str | None]:
    """Write the full text to the artifact store. Return its id, or None without a store that works."""
    store = engine.cfg.artifact_store
    if store is None:
        return None
    # A message does not say which tool wrote it, so its text is as sensitive as that of any tool of the session.
    levels = [policy.sensitivity for policy in session.durability.values()]
    metadata = engine.artifact_metadata(session.session_id, highest_sensitivity(levels))
    try:
        artifact_id: str = yield from call_store("artifact", lambda: store.store(message.text, metadata))
    except StoreFailed as error:
        check.emit(events.ErrorEvent.from_exception(error, "truncated without storing the full text"))
        return None
    return artifact_id


def _is_truncated_by_plan(session: Session, message: Message) -> bool:
    """True if the plan shows the message truncated, but this process has its full text."""
    entries = session.plan.ledger if session.plan is not None else ()
    return any(entry.id == message.id and entry.fate == "truncated" for entry in entries)

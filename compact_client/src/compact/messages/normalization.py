"""Pair every tool call with its output before a model call.

A call without an output gets an `aborted` output, and an output without a call is removed. Providers reject both, and
an interrupted host produces both. An output also has to follow its call, except in the Responses format. If a host adds
a user message while a tool runs, the message comes after the output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from compact.messages import Message
from compact.messages.api_rules import ApiRules
from compact.messages.block_kinds import leads_with_reasoning
from compact.messages.codecs.base import ABORTED, ID_OF_NAME, Codec
from compact.messages.codecs.native import NativeCodec
from compact.messages.turns import separate

_NATIVE = NativeCodec()


@dataclass(frozen=True, slots=True)
class NormalizedMessages:
    """A repaired conversation, and the ids of the messages that were added, removed and moved."""

    messages: list[Message]
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        return bool(self.added or self.removed or self.moved)


def normalize(messages: Sequence[Message], codec: Codec, *, protected_flag: str = "protected") -> NormalizedMessages:
    """Pair calls and outputs. Messages that need no repair are returned as the same objects."""
    kept, removed = _remove_orphans(messages, codec, protected_flag)
    kept, moved = _move_outputs(kept, codec.rules)
    missing = _missing_outputs(kept, codec)
    added = tuple(message.id or "" for outputs in missing.values() for message in outputs)
    if missing:
        kept = _insert_outputs(kept, missing, codec)
    if added or removed or moved:
        kept = separate(kept, messages, codec)
    return NormalizedMessages(kept, added, removed, moved)


def ensure_call_outputs_present(messages: Sequence[Message], codec: Codec = _NATIVE) -> list[Message]:
    """Add an `aborted` output for each call without one."""
    return _insert_outputs(messages, _missing_outputs(messages, codec), codec)


def remove_orphan_outputs(messages: Sequence[Message], codec: Codec = _NATIVE) -> list[Message]:
    """Remove outputs without a call."""
    return _remove_orphans(messages, codec, "protected")[0]


def _move_outputs(messages: list[Message], rules: ApiRules) -> tuple[list[Message], tuple[str, ...]]:
    """Put each output directly after the response with its calls. Return the ids of the outputs that moved."""
    late = _late_outputs(messages, rules) if rules.outputs_follow_calls else {}
    if not late:
        return messages, ()
    moved = set(chain.from_iterable(late.values()))
    ordered: list[Message] = []
    pending: list[Message] = []
    for index, message in enumerate(messages):
        if index in moved:
            continue
        # Outputs that follow their call already stay in front of those that follow it late.
        if not message.answers:
            ordered += pending
            pending = []
        ordered.append(message)
        pending += [messages[output] for output in late.get(index, ())]
    ordered += pending
    return ordered, tuple(messages[index].id or "" for index in sorted(moved))


def _late_outputs(messages: Sequence[Message], rules: ApiRules) -> dict[int, list[int]]:
    """Return the outputs with another turn between them and their calls, by the index of the calls' message."""
    owners: dict[str, int] = {}
    late: dict[int, list[int]] = {}
    last_other = -1
    for index, message in enumerate(messages):
        if message.answers:
            calls = {owners[call_id] for call_id in message.answers if call_id in owners}
            if len(calls) == 1 and last_other > min(calls):
                late.setdefault(min(calls), []).append(index)
            continue
        if not (rules.merges_roles and message.role == "assistant"):
            last_other = index
        owners.update((call.id, index) for call in message.tool_calls if call.needs_output)
    return late


def _missing_outputs(messages: Sequence[Message], codec: Codec) -> dict[int, list[Message]]:
    """Return an output for each call without one, by the index of the message with the call."""
    unanswered = _unanswered_calls(messages)
    missing: dict[int, list[Message]] = {}
    for index, message in enumerate(messages):
        for position, call in enumerate(message.tool_calls):
            end = _response_end(messages, index) if call.is_hosted else index
            if end is None or (index, position) not in unanswered:
                continue
            # Without an id of its own, a call is named by its function, as other calls are.
            name = f"{call.id}-{message.id}" if call.id.startswith(ID_OF_NAME) else call.id
            missing.setdefault(end, []).append(codec.tool_message(call, message, ABORTED, f"aborted-{name}"))
    return missing


def _unanswered_calls(messages: Sequence[Message]) -> set[tuple[int, int]]:
    """Return the calls without an output, as the index of their message and their number in it.

    Calls of a function may have the same id. An output then belongs to the newest message with such a call.
    """
    open_calls: dict[str, list[tuple[int, int]]] = {}
    for index, message in enumerate(messages):
        for call_id in message.answers:
            if waiting := open_calls.get(call_id):
                newest = waiting[-1][0]
                waiting.remove(next(place for place in waiting if place[0] == newest))
        for position, call in enumerate(message.tool_calls):
            if call.needs_output or call.is_hosted:
                open_calls.setdefault(call.id, []).append((index, position))
    return {place for waiting in open_calls.values() for place in waiting}


def _response_end(messages: Sequence[Message], start: int) -> int | None:
    """Return the index of the last message before the user speaks again, or None if the response may go on."""
    later = range(start + 1, len(messages))
    return next((index - 1 for index in later if messages[index].role == "user" and not messages[index].answers), None)


def _remove_orphans(
    messages: Sequence[Message], codec: Codec, protected_flag: str
) -> tuple[list[Message], tuple[str, ...]]:
    """Return the messages without orphaned outputs, and the ids of the changed or removed messages."""
    open_calls: dict[str, int] = {}
    kept: list[Message] = []
    removed: list[str] = []
    for message in messages:
        orphans = []
        for call_id in message.answers:
            if open_calls.get(call_id, 0) > 0:
                open_calls[call_id] -= 1
            else:
                orphans.append(call_id)
        for call in message.tool_calls:
            open_calls[call.id] = open_calls.get(call.id, 0) + 1
        # Protected messages stay even if the provider may reject them. That is the caller's choice.
        if not orphans or message.meta.get(protected_flag):
            kept.append(message)
            continue
        removed.append(message.id or "")
        rest = codec.without_outputs(message, orphans)
        if rest is not None:
            kept.append(rest)
    return kept, tuple(removed)


def _insert_outputs(
    messages: Sequence[Message], missing: Mapping[int, Sequence[Message]], codec: Codec
) -> list[Message]:
    """Insert outputs after the response that contains their calls."""
    repaired: list[Message] = []
    pending: list[Message] = []
    for index, message in enumerate(messages):
        # In Anthropic's format the outputs must come before the next user message, because tool results have to be the
        # first blocks there.
        if pending and not _continues_response(message, codec.rules):
            whole = codec.add_outputs(message, pending) if message.answers else None
            repaired += [*join_outputs(pending, codec), message] if whole is None else [whole]
            pending = []
        else:
            repaired.append(message)
        pending.extend(missing.get(index, ()))
    return repaired + join_outputs(pending, codec)


def _continues_response(message: Message, rules: ApiRules) -> bool:
    """True if a message after a call may be a part of the same response. Nothing is inserted before it."""
    if rules.merges_roles:
        return message.role == "assistant" and not leads_with_reasoning(message.source)
    return not rules.outputs_follow_calls and bool(message.tool_calls)


def join_outputs(outputs: Sequence[Message], codec: Codec) -> list[Message]:
    """Return outputs as the messages that the API accepts: one for each, or one for all."""
    whole = codec.add_outputs(outputs[0], outputs[1:]) if len(outputs) > 1 else None
    return list(outputs) if whole is None else [whole]

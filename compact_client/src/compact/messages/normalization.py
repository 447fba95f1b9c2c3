"""Pair every call with its output, before every model call.

A call without an output gets one that says `aborted`; an output without a call is removed. Providers refuse
either, and a host that was interrupted sends both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compact.messages import Message
from compact.messages.codecs.base import Codec
from compact.messages.codecs.native import NativeCodec

ABORTED = "aborted"
_NATIVE = NativeCodec()


@dataclass(frozen=True, slots=True)
class Normalized:
    """The repaired conversation and what was done to it."""

    messages: list[Message]
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        return bool(self.added or self.removed)


def normalize(messages: Sequence[Message], codec: Codec, *, protected_flag: str = "protected") -> Normalized:
    """Pair calls and outputs; the very same messages wherever nothing is missing."""
    kept, removed = _without_orphan_outputs(messages, codec, protected_flag)
    missing = _missing_outputs(kept, codec)
    if not missing:
        return Normalized(kept, (), removed)
    return Normalized(_with_outputs(kept, missing), _ids(missing), removed)


def ensure_call_outputs_present(messages: Sequence[Message], codec: Codec = _NATIVE) -> list[Message]:
    """Only one half of `normalize`: add `aborted` outputs."""
    return _with_outputs(messages, _missing_outputs(messages, codec))


def remove_orphan_outputs(messages: Sequence[Message], codec: Codec = _NATIVE) -> list[Message]:
    """Only the other half: drop outputs that answer no call."""
    return _without_orphan_outputs(messages, codec, "protected")[0]


def _missing_outputs(messages: Sequence[Message], codec: Codec) -> dict[int, list[Message]]:
    """By the place of the call, an output for each that has none."""
    answers: dict[str, int] = {}
    for message in messages:
        for call_id in message.answers:
            answers[call_id] = answers.get(call_id, 0) + 1
    missing: dict[int, list[Message]] = {}
    for index, message in enumerate(messages):
        for call in message.tool_calls:
            if not call.needs_output:
                continue
            if answers.get(call.id, 0) > 0:
                answers[call.id] -= 1
                continue
            missing.setdefault(index, []).append(codec.tool_message(call, message, ABORTED, f"aborted-{call.id}"))
    return missing


def _without_orphan_outputs(
    messages: Sequence[Message], codec: Codec, protected_flag: str
) -> tuple[list[Message], tuple[str, ...]]:
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
        # What the caller protects stays even where a provider may refuse it: that choice is theirs.
        if not orphans or message.meta.get(protected_flag):
            kept.append(message)
            continue
        removed.append(message.id or "")
        rest = codec.without_outputs(message, orphans)
        if rest is not None:
            kept.append(rest)
    return kept, tuple(removed)


def _with_outputs(messages: Sequence[Message], missing: dict[int, list[Message]]) -> list[Message]:
    repaired: list[Message] = []
    waiting: list[Message] = []
    for index, message in enumerate(messages):
        # Right after the calls of one response, never between two of them, and before what Anthropic's user says beside
        # the results that did come: results open a message there.
        if waiting and not (message.tool_calls and message.source and "type" in message.source):
            repaired.extend(waiting)
            waiting = []
        repaired.append(message)
        waiting.extend(missing.get(index, ()))
    return repaired + waiting


def _ids(missing: dict[int, list[Message]]) -> tuple[str, ...]:
    return tuple(message.id or "" for messages in missing.values() for message in messages)

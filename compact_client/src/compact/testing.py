"""Test helpers for users of the library: record events, and check pairs, protected messages and secrets.

The checks are plain functions that raise AssertionError with the position and the reason. They need no test framework.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from compact.engine.session.request import to_plain
from compact.messages import INSTRUCTION_ROLES, Message
from compact.messages.codecs import CHAT, detect_codec
from compact.messages.units import group_units
from compact.redaction import Redactor, default_redactor

__all__ = ["RecordingExporter", "assert_no_secrets", "assert_pairs_whole", "assert_protected_kept"]


class RecordingExporter:
    """Records every event: `exporter.of("compact.pruned_messages")[0]["properties"]`."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def emit(self, event: dict[str, Any]) -> None:
        self.events.append(event)

    @property
    def names(self) -> list[str]:
        return [str(event.get("event")) for event in self.events]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event.get("event") == name]


def assert_pairs_whole(items: Sequence[Any]) -> None:
    """Assert that every call has an output and every output has a call, in any format. The last call may be open."""
    messages = _messages(items)
    calls = {call.id: call for message in messages for call in message.tool_calls}
    answers = {answer for message in messages for answer in message.answers}
    orphans = answers - calls.keys()
    if orphans:
        raise AssertionError(f"outputs without a call: {', '.join(sorted(orphans))}")
    last = group_units(messages)[-1].indices if messages else ()
    may_be_open = {call.id for index in last for call in messages[index].tool_calls}
    needed = {call_id for call_id, call in calls.items() if call.needs_output}
    if unanswered := needed - answers - may_be_open:
        raise AssertionError(f"calls without an output: {', '.join(sorted(unanswered))}")


def assert_protected_kept(before: Sequence[Any], after: Sequence[Any], *, flag: str = "protected") -> None:
    """Assert that all system, developer and flagged messages are still present, verbatim."""
    remaining = [(message.role, message.text) for message in _messages(after)]
    for index, message in enumerate(_messages(before)):
        is_protected = message.role in INSTRUCTION_ROLES or message.meta.get(flag)
        if is_protected and (message.role, message.text) not in remaining:
            raise AssertionError(f"protected message {index} ({message.role}) is missing: {message.text[:80]!r}")


def assert_no_secrets(values: Iterable[Any], *, redactor: Redactor | None = None) -> None:
    """Assert that redaction would not change any of the values, such as exported events or files."""
    redactor = redactor or default_redactor()
    for number, value in enumerate(values):
        _, counts = redactor.tree(value)
        if counts:
            raise AssertionError(f"value {number} contains secrets that redaction would hide: {dict(counts)}")


def _messages(items: Sequence[Any]) -> list[Message]:
    plain_items = [to_plain(item) for item in items]
    codec = detect_codec(plain_items) or CHAT
    return [codec.decode(item, index) for index, item in enumerate(plain_items)]

"""Events of a streamed response: objects of the providers' clients and the Agents SDK, or the JSON of the wire.

A provider may accept a request, start the stream, and only then report that the prompt is too long. Until the first
content arrives, such a stream can be replaced by that of a shorter request without the consumer noticing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compact.engine.overflow.errors import is_context_length_error

_PREAMBLE = ("response.created", "response.queued", "response.in_progress", "message_start", "ping")
_FAILURES = ("response.failed", "response.incomplete", "error")
_DELTA_TEXT = ("content", "refusal", "tool_calls", "function_call", "audio")


class StreamedOverflow(Exception):
    """A context overflow that the provider reported as an event. `event` is that event."""

    def __init__(self, message: str, event: Any) -> None:
        super().__init__(message)
        self.event = event


class StreamHead:
    """The events of a stream up to its first content, which are held back until then."""

    def __init__(self) -> None:
        self._held: list[Any] = []
        self.has_content = False

    def add(self, event: Any) -> list[Any]:
        """Return the events that the consumer may see now. Raise `StreamedOverflow` instead of the first content."""
        if self.has_content:
            return [event]
        if (message := _overflow_message(event)) is not None:
            raise StreamedOverflow(message, event)
        self._held.append(event)
        if _is_preamble(event):
            return []
        self.has_content = True
        return self.release()

    def release(self) -> list[Any]:
        """Return the events that are held back."""
        held, self._held = self._held, []
        return held


def response_of(event: Any) -> Any:
    """Return the part of an event that has the request's token counts, if the event has one."""
    match _get(event, "type"):
        case "response.completed" | "response.incomplete":
            return _get(event, "response")
        case "message_start":
            return _get(event, "message")
        case None:
            return event
        case _:
            return None


def _is_preamble(event: Any) -> bool:
    if _get(event, "type") in _PREAMBLE:
        return True
    choices = _get(event, "choices")
    return isinstance(choices, list) and bool(choices) and not any(_has_content(choice) for choice in choices)


def _has_content(choice: Any) -> bool:
    delta = _get(choice, "delta")
    return bool(_get(choice, "finish_reason")) or any(_get(delta, name) for name in _DELTA_TEXT)


def _overflow_message(event: Any) -> str | None:
    """Return the text of a context overflow that this event reports, or None."""
    own = _get(event, "error")
    # Chat Completions and servers like it send an error without a type.
    if _get(event, "type") not in _FAILURES and not own:
        return None
    error = _get(_get(event, "response"), "error") or own or event
    message = error if isinstance(error, str) else f"{_get(error, 'code') or ''} {_get(error, 'message') or ''}".strip()
    return message if is_context_length_error(message) else None


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)

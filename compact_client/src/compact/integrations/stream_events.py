"""Events of a streamed response, as the clients of OpenAI and Anthropic and the Agents SDK yield them.

A provider may accept a request, start the stream, and only then report that the prompt is too long. Until the first
content arrives, such a stream can be replaced by that of a shorter request without the consumer noticing.
"""

from __future__ import annotations

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
    match getattr(event, "type", None):
        case "response.completed" | "response.incomplete":
            return event.response
        case "message_start":
            return event.message
        case None:
            return event
        case _:
            return None


def _is_preamble(event: Any) -> bool:
    if getattr(event, "type", None) in _PREAMBLE:
        return True
    choices = getattr(event, "choices", None)
    return isinstance(choices, list) and bool(choices) and not any(_has_content(choice) for choice in choices)


def _has_content(choice: Any) -> bool:
    delta = getattr(choice, "delta", None)
    return bool(getattr(choice, "finish_reason", None)) or any(getattr(delta, name, None) for name in _DELTA_TEXT)


def _overflow_message(event: Any) -> str | None:
    """Return the text of a context overflow that this event reports, or None."""
    if getattr(event, "type", None) not in _FAILURES:
        return None
    error = getattr(getattr(event, "response", None), "error", None) or event
    message = f"{getattr(error, 'code', None) or ''} {getattr(error, 'message', None) or ''}".strip()
    return message if is_context_length_error(message) else None

"""Base class of every event, and the rules that turn one into its wire form.

Each field of an event class is one key on the wire, in the order of the class. A field is a public property unless it
is marked `PRIVATE`. A key is always present, with null for None, unless it is marked `OPTIONAL`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, NamedTuple

Clock = Callable[[], datetime]

EVENT_PREFIX: Final = "compact."
"""The start of the name of every event, and of no other kind of span."""

OPTIONAL: Mapping[str, bool] = {"is_optional": True}
"""Field metadata: a property that is left out of the wire form while it is None."""
PRIVATE: Mapping[str, bool] = {"is_private": True}
"""Field metadata: a key of the payload, which only readers with the `view_payload` right can see."""
FREE_TEXT: Mapping[str, bool] = {"is_free_text": True}
"""Field metadata: a property that may quote a message or a person. It needs the `view_payload` right, too."""
SENTENCE: Mapping[str, bool] = {"is_sentence": True}
"""Field metadata, also for `Annotated`: a line that this library writes, without text of the conversation."""
TOOL_NAME: Mapping[str, bool] = {"is_tool_name": True}
"""Metadata for `Annotated`: a name that everyone may see if it is that of a tool, but not if it is that of a file."""
PRIVATE_TEXT: Mapping[str, bool] = {"is_private": True, "is_text": True}
"""Field metadata: a key of the payload that quotes messages, so the caller's own redaction function must see it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened during a check."""

    name: ClassVar[str]
    """The wire name, such as `compact.check`."""
    is_error: ClassVar[bool] = False
    """True if the event is sent with the status `error`."""

    @classmethod
    def description(cls) -> str:
        """Return the first paragraph of the class docstring, on one line."""
        paragraph = (inspect.getdoc(cls) or "").partition("\n\n")[0]
        return " ".join(paragraph.split())

    def line(self) -> str:
        """Return the sentence of the event, without a final period. It is empty if nothing in it is known.

        The console, the tail, the inspector and MCP show it. It tolerates properties that the sender left out or may
        not show, because events come from any version of any client.
        """
        raise NotImplementedError

    @classmethod
    def public_fields(cls) -> tuple[str, ...]:
        """Return the names of the properties, in wire order."""
        return _layout(cls).public

    @classmethod
    def private_fields(cls) -> tuple[str, ...]:
        """Return the names of the payload's keys, in wire order."""
        return _layout(cls).private

    @classmethod
    def text_fields(cls) -> tuple[str, ...]:
        """Return the names of the payload's keys that quote the conversation."""
        return _layout(cls).texts

    def properties(self) -> dict[str, Any]:
        """Return the public part. Optional keys without a value are left out."""
        layout = _layout(type(self))
        properties = {name: getattr(self, name) for name in layout.public}
        for name in layout.optional:
            if properties[name] is None:
                del properties[name]
        return properties

    def payload(self) -> dict[str, Any] | None:
        """Return the private part, or None for an event without one."""
        names = _layout(type(self)).private
        return {name: getattr(self, name) for name in names} if names else None


def flat_record(session_id: str, event: Event, *, ts: str, status: str = "ok") -> dict[str, Any]:
    """Return the wire form of an event that belongs to no check."""
    record = {
        "ts": ts,
        "session_id": session_id,
        "event": event.name,
        "status": status,
        "properties": event.properties(),
    }
    payload = event.payload()
    return record if payload is None else {**record, "payload": payload}


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def iso(moment: datetime) -> str:
    """Format a time as ISO 8601 in UTC, with microseconds and a trailing Z."""
    text = moment.astimezone(UTC).isoformat(timespec="microseconds")
    return text.replace("+00:00", "Z")


class _Layout(NamedTuple):
    """The field names of an event class, by the place of their values on the wire."""

    public: tuple[str, ...]
    optional: tuple[str, ...]
    private: tuple[str, ...]
    texts: tuple[str, ...]


_layouts: dict[type[Event], _Layout] = {}


def _layout(event: type[Event]) -> _Layout:
    layout = _layouts.get(event)
    if layout is None:
        marks = {field.name: field.metadata for field in dataclasses.fields(event)}
        layout = _layouts[event] = _Layout(
            public=tuple(name for name, mark in marks.items() if "is_private" not in mark),
            optional=tuple(name for name, mark in marks.items() if "is_optional" in mark),
            private=tuple(name for name, mark in marks.items() if "is_private" in mark),
            texts=tuple(name for name, mark in marks.items() if "is_text" in mark),
        )
    return layout

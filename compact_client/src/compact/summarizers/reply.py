"""Convert a model's reply into a typed summary.

The reply is checked against the messages. An entry that names an id, path or amount that no message contains is
dropped, and so are sources that do not exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import filterfalse
from typing import Any, Final

from compact.exceptions import SummarizationError, SummaryRefused
from compact.messages import Message
from compact.messages.span import SpanReference
from compact.reading.blocks import collapse_whitespace
from compact.reading.refusals import is_refusal
from compact.summarizers.reply_evidence import Conversation
from compact.summary.entries import (
    Command,
    Decision,
    Entity,
    Entry,
    FileTouched,
    Note,
    OpenItem,
    ToolOutcome,
)
from compact.summary.structured_summary import StructuredSummary

_MAX_EXCERPT_CHARS: Final = 120
_FENCE_LINE: Final = re.compile(r"^\s*(?:```|~~~).*$", re.MULTILINE)
_MAX_JSON_STARTS: Final = 32  # Braces in the text before the object. Each of them is tried.
# Characters that cannot be sent, or that change how the text around them is shown: halves of surrogate pairs, control
# sequences, and marks that reverse the direction of writing.
_UNSAFE: Final = re.compile(
    "\x1b(?:\\[[0-9;?]*[ -/]*[@-~])?|[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_LIST_MARK: Final = re.compile(r"^(?:[-*•]|#+|\d+[.)])\s+")
_DECODER: Final = json.JSONDecoder()
_STRING: Final[dict[str, Any]] = {"type": "string"}
_IDS: Final[dict[str, Any]] = {"type": "array", "items": _STRING}


def _entry_schema(**properties: Any) -> dict[str, Any]:
    properties["sources"] = _IDS
    return {
        "type": "array",
        "items": {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        },
    }


_NOTES: Final = _entry_schema(text=_STRING)
_PROPERTIES: Final[dict[str, Any]] = {
    "current_task": {"type": ["string", "null"]},
    "goals": _NOTES,
    "constraints": _NOTES,
    "decisions": _entry_schema(decision=_STRING, rationale=_STRING, inputs=_STRING, outputs=_STRING, topic=_STRING),
    "open_items": _entry_schema(
        description=_STRING, context=_STRING, priority={"type": "string", "enum": ["high", "medium", "low"]}
    ),
    "completed": _NOTES,
    "current_plan": _NOTES,
    "files": _entry_schema(path=_STRING, change=_STRING),
    "commands": _entry_schema(command=_STRING, outcome=_STRING),
    "tool_outcomes": _entry_schema(
        tool_name=_STRING,
        outcome={"type": "string", "enum": ["success", "failure", "partial"]},
        key_fields={
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": _STRING, "value": _STRING},
                "required": ["name", "value"],
                "additionalProperties": False,
            },
        },
        error_message={"type": ["string", "null"]},
    ),
    "errors": _NOTES,
    "facts": _NOTES,
    "entities": _entry_schema(name=_STRING, role=_STRING),
    "sources": _NOTES,
}
SUMMARY_JSON_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": _PROPERTIES,
    "required": list(_PROPERTIES),
    "additionalProperties": False,
}
# The entry class of each field, and its required attribute.
_ENTRY_TYPES: Final[dict[str, tuple[type[Any], str]]] = {
    **dict.fromkeys(
        ("goals", "constraints", "completed", "current_plan", "errors", "facts", "sources"), (Note, "text")
    ),
    "decisions": (Decision, "decision"),
    "open_items": (OpenItem, "description"),
    "files": (FileTouched, "path"),
    "commands": (Command, "command"),
    "tool_outcomes": (ToolOutcome, "tool_name"),
    "entities": (Entity, "name"),
}


class UnstructuredReply(SummarizationError):
    """The model replied with something else than a JSON object of the schema."""


def read_reply(text: str, messages: Sequence[Message], *, style: str) -> StructuredSummary:
    """Return the typed summary in a model's reply. Raise a `SummarizationError` if there is none.

    That is a `SummaryRefused` for a refusal, and an `UnstructuredReply` for text that is not a JSON object of the
    schema.
    """
    if not text.strip():
        raise SummarizationError("The model returned an empty reply.")
    data = _parse_json_object(text)
    excerpt = collapse_whitespace(text)[:_MAX_EXCERPT_CHARS]
    if is_refusal(text) if data is None else _is_refusal_only(data):
        raise SummaryRefused(f"The model refused: {excerpt}")
    if data is None or data.keys().isdisjoint(_PROPERTIES):
        raise UnstructuredReply(f"The model did not reply with a JSON object of the schema: {excerpt}")
    summary = _build_summary(data, messages, style)
    if summary.is_empty:
        raise SummarizationError("The model's reply has no entry that the messages support.")
    return summary


def _is_refusal_only(data: Mapping[str, Any]) -> bool:
    """True if a reply has the right format, but all of its texts decline the request."""
    texts = [value for value in data.values() if isinstance(value, str)]
    texts += [text for name in _ENTRY_TYPES for text in _entry_texts(data.get(name), _ENTRY_TYPES[name][1])]
    return bool(texts) and all(map(is_refusal, texts))


def _entry_texts(items: Any, main_field: str) -> list[str]:
    values = [item.get(main_field) if isinstance(item, dict) else item for item in _items(items)]
    return [value for value in values if isinstance(value, str)]


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _read_notes(text: str, sources: tuple[str, ...]) -> Iterator[Note]:
    """Yield the lines of a text, without its headings."""
    lines = (_LIST_MARK.sub("", collapse_whitespace(line)) for line in text.splitlines() if not line.startswith("#"))
    return (Note(line, sources, order) for order, line in enumerate(lines) if line and not line.endswith(":"))


def read_prose(text: str, messages: Sequence[Message], *, style: str) -> StructuredSummary:
    """Return a reply in plain text as a summary. Each of its lines is a fact, if the messages support it.

    Raise `SummarizationError` if there is none, or if the text is JSON.
    """
    plain = _FENCE_LINE.sub("", _UNSAFE.sub("", text))
    if plain.lstrip().startswith(("{", "[")):
        raise SummarizationError("The model replied with JSON that is not a summary, twice.")
    conversation = Conversation(messages)
    ids = tuple(message.id for message in messages if message.id)
    facts = tuple(filter(conversation.supports, _read_notes(plain, ids)))
    if not facts:
        raise SummarizationError("The model's reply has no line that the messages support.")
    return StructuredSummary(span=SpanReference(ids) if ids else None, style=style, facts=facts)


def _parse_json_object(text: str) -> dict[str, Any] | None:
    """Return the first object of the schema in a text, or else the first object, or None."""
    objects: list[dict[str, Any]] = []
    start = text.find("{")
    for _ in range(_MAX_JSON_STARTS):
        if start < 0:
            break
        data, end = _decode_object(text, start)
        if data is not None and not data.keys().isdisjoint(_PROPERTIES):
            return data
        objects += [data] if data is not None else []
        start = text.find("{", end)
    return objects[0] if objects else None


def _decode_object(text: str, start: int) -> tuple[dict[str, Any] | None, int]:
    """Return the object at a position of a text and its end, or None and the next position."""
    try:
        data, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, start + 1
    return (_without_unsafe(data), end) if isinstance(data, dict) else (None, end)


def _without_unsafe(value: Any) -> Any:
    """Return a JSON value without the characters that cannot be sent or shown."""
    if isinstance(value, str):
        return _UNSAFE.sub("", value)
    if isinstance(value, list):
        return [_without_unsafe(item) for item in value]
    if isinstance(value, dict):
        return {_UNSAFE.sub("", name): _without_unsafe(item) for name, item in value.items()}
    return value


def _build_summary(data: Mapping[str, Any], messages: Sequence[Message], style: str) -> StructuredSummary:
    positions = {message.id: index for index, message in enumerate(messages) if message.id}
    conversation = Conversation(messages)
    values: dict[str, Any] = {}
    for name in _ENTRY_TYPES:
        entries = _read_entries(name, data.get(name), positions)
        values[name] = tuple(filter(conversation.supports, entries))
    # Only people set constraints. A rule from tool output is recorded as a fact.
    rules = list(filterfalse(conversation.contradicts, values["constraints"]))
    values["constraints"] = tuple(filter(conversation.has_person_stated, rules))
    values["facts"] += tuple(filterfalse(conversation.has_person_stated, rules))
    task = _read_task(data.get("current_task"), order=len(positions))
    ids = tuple(positions)
    return StructuredSummary(
        span=SpanReference(ids) if ids else None,
        style=style,
        current_task=task if task and conversation.supports(task) else None,
        **values,
    )


def _read_task(value: Any, *, order: int) -> Note | None:
    return Note(collapse_whitespace(value), (), order) if isinstance(value, str) and value.strip() else None


def _read_entries(name: str, items: Any, positions: Mapping[str, int]) -> list[Entry]:
    """Return the valid entries of one field. Invalid items are skipped."""
    entries = [_read_entry(name, item, positions) for item in _items(items)]
    return [entry for entry in entries if entry is not None]


def _read_entry(name: str, item: Any, positions: Mapping[str, int]) -> Entry | None:
    entry_type, main_field = _ENTRY_TYPES[name]
    if isinstance(item, str):
        item = {main_field: item}
    if not isinstance(item, dict) or not isinstance(item.get(main_field), str) or not item[main_field].strip():
        return None
    sources = tuple(source for source in _strings(item.get("sources")) if source in positions)
    values = _read_values(item, _PROPERTIES[name]["items"]["properties"])
    entry: Entry = entry_type(**values, sources=sources, order=positions[sources[0]] if sources else 0)
    return entry


def _read_values(item: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that the schema allows, except for `sources`."""
    values: dict[str, Any] = {}
    for name, value in item.items():
        if name == "sources" or name not in properties:
            continue
        if name == "key_fields":
            values[name] = _read_key_fields(value)
        elif isinstance(value, str):
            text = collapse_whitespace(value)
            if text in properties[name].get("enum", (text,)):
                values[name] = text
    return values


def _read_key_fields(value: Any) -> dict[str, str]:
    if isinstance(value, dict):
        return {str(name): str(item) for name, item in value.items()}
    return {
        str(pair["name"]): str(pair["value"])
        for pair in _items(value)
        if isinstance(pair, dict) and {"name", "value"} <= set(pair)
    }


def _strings(value: Any) -> list[str]:
    return [item for item in _items(value) if isinstance(item, str)]

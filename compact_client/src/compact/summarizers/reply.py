"""A model's answer as a typed summary.

Only what the messages say gets in: an entry that names an id, a path or an amount which stands nowhere in them is
left out, and sources that do not exist are removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from compact.exceptions import SummarizationError, SummaryRefused
from compact.messages import Message
from compact.messages.span import SpanReference
from compact.summarizers.extraction.entities import find_entities
from compact.summary.entries import Command, Decision, Entity, FileTouched, Note, OpenItem, ToolOutcome, normalized
from compact.summary.structured_summary import StructuredSummary

_FENCE: Final = re.compile(r"^\s*```(?:json)?\s*\n(.*?)\n```\s*$", re.DOTALL)
_REFUSAL: Final = re.compile(
    r"\s*(?:i['’]?m (?:very )?sorry|sorry,|i am sorry|i can(?:no|['’])t (?:help|assist|summari|comply|provide)"
    r"|i(?:['’]m| am) (?:unable|not able) to)"
)
_EXACT_TYPES: Final = frozenset(
    {"path", "url", "email", "uuid", "ticket", "code", "money", "hex", "version", "file", "num", "date"}
)

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
_TYPES: Final[dict[str, tuple[type[Any], str]]] = {
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


def is_refusal(text: str) -> bool:
    """True if a model's answer starts by declining the request."""
    return _REFUSAL.match(text.lower()) is not None


def read_reply(text: str, messages: Sequence[Message], *, style: str) -> StructuredSummary:
    """The typed summary in a model's answer. Raises `SummaryRefused` or `SummarizationError`."""
    if not text.strip():
        raise SummarizationError("the model returned nothing")
    data = _json_object(text)
    if data is None:
        if is_refusal(text):
            raise SummaryRefused(f"the model declined: {' '.join(text.split())[:120]}")
        raise SummarizationError(f"the model did not answer with a JSON object: {' '.join(text.split())[:120]}")
    summary = _typed(data, messages, style)
    if summary.is_empty:
        raise SummarizationError("the model's answer holds no entry that the messages support")
    return summary


def _json_object(text: str) -> dict[str, Any] | None:
    match = _FENCE.match(text)
    body = match.group(1) if match else text
    start, end = body.find("{"), body.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        data = json.loads(body[start : end + 1])
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _typed(data: Mapping[str, Any], messages: Sequence[Message], style: str) -> StructuredSummary:
    places = {message.id: place for place, message in enumerate(messages) if message.id}
    facts = _Facts(messages)
    values: dict[str, Any] = {}
    for name, (entry_type, main) in _TYPES.items():
        items = data.get(name)
        known = frozenset(_PROPERTIES[name]["items"]["properties"])
        entries = [_entry(entry_type, main, item, known, places) for item in items] if isinstance(items, list) else []
        values[name] = tuple(entry for entry in entries if entry is not None and facts.support(entry))
    rules = values["constraints"]
    values["constraints"] = tuple(rule for rule in rules if facts.is_by_a_person(rule))
    values["facts"] += tuple(rule for rule in rules if rule not in values["constraints"])
    task = data.get("current_task")
    note = Note(" ".join(task.split()), (), len(places)) if isinstance(task, str) and task.strip() else None
    ids = tuple(places)
    return StructuredSummary(
        span=SpanReference(ids) if ids else None,
        style=style,
        current_task=note if note and facts.support(note) else None,
        **values,
    )


def _entry(entry_type: type[Any], main: str, item: Any, known: Collection[str], places: Mapping[str, int]) -> Any:
    """One entry of the answer, of the fields that were asked for and no others."""
    if isinstance(item, str):
        item = {main: item}
    if not isinstance(item, dict) or not isinstance(item.get(main), str) or not item[main].strip():
        return None
    sources = tuple(source for source in _strings(item.get("sources")) if source in places)
    fields: dict[str, Any] = {"sources": sources, "order": places[sources[0]] if sources else 0}
    for name, value in item.items():
        if name == "sources" or name not in known:
            continue
        if name == "key_fields":
            fields[name] = _key_fields(value)
        elif isinstance(value, str):
            fields[name] = " ".join(value.split())
    if fields.get("priority") not in (None, "high", "medium", "low"):
        del fields["priority"]
    if fields.get("outcome") not in (None, "success", "failure", "partial") and entry_type is ToolOutcome:
        del fields["outcome"]
    return entry_type(**fields)


def _key_fields(value: Any) -> dict[str, str]:
    if isinstance(value, dict):
        return {str(name): str(item) for name, item in value.items()}
    pairs = value if isinstance(value, list) else []
    return {
        str(pair["name"]): str(pair["value"])
        for pair in pairs
        if isinstance(pair, dict) and {"name", "value"} <= set(pair)
    }


def _strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


class _Facts:
    """What the messages name, to tell a copied fact from an invented one."""

    def __init__(self, messages: Sequence[Message]) -> None:
        parts = [
            text for message in messages for text in (message.text, *(call.arguments for call in message.tool_calls))
        ]
        self._text = "\n".join(parts).lower()
        people = [message for message in messages if message.role not in ("tool", "assistant") and not message.answers]
        self._people = {message.id for message in people}
        self._said = normalized("\n".join(message.text for message in people))

    def is_by_a_person(self, rule: Note) -> bool:
        """Whether somebody with a say set this rule; what a tool's output demands is only something that was said."""
        return bool(self._people.intersection(rule.sources)) or rule.key in self._said

    def support(self, entry: Any) -> bool:
        """Whether everything that can only be copied was copied."""
        for name in entry.__dataclass_fields__:
            value = getattr(entry, name)
            texts = list(value.values()) if isinstance(value, dict) else [value]
            for text in texts:
                if isinstance(text, str) and not self._has(text):
                    return False
        return True

    def _has(self, text: str) -> bool:
        return all(key in self._text for key, kind in find_entities(text) if kind in _EXACT_TYPES)

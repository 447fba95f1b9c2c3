"""The one function per part of a span that decides what a reader without `view_payload` sees.

Pages, REST, websockets, exports, search and what-if read spans through `viewer.sessions.spans.SpanRow`, which calls
these functions. Hidden parts are replaced with `[hidden]` and never left out. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from viewer.kinds import CHECK, DECISION, PREFIX, kind_of
from viewer.visibility import conventions
from viewer.visibility.compaction_schema import properties_of
from viewer.visibility.shapes import HIDDEN, LABEL_PATTERN, WORD_PATTERN, apply


class Visibility(StrEnum):
    """The part of a session that a reader sees."""

    METADATA = "metadata"
    CONTENT = "content"


# `chat gpt-5`, `execute_tool search`: the names that OpenTelemetry prescribes, an operation and its target.
_OPERATIONS = "chat|text_completion|generate_content|embeddings|retrieval|execute_tool|invoke_agent|create_agent"
NAME_PATTERN = f"{WORD_PATTERN}|^({_OPERATIONS}) [A-Za-z0-9_][A-Za-z0-9_.:/@+-]{{0,63}}$"
# Developers name these in their code. The names of all other spans often contain what a user said.
LABELED_KINDS = ("trace", "agent", "tool", "turn", "guardrail", "handoff")
LABELED_NAME_PATTERN = f"{LABEL_PATTERN}|^[A-Za-z0-9_.&()/ -]{{1,64}} → [A-Za-z0-9_.&()/ -]{{1,64}}$"
KIND_PATTERN = WORD_PATTERN
_NAME, _LABELED_NAME, _KIND = (re.compile(text) for text in (NAME_PATTERN, LABELED_NAME_PATTERN, KIND_PATTERN))


def public_name(kind: str, name: str) -> str:
    is_visible = not name or _NAME.fullmatch(name) or (kind in LABELED_KINDS and _LABELED_NAME.fullmatch(name))
    return name if is_visible else HIDDEN


def public_kind(kind: str) -> str:
    return kind if not kind or _KIND.fullmatch(kind) else HIDDEN


def public_data(kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a span with everything hidden that is not known to be metadata."""
    if kind.startswith(PREFIX):
        return _public_event(kind, data)
    shapes = {key: shape for key in data if (shape := conventions.shape_of(kind, key))}
    return apply(shapes, data)


def _public_event(kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    visible = apply(properties_of(kind), data)
    if kind in {CHECK, DECISION} and data.get("note") and "reason" in visible:
        # The reason of a manual compaction ends with the note of the person who asked for it.
        visible["reason"] = HIDDEN
    return visible


def public_payload(kind: str, payload: Any) -> Any:
    """Return the payload of a span with everything hidden except the fields that its kind declares as public."""
    if payload is None:
        return None
    if not isinstance(payload, Mapping):
        return HIDDEN
    return apply(kind_of(kind).public_payload, payload)


def public_trace_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return apply(conventions.TRACE_METADATA, metadata)


def hidden_fields(value: Any, path: str = "") -> list[str]:
    """Return the paths of the values that are hidden, such as `data.ai.prompt`. Lists count as one value."""
    if isinstance(value, Mapping):
        prefix = f"{path}." if path else ""
        return [field for key, part in value.items() for field in hidden_fields(part, prefix + key)]
    return [path] if _is_hidden(value) else []


def _is_hidden(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_hidden, value))
    if isinstance(value, Mapping):
        return bool(hidden_fields(value))
    return bool(value == HIDDEN)

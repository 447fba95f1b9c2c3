"""Interpret the attributes of OpenTelemetry spans: kind, session and messages.

Supports three vocabularies: `gen_ai.*` (OpenTelemetry), OpenInference (`openinference.span.kind`, `llm.*`,
`input.value`) and `traceloop.*`. Pure.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ingest.decoding.content_split import is_content_key
from ingest.decoding.key_matcher import KeyMatcher
from ingest.decoding.lenient_json import STRICT_ERRORS, is_deep

_KIND_KEYS = (
    "openinference.span.kind",
    "gen_ai.operation.name",
    "traceloop.span.kind",
    "llm.request.type",
    "span.type",
)
_KINDS = {
    "agent": "agent",
    "create_agent": "agent",
    "invoke_agent": "agent",
    "invoke_workflow": "agent",
    "chain": "span",
    "workflow": "span",
    "llm": "generation",
    "chat": "generation",
    "completion": "generation",
    "text_completion": "generation",
    "generate_content": "generation",
    "generation": "generation",
    "response": "generation",
    "tool": "tool",
    "function": "tool",
    "execute_tool": "tool",
    "embedding": "embedding",
    "embeddings": "embedding",
    "retriever": "retrieval",
    "retrieval": "retrieval",
    "reranker": "retrieval",
    "rerank": "retrieval",
    "guardrail": "guardrail",
    "handoff": "handoff",
    "task": "task",
    "turn": "turn",
    "custom": "custom",
}
_SESSION_KEYS = (
    "session.id",
    "gen_ai.conversation.id",
    "session_id",
    "traceloop.association.properties.session_id",
    "langfuse.session.id",
    "thread_id",
)
# Keys of a span's whole input and output, the preferred one first.
_INPUTS = ("gen_ai.input.messages", "input.value", "gen_ai.tool.call.arguments", "traceloop.entity.input")
_OUTPUTS = ("gen_ai.output.messages", "output.value", "gen_ai.tool.call.result", "traceloop.entity.output")
# Prefixes of messages flattened into one attribute per field, such as `gen_ai.prompt.0.content`.
_MESSAGE_PREFIXES = {
    "llm.input_messages.": "input",
    "gen_ai.prompt.": "input",
    "llm.output_messages.": "output",
    "gen_ai.completion.": "output",
}
_PREFIXES = tuple(_MESSAGE_PREFIXES)
# OpenInference adds a level around each message and each tool call.
_WRAPPERS = {"message", "tool_call"}
_MAX_PATH_PARTS = 12
_decode = msgspec.json.Decoder().decode


def kind_of(attributes: dict[str, Any]) -> str:
    """Return the kind of a span."""
    for key in _KIND_KEYS:
        value = attributes.get(key)
        if isinstance(value, str) and (kind := _KINDS.get(value.lower())):
            return kind
    if "gen_ai.tool.name" in attributes or "gen_ai.tool.call.id" in attributes:
        return "tool"
    if "gen_ai.request.model" in attributes or "llm.model_name" in attributes:
        return "generation"
    return "span"


def session_of(attributes: dict[str, Any]) -> str | None:
    """Return the session that a span names, if any."""
    for key in _SESSION_KEYS:
        value = attributes.get(key)
        if isinstance(value, str | int) and value != "":
            return str(value)
    return None


def split_content(attributes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return metadata and conversation text. `input` and `output` are lists of messages where possible."""
    data = dict(attributes)
    content: dict[str, Any] = {}
    messages: dict[str, dict[str, Any]] = {}
    for key in _content_keys[tuple(attributes)]:
        value = data.pop(key)
        if key in _INPUTS or key in _OUTPUTS:
            continue
        if key.startswith(_PREFIXES):
            prefix = next(prefix for prefix in _PREFIXES if key.startswith(prefix))
            if _set_path(messages.setdefault(_MESSAGE_PREFIXES[prefix], {}), key[len(prefix) :], value):
                continue
        content[key] = value
    if len(data) == len(attributes):
        return data, content
    for name, keys in (("input", _INPUTS), ("output", _OUTPUTS)):
        if messages.get(name):
            content[name] = _with_lists(messages[name])
        else:
            _copy_first(name, keys, attributes, content)
    return data, content


def _copy_first(name: str, keys: tuple[str, ...], attributes: dict[str, Any], content: dict[str, Any]) -> None:
    """Copy the first of `keys` that is present to `content[name]`."""
    for key in keys:
        if key in attributes:
            if (value := attributes[key]) is not None:
                content[name] = parse_json_text(value)
            return


_content_keys = KeyMatcher(lambda key: key in _INPUTS or key in _OUTPUTS or is_content_key(key))


def _set_path(messages: dict[str, Any], path: str, value: Any) -> bool:
    """Set a value by its path, such as `0.message.content`. Return False if the path is invalid or already taken."""
    number, _, rest = path.partition(".")
    parts = [part for part in rest.split(".", _MAX_PATH_PARTS) if part and part not in _WRAPPERS]
    if not _is_index(number) or not parts:
        return False
    target = messages.setdefault(number, {})
    for part in parts[:-1]:
        target = target.setdefault(part, {})
        if not isinstance(target, dict):
            return False
    return target.setdefault(parts[-1], value) is value


def _with_lists(tree: Any) -> Any:
    """Convert each object whose keys are all indexes to a list."""
    if not isinstance(tree, dict):
        return tree
    if tree and all(map(_is_index, tree)):
        return [_with_lists(tree[key]) for key in sorted(tree, key=int)]
    return {key: _with_lists(value) for key, value in tree.items()}


def _is_index(part: str) -> bool:
    return part.isascii() and part.isdigit() and len(part) <= 5


def parse_json_text(value: Any) -> Any:
    """Parse a string that contains a JSON object or list. Return any other value unchanged."""
    if not isinstance(value, str) or value[:1] not in {"{", "["} or "\\u0000" in value or is_deep(value.encode()):
        return value
    try:
        return _decode(value)
    except STRICT_ERRORS:
        return value

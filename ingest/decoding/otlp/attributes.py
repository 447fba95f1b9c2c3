"""What the attributes of an OpenTelemetry span mean here.

Three vocabularies are spoken: `gen_ai.*` (OpenTelemetry), OpenInference (`openinference.span.kind`, `llm.*`,
`input.value`) and `traceloop.*`. They give a span its kind, its session, and messages in one form. Pure.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ingest.decoding.content_split import is_text
from ingest.decoding.field_names import Special
from ingest.decoding.schema import is_deep

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
# From a vocabulary's name for a text to ours.
_INPUTS = ("gen_ai.input.messages", "input.value", "gen_ai.tool.call.arguments", "traceloop.entity.input")
_OUTPUTS = ("gen_ai.output.messages", "output.value", "gen_ai.tool.call.result", "traceloop.entity.output")
_INDEXED = {
    "llm.input_messages.": "input",
    "gen_ai.prompt.": "input",
    "llm.output_messages.": "output",
    "gen_ai.completion.": "output",
}
_PREFIXES = tuple(_INDEXED)
# OpenInference wraps every message, and every call in it, in a level of their own.
_WRAPPERS = {"message", "tool_call"}
_MAX_PARTS = 12
_decode = msgspec.json.Decoder().decode


def kind_of(attributes: dict[str, Any]) -> str:
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
    for key in _SESSION_KEYS:
        value = attributes.get(key)
        if isinstance(value, str | int) and value != "":
            return str(value)
    return None


def split(attributes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is known about a span, and what was said in it: `input` and `output`, as messages where they are some."""
    data = dict(attributes)
    said: dict[str, Any] = {}
    indexed: dict[str, dict[str, Any]] = {}
    for key in _texts.among(attributes):
        value = data.pop(key)
        if key in _INPUTS or key in _OUTPUTS:
            continue
        if key.startswith(_PREFIXES):
            prefix = next(prefix for prefix in _PREFIXES if key.startswith(prefix))
            if _place(indexed.setdefault(_INDEXED[prefix], {}), key[len(prefix) :], value):
                continue
        said[key] = value
    if len(data) == len(attributes):
        return data, said
    for name, keys in (("input", _INPUTS), ("output", _OUTPUTS)):
        if indexed.get(name):
            said[name] = _with_lists(indexed[name])
        else:
            _take_first(name, keys, attributes, said)
    return data, said


def _take_first(name: str, keys: tuple[str, ...], attributes: dict[str, Any], said: dict[str, Any]) -> None:
    for key in keys:
        if key in attributes:
            if (found := attributes[key]) is not None:
                said[name] = parsed(found)
            return


_texts = Special(lambda key: key in _INPUTS or key in _OUTPUTS or is_text(key))


def _place(messages: dict[str, Any], path: str, value: Any) -> bool:
    """Put `0.message.content`, `0.tool_calls.0.name` and the like where they belong; false if it is no such path."""
    number, _, inside = path.partition(".")
    rest = [part for part in inside.split(".", _MAX_PARTS) if part and part not in _WRAPPERS]
    if not _is_position(number) or not rest:
        return False
    place = messages.setdefault(number, {})
    for part in rest[:-1]:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            return False
    return place.setdefault(rest[-1], value) is value


def _with_lists(tree: Any) -> Any:
    """`tree` with a list wherever all keys are positions."""
    if not isinstance(tree, dict):
        return tree
    if tree and all(map(_is_position, tree)):
        return [_with_lists(tree[key]) for key in sorted(tree, key=int)]
    return {key: _with_lists(value) for key, value in tree.items()}


def _is_position(part: str) -> bool:
    return part.isascii() and part.isdigit() and len(part) <= 5


def parsed(value: Any) -> Any:
    """The JSON that a text is, or the text itself: attributes cannot nest, so clients send JSON in strings."""
    if isinstance(value, str) and value[:1] in {"{", "["} and "\\u0000" not in value and not is_deep(value.encode()):
        try:
            return _decode(value)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return value
    return value

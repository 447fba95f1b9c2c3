"""Separate conversation text from metadata.

Everyone who can view a session can see `data`. `payload` needs its own permission. Other exporters put prompts and
responses among the attributes, so these are moved to the payload.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from compact.events import EVENT_PREFIX

from ingest.decoding.key_matcher import KeyMatcher

# Keys of conversation text in the Agents SDK, the public Ariadne exporters, OpenInference and OpenTelemetry.
_CONTENT_KEYS = frozenset(
    {
        "arguments",
        "completion",
        "content",
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.system_instructions",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "input",
        "input.value",
        "input_messages",
        "llm.prompts",
        "messages",
        "output",
        "output.value",
        "output_blob",
        "output_preview",
        "prompt",
        "response",
        "result",
        "text",
        "tool.parameters",
    }
)
_CONTENT_PREFIXES = (
    "gen_ai.prompt.",
    "gen_ai.completion.",
    "llm.input_messages.",
    "llm.output_messages.",
    "retrieval.documents.",
    "reranker.",
    "embedding.embeddings.",
    "traceloop.prompt.template",
)


def is_content_key(key: str) -> bool:
    """True if the values of `key` are conversation text."""
    return key in _CONTENT_KEYS or key.startswith(_CONTENT_PREFIXES)


content_keys = KeyMatcher(is_content_key)


def pop_content(kind: str, data: dict[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Remove conversation text from a span's data and return it. `keys` are the data's `content_keys`."""
    # Compaction events already keep conversation text in their payload.
    if kind.startswith(EVENT_PREFIX):
        return {}
    return {key: data.pop(key) for key in keys if data[key] is not None}

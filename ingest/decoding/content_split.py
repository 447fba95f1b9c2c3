"""Tell what agents said from what is known about it.

`data` is shown to everyone who may see a session; `payload` needs a right of its own. Clients of other makes put
prompts and answers among their attributes, so those are moved.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ingest.decoding.field_names import Special

# Keys under which the Agents SDK, the public Ariadne exporters, OpenInference, and OpenTelemetry keep texts.
_TEXT_KEYS = frozenset(
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
_TEXT_PREFIXES = (
    "gen_ai.prompt.",
    "gen_ai.completion.",
    "llm.input_messages.",
    "llm.output_messages.",
    "retrieval.documents.",
    "reranker.",
    "embedding.embeddings.",
    "traceloop.prompt.template",
)


def split_texts(kind: str, fields: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """What was said in a span's data under `names`, its `text_names`, taken out of it."""
    # Our own events keep texts in their payload already.
    if kind.startswith("compact."):
        return {}
    return {key: fields.pop(key) for key in names if fields[key] is not None}


def is_text(key: str) -> bool:
    return key in _TEXT_KEYS or key.startswith(_TEXT_PREFIXES)


text_names = Special(is_text).among

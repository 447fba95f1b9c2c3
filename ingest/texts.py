"""Tell what agents said from what is known about it.

`data` is shown to everyone who may see a session; `payload` needs a right of its own. Clients of other makes put
prompts and answers among their attributes, so those are moved.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

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
)
_MAYBE = re.compile(
    rb'"(?:(?:arguments|completion|content|input|input\.value|input_messages|messages|output|output\.value|output_blob'
    rb'|output_preview|prompt|response|result|text)"|gen_ai\.(?:[ioc]|system_|tool\.call|prompt)'
    rb"|llm\.(?:input|output|prompts)|tool\.p|retrieval\.|reranker\.|embedding\.)"
)
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def split_texts(kind: str, data: bytes, payload: bytes | None) -> tuple[bytes, bytes | None]:
    """`data` without what was said in it, and `payload` with it."""
    # Our own events keep texts in their payload already.
    if kind.startswith("compact.") or len(data) < 12 or _MAYBE.search(data) is None:
        return data, payload
    fields = _decode(data)
    texts = {key: value for key, value in fields.items() if is_text(key) and bytes(value) != b"null"}
    if not texts:
        return data, payload
    rest = {key: value for key, value in fields.items() if key not in texts}
    said: Any = {} if payload is None else _decode_any(payload)
    said = said if isinstance(said, dict) else {"payload": said}
    return _encode(rest), _encode({**texts, **said})


def is_text(key: str) -> bool:
    return key in _TEXT_KEYS or key.startswith(_TEXT_PREFIXES)

"""The arguments of a tool call, which tracers send under several names, and a hash that finds repeated calls.

Pure. The keys of objects are sorted, so that their order does not matter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import md5
from typing import Any

TOOL = "tool"
PAYLOAD_KEYS = ("input", "arguments", "tool.arguments")
DATA_KEYS = (*PAYLOAD_KEYS, "gen_ai.tool.call.arguments", "input.value")


def tool_arguments(data: Mapping[str, Any], payload: Any) -> str | None:
    """Return the arguments of a tool call as text, or None if it has none."""
    for source, keys in ((payload, PAYLOAD_KEYS), (data, DATA_KEYS)):
        if isinstance(source, Mapping):
            for key in keys:
                if (value := source.get(key)) is not None:
                    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return None


def arguments_hash(kind: str, data: Mapping[str, Any], payload: Any) -> int | None:
    """Return a hash of the arguments of a tool call, and None for other spans and calls without arguments."""
    text = tool_arguments(data, payload) if kind == TOOL else None
    if text is None:
        return None
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:8], "big", signed=True)

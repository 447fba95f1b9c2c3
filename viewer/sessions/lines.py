"""One line about a span that follows its title in the tree: the arguments of a tool call, or a message.

Pure. The caller passes the span and its arguments as the reader sees them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from viewer.sessions.descriptions import describe_span
from viewer.sessions.spans import SpanRow

TOOL = "tool"
_MAX_CHARS = 160
_MAX_VALUE_CHARS = 60


def line_of(span: SpanRow, arguments: str | None) -> str:
    """Return the line of a span, or an empty string."""
    call = format_arguments(arguments) if span.kind == TOOL else ""
    message = "" if span.kind == TOOL and span.status != "error" else describe_span(span)
    return " ".join(part for part in (call, _clip(message, _MAX_CHARS)) if part)


def format_arguments(arguments: str | None) -> str:
    """Return the arguments of a call as `("query")` or `(path="a.py", limit=3)`."""
    if not arguments:
        return ""
    value = _parse(arguments)
    if isinstance(value, Mapping):
        items = list(value.items())
        texts = [_format(items[0][1])] if len(items) == 1 else [f"{name}={_format(part)}" for name, part in items]
    else:
        texts = [_format(value)]
    return f"({_clip(', '.join(texts), _MAX_CHARS)})"


def _parse(text: str) -> Any:
    # Long arguments are cut off by the query and are no longer JSON.
    try:
        return json.loads(text)
    except ValueError:
        return text


def _format(value: Any) -> str:
    text = _clip(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _MAX_VALUE_CHARS)
    return f'"{text}"' if isinstance(value, str) else text


def _clip(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"

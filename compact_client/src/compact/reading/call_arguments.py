"""Read the arguments of tool calls: their JSON, and the file that they name. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from compact.reading.text_cache import TextCache

PATH_KEYS: Final = (
    "file_path", "path", "filename", "file", "filePath", "notebook_path", "target_file", "absolute_path",
)  # fmt: skip
"""The arguments in which the tools of agents name a file."""


def read_arguments(raw: Any) -> Any:
    """Return the JSON value of a call's arguments, or the arguments themselves if they are anything else."""
    return _values[raw] if isinstance(raw, str) else raw


def parse_arguments(raw: Any) -> dict[str, Any]:
    """Return the arguments of a call, with free-form input under `input`. Do not change them."""
    value = read_arguments(raw)
    if isinstance(value, dict):
        return value
    return {"input": value} if value else {}


def named_path(arguments: Mapping[str, Any]) -> str:
    """Return the file that a call names, or an empty text."""
    return next((str(arguments[key]).strip() for key in PATH_KEYS if isinstance(arguments.get(key), str)), "")


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


_values: Final = TextCache(_parse_json, max_chars=2_000_000)

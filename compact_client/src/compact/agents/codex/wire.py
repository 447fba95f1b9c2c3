"""The requests of Codex, as a gateway sees them. Read from version 0.169.0.

Each request has its session, thread and kind as JSON in a header. A message on a websocket has them in its
`client_metadata`, because all requests of a connection share the headers of its first one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from compact.agents.agent import RequestFields, Wire, WireRequest
from compact.agents.codex.notices import is_notice
from compact.events import PartName, RequestClass

_METADATA = "x-codex-turn-metadata"
_CLASSES: Mapping[str, RequestClass] = {"turn": "main", "compaction": "compaction", "prewarm": "probe"}
_SUMMARY = "Another language model started to solve this problem"
_SUMMARY_REQUESTS = ("You are performing a CONTEXT CHECKPOINT COMPACTION",)
_MEMORY = re.compile(r"\s*# (AGENTS\.md) instructions|\s*<user_instructions>")
_CALLS = ("message", "function_call", "custom_tool_call", "local_shell_call")


def read_request(headers: Mapping[str, str], path: str, fields: RequestFields) -> WireRequest | None:
    """Return the session, the thread and the kind of a request."""
    metadata = _read_metadata(headers, fields)
    thread_id = str(metadata.get("thread_id") or headers.get("thread-id") or "")
    session_id = str(metadata.get("session_id") or headers.get("session-id") or thread_id)
    if not metadata or not session_id:
        return None
    is_main = thread_id in ("", session_id)
    return WireRequest(
        session_id=session_id,
        agent_id="" if is_main else thread_id,
        agent_type="" if is_main else str(metadata.get("agent_name") or ""),
        request_class=_class(metadata, fields, is_main=is_main),
        trigger="auto" if metadata.get("request_kind") == "compaction" else "",
    )


def _read_metadata(headers: Mapping[str, str], fields: RequestFields) -> Mapping[str, Any]:
    client = fields.get("client_metadata")
    own = client if isinstance(client, dict) else {}
    return _parse(own.get(_METADATA)) or _parse(headers.get(_METADATA)) or (own if own.get("session_id") else {})


def _class(metadata: Mapping[str, Any], fields: RequestFields, *, is_main: bool) -> RequestClass:
    kind = str(metadata.get("request_kind") or "turn")
    if fields.get("generate") is False:
        return "probe"
    if kind == "turn":
        return "main" if is_main else "subagent"
    return _CLASSES.get(kind, "auxiliary")


def _parse(value: Any) -> Mapping[str, Any]:
    try:
        metadata = json.loads(value) if isinstance(value, str) else None
    except ValueError:
        return {}
    return metadata if isinstance(metadata, dict) else {}


def read_text(text: str) -> tuple[PartName, str] | None:
    """Return the part of a text that Codex has written."""
    if text.startswith(_SUMMARY):
        return "summary", ""
    match = _MEMORY.match(text)
    if match:
        return "memory", match[1] or "AGENTS.md"
    return ("system", "") if is_notice(text) else None


def name_of_call(items: Sequence[Mapping[str, Any]]) -> str:
    """Return the name of an answer in the log: the id of its first message or call."""
    first = next((item for item in items if item.get("type") in _CALLS), {})
    return str(first.get("id") or "")


WIRE = Wire(
    read_request=read_request,
    read_text=read_text,
    is_notice=is_notice,
    is_summary=lambda text: text.startswith(_SUMMARY),
    is_summary_request=lambda text: text.lstrip().startswith(_SUMMARY_REQUESTS),
    name_of_call=name_of_call,
    has_message_ids=True,
)

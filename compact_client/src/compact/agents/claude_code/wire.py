"""The requests of Claude Code, as a gateway sees them. Read from versions 2.1.197 and 2.1.327.

The newer one names the class of each request and announces its compactions. The older one does not, so the texts are
recognized, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from compact.agents.agent import RequestFields, Wire, WireRequest
from compact.agents.claude_code.notices import is_notice
from compact.events import PartName, RequestClass

_SESSION = "x-claude-code-session-id"
_CLASSES: Mapping[str, RequestClass] = {"main": "main", "subagent": "subagent", "compaction": "compaction"}
_REMINDER = "<system-reminder>"
_BILLING = "x-anthropic-billing-header:"
_MEMORY = re.compile(r"Contents of (\S+\.md)[^\n]{0,200}:")
_SUMMARY = "This session is being continued from a previous conversation"
_SUMMARY_REQUESTS = (
    "Your task is to create a detailed summary of the conversation",
    "CRITICAL: Respond with TEXT ONLY",
)
_HEAD_CHARS = 2_000


def read_request(headers: Mapping[str, str], path: str, fields: RequestFields) -> WireRequest | None:
    """Return the session, the agent and the class of a request."""
    session_id = headers.get(_SESSION) or _session_in_metadata(headers, fields)
    if not session_id:
        return None
    agent_id = headers.get("x-claude-code-agent-id", "")
    if not agent_id and headers.get("x-claude-code-request-class") == "subagent":
        agent_id = headers.get("x-claude-code-prompt-id", "sub-agent")
    return WireRequest(
        session_id=session_id,
        agent_id=agent_id,
        agent_type=headers.get("x-claude-code-agent-type", ""),
        request_class=_class(headers, path, fields, agent_id),
        trigger=headers.get("x-claude-code-compaction", ""),
        is_compacted="x-claude-code-context-compacted" in headers,
    )


def _class(headers: Mapping[str, str], path: str, fields: RequestFields, agent_id: str) -> RequestClass:
    if "/count_tokens" in path:
        return "tokens"
    if "x-claude-code-compaction" in headers:
        return "compaction"
    schema = json.dumps(fields.get("output_config") or {})
    # The tools are most of a request, and parsed only where they decide.
    if '"title"' in schema and not fields.get("tools"):
        return "title"
    named = headers.get("x-claude-code-request-class", "")
    if named and named not in _CLASSES:
        return "auxiliary"
    if fields.get("max_tokens") == 1:
        return "probe"
    return _CLASSES.get(named) or ("subagent" if agent_id else "main")


def _session_in_metadata(headers: Mapping[str, str], fields: RequestFields) -> str:
    """Return the session in `metadata.user_id`, which is a JSON text."""
    if not headers.get("user-agent", "").startswith("claude-cli/"):
        return ""
    user_id = (fields.get("metadata") or {}).get("user_id")
    try:
        value = json.loads(user_id) if isinstance(user_id, str) else {}
    except ValueError:
        return ""
    return str(value.get("session_id") or "") if isinstance(value, dict) else ""


def read_text(text: str) -> tuple[PartName, str] | None:
    """Return the part of a text that Claude Code has written."""
    if text.startswith(_SUMMARY):
        return "summary", ""
    if text.startswith(_BILLING):
        return "system", ""
    if text.startswith(_REMINDER):
        match = _MEMORY.search(text, 0, _HEAD_CHARS)
        return ("memory", match[1]) if match else ("system", "")
    return None


def is_aside(text: str) -> bool:
    """Return True for reminders, which move from message to message, and for the billing text."""
    return text.startswith((_REMINDER, _BILLING))


WIRE = Wire(
    read_request=read_request,
    read_text=read_text,
    is_aside=is_aside,
    is_notice=is_notice,
    is_summary=lambda text: text.startswith(_SUMMARY),
    is_summary_request=lambda text: text.lstrip().startswith(_SUMMARY_REQUESTS),
)

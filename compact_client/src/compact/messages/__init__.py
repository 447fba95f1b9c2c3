"""Provider-independent messages, and the codecs that read and write provider formats."""

from __future__ import annotations

from compact.messages.canonical import canonical_json, content_hash, json_hash
from compact.messages.message import (
    INSTRUCTION_ROLES,
    POINTER_TAG,
    SPAN_TAG,
    SUMMARY_TAG,
    Message,
    Role,
    ToolCall,
    text_of,
)
from compact.messages.redacted_types import RedactedMessage, RedactedText, RedactedTree

__all__ = [
    "INSTRUCTION_ROLES",
    "POINTER_TAG",
    "SPAN_TAG",
    "SUMMARY_TAG",
    "Message",
    "RedactedMessage",
    "RedactedText",
    "RedactedTree",
    "Role",
    "ToolCall",
    "canonical_json",
    "content_hash",
    "json_hash",
    "text_of",
]
